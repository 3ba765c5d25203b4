"""Several micro-batches in one step: a stand-in among them counts for nothing, and what is reported is of all of them."""
import contextlib
import math
import unittest

import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix

COUNT, FEATURES, BATCH = 17, 4, 8  # two steps of both members: one of 8 samples each, and one of a single sample


def data():
    generator = torch.Generator().manual_seed(3)
    return torch.utils.data.TensorDataset(torch.arange(COUNT), torch.randn(COUNT, FEATURES, generator=generator, dtype=torch.float64),
                                          torch.randn(COUNT, 1, generator=generator, dtype=torch.float64))


def net():
    torch.manual_seed(1)
    return nn.Linear(FEATURES, 1).double()


def mean_gradient(chosen):
    """Over these samples."""
    reference, (_, inputs, targets) = net(), data()[chosen]
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


if __name__ == "__main__":
    unittest.main()
