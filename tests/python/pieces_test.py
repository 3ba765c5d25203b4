"""Batches of any size come from what a DataLoader's workers have fetched ahead: at once, each sample fetched once."""
import collections
import random
import time
import unittest
from unittest import mock

import ranks
import torch
from torch.utils.data import default_collate

import dynamix
from dynamix.pieces import Pieces

Pair = collections.namedtuple("Pair", ("left", "right"))


def sample(number):
    """One of each kind that default_collate takes."""
    return {"number": number, "half": number / 2, "name": f"sample {number}", "array": torch.full((2, 3), number).numpy(),
            "pair": Pair(torch.tensor(number), str(number)), "texts": ("a", f"b{number}"), "list": [torch.ones(2) * number, b"x"]}


def flat(value):
    """What can be compared."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return {name: flat(item) for name, item in value.items()}
    return [flat(item) for item in value] if isinstance(value, (list, tuple)) else value


class Cutting(unittest.TestCase):
    def test_gives_what_collating_the_same_samples_gives(self):
        for seed in range(200):
            source = random.Random(seed)
            pieces, fetched, used = Pieces(), 0, 0
            while used < 60:
                while pieces.samples == 0 or source.random() < 0.5:
                    count = source.randint(1, 9)
                    pieces.add(default_collate([sample(fetched + i) for i in range(count)]), count)
                    fetched += count
                count = source.randint(1, pieces.samples)
                batch = pieces.take(count)
                self.assertEqual(flat(batch), flat(default_collate([sample(used + i) for i in range(count)])))
                self.assertIsInstance(batch["pair"], Pair)
                used += count

    def test_hands_a_batch_on_as_it_was_fetched_and_copies_no_part_of_one(self):
        pieces, piece = Pieces(), torch.arange(8)
        pieces.add(piece, 8)
        self.assertIs(pieces.take(8), piece)
        pieces.add(piece, 8)
        self.assertEqual([pieces.take(count).data_ptr() - piece.data_ptr() for count in (3, 5)], [0, 24])

    def test_keeps_the_types_of_batches(self):
        pieces = Pieces()
        for _ in range(2):
            pieces.add(default_collate([collections.UserList([torch.tensor(i), collections.deque([i])]) for i in range(4)]), 4)
        batch = pieces.take(6)
        self.assertEqual((type(batch), type(batch[1])), (collections.UserList, collections.deque))
        self.assertEqual((batch[0].tolist(), batch[1][0].tolist()), ([0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 0, 1]))

    def test_joins_pinned_pieces_in_pinned_memory(self):
        """As there is no device to pin for, torch is asked in its place what it was asked for."""
        asked, empty = [], torch.empty

        def made(shape, dtype, pin_memory):
            asked.append(pin_memory)
            return empty(shape, dtype=dtype)

        pieces = Pieces()
        for first in (0, 4):
            pieces.add([torch.arange(first, first + 4), torch.arange(8.0).reshape(4, 2) + first], 4)
        with mock.patch.object(torch.Tensor, "is_pinned", lambda tensor: tensor.dtype == torch.int64), mock.patch("torch.empty", made):
            numbers, values = pieces.take(6)
        self.assertEqual((numbers.tolist(), values[:, 0].tolist(), asked), ([0, 1, 2, 3, 4, 5], [0, 2, 4, 6, 4, 6], [True]))

    def test_of_samples_that_cannot_be_told_apart_is_refused(self):
        with self.assertRaisesRegex(TypeError, "a batch has a set, .* collate_fn of your own"):
            Pieces().add([torch.ones(2), {1, 2}], 2)
        with self.assertRaisesRegex(ValueError, "asked for 8 samples and gave 6"):
            Pieces().add({"label": torch.ones(8), "image": torch.ones(6, 3)}, 8)
        pieces = Pieces()
        pieces.add(torch.ones(2, 3, 8), 2)
        pieces.add(torch.ones(2, 3, 9), 2)
        with self.assertRaisesRegex(RuntimeError, r"samples of \(3, 8\) and of another shape .* collate_fn of your own"):
            pieces.take(3)


class Counted(torch.utils.data.Dataset):
    """Counts how often each of its samples is fetched, by whatever process."""

    def __init__(self, count):
        self.fetched = torch.zeros(count, dtype=torch.int64).share_memory_()

    def __len__(self):
        return len(self.fetched)

    def __getitem__(self, number):
        self.fetched[number] += 1
        return number, torch.full((3,), 0.01 * number)


def joined(dataset, batch_size, balance=None, **options):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", balance=balance)
    return run, run.loader(dataset, batch_size=batch_size, **options), ranks.trainer(run, model, optimizer)


def train_while_batches_shrink(rank, world, samples, options, collate=None):
    """Two epochs in which each member takes fewer and fewer. Numbers by epoch, sizes of each step, how often each was fetched."""
    data = Counted(samples)
    run, loader, train = joined(data, 16 + 4 * rank, collate_fn=collate, **options)
    taken, sizes = [], []
    for _ in range(2):
        taken.append([])
        for batch in loader:
            taken[-1] += batch[0].tolist()[:run.counted]
            sizes.append(run.counted)
            train(batch)
            if len(sizes) % 5 == rank:
                run.limit_batch(max(3, 16 - len(sizes) // 2))
    run.close()
    return taken, sizes, data.fetched.tolist()


def train_beside_a_slow_member(rank, world, slow_from, steps, options):
    """Batches of each step, of which the first member's take four times as long from a step on."""
    data = Counted(2 * 32 * steps)
    run, loader, train = joined(data, 32, balance=True, **options)
    sizes = []
    for number, batch in zip(range(steps), loader):
        sizes.append(run.counted)
        time.sleep(0.002 * run.counted * (4 if rank == 0 and number >= slow_from else 1))
        train(batch)
    fetched = max(data.fetched.tolist())
    run.close()
    return sizes, fetched


def limit_once(rank, world, options):
    run, loader, train = joined(Counted(2000), 32, **options)
    sizes = []
    for batch in loader:
        sizes.append(run.counted)
        train(batch)
        if len(sizes) == 5:
            run.limit_batch(8)
        if len(sizes) == 12:
            break
    run.close()
    return sizes


def of_a_kind(samples):
    return default_collate(samples)


class FetchedAhead(unittest.TestCase):
    def test_each_sample_is_fetched_and_used_once_while_batch_sizes_change(self):
        for options in ({}, {"num_workers": 1}, {"num_workers": 3, "prefetch_factor": 3}, {"num_workers": 2, "persistent_workers": True}):
            for collate in (None, of_a_kind):
                with self.subTest(options=options, collate=collate):
                    results = ranks.run(train_while_batches_shrink, 2, 500, options, collate)
                    for epoch in range(2):
                        counts = collections.Counter(number for taken, _, _ in results for number in taken[epoch])
                        self.assertEqual(counts, collections.Counter(range(500)))
                    fetched = [sum(each) for each in zip(*(fetched for _, _, fetched in results))]
                    padded = sum(2 * sizes.count(0) for _, sizes, _ in results)
                    self.assertLessEqual(sum(fetched), 1000 + padded)
                    self.assertEqual(min(fetched), 2)
                    self.assertGreater(len(set(results[0][1])), 5)

    def test_a_new_batch_size_holds_from_the_next_step_however_far_workers_have_fetched(self):
        """Said behind step 5, in the row of step 6."""
        for options in ({}, {"num_workers": 2, "prefetch_factor": 4}, {"num_workers": 4}):
            for sizes in ranks.run(limit_once, 2, options):
                self.assertEqual(sizes, [32] * 6 + [8] * 6, options)

    def test_a_collate_fn_of_the_scripts_own_is_given_whole_batches_by_the_workers(self):
        for sizes in ranks.run(limit_once, 2, {"num_workers": 2, "collate_fn": of_a_kind}):
            self.assertEqual(sizes, [32] * 10 + [8] * 2, "it follows behind what was fetched")

    def test_shares_follow_a_slow_member_as_fast_as_without_loader_workers(self):
        """The best of three, since a busy machine may slow down either member at any step."""
        slow_from, best = 20, []
        for _ in range(3):
            (slow, once), (fast, also) = ranks.run(train_beside_a_slow_member, 2, slow_from, slow_from + 20,
                                                   {"num_workers": 2, "prefetch_factor": 2})
            self.assertEqual((once, also), (1, 1))
            followed = [4 * slow[step] < 1.25 * fast[step] for step in range(slow_from, len(slow))]
            best.append(followed.index(True) if True in followed else 20)
            if best[-1] <= 3:
                break
        self.assertLessEqual(min(best), 3, best)


if __name__ == "__main__":
    unittest.main()
