"""Layers that look at the whole batch: what a stand-in for an empty one leaves in them, and those that sum over all members, or wait for
one in the forward pass."""
import time
import unittest
import warnings

import ranks
import torch
from torch import nn
from torch.distributed.nn.functional import all_reduce
from torch.nn.parallel import DistributedDataParallel

import dynamix

COUNT, FEATURES = 24, 3  # two steps of 11, and one of two samples, which leaves a member with none


def data():
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(COUNT, FEATURES, generator=generator, dtype=torch.float64) * torch.arange(1.0, COUNT + 1).unsqueeze(1)
    return torch.utils.data.TensorDataset(torch.arange(COUNT), inputs, torch.randn(COUNT, 1, generator=generator, dtype=torch.float64))


def net(layer):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(FEATURES, 4), layer, nn.Tanh(), nn.Linear(4, 1)).double()


def keep_statistics(rank, world, options):
    """Of each step: how many samples counted, and whether it has changed the statistics."""
    model = net(nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off")
    loader, steps = run.loader(data(), batch_size=(2, 9)[rank], **options), []
    for _ in range(2):
        for _, inputs, targets in loader:
            before = [buffer.clone() for buffer in model.buffers()]
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            run.average_gradients()
            counted = run.counted
            optimizer.step()
            steps.append((counted, any(not torch.equal(*pair) for pair in zip(before, model.buffers()))))
    run.close()
    return steps


class Statistics(unittest.TestCase):
    def test_are_those_of_samples_that_count(self):
        for options in ({}, {"num_workers": 1}):
            results = ranks.run(keep_statistics, 2, options)
            self.assertIn(0, [counted for steps in results for counted, _ in steps], "no batch was empty")
            for steps in results:
                self.assertEqual([counted > 0 for counted, _ in steps], [changed for _, changed in steps], steps)


SLEEP_SECONDS, SLOW_STEPS = 0.2, 6


def wait_for_member_0(rank, world, way):
    """Seconds that this member exchanged in all, where member 0 is slow."""
    model = DistributedDataParallel(net(nn.BatchNorm1d(4) if way == "broadcast" else nn.Identity()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off")
    loader = run.loader(data(), batch_size=2)
    seconds, complete = [], run._client.complete
    run._client.complete = lambda times: (seconds.append(times.exchange_seconds), complete(times))
    for _, inputs, targets in loader:
        optimizer.zero_grad()
        if rank == 0:
            time.sleep(SLEEP_SECONDS)
        if way == "gather":
            run.gather(inputs)
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    run.close()
    return len(seconds), sum(seconds)


class Waiting(unittest.TestCase):
    def test_in_collectives_of_the_forward_pass_is_no_computing(self):
        for way in ("broadcast", "gather"):
            with self.subTest(way=way):
                _, (steps, seconds) = ranks.run(wait_for_member_0, 2, way)
                self.assertEqual(steps, SLOW_STEPS)
                self.assertGreater(seconds, SLOW_STEPS * SLEEP_SECONDS / 2)


class Summed(nn.Module):
    """What SyncBatchNorm computes, which has no kernels for the CPU."""

    def forward(self, values):
        sums = torch.cat([values.sum(0), values.square().sum(0), values.new_tensor([float(len(values))])])
        if torch.distributed.is_initialized():
            sums = all_reduce(sums)
        mean, square = sums[:4] / sums[-1].detach(), sums[4:8] / sums[-1].detach()
        return (values - mean) / (square - mean.square() + 1e-5).sqrt()


def normalise_together(rank, world):
    """The numbers of both members' first batches, and the gradient of their step."""
    warnings.simplefilter("ignore", FutureWarning)  # of `all_reduce`, whose gradient no newer one has
    model = DistributedDataParallel(net(Summed()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", weighting="loss")
    numbers, inputs, targets = next(iter(run.loader(data(), batch_size=(2, 9)[rank])))
    run.scale(nn.functional.mse_loss(model(inputs), targets)).backward()
    found = run.gather(numbers).tolist(), [parameter.grad.tolist() for parameter in model.parameters()]
    optimizer.step()
    run.close()
    return found


def join_synchronised(rank, world):
    """Why a model is refused whose SyncBatchNorm is of both members; one that is of this member alone is not."""
    own = [torch.distributed.new_group([member]) for member in range(world)][rank]
    dynamix.join(alone := net(nn.SyncBatchNorm(4, process_group=own)), torch.optim.SGD(alone.parameters(), lr=0.1), agent="off").close()
    model = net(nn.SyncBatchNorm(4))
    try:
        dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
    except NotImplementedError as problem:
        return str(problem)


class Synchronised(unittest.TestCase):
    def test_batch_norm_is_refused_where_gradients_are_weighted(self):
        for said in ranks.run(join_synchronised, 2):
            self.assertRegex(said or "", "SyncBatchNorm.*weighting=\"loss\"")

    def test_statistics_have_the_gradient_of_the_joined_batch_where_losses_are_weighted(self):
        model = net(Summed())
        for numbers, found in ranks.run(normalise_together, 2):
            self.assertEqual(len(numbers), 11)
            _, inputs, targets = data()[numbers]
            model.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            for gradient, parameter in zip(found, model.parameters()):
                torch.testing.assert_close(torch.tensor(gradient, dtype=torch.float64), parameter.grad, rtol=1e-9, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
