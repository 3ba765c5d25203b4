"""Every sample is dealt exactly once an epoch, whatever loaders fetch ahead."""
import collections
import unittest

import ranks
import torch

import dynamix


def small(count):
    return torch.utils.data.TensorDataset(torch.arange(count), torch.randn(count, 3))


def joined(batch_size, dataset, **options):
    """A run over a plain model, its loader, and a function that trains on one batch of it."""
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", window_steps=4)
    loader = run.loader(dataset, batch_size=batch_size, **options)

    def train(batch):
        optimizer.zero_grad()
        model(batch[1]).square().mean().backward()
        run.average_gradients()
        optimizer.step()

    return run, loader, train


def take_epochs(rank, world, samples, workers, epochs, options):
    """The numbers of this rank's samples by epoch, and the length that the loader gave."""
    count = workers[rank % len(workers)]
    if count:
        options = {**options, "num_workers": count, "prefetch_factor": 1 + rank}
    run, loader, train = joined(3 + 2 * rank, small(samples), **options)
    taken = []
    for _ in range(epochs):
        taken.append([])
        expected, steps = len(loader), 0
        for batch in loader:
            taken[-1] += batch[0].tolist()[:run.counted]
            train(batch)
            steps += 1
        assert steps == expected, (steps, expected)
    run.close()
    return taken


class Epochs(unittest.TestCase):
    def check(self, world, samples, workers, epochs=3, **options):
        results = ranks.run(take_epochs, world, samples, workers, epochs, options)
        orders = []
        for epoch in range(epochs):
            counts = collections.Counter(number for taken in results for number in taken[epoch])
            self.assertEqual(counts, collections.Counter(range(samples)))
            orders.append(tuple(results[0][epoch]))
        return orders

    def test_deal_each_sample_once_without_loader_workers(self):
        for world in (1, 2, 4):
            orders = self.check(world, 101, [0])
            self.assertEqual(len(set(orders)), 3, "two epochs have one order")

    def test_deal_each_sample_once_with_other_loader_workers_on_each_rank(self):
        self.check(3, 101, [0, 1, 3])
        self.check(2, 101, [2, 0], persistent_workers=False)

    def test_deal_each_sample_once_where_workers_persist(self):
        self.check(2, 101, [2, 1], persistent_workers=True)

    def test_that_are_shorter_than_what_is_fetched_ahead(self):
        self.check(2, 9, [3, 2])

    def test_in_the_order_of_the_samples(self):
        orders = self.check(2, 40, [0], shuffle=False)
        self.assertEqual(orders[0][:3], (0, 1, 2))
        self.assertEqual(len(set(orders)), 1)


def drop_last(rank, world):
    run, loader, train = joined(4, small(20), drop_last=True)
    sizes = []
    for batch in loader:
        sizes.append(run.counted)
        train(batch)
    run.close()
    return sizes


def break_off(rank, world, workers):
    """Epochs of which the second is left after two batches: the numbers taken, by epoch."""
    options = {"num_workers": workers, "prefetch_factor": 1 + rank} if workers else {}
    run, loader, train = joined(3, small(60), **options)
    taken = []
    for epoch in range(4):
        taken.append([])
        for number, batch in enumerate(loader):
            if epoch == 1 and number == 2:
                break
            taken[-1] += batch[0].tolist()[:run.counted]
            train(batch)
    run.close()
    return taken


def take_two_iterators(rank, world):
    run, loader, train = joined(3, small(60))
    old = iter(loader)
    train(next(old))
    new = iter(loader)
    train(next(new))
    try:
        next(old)
    except RuntimeError as problem:
        return str(problem)


class Loaders(unittest.TestCase):
    def test_drop_an_incomplete_last_step(self):
        for sizes in ranks.run(drop_last, 2):
            self.assertEqual(sizes, [4, 4])

    def test_may_be_left_within_an_epoch(self):
        for workers in (0, 2):
            results = ranks.run(break_off, 2, workers)
            for epoch in (0, 2, 3):
                counts = collections.Counter(number for taken in results for number in taken[epoch])
                self.assertEqual(counts, collections.Counter(range(60)))

    def test_end_the_iterators_before_the_newest(self):
        self.assertIn("newer iterator", ranks.run(take_two_iterators, 1)[0])


if __name__ == "__main__":
    unittest.main()
