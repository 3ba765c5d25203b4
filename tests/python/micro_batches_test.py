"""Several micro-batches in one step: a stand-in among them counts for nothing, and what is reported is of all of them. Steps
that are left out, and those that one member alone weighs."""
import contextlib
import io
import logging
import math
import unittest

import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix

COUNT, FEATURES, BATCH = 17, 4, 8  # two steps of both members: one of 8 samples each, and one of a single sample


def data(count=COUNT):
    generator = torch.Generator().manual_seed(3)
    return torch.utils.data.TensorDataset(torch.arange(count), torch.randn(count, FEATURES, generator=generator, dtype=torch.float64),
                                          torch.randn(count, 1, generator=generator, dtype=torch.float64))


def net():
    torch.manual_seed(1)
    return nn.Linear(FEATURES, 1).double()


def mean_gradient(chosen, dataset=None):
    """Over these samples."""
    reference, (_, inputs, targets) = net(), (dataset or data())[chosen]
    nn.functional.mse_loss(reference(inputs), targets).backward()
    return reference.weight.grad


def of_all(own):
    found = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(found, own)
    return found


def expected(way, parts):
    """By the samples of each member's micro-batches: those of a worker weigh alike, or, each summed by itself, all workers' do."""
    if way == "synchronised":
        joined = [[number for part in micro for number in part] for micro in zip(*parts)]
        return sum(mean_gradient(each) for each in joined) / len(joined)
    total = sum(len(part) for own in parts for part in own)
    real = [[part for part in own if part] for own in parts]
    return sum(mean_gradient(part) / len(own) * sum(map(len, own)) / total for own in real for part in own)


def accumulate(rank, world, way):
    """What counted of each micro-batch, and the error of the step's gradient."""
    plain = net()
    model = plain if way == "plain" else DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off")
    parts, batches = [], []
    loader = run.loader(data(), batch_size=BATCH)
    count = len(loader)

    def train(number, inputs, targets, counted):
        silent = way in ("plain", "synchronised") or number == count - 1
        with contextlib.nullcontext() if silent else model.no_sync():
            loss = nn.functional.mse_loss(model(inputs), targets) / count
            (loss if counted else loss * math.nan).backward()

    for number, (chosen, inputs, targets) in enumerate(loader):
        parts.append(chosen.tolist()[:run.counted])
        batches.append((number, inputs, targets, run.counted))
        if way != "listed":
            train(*batches[-1])
    if way == "listed":
        for batch in batches:
            train(*batch)
    if way == "plain":
        run.average_gradients()
    everyones = of_all(parts)
    error = float((plain.weight.grad - expected(way, everyones)).abs().max())
    optimizer.step()
    run.close()
    return [list(map(len, own)) for own in everyones], error


class StandIns(unittest.TestCase):
    def test_among_micro_batches_count_for_nothing(self):
        for way in ("unsynchronised", "listed", "plain", "synchronised"):
            with self.subTest(way=way):
                for counted, error in ranks.run(accumulate, 2, way):
                    self.assertEqual(sorted(counted), [[8, 0], [8, 1]])
                    self.assertLess(error, 1e-12)


def leave_out(rank, world, way):
    """In a training of 48 samples whose second step is left out: the errors of the gradients, batches of each step made, steps, samples
    and progress of the run, and what was told."""
    told, plain = io.StringIO(), net()
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    model = plain if way == "plain" else DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    run = dynamix.join(model, optimizer, agent="off", rule="linear")
    dataset, errors, rates = data(48), [], []
    for number, (chosen, inputs, targets) in enumerate(run.loader(dataset, batch_size=(2, 6)[rank])):
        counted = run.counted if way == "counting" else len(chosen)  # asked before gradients are dropped
        if way not in ("between", "behind"):
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        if way == "between":
            optimizer.zero_grad()
        if way == "scaler":
            scaler.scale(loss * math.inf if number == 1 else loss).backward()
            scaler.unscale_(optimizer)
        else:
            loss.backward()
        if way == "plain":
            run.average_gradients()
        if number != 1:
            joined = mean_gradient([each for own in of_all(chosen.tolist()[:counted]) for each in own], dataset)
            errors.append(float((plain.weight.grad - joined).abs().max()))
        if way == "scaler":
            scaler.step(optimizer)
            scaler.update()
        elif number != 1:
            optimizer.step()
        if way == "behind":
            optimizer.zero_grad()
        rates.append(run.progress)
    found = max(errors), run.status.step, run.status.samples, rates
    run.close()
    return found, told.getvalue()


class LeftOut(unittest.TestCase):
    def test_steps_are_skipped_and_the_next_ones_are_those_of_their_own_batches(self):
        for way in ("before", "between", "behind", "plain", "scaler"):
            with self.subTest(way=way):
                for (error, steps, samples, progress), told in ranks.run(leave_out, 2, way):
                    self.assertLess(error, 1e-12)
                    self.assertEqual((steps, samples), (6, 48))
                    self.assertEqual(progress[-1], 5)
                    self.assertRegex(told, "gradients of step 1 were dropped.*is left out.*GradScaler")
                    self.assertEqual(told.count("dropped"), 1)

    def test_steps_are_told_of_where_it_is_too_late(self):
        for (error, _, samples, _), told in ranks.run(leave_out, 2, "counting"):
            self.assertLess(error, 1e-12)
            self.assertEqual(samples, 48)
            self.assertRegex(told, "gradients of step 1 were dropped.*counted in the next step")


def report(rank, world):
    """What the run was told of a step of two micro-batches."""
    model = DistributedDataParallel(net())
    optimizer, told = torch.optim.SGD(model.parameters(), lr=0.01), []
    run = dynamix.join(model, optimizer, agent="off")
    loader = run.loader(data(), batch_size=BATCH)
    complete, run._client.complete = run._client.complete, lambda times: (told.append((times.loss, times.correct)), complete(times))
    for number, (_, inputs, targets) in enumerate(loader):
        (nn.functional.mse_loss(model(inputs), targets) / 2).backward()
        run.report(loss=9.0, correct=0)
        run.report(loss=(2.0, 11.0)[number])
        run.report(correct=min(run.counted, 6))
    optimizer.step()
    run.close()
    return told


class Reports(unittest.TestCase):
    def test_of_micro_batches_are_means_over_their_samples(self):
        found = sorted(ranks.run(report, 2))
        self.assertEqual(found, [[(2.0, 6 / 8)], [((8 * 2.0 + 11.0) / 9, 7 / 9)]])


def weigh_sometimes(rank, world, way):
    """Why a training ends in which not every member weighs each step, and after how many steps."""
    plain = net()
    model = plain if way == "plain" else DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off")
    try:
        for number, (_, inputs, targets) in enumerate(run.loader(data(48), batch_size=BATCH)):
            optimizer.zero_grad()
            if rank == 0 or way == "later" and number == 0:
                run.weight(len(inputs))
            loss = nn.functional.mse_loss(model(inputs), targets)
            (run.gather(loss.reshape(1)).mean() if way == "gathered" else loss).backward()
            if way == "plain":
                run.average_gradients()
            optimizer.step()
    except RuntimeError as problem:
        steps = run.status.step
        run.close(str(problem), succeeded=False)
        return steps, str(problem)


class Weights(unittest.TestCase):
    def test_that_one_member_alone_gives_are_refused_on_all(self):
        for way in ("ddp", "plain", "gathered"):
            for steps, text in ranks.run(weigh_sometimes, 2, way):
                self.assertEqual(steps, 0)
                self.assertIn("called in this step on member 0 and not on member 1: call it on all members", text)

    def test_that_a_member_leaves_out_later_are_refused(self):
        other, own = ranks.run(weigh_sometimes, 2, "later")
        self.assertIn("not called in this step, and in the first one", own[1])
        self.assertRegex(other[1], "member 1 has left after 1 steps")
        self.assertEqual((own[0], other[0]), (1, 1))


if __name__ == "__main__":
    unittest.main()
