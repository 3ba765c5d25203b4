"""What a member of a script's group that lies can make the others do: end, and nothing else."""
import io
import pathlib
import pickle
import tempfile
import unittest

import numpy
import ranks
import torch
import torch.distributed
from torch import nn
from torch.optim.swa_utils import SWALR

import dynamix
from dynamix.elastic import _load, _state_of
from dynamix.peers import _SAYS as SAYS
from dynamix.peers import Peers


class Commands:
    """Of a member that lies: in place of its state."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)


def hear_commands(rank, _, path, through_torch):
    """Member 1 lies. What member 0 hears, or why it takes none of it."""
    peers = Peers()
    try:
        if rank == 0 and not through_torch:
            return peers.gather_objects("its own")
        if not through_torch:
            said = torch.frombuffer(bytearray(pickle.dumps(Commands(path))), dtype=torch.uint8)
            peers.gather(torch.tensor([SAYS + len(said)])).wait()
            return str(peers.gather(said).wait())
        heard = [None, None]
        torch.distributed.all_gather_object(heard, Commands(path) if rank else "its own", group=peers._side)
        return str(heard)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"


def hear_too_much(rank, _, size):
    """Member 1 announces that many bytes, and sends none."""
    peers = Peers()
    if rank:
        peers.gather(torch.tensor([SAYS + size])).wait()
        return ""
    try:
        return str(peers.gather_objects("its own"))
    except dynamix.DynamixError as problem:
        return str(problem)


def say(rank, _, objects):
    return Peers().gather_objects(objects[rank])


class Sayings(unittest.TestCase):
    def test_of_a_member_that_lies_run_no_code_here(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, "made")
            ranks.run(hear_commands, 2, made, True)
            self.assertTrue(made.exists(), "where pickle is believed it is an attack")
            made.unlink()
            heard = ranks.run(hear_commands, 2, made, False)[0]
            self.assertRegex(heard, "^DynamixError: what member 1 says cannot be read")
            self.assertFalse(made.exists())

    def test_of_a_member_that_claims_a_terabyte_take_no_memory(self):
        self.assertEqual(ranks.run(hear_too_much, 2, 1 << 40)[0], "member 1 says 1099511627776 bytes at once; 16777216 are taken")

    def test_are_those_of_all_members_as_json_gives_them_back(self):
        told = ([None, [True, "ü\udc80", [1, 2 ** 64 - 1, -0.5]]], {"a": [], "b": "x" * 100_000})
        self.assertEqual(ranks.run(say, 2, told), [list(told)] * 2)
        self.assertEqual(ranks.run(say, 1, [(numpy.int64(7), (2, ))]), [[[7, [2]]]])


class AnnealedByAFunction(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer):
        self.anneal = half_of
        super().__init__(optimizer)

    def get_lr(self):
        return [self.anneal(group["lr"]) for group in self.optimizer.param_groups]


def half_of(rate):
    return rate / 2


class States(unittest.TestCase):
    def packed(self, state):
        stream = io.BytesIO()
        torch.save(state, stream)
        return stream.getvalue()

    def test_of_a_member_that_lies_run_no_code_here(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, "made")
            packed = self.packed({"model": Commands(made)})
            torch.load(io.BytesIO(packed), weights_only=False)
            self.assertTrue(made.exists(), "where pickle is believed it is an attack")
            made.unlink()
            with self.assertRaisesRegex(dynamix.DynamixError, "add_safe_globals"):
                _load(packed)
            self.assertFalse(made.exists())

    def test_of_rates_that_are_numbers_of_numpy_are_taken(self):
        named = torch.serialization.get_safe_globals()
        for rate in (numpy.float64(0.1), numpy.sqrt(0.02), numpy.float32(0.1), numpy.linspace(0, 1, 5)[1]):
            state = torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=rate).state_dict()
            found = _load(self.packed(state))["param_groups"][0]["lr"]
            self.assertEqual((type(found), found), (type(rate), rate))
        self.assertCountEqual(torch.serialization.get_safe_globals(), named)

    def test_of_schedulers_and_optimisers_are_taken(self):
        parameter = nn.Parameter(torch.ones(3))
        rates = torch.optim.lr_scheduler
        for make_scheduler in (lambda of: rates.OneCycleLR(of, 0.1, total_steps=9), lambda of: rates.LambdaLR(of, lambda epoch: 0.9),
                               lambda of: rates.CyclicLR(of, 0.01, 0.1), rates.ReduceLROnPlateau,
                               lambda of: rates.SequentialLR(of, [rates.ConstantLR(of), rates.ExponentialLR(of, 0.9)], [2])):
            optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
            (parameter ** 2).sum().backward()
            optimizer.step()
            state = [optimizer.state_dict(), make_scheduler(optimizer).state_dict()]
            self.assertEqual(str(_load(self.packed(state))), str(state))

    def test_of_schedulers_leave_out_functions_which_each_member_has(self):
        """SWALR has one in its state in torch 2.6, as of which it is left to anneal as the script has it do."""
        schedulers = torch.optim.lr_scheduler
        for make_scheduler in (AnnealedByAFunction, lambda of: SWALR(of, 0.05, anneal_epochs=4, anneal_strategy="linear"),
                               lambda of: schedulers.SequentialLR(of, [AnnealedByAFunction(of), schedulers.ConstantLR(of)], [2])):
            one, other = (make_scheduler(torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1)) for _ in range(2))
            for scheduler in (one, other):
                scheduler.optimizer.step()
            one.step()
            other.load_state_dict(_load(self.packed(_state_of(one))))
            other.optimizer.load_state_dict(one.optimizer.state_dict())
            rates = []
            for scheduler in (one, other):
                scheduler.step()
                rates.append((scheduler.last_epoch, scheduler.get_last_lr()))
            self.assertEqual(rates[0], rates[1])


if __name__ == "__main__":
    unittest.main()
