"""Checkpoints: a run that is resumed in mid-epoch gives the bits of one that was never interrupted."""
import io
import logging
import os
import pathlib
import tempfile
import time
import unittest

import complaints_test
import ranks
import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict
from torch.nn.parallel import DistributedDataParallel

import dynamix

SAMPLES = 100


def make(rank, workers):
    torch.manual_seed(4)
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.arange(SAMPLES), torch.randn(SAMPLES, 20, generator=generator))
    model = nn.Sequential(nn.Linear(20, 300), nn.Tanh(), nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1))
    if torch.distributed.is_initialized():
        model = DistributedDataParallel(model, bucket_cap_mb=0.2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=200)
    run = dynamix.join(model, optimizer, scheduler=scheduler, rule="adascale", agent="off", window_steps=5)
    options = {"num_workers": workers} if workers else {}
    loader = run.loader(data, batch_size=3 + 4 * rank, **options)
    return run, loader, model, optimizer, scheduler


def train(rank, world, workers, stop, state):
    """Trains to step `stop`, from `state` if there is one. Returns the samples of each step, parameters and the state."""
    run, loader, model, optimizer, scheduler = make(rank, workers)
    if state is not None:
        state = torch.load(io.BytesIO(state))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        run.load_state_dict(state["dynamix"])
    taken, saved, step = [], None, run.status.step
    while step < stop:
        for numbers, values in loader:
            taken.append(tuple(numbers.tolist()[:run.counted]))
            optimizer.zero_grad()
            model(values).square().mean().backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step == stop:
                saved = io.BytesIO()
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "scheduler": scheduler.state_dict(), "dynamix": run.state_dict()}, saved)
                status = run.status
                break
    run.close()
    return taken, [value.clone() for value in model.parameters()], saved.getvalue(), (status.epoch, status.cursor), \
        optimizer.param_groups[0]["lr"]


class Resume(unittest.TestCase):
    def check(self, world, workers):
        whole = ranks.run(train, world, workers, 37, None)
        first = ranks.run(train, world, workers, 23, None)
        state = first[0][2]
        for rank in range(1, world):
            one, other = (torch.load(io.BytesIO(first[member][2]))["dynamix"] for member in (0, rank))
            self.assertEqual(one["words"], other["words"], "the members' states differ")
        self.assertNotEqual(first[0][3][1], 0, "the state is not of mid-epoch")
        second = ranks.run(train, world, workers, 37, state)
        for rank in range(world):
            self.assertEqual(first[rank][0] + second[rank][0], whole[rank][0])
            self.assertEqual(second[rank][4], whole[rank][4])
            for ours, theirs in zip(second[rank][1], whole[rank][1]):
                self.assertTrue(torch.equal(ours, theirs))

    def test_in_mid_epoch_gives_the_same_bits(self):
        for world in (1, 2, 3):
            with self.subTest(world=world):
                self.check(world, 0)

    def test_gives_the_same_bits_whatever_has_been_fetched_ahead(self):
        self.check(2, 2)

    def test_of_an_older_package_gives_the_same_bits(self):
        whole, first = (ranks.run(train, 1, 0, stop, None)[0] for stop in (12, 7))
        saved = torch.load(io.BytesIO(first[2]))
        saved["dynamix"].update(version=1, words=torch.frombuffer(bytearray(saved["dynamix"]["words"]), dtype=torch.int64))
        older = io.BytesIO()
        torch.save(saved, older)
        second = ranks.run(train, 1, 0, 12, older.getvalue())[0]
        self.assertEqual((first[0] + second[0], [each.tolist() for each in second[1]]), (whole[0], [each.tolist() for each in whole[1]]))

    def test_with_fewer_members_deals_the_rest_of_the_epoch_once(self):
        first = ranks.run(train, 3, 0, 8, None)
        epoch, cursor = first[0][3]
        steps = -(-(SAMPLES - cursor) // (3 + 7 + 11))
        second = ranks.run(train, 2, 0, 8 + steps, first[0][2])
        dealt = sorted(number for taken in second for step in taken[0] for number in step)
        self.assertEqual(len(dealt), SAMPLES - cursor)
        self.assertEqual(len(set(dealt)), len(dealt))


def resume_within(rank, world, state, way):
    """The state of a training at 16 + 16; or the batch sizes of its first steps when it is resumed at 4 + 4, and what was told."""
    model, told = nn.Linear(4, 1), io.StringIO()
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent="off")
    limits = {"highest_batch": 4} if way == "highest_batch" else {}
    loader = run.loader(torch.utils.data.TensorDataset(torch.randn(200, 4)), batch_size=16 if state is None else 4, **limits)
    if way == "limit_batch" and rank == 1:
        run.limit_batch(4)
    if state is not None:
        run.load_state_dict(state)
    sizes, train_on = [], ranks.trainer(run, model, run._optimizers[0])
    for values, in loader:
        sizes.append(run.counted)
        train_on((None, values))
        if len(sizes) == 3:
            break
    saved = run.state_dict()
    run.close()
    return saved if state is None else (sizes, told.getvalue())


def load_on_one(rank, world):
    """What the members are told where member 1 alone loads a state."""
    for loads in (False, rank == 1):
        model = nn.Linear(4, 1)
        run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent="off")
        if loads:
            run.load_state_dict(state)
        try:
            run.loader(torch.utils.data.TensorDataset(torch.randn(20, 4)), batch_size=4)
        except dynamix.DynamixError as problem:
            return str(problem)
        state = run.state_dict()
        run.close(again=True)


class Loading(unittest.TestCase):
    def test_on_some_members_alone_is_refused(self):
        for said in ranks.run(load_on_one, 2):
            self.assertRegex(said or "", r"member 1 has loaded a state, and member 0 has not: .* on all members")


class Limits(unittest.TestCase):
    def test_hold_from_the_first_step_of_a_resumed_run(self):
        state = ranks.run(resume_within, 2, None, "")[0]
        for way, expected in (("highest_batch", ([4] * 3, [4] * 3)), ("limit_batch", ([16] * 3, [4] * 3)), ("", ([16] * 3, [16] * 3))):
            results = ranks.run(resume_within, 2, state, way)
            self.assertEqual(tuple(sizes for sizes, _ in results), expected, way)
            self.assertRegex(results[0][1], r"the restored state's batch sizes stand .* and not those given \(8 in all, where the "
                                            r"training began with 32\)")


def train_distributed(rank, world, folder, kind, stop, resume):
    """As torch's tutorial of DCP has it: state is asked of model and optimiser before their first step, so that it can be
    loaded. Trains to step `stop`. Returns steps, samples, parameters and warnings."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(12, 4)) if world > 1 else nn.Linear(12, 4)
    optimizer = kind(model.parameters(), lr=0.1)
    run = dynamix.join(model, optimizer, agent="off", rule="linear")
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.randn(330, 12, generator=generator), torch.randn(330, 4, generator=generator))
    if resume == "early":
        state_dict.get_state_dict(model, optimizer)
    loader = run.loader(data, batch_size=8 - 5 * rank, seed=3)

    def state():
        models, optimizers = state_dict.get_state_dict(model, optimizer)
        return {"model": models, "optimizer": optimizers, "dynamix": run.state_dict()}

    if resume:
        loaded = state()
        checkpoint.load(loaded, checkpoint_id=folder)
        state_dict.set_state_dict(model, optimizer, model_state_dict=loaded["model"],
                                  optim_state_dict=loaded["optimizer"])
        run.load_state_dict(loaded["dynamix"])
    while run.status.step < stop:
        for inputs, outputs in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), outputs).backward()
            optimizer.step()
            if run.status.step == stop:
                optimizer.zero_grad()
                if not resume:
                    checkpoint.save(state(), checkpoint_id=folder)  # between two steps
                break
    result = run.status.step, run.status.samples, [parameter.tolist() for parameter in model.parameters()]
    run.close()
    return result


class Distributed(unittest.TestCase):
    """torch.distributed.checkpoint, whose get_state_dict makes a step of the optimiser at rates of 0."""

    def test_checkpoints_are_loaded_into_a_run_that_has_joined(self):
        for world, kind, resume in ((1, torch.optim.SGD, "late"), (2, torch.optim.SGD, "late"), (2, torch.optim.Adam, "early")):
            with self.subTest(world=world, kind=kind.__name__), tempfile.TemporaryDirectory() as folder:
                first, whole = (ranks.run(train_distributed, world, os.path.join(folder, str(stop)), kind, stop, "")
                                for stop in (10, 25))
                self.assertEqual([found[0] for found in first], [10] * world)
                self.assertEqual(ranks.run(train_distributed, world, os.path.join(folder, "10"), kind, 25, resume), whole)


def load_on_one_amid(rank, _, kind):
    """Behind two steps of a wrapped model, whose other member waits in its gradients or, with batch norm, in its buffers."""
    script = complaints_test.Script(rank)
    script.run.close(again=True)
    torch.distributed.barrier()
    layers = [nn.Linear(4, 1)] if kind == "plain" else [nn.BatchNorm1d(4), nn.Linear(4, 1)]
    script.model = nn.Sequential(*layers).double()
    script.called = DistributedDataParallel(script.model)
    script.optimizer = torch.optim.SGD(script.model.parameters(), lr=0.01)
    script.run = dynamix.join(script.called, script.optimizer, agent="off")
    script.loader = script.run.loader(complaints_test.data(), batch_size=complaints_test.BATCHES[rank])
    steps = 0
    script.run.load_state_dict(script.run.state_dict())  # on all
    try:
        for batch in script.loader:
            if steps == 2 and rank == 0:
                script.run.load_state_dict(script.run.state_dict())
            script.step(batch)
            steps += 1
    except RuntimeError as problem:
        return steps, str(problem), script.told.getvalue()
    return steps, "", ""


def load_late(rank, _):
    """On all members behind each of two epochs: one comes late to the load, and the other one to the first step behind it."""
    script = complaints_test.Script(rank)
    state = script.run.state_dict()
    for place in range(2):
        time.sleep(1.5 if rank != place else 0)
        for batch in script.loader:
            script.step(batch)
        time.sleep(1.5 if rank == place else 0)
        script.run.load_state_dict(state)
    return len(complaints_test.everyone(script.used)), script.run.epoch


class Loads(unittest.TestCase):
    """Of a state, behind steps of a wrapped model."""

    def test_by_one_member_alone_end_both(self):
        for kind in ("plain", "with buffers"):
            (first, here, _), (second, there, told) = ranks.run(load_on_one_amid, 2, kind)
            self.assertEqual((first, second), (2, 2))
            self.assertIn("run.load_state_dict() was called on this member, and has to be on all, behind the same step: member 1 has", here)
            self.assertIn("member 0 is in run.load_state_dict() behind 2 steps, and this one trains on: call it on all members", there + told)

    def test_by_members_that_come_late_are_waited_for(self):
        self.assertEqual(ranks.run(load_late, 2), [(2 * complaints_test.SAMPLES, 0)] * 2)


class Checkpoints(unittest.TestCase):
    def test_are_written_through_a_symbolic_link(self):
        with tempfile.TemporaryDirectory() as folder:
            disk, link = pathlib.Path(folder, "disk"), pathlib.Path(folder, "newest")
            link.symlink_to("disk")
            for value in (1, 2):  # a new file, and in place of one
                dynamix.save(value, link)
                self.assertEqual((torch.load(disk), link.is_symlink()), (value, True))
            self.assertEqual(sorted(os.listdir(folder)), ["disk", "newest"])


if __name__ == "__main__":
    unittest.main()
