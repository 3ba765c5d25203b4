"""Every sample is dealt exactly once an epoch, whatever loaders fetch ahead."""
import collections
import copy
import os
import pickle
import select
import signal
import threading
import time
import unittest

import ranks
import torch

import dynamix
from dynamix import elastic


def small(count):
    return torch.utils.data.TensorDataset(torch.arange(count), torch.randn(count, 3))


def joined(batch_size, dataset, **options):
    """A run over a plain model, its loader, and a function that trains on one batch of it."""
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", window_steps=4)
    loader = run.loader(dataset, batch_size=batch_size, **options)
    return run, loader, ranks.trainer(run, model, optimizer)


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
    epoch = run.epoch
    run.close()
    return sizes, epoch


WEIGHTS = [0.0, 1.0, 2.0, 3.0] * 50


def draw_by_weight(rank, world, options, stop, state):
    """Samples of each step up to `stop`, in two epochs, and the state there."""
    run, loader, train = joined(4 + rank, small(len(WEIGHTS)), weights=WEIGHTS, seed=3 if rank == 0 else 99, **options)
    if state is not None:
        run.load_state_dict(state)
    taken, saved = [], None
    for epoch in range(run.epoch, 2):
        for batch in loader:
            taken.append((epoch, tuple(batch[0].tolist()[:run.counted])))
            train(batch)
            if run.status.step == stop:
                saved = run.state_dict()
                break
        if saved is not None:
            break
    run.close()
    return taken, saved


class Draws(unittest.TestCase):
    def test_are_as_many_as_samples_and_as_often_as_they_weigh(self):
        for options in ({}, {"num_workers": 2}):
            epochs = collections.defaultdict(collections.Counter)
            for taken, _ in ranks.run(draw_by_weight, 2, options, None, None):
                for epoch, samples in taken:
                    epochs[epoch].update(samples)
            self.assertNotEqual(epochs[0], epochs[1])
            for epoch in epochs.values():
                self.assertEqual(sum(epoch.values()), len(WEIGHTS))
                kinds = collections.Counter()
                for sample, count in epoch.items():
                    kinds[WEIGHTS[sample]] += count
                self.assertEqual(kinds[0.0], 0)
                self.assertGreater(max(epoch.values()), 1, "with replacement")
                for weight in (1.0, 2.0, 3.0):  # of 200 draws; four standard deviations
                    self.assertAlmostEqual(kinds[weight], len(WEIGHTS) * weight / 6, delta=29)

    def test_go_on_where_a_state_was_saved(self):
        whole = ranks.run(draw_by_weight, 2, {}, None, None)
        first = ranks.run(draw_by_weight, 2, {}, 30, None)
        second = ranks.run(draw_by_weight, 2, {}, None, first[0][1])
        for rank in range(2):
            self.assertEqual(first[rank][0] + second[rank][0], whole[rank][0])

    def test_need_a_weight_for_each_sample(self):
        for wrong, text in (([1.0] * 3, "one number for each"), ([[1.0]] * 4, "one number for each"), ([1, 1, 1, -1], "none negative"),
                            ([0] * 4, "one above 0"), ([1, 1, 1, float("nan")], "finite"), ([1e308] * 4, "finite")):
            with self.assertRaisesRegex(ValueError, text):
                joined(2, small(4), weights=wrong)
        self.assertEqual(len(list(joined(2, small(4), weights=[1.0] * 4, seed=2**64 - 1)[1])), 2)
        with self.assertRaisesRegex(ValueError, "give weights=w"):
            joined(2, small(4), sampler=torch.utils.data.WeightedRandomSampler([1.0] * 4, 4))


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


def read_shard(shard):
    for item in range(12):
        yield 12 * shard + item, torch.full((3,), 0.01 * item)


CUT_SHORT = {"plain": {}, "workers": {"num_workers": 2}, "drop_last": {"drop_last": True}, "weights": {"weights": [1.0, 2.0] * 30},
             "stream": {"num_workers": 1}, "cost": {"budget": 8, "cost": [1, 2, 3] * 20}}


def cut_short(rank, world, kind, in_vain, epochs, state):
    """Epochs that are left after three steps, or with a fourth batch `in_vain`: this rank's samples by epoch, and the state
    behind the last one."""
    data = dynamix.Stream(range(5), read_shard) if kind == "stream" else small(60)
    run, loader, train = joined(1 if kind == "cost" else 3 + rank, data, **CUT_SHORT[kind])
    if state is not None:
        run.load_state_dict(state)
    taken = []
    for epoch in range(run.epoch, epochs):
        for number, batch in enumerate(loader):
            if in_vain and number == 3:
                break
            taken.append((epoch, batch[0].tolist()[:run.counted]))
            train(batch)
            if not in_vain and number == 2:
                break
    saved = run.state_dict()
    run.close()
    return taken, saved


def take_two_iterators(rank, world):
    run, loader, train = joined(3, small(60))
    old = iter(loader)
    train(next(old))
    new = iter(loader)
    train(next(new))
    try:
        next(old)
    except RuntimeError as problem:
        del old  # the end of an older one is not that of the newest
        return str(problem), loader.is_in_loop


def fetching(loader):
    """As accelerate's and Lightning's loaders iterate: the next batch is there before the one at hand is given."""
    batches = iter(loader)
    at_hand = next(batches, None)
    while at_hand is not None:
        following = next(batches, None)
        yield at_hand
        at_hand = following


def train_fetching(rank, world, workers, micro):
    """Two epochs in a loop that fetches one batch ahead, while batch sizes change."""
    options = {"num_workers": workers, "prefetch_factor": 1 + rank} if workers else {}
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", window_steps=4)
    loader = run.loader(small(120), batch_size=5 + rank, fetch_ahead=1, **options)
    sizes, numbers, steps = set(), [], 0
    for _ in range(2):
        batches = fetching(loader)
        while True:
            taken = take(batches, micro)
            if not taken:
                break
            optimizer.zero_grad()
            for batch in taken:
                model(batch[1]).square().mean().backward()
            assert run.counted == len(without_stand_in(taken[-1][0].tolist())), (run.counted, taken)
            real = [number for batch in taken for number in without_stand_in(batch[0].tolist())]
            sizes.add(run.counted)
            numbers += real
            run.average_gradients()
            optimizer.step()
            steps += 1
            if steps == 3:
                run.limit_batch(3)
    status = run.status
    run.close()
    return sizes, numbers, status.batches, status.samples


def accumulate(rank, world, workers, wrapped):
    """Two epochs of steps of three batches each, which DistributedDataParallel synchronises one by one."""
    options = {"num_workers": workers, "prefetch_factor": 1 + rank} if workers else {}
    model = torch.nn.Linear(3, 1)
    if wrapped:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", window_steps=4)
    loader = run.loader(small(600), batch_size=3 + rank, **options)
    numbers = []
    for _ in range(2):
        passes = 0
        for batch in loader:
            numbers += batch[0].tolist()[:run.counted]
            model(batch[1]).square().mean().backward()
            passes += 1
            if passes % 3 == 0 or run.status.cursor + 3 * 7 > 600:
                if not wrapped:
                    run.average_gradients()
                optimizer.step()
                optimizer.zero_grad()
                passes = 0
    status = run.status
    run.close()
    return numbers, status.samples, [parameter.tolist() for parameter in model.parameters()]


def without_stand_in(numbers):
    """Where a rank has no samples left the loader gives one twice."""
    return [] if len(numbers) == 2 and numbers[0] == numbers[1] else numbers


def take(batches, count):
    taken = []
    for batch in batches:
        taken.append(batch)
        if len(taken) == count:
            break
    return taken


def fetch_unsaid(rank, world):
    run, loader, train = joined(3, small(60))
    try:
        for batch in fetching(loader):
            train(batch)
    except RuntimeError as problem:
        return str(problem)


class Fetching(unittest.TestCase):
    def test_a_batch_ahead_of_training_counts_it_in_its_own_step(self):
        for workers in (0, 2):
            for micro in (1, 2):
                with self.subTest(workers=workers, micro=micro):
                    results = ranks.run(train_fetching, 2, workers, micro)
                    dealt = collections.Counter(number for _, numbers, _, _ in results for number in numbers)
                    self.assertEqual(dealt, collections.Counter(2 * list(range(120))))
                    for sizes, _, batches, samples in results:
                        self.assertEqual(batches, (3, 3))
                        self.assertEqual(samples, 240)
                        self.assertGreater(len(sizes), 1)

    def test_a_batch_ahead_unsaid_is_refused(self):
        for text in ranks.run(fetch_unsaid, 2):
            self.assertIn("2 batches were taken", text)
            self.assertIn("fetch_ahead=1", text)


def keep_model(rank, world):
    """Copies and files of a model that joined are plain ones."""
    model = torch.nn.Linear(3, 1)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent="off")
    run.loader(small(60), batch_size=3)
    text = pickle.dumps(model)
    for copied in (copy.deepcopy(model), pickle.loads(text)):
        assert torch.equal(copied(torch.ones(1, 3)), model(torch.ones(1, 3)))
    run.close()
    assert not model._forward_pre_hooks
    return b"dynamix" in text


class Accumulation(unittest.TestCase):
    def test_over_batches_that_are_synchronised_one_by_one_or_together(self):
        for workers, wrapped in ((0, True), (2, True), (0, False)):
            with self.subTest(workers=workers, wrapped=wrapped):
                results = ranks.run(accumulate, 2, workers, wrapped)
                dealt = collections.Counter(number for numbers, _, _ in results for number in numbers)
                self.assertEqual(dealt, collections.Counter(2 * list(range(600))))
                self.assertEqual([samples for _, samples, _ in results], [1200, 1200])
                self.assertEqual(results[0][2], results[1][2])


class Models(unittest.TestCase):
    def test_that_joined_can_be_copied_and_kept(self):
        self.assertEqual(ranks.run(keep_model, 1), [False])


def die_beside_a_worker(rank, world, end, in_init):
    """Ends by SIGKILL while its loader's worker begins: right behind the fork, or in the script's own start of the
    worker."""
    member = os.getpid()

    def kill_member(_=None):
        os.write(end, f"{os.getpid()} ".encode())
        os.kill(member, signal.SIGKILL)
        while os.getppid() == member:
            time.sleep(0.001)

    if not in_init:
        os.register_at_fork(after_in_child=kill_member)
    _, loader, _ = joined(3, small(60), num_workers=1, worker_init_fn=kill_member if in_init else None)
    next(iter(loader))


def train_with_workers_of_a_thread(rank, world):
    """The loader's workers are started by a thread that has ended when they are used."""
    began, begins = os.pipe()
    _, loader, train = joined(3, small(60), num_workers=1, worker_init_fn=lambda worker: os.write(begins, b"."))
    made = []
    thread = threading.Thread(target=lambda: made.append((iter(loader), os.read(began, 1))))
    thread.start()
    thread.join()
    numbers = []
    for batch in made[0][0]:
        numbers += batch[0].tolist()
        train(batch)
    return sorted(numbers) == list(range(60))


def die_with_workers_of_a_server(rank, world, end):
    """Ends by SIGKILL while its loader's worker, which a server of forks has started, waits for work."""
    torch.multiprocessing.set_forkserver_preload(["torch"])
    _, loader, _ = joined(3, small(60), num_workers=1, multiprocessing_context="forkserver")
    batches = iter(loader)
    next(batches)
    os.write(end, f"{batches._batches.gi_frame.f_locals['source']._workers[0].pid}".encode())
    os.kill(os.getpid(), signal.SIGKILL)


class LoaderWorkers(unittest.TestCase):
    def check_ends(self, member, *arguments):
        ours, theirs = os.pipe()
        try:
            with ranks.Group(member, 1, theirs, *arguments):
                self.assertTrue(select.select([ours], [], [], ranks.SECONDS)[0], "no worker has begun")
                worker = int(os.read(ours, 100))
                limit = time.monotonic() + ranks.SECONDS
                while elastic.started(worker) is not None and time.monotonic() < limit:
                    time.sleep(0.01)
                stays = elastic.started(worker) is not None
                if stays:
                    os.kill(worker, signal.SIGKILL)
            self.assertFalse(stays, "the worker stays behind")
        finally:
            os.close(ours)
            os.close(theirs)

    def test_do_not_outlive_a_member_that_dies_right_behind_their_fork(self):
        self.check_ends(die_beside_a_worker, False)

    def test_do_not_outlive_a_member_that_dies_while_they_begin(self):
        self.check_ends(die_beside_a_worker, True)

    def test_do_not_outlive_a_member_that_has_not_forked_them(self):
        self.check_ends(die_with_workers_of_a_server)

    def test_outlive_the_thread_that_has_started_them(self):
        self.assertEqual(ranks.run(train_with_workers_of_a_thread, 1), [True])


class Loaders(unittest.TestCase):
    def test_drop_an_incomplete_last_step(self):
        for sizes, next_epoch in ranks.run(drop_last, 2):
            self.assertEqual((sizes, next_epoch), ([4, 4], 1))

    def test_may_be_left_within_an_epoch(self):
        for workers in (0, 2):
            results = ranks.run(break_off, 2, workers)
            for epoch in (0, 2, 3):
                counts = collections.Counter(number for taken in results for number in taken[epoch])
                self.assertEqual(counts, collections.Counter(range(60)))

    def test_that_are_left_within_an_epoch_resume_with_the_next(self):
        for kind in CUT_SHORT:
            for in_vain in (False, True):
                with self.subTest(kind=kind, in_vain=in_vain):
                    whole, first = (ranks.run(cut_short, 2, kind, in_vain, epochs, None) for epochs in (3, 1))
                    rest = ranks.run(cut_short, 2, kind, in_vain, 3, first[0][1])
                    for rank in range(2):
                        self.assertEqual(first[rank][0] + rest[rank][0], whole[rank][0])

    def test_end_the_iterators_before_the_newest(self):
        said, is_in_loop = ranks.run(take_two_iterators, 1)[0]
        self.assertIn("newer iterator", said)
        self.assertTrue(is_in_loop)


if __name__ == "__main__":
    unittest.main()
