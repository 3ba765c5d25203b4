"""Several optimisers of one run, optimisers within others, and those that did not join."""
import contextlib
import io
import logging
import os
import signal
import tempfile
import time
import unittest

import ranks
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import dynamix
from dynamix.optimizer import is_adaptive


def tensors(count):
    return torch.utils.data.TensorDataset(torch.randn(count, 4, generator=torch.Generator().manual_seed(3)))


def halves():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def watched(kind, used):
    """A class of optimisers that note their rates in each step."""
    class Watched(kind):
        def step(self, closure=None):
            used.append(self.param_groups[0]["lr"])
            return super().step(closure)

    return Watched


def train_halves(rank, world, count, rule, scaler):
    """Rates used by each optimiser, parameters and steps, of a run with so many optimisers over the model's layers. The last
    step has half of the batch."""
    model, used = DistributedDataParallel(halves()), []
    parts = [list(model.parameters())] if count == 1 else [list(model.module[0].parameters()), list(model.module[2].parameters())]
    optimizers = [watched(torch.optim.SGD, used)(part, lr=0.1) for part in parts]
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0) if scaler else None
    run = dynamix.join(model, optimizers if count > 1 else optimizers[0], agent="off", rule=rule, scaler=scaler)
    for values, in run.loader(tensors(20), batch_size=4):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = model(values).square().mean()
        (loss if scaler is None else scaler.scale(loss)).backward()
        for optimizer in optimizers:
            optimizer.step() if scaler is None else scaler.step(optimizer)
        if scaler is not None:
            scaler.update()
    steps = run.status.step
    run.close()
    return used, [parameter.tolist() for parameter in model.parameters()], steps


def lose_a_member(_, __, rank, world, folder):
    """Parameters of an elastic training with an optimiser for each layer, of which member 2 dies between the two steps of its
    optimisers."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    model = halves()
    optimizers = [torch.optim.SGD(model[0].parameters(), lr=0.05, momentum=0.9), torch.optim.Adam(model[2].parameters(), lr=0.01)]
    store = torch.distributed.FileStore(os.path.join(folder, "store"), -1)
    run = dynamix.join(model, optimizers, agent="off", elastic=store, rule="linear")
    loader = run.loader(tensors(120), batch_size=4)
    for epoch in range(run.epoch, 3):
        for values, in loader:
            for optimizer in optimizers:
                optimizer.zero_grad()
            model(values).square().mean().backward()
            run.average_gradients()
            optimizers[0].step()
            if rank == 2 and epoch == 1 and run.status.cursor > 30:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizers[1].step()
    samples = run.status.samples
    run.close()
    return samples, [parameter.tolist() for parameter in model.parameters()]


def unfreeze(_, __, rank, world, folder, life):
    """An elastic training that trains its last layer, too, from the second epoch on, which begins when the last member has died
    and come back. It adds that layer before it comes back in its third life. Samples and parameters."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    model = halves()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.05)

    def add():
        optimizer.add_param_group({"params": list(model[2].parameters())})

    if life == 2:
        add()
    run = dynamix.join(model, optimizer, agent="off", elastic=torch.distributed.FileStore(os.path.join(folder, "store"), -1))
    try:
        loader = run.loader(tensors(120), batch_size=4)
    except dynamix.DynamixError as problem:
        return str(problem)
    if life == 2:
        open(os.path.join(folder, "go"), "w").close()
    for epoch in range(run.epoch, 3):
        if epoch == 1 and len(optimizer.param_groups) == 1:
            add()
        for values, in loader:
            optimizer.zero_grad()
            model(values).square().mean().backward()
            run.average_gradients()
            optimizer.step()
            if rank == 2 and life == 0 and epoch == 1 and run.status.cursor > 30:
                os.kill(os.getpid(), signal.SIGKILL)
            if rank == 0 and epoch >= 1 and life == 0 and not os.path.exists(os.path.join(folder, "go")):
                time.sleep(0.4)
    generation, samples = run._peers.generation, run.status.samples
    run.close()
    return samples, generation, [parameter.tolist() for parameter in model.parameters()]


def step_in_another_way(rank, world, way):
    """The error of a training whose second optimiser has not joined, or steps at other times."""
    model = DistributedDataParallel(halves())
    first, second = (torch.optim.SGD(model.module[layer].parameters(), lr=0.1) for layer in (0, 2))
    run = dynamix.join(model, [first, second] if way == "in turns" else first, agent="off")
    try:
        for number, (values,) in enumerate(run.loader(tensors(40), batch_size=4)):
            model.zero_grad()
            model(values).square().mean().backward()
            if way != "in turns" or number % 2 == 0:
                first.step()
            if way != "in turns" or number % 2 == 1:
                second.step()
    except RuntimeError as problem:
        return str(problem)
    return "nothing was refused"


def join_with_a_margin(rank, world, inside):
    """What is told where the optimiser steps a parameter of the loss, too, which is a part of the model or not."""
    told, margin = io.StringIO(), nn.Parameter(torch.zeros(1))
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    model = halves()
    if inside:
        model.register_parameter("margin", margin)
    dynamix.join(model, torch.optim.SGD([*model[0].parameters(), margin], lr=0.1), agent="off").close()
    return told.getvalue()


class Outer(torch.optim.Optimizer):
    """As accelerate's and apex's: an optimiser around another one, that initialises nothing of its own."""

    def __init__(self, inner):
        self.optimizer = inner

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)

    def step(self, closure=None):
        return self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)


class Fused(torch.optim.Optimizer):
    """As apex's FusedAdam: known by its betas only."""

    def __init__(self, parameters, **options):
        super().__init__(parameters, {"lr": 0.01, **options})

    def step(self, closure=None):
        pass


def follow_adascale(rank, world, wrap):
    """Rates that Adam uses where AdaScale multiplies them, bare or within another optimiser."""
    model, used = DistributedDataParallel(halves()), []
    kind = watched(torch.optim.Adam, used)
    optimizer = {"bare": lambda: kind(model.parameters(), lr=0.1), "around": lambda: Outer(kind(model.parameters(), lr=0.1)),
                 "zero": lambda: ZeroRedundancyOptimizer(model.parameters(), kind, lr=0.1)}[wrap]()
    run = dynamix.join(model, optimizer, agent="off", rule="adascale")
    loader = run.loader(tensors(20), batch_size=4)
    for _ in range(45):  # the last step of an epoch has half the samples, and a smaller rate once training is behind its first steps
        for values, in loader:
            optimizer.zero_grad()
            model(values).square().mean().backward()
            optimizer.step()
    run.close()
    return used


class Several(unittest.TestCase):
    def test_follow_one_rate_and_come_to_the_parameters_of_a_single_one(self):
        for scaler in (False, True):
            for (one, parameters, steps), (two, same, steps_of_two) in zip(ranks.run(train_halves, 2, 1, "linear", scaler),
                                                                           ranks.run(train_halves, 2, 2, "linear", scaler)):
                self.assertEqual((one, two), ([0.1, 0.1, 0.05], [0.1, 0.1, 0.1, 0.1, 0.05, 0.05]))
                self.assertEqual((parameters, steps), (same, steps_of_two))

    def test_go_on_alike_on_all_survivors_of_a_death(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            groups = [stack.enter_context(ranks.Group(lose_a_member, 1, rank, 3, folder)) for rank in range(3)]
            self.assertFalse(groups[2].result(0)[0])
            results = [groups[rank].result(0) for rank in range(2)]
            for good, text in results:
                self.assertTrue(good, text)
            self.assertEqual(results[0], results[1])
            self.assertEqual(results[0][1][0], 360)

    def test_that_did_not_join_or_step_at_other_times_are_refused(self):
        for text in ranks.run(step_in_another_way, 2, "one joined"):
            self.assertRegex(text, r"SGD steps parameters of the model that joined.*dynamix.join\(model, \[first, second\]\)")
        for text in ranks.run(step_in_another_way, 2, "in turns"):
            self.assertIn("each makes one step for the same gradients", text)

    def test_of_two_kinds_need_a_word_under_adascale(self):
        model = halves()
        both = [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())]
        with self.assertRaisesRegex(ValueError, "SGD and Adam are of two kinds.*adaptive=True or adaptive=False"):
            dynamix.join(model, both, agent="off", rule="adascale")
        for options in ({"rule": "linear"}, {"rule": "adascale", "adaptive": True}):
            dynamix.join(model, both, agent="off", **options).close()
        for wrong in ([], [both[0], both[0]], [both[0], model]):
            with self.assertRaisesRegex(TypeError, "give"):
                dynamix.join(model, wrong, agent="off")

    def test_of_parameters_outside_of_the_model_are_told_of(self):
        told = ranks.run(join_with_a_margin, 2, False)
        self.assertIn("1 parameters of the optimiser are not part of the model that joined", told[0])
        self.assertEqual((told[1], ranks.run(join_with_a_margin, 2, True)), ("", ["", ""]))

    def test_of_other_models_are_left_alone(self):
        model, other = halves(), halves()
        run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
        run.loader(tensors(20), batch_size=4)
        other(torch.randn(2, 4)).sum().backward()
        torch.optim.SGD(other.parameters(), lr=0.1).step()
        run.close()


def train_another_model_beside(rank, world):
    """The warnings of a run beside which a plain DistributedDataParallel is trained, and a plain module of this worker's own."""
    model, other, own = DistributedDataParallel(halves()), DistributedDataParallel(nn.Bilinear(4, 4, 1)), nn.Linear(4, 1)
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    others = [torch.optim.SGD(other.parameters(), lr=0.1), torch.optim.SGD(own.parameters(), lr=0.1)]
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger("dynamix").addHandler(handler)
    run = dynamix.join(model, first, agent="off")
    for values, in run.loader(tensors(24), batch_size=4):
        (model(values).square().mean() + other(values, values).square().mean() + own(values).square().mean()).backward()
        for optimizer in (first, *others):
            optimizer.step()
            optimizer.zero_grad()
    run.close()
    logging.getLogger("dynamix").removeHandler(handler)
    return said.getvalue()


class Beside(unittest.TestCase):
    def test_a_plain_model_of_all_workers_is_told_of_once(self):
        for said in ranks.run(train_another_model_beside, 2):
            self.assertEqual(said.count("a DistributedDataParallel (of a Bilinear) is trained beside the run"), 1, said)
            self.assertEqual(said.count("has not joined"), 1, said)


class Groups(unittest.TestCase):
    def test_that_are_added_in_mid_run_are_asked_of_a_member_that_comes_back_before_it_disturbs_the_others(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            groups = [stack.enter_context(ranks.Group(unfreeze, 1, rank, 3, folder, 0)) for rank in range(3)]
            self.assertFalse(groups[2].result(0)[0])
            for _ in range(2):
                with ranks.Group(unfreeze, 1, 2, 3, folder, 1) as again:
                    self.assertRegex(str(again.result(0)[1]), r"have groups of \[\[2, 2\]\] parameters.*call add_param_group")
            comes = stack.enter_context(ranks.Group(unfreeze, 1, 2, 3, folder, 2))
            results = [group.result(0) for group in (groups[0], groups[1], comes)]
            for good, text in results:
                self.assertTrue(good, text)
            self.assertEqual(len({str(result) for _, result in results}), 1)
            samples, generation = results[0][1][:2]
            self.assertEqual(samples, 360)
            # Death and return make two more; a try that comes before the others have noticed the death may disturb them once.
            self.assertLessEqual(generation, 5)


class Within(unittest.TestCase):
    def test_another_one_follow_the_root_of_the_gain_as_they_do_bare(self):
        bare = ranks.run(follow_adascale, 2, "bare")
        self.assertLess(min(bare[0]), 0.1)
        for wrap in ("around", "zero"):
            self.assertEqual(ranks.run(follow_adascale, 2, wrap), bare, wrap)

    def test_are_known_by_their_betas(self):
        parameters = [nn.Parameter(torch.zeros(2))]
        self.assertIs(is_adaptive(Fused(parameters, betas=(0.9, 0.99))), True)
        self.assertIs(is_adaptive(Outer(Fused(parameters, betas=(0.9, 0.99)))), True)
        self.assertIsNone(is_adaptive(Fused(parameters)))

    def test_that_are_not_known_are_told_of_under_adascale(self):
        model = halves()
        for options, told in (({"rule": "adascale"}, 1), ({"rule": "linear"}, 0), ({"rule": "adascale", "adaptive": False}, 0)):
            with self.assertLogs("dynamix", "DEBUG") as logged:
                logging.getLogger("dynamix").debug("begins")
                run = dynamix.join(model, Fused(model.parameters()), agent="off", **options)
                run.loader(tensors(20), batch_size=4)
                run.close()
            self.assertEqual(sum("whether the steps of Fused grow with the gradient" in line for line in logged.output), told)


def use_in_a_stand_in(rank, world):
    """Whether a layer that only the batch without samples goes through has a gradient, and one that the other one does."""
    layers = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, momentum=0.9)
    run = dynamix.join(layers, optimizer, agent="off")
    found = []
    for (values,) in run.loader(torch.utils.data.TensorDataset(torch.randn(5, 3)), batch_size=2):
        optimizer.zero_grad()
        layers[0 if run.counted else 1](values).square().mean().backward()
        run.average_gradients()
        found.append((run.counted, *(layer.weight.grad is not None for layer in layers)))
        optimizer.step()
    run.close()
    return found


class Unused(unittest.TestCase):
    def test_parameters_stay_where_only_a_stand_in_uses_them(self):
        """A gradient of zeros would move them, by the optimiser's momentum."""
        self.assertEqual(ranks.run(use_in_a_stand_in, 2), [[(2, True, False), (own, True, False)] for own in (1, 0)])


if __name__ == "__main__":
    unittest.main()
