"""`dynamix.join(nan=...)`: a step whose gradient is not finite on one member is made by none, or ends training, with the member's name."""
import io
import logging
import os
import tempfile
import types
import unittest

import ranks
import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

import dynamix
from dynamix.finite import DROPPED_IN_A_ROW, Finite

SPOILED = (3, 21)  # steps; the second is measured for nobody else: the first 16 are, and then one in 50
WAYS = ("ddp", "unused", "plain", "two optimisers", "accumulated", "synchronised", "closure", "elastic")
TWO_PASSES = ("accumulated", "synchronised")  # each of which has a batch, and steps are counted in those


def data(count=240):
    generator = torch.Generator().manual_seed(7)
    return torch.utils.data.TensorDataset(torch.randn(count, 6, generator=generator), torch.randn(count, 2, generator=generator))


def spoil(loss, rank, factor):
    """The loss of the last of two members, times a number that is none. `factor` 0: nobody's counts."""
    return loss * factor if factor == 0 or rank == 1 else loss


def train(rank, world, way, factor, nan, path):
    """Parameters, steps and log of a training whose SPOILED steps have a loss times `factor`."""
    told = io.StringIO()
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)).double()
    store = None
    if way == "elastic":
        torch.distributed.destroy_process_group()
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), str(world)
        store = torch.distributed.FileStore(path, -1)
    called = model
    if way == "sharded":
        fully_shard(model)
    elif way not in ("plain", "elastic"):
        called = DistributedDataParallel(model, find_unused_parameters=way == "unused")
    halves = [model[0].parameters(), model[2].parameters()] if way == "two optimisers" else [model.parameters()]
    optimizers = [torch.optim.SGD(half, lr=0.05) for half in halves]
    run = dynamix.join(called, optimizers, agent="off", noise_interval=50, nan=nan, elastic=store, rule="linear")
    passes = 2 if way in TWO_PASSES else 1
    taken = 0
    for inputs, targets in run.loader(data(480), batch_size=4 - rank):
        step, last = taken // passes, taken % passes == passes - 1
        taken += 1
        inputs, targets = inputs.double(), targets.double()

        def loss_of():
            loss = (called(inputs) - targets).square().mean() / passes
            spoils = step in SPOILED and (factor == 0 or passes == 1 or last == (step == SPOILED[1]))
            return spoil(loss, rank, factor) if spoils else loss

        if (taken - 1) % passes == 0:
            for optimizer in optimizers:
                optimizer.zero_grad()
        if way == "closure":
            def closure():
                loss = loss_of()
                loss.backward()
                return loss
            optimizers[0].step(closure)
            continue
        if way == "accumulated" and not last:
            with called.no_sync():
                loss_of().backward()
            continue
        loss_of().backward()
        if not last:
            continue
        if way in ("plain", "elastic"):
            run.average_gradients()
        nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        for optimizer in optimizers:
            optimizer.step()
    steps = run.status.step
    run.close()
    whole = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()]
    return torch.cat([each.detach().flatten() for each in whole]).tolist(), steps, told.getvalue()


def train_with_a_scaler(rank, world, nan):
    model = nn.Linear(6, 2)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    run = dynamix.join(wrapped, optimizer, agent="off", scaler=scaler, nan=nan)
    for step, (inputs, targets) in enumerate(run.loader(data(), batch_size=4 - rank)):
        optimizer.zero_grad()
        scaler.scale(spoil((wrapped(inputs) - targets).square().mean(), rank, float("nan") if step == 3 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
    steps = run.status.step
    run.close()
    return [each.tolist() for each in model.parameters()], steps, scaler.get_scale()


def spoil_all(rank, world, nan, begins):
    """How a training ends in which no gradient is finite from step `begins` on, by both members, and whether its model is whole."""
    model = nn.Linear(6, 2)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = dynamix.join(wrapped, optimizer, agent="off", nan=nan)
    steps, problem = 0, ""
    try:
        for inputs, targets in run.loader(data(2000), batch_size=4):
            optimizer.zero_grad()
            loss = (wrapped(inputs) - targets).square().mean()
            (loss * float("inf") if steps >= begins else loss).backward()
            optimizer.step()
            steps += 1
    except dynamix.DynamixError as error:
        problem = str(error)
    run.close(problem or "completed", succeeded=not problem)
    return steps, problem, all(bool(torch.isfinite(each).all()) for each in model.parameters())


def choose_differently(rank, world):
    model = nn.Linear(6, 2)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off", nan="drop" if rank else None)
    try:
        run.loader(data(), batch_size=4)
    except dynamix.DynamixError as problem:
        return str(problem)
    return ""


class NotFinite(unittest.TestCase):
    def check(self, way):
        with tempfile.TemporaryDirectory() as folder:
            dropped = ranks.run(train, 2, way, float("nan"), "drop", os.path.join(folder, "first"))
            expected = ranks.run(train, 2, way, 0.0, None, os.path.join(folder, "second"))
        for (found, steps, told), (without, steps_without, _) in zip(dropped, expected):
            self.assertEqual(found, dropped[0][0], way)
            self.assertLess(max(abs(one - other) for one, other in zip(found, without)), 1e-12, way)
            self.assertEqual(steps, steps_without, way)
            for step in SPOILED:
                self.assertIn(f"the gradient of member 1 in step {step * (2 if way in TWO_PASSES else 1)} is not finite: all members drop this step", told, way)
            self.assertEqual(told.count("is not finite"), len(SPOILED), told)

    def test_steps_are_dropped_by_all_members_and_leave_no_trace(self):
        for way in WAYS:
            with self.subTest(way):
                self.check(way)

    @unittest.skipUnless(hasattr(FSDPModule, "set_custom_reduce_scatter"), "this torch's fully_shard takes no reduce-scatter")
    def test_steps_of_sharded_models_are_dropped_by_all_members(self):
        self.check("sharded")

    def test_steps_are_a_grad_scalers_where_there_is_one(self):
        with_it = ranks.run(train_with_a_scaler, 2, "drop")
        self.assertEqual(with_it, ranks.run(train_with_a_scaler, 2, None))
        for parameters, _, scale in with_it:
            self.assertEqual((parameters, scale), (with_it[0][0], 512.0))

    def test_steps_end_training_before_them_where_that_is_chosen(self):
        for steps, problem, is_whole in ranks.run(spoil_all, 2, "stop", 20):
            self.assertEqual((steps, is_whole), (20, True))
            self.assertRegex(problem, r"the gradients of all members in step 20 are not finite; .*nan=\"drop\"")

    def test_steps_end_training_where_fifty_in_a_row_are_dropped(self):
        for steps, problem, is_whole in ranks.run(spoil_all, 2, "drop", 20):
            self.assertEqual((steps, is_whole), (69, True))
            self.assertIn("50 steps in a row were dropped: the gradients of all members in step 69 are not finite", problem)

    def test_are_counted_alike_by_a_member_that_comes_later(self):
        found = Finite("drop", types.SimpleNamespace(position=1, size=2, gather=lambda row: types.SimpleNamespace(
            wait=lambda: torch.stack([torch.tensor([1, 1, DROPPED_IN_A_ROW - 2]), row]))), False)
        for ends in (False, True):
            found.begin_pass()
            found.see_sums([float("nan")])
            if ends:
                with self.assertRaisesRegex(dynamix.DynamixError, "50 steps in a row"):
                    found.keeps(lambda: 7)
            else:
                self.assertFalse(found.keeps(lambda: 6))
            found.forget()

    def test_schedules_stay_at_a_step_that_is_dropped(self):
        for spoiled, rates in ((4, [0.9, 0.8, 0.7, 0.6, 0.6, 0.5]), (None, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4])):
            model = nn.Linear(6, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 10)
            run = dynamix.join(model, optimizer, agent="off", scheduler=scheduler, nan="drop")
            found = []
            for step, (inputs, targets) in enumerate(run.loader(data(24), batch_size=4)):
                optimizer.zero_grad()
                spoil((model(inputs) - targets).square().mean() * 1e-3, 1, float("nan") if step == spoiled else 1).backward()
                optimizer.step()
                scheduler.step()
                found.append(round(optimizer.param_groups[0]["lr"], 6))
            run.close()
            self.assertEqual(found, rates)

    def test_choices_that_differ_are_refused_on_all_members(self):
        self.assertEqual(ranks.run(choose_differently, 2), ["dynamix.join's nan is None on member 0, 'drop' on member 1: it is the same on "
                                                            "all members"] * 2)

    def test_choices_that_nothing_could_follow_are_refused(self):
        model = nn.Linear(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for options, kind, text in (({"nan": "skip"}, ValueError, "'drop', 'stop'"),
                                    ({"nan": "drop", "weighting": "loss"}, NotImplementedError, "each member's own gradient"),
                                    ({"nan": "stop", "scaler": torch.amp.GradScaler("cpu")}, NotImplementedError, "leave nan out")):
            with self.assertRaisesRegex(kind, text):
                dynamix.join(model, optimizer, agent="off", **options)


if __name__ == "__main__":
    unittest.main()
