"""Every item of a stream is dealt exactly once an epoch, whoever leases which shard, and read in its shard's order."""
import collections
import copy
import io
import os
import random
import tempfile
import time
import unittest

import agents
import ranks
import torch

import dynamix
from dynamix import structures as raw
from dynamix.client import Client
from dynamix.stream import Dealing, Leases, Reader

LENGTHS = [17, 0, 5, 40, 1, 23, 30]
ITEMS = sum(LENGTHS)


def read(shard):
    """Items that name their shard and their place in it."""
    for item in range(LENGTHS[shard]):
        yield 1000 * shard + item, torch.full((3,), 0.01 * item)


ALL = collections.Counter(1000 * shard + item for shard, length in enumerate(LENGTHS) for item in range(length))


class Members:
    """The members of a run in one process: each with a client, a dealing and a loader that fetches so far ahead. Of those
    that go on from a state some may be absent."""

    elastic = False

    def __init__(self, source, lengths, words=None, state=None, lanes=None):
        self.random = source
        self.lengths = lengths
        self.position, self.size = 0, source.randint(1, 4)
        self.lanes = lanes or [source.randint(1, 4) for _ in range(self.size)]
        self.size = len(self.lanes)
        self.ahead = [source.randint(0, 5) for _ in range(self.size)]
        self.clients = [Client(position, self.size) for position in range(self.size)]
        rows = torch.zeros((self.size, raw.INTRODUCTION_COLUMNS), dtype=torch.int64)
        for client, row in zip(self.clients, rows):
            client.introduce(raw.Workload(batch=source.randint(1, 12), samples=sum(lengths), seed=3, shuffle=False,
                                          window_steps=4), row.data_ptr())
        for client in self.clients:
            client.begin(rows.data_ptr())
        stream = dynamix.Stream(range(len(lengths)), range, lengths)
        self.dealings = []
        for self.position in range(self.size):
            self.dealings.append(Dealing(stream, lengths, self, 0, 7, True))
        for client, dealing in zip(self.clients, self.dealings):
            dealing.agree(self)
            if words is not None:
                client.restore(bytearray(words))
                dealing.restore(state)
        self.here = list(range(self.size))
        if words is not None:
            self.here = sorted(source.sample(self.here, source.randint(1, self.size)))
            present = [position in self.here for position in range(self.size)]
            for position in self.here:
                self.clients[position].regroup(present)
                self.dealings[position].regroup(self.clients[position].status().step, present)
            for members in (self.clients, self.dealings, self.ahead):
                members[:] = [members[position] for position in self.here]

    def gather_objects(self, own):
        return [(lanes, *own[1:]) for lanes in self.lanes]

    def start_epoch(self):
        self.waiting = [collections.deque() for _ in self.clients]
        for client, dealing in zip(self.clients, self.dealings):
            client.start_epoch()
            now = client.status()
            dealing.start(now.epoch, now.cursor, now.step)

    def step(self):
        """The items of each member's next step; None behind the epoch's last."""
        for client, dealing, waiting, ahead in zip(self.clients, self.dealings, self.waiting, self.ahead):
            while len(waiting) <= self.random.randint(0, ahead) and client.deal() == raw.OK:
                dealt = client.dealt
                dealing.completed(client.status().step)
                places = dealing.take(dealt.epoch, dealt.step, client.shares(self.size))
                waiting.append([] if dealt.padded else places)
                assert dealt.padded or len(places) == dealt.own
        if not self.waiting[0]:
            assert not any(self.waiting)
            return None
        taken = [waiting.popleft() for waiting in self.waiting]
        rows = torch.zeros((self.size, raw.ROW_COLUMNS), dtype=torch.int64)
        for client, position in zip(self.clients, self.here):
            client.deliver()
            if self.random.random() < 0.05:
                client.limit_batch(self.random.randint(1, 12))
            if client.due() & raw.GATHER:
                client.write_row(0.0, rows[position].data_ptr())
        for client in self.clients:
            if client.due() & raw.GATHER:
                client.read_rows(rows.data_ptr())
            client.rate(0.0)
            client.complete(raw.StepTimes())
        return taken

    def save(self):
        saved = []
        for client, dealing in zip(self.clients, self.dealings):
            dealing.completed(client.status().step)
            saved.append((bytes(client.save()), dealing.state()))
        words, state = saved[0]
        for other, theirs in saved[1:]:
            assert other == words and torch.equal(theirs["ranges"], state["ranges"]), "the members' states differ"
        return words, copy.deepcopy(state)

    def close(self):
        for client in self.clients:
            client.close()


class FuzzedStreams(unittest.TestCase):
    def test_are_dealt_once_under_any_plan_look_ahead_and_resume(self):
        for seed in range(int(os.environ.get("DYNAMIX_TEST_STREAMS", 1000))):
            with self.subTest(seed=seed):
                source = random.Random(seed)
                lengths = [source.choice((0, 1, 3, 20, 60)) for _ in range(source.randint(0, 8))] + [source.randint(1, 40)]
                self.train(source, lengths)

    def train(self, source, lengths):
        members = Members(source, lengths)
        for epoch in range(3):
            used = collections.Counter()
            members.start_epoch()
            while True:
                taken = members.step()
                if taken is None:
                    break
                used.update(place for places in taken for place in places)
                if source.random() < 0.05 and sum(used.values()) < sum(lengths):
                    words, state = members.save()
                    members.close()  # the next may be more or fewer, with other loaders
                    members = Members(source, lengths, words, state, members.lanes if source.random() < 0.5 else None)
                    members.start_epoch()
            self.assertEqual(used, collections.Counter((epoch, shard, item) for shard, length in enumerate(lengths)
                                                       for item in range(length)))
        members.close()

    def test_are_read_with_little_that_is_read_in_vain(self):
        """Two members with two loader workers each: what their readers read against what they give."""
        lengths = [200] * 40
        leases, opened = Leases([(shard, 0, 200) for shard in range(40)], [2, 2]), 0
        position = {}
        while leases.left:
            lane = leases._turn % 2
            for member, ranges in enumerate(leases.take([min(16, leases.left // 2)] * 2 if leases.left > 1 else [1, 0])):
                for shard, first, last in ranges:
                    at_shard, at = position.get((member, lane), (None, 0))
                    opened += last - (at if at_shard == shard and at <= first else 0)
                    position[member, lane] = (shard, last)
        self.assertLess(opened, 1.15 * sum(lengths))


def join(batch_size, stream, **options):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", window_steps=4)
    return run, run.loader(stream, batch_size=batch_size, **options), ranks.trainer(run, model, optimizer)


def take_epochs(rank, world, workers, lengths, options):
    """This rank's items by epoch, in a run whose batch sizes shrink on the way."""
    if workers[rank % len(workers)]:
        options = {**options, "num_workers": workers[rank % len(workers)], "prefetch_factor": 1 + rank}
    run, loader, train = join(3 + 2 * rank, dynamix.Stream(range(len(LENGTHS)), read, lengths), **options)
    taken = []
    for epoch in range(3):
        taken.append([])
        for batch in loader:
            taken[-1] += batch[0].tolist()[:run.counted]
            train(batch)
            if run.status.step == 6:
                run.limit_batch(2)
    run.close()
    return taken


def train_part(rank, world, workers, stop, state):
    """Trains to step `stop`, from `state` if there is one."""
    run, loader, train = join(3 + 4 * rank, dynamix.Stream(range(len(LENGTHS)), read), num_workers=workers)
    if state is not None:
        run.load_state_dict(torch.load(io.BytesIO(state)))
    taken, saved = [], io.BytesIO()
    while run.status.step < stop:
        for batch in loader:
            taken.append(batch[0].tolist()[:run.counted])
            train(batch)
            if run.status.step == stop:
                torch.save(run.state_dict(), saved)
                break
    cursor = run.status.cursor
    run.close()
    return taken, saved.getvalue(), cursor


def resume_elastic(rank, world, workers, steps, state):
    """A part of one epoch in an elastic run of its own. Returns items, state, and how many items this process has read."""
    opened = [0]

    def count(shard):
        for item in range(60):
            opened[0] += 1
            yield 1000 * shard + item, torch.full((3,), 0.01 * item)

    os.environ.update(RANK="0", WORLD_SIZE="1")
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        store = torch.distributed.FileStore(os.path.join(folder, "store"), -1)
        run = dynamix.join(model, optimizer, agent="off", elastic=store)
        loader = run.loader(dynamix.Stream(range(8), count, [60] * 8), batch_size=4, num_workers=workers)
        if state is not None:
            run.load_state_dict(state)
        train, taken = ranks.trainer(run, model, optimizer), []
        for batch in loader:
            taken += batch[0].tolist()[:run.counted]
            train(batch)
            steps -= 1
            if steps == 0:
                break
        state = run.state_dict()
        run.close()
    return taken, state, opened[0]


def train_slowly(rank, world, sockets):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent=sockets)
    loader = run.loader(dynamix.Stream(range(len(LENGTHS)), read, LENGTHS), batch_size=8, num_workers=rank)
    train = ranks.trainer(run, model, optimizer)
    taken, sizes = [], set()
    for _ in range(20):
        for batch in loader:
            taken += batch[0].tolist()[:run.counted]
            time.sleep(0.001 * (1 + 3 * rank) * run.counted)
            train(batch)
            sizes.add(run.status.batch)
    decisions = run.status.decisions
    run.close()
    return taken, sizes, decisions


class Streams(unittest.TestCase):
    def check(self, world, workers, lengths=None, **options):
        results = ranks.run(take_epochs, world, workers, lengths, options)
        for epoch in range(3):
            self.assertEqual(collections.Counter(item for taken in results for item in taken[epoch]), ALL)
        return results

    def test_are_dealt_once_with_and_without_loader_workers(self):
        for world, workers in ((1, [0]), (2, [0]), (3, [0, 1, 3]), (2, [3])):
            with self.subTest(world=world, workers=workers):
                self.check(world, workers)

    def test_are_dealt_once_where_workers_persist_and_lengths_are_given(self):
        self.check(2, [2, 1], LENGTHS, persistent_workers=True)

    def test_shuffle_their_shards_or_keep_their_order(self):
        shuffled = self.check(1, [0])[0]
        self.assertNotEqual(shuffled[0], shuffled[1])
        ordered = self.check(1, [0], shuffle=False)[0]
        self.assertEqual(ordered[0], list(ALL))
        self.assertEqual(ordered[1], ordered[0])

    def test_go_on_behind_a_restore_with_the_same_items_in_the_same_order(self):
        for workers in (0, 2):
            with self.subTest(workers=workers):
                whole = ranks.run(train_part, 2, workers, 30, None)
                first = ranks.run(train_part, 2, workers, 17, None)
                self.assertNotEqual(first[0][2], 0, "the state is not of mid-epoch")
                second = ranks.run(train_part, 2, workers, 30, first[0][1])
                for rank in range(2):
                    self.assertEqual(first[rank][0] + second[rank][0], whole[rank][0])

    def test_of_elastic_runs_go_on_with_other_loader_workers(self):
        first, state, _ = ranks.run(resume_elastic, 1, 4, 30, None)[0]
        rest, _, opened = ranks.run(resume_elastic, 1, 0, 0, state)[0]
        self.assertEqual(collections.Counter(first + rest),
                         collections.Counter(1000 * shard + item for shard in range(8) for item in range(60)))
        self.assertLess(opened, 1.5 * len(rest), "shards are read from their beginning at each batch")

    def test_serve_a_plain_loader_too(self):
        for workers in (0, 2):
            loader = torch.utils.data.DataLoader(dynamix.Stream(range(len(LENGTHS)), read), num_workers=workers)
            self.assertEqual(collections.Counter(int(batch[0]) for batch in loader), ALL)

    @unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
    def test_are_dealt_once_while_an_agent_decides(self):
        with agents.started(2, batch__initial=8, batch__lowest=2, batch__highest=32, arbitrator__window_steps=5) as started:
            results = ranks.run(train_slowly, 2, started.sockets)
        used = collections.Counter(item for taken, _, _ in results for item in taken)
        self.assertEqual(used, collections.Counter({item: 20 for item in ALL}))
        for _, sizes, decisions in results:
            self.assertGreater(decisions, 0)
            self.assertGreater(len(sizes), 1)


def refused(rank, world, shards, read_one, lengths):
    try:
        run, loader, train = join(4, dynamix.Stream(shards[rank], read_one, lengths))
        for batch in loader:
            train(batch)
    except (dynamix.DynamixError, ValueError) as problem:
        return str(problem)


def fails(shard):
    raise OSError(f"no shard {shard}")


class Refusals(unittest.TestCase):
    def check(self, text, shards, read_one=read, lengths=None):
        for message in ranks.run(refused, len(shards), shards, read_one, lengths):
            self.assertIn(text, message or "nothing was refused")

    def test_of_members_with_other_shards(self):
        self.check("number of shards on member 1", ([2, 3], [2, 3, 4]))
        self.check("sort what a directory or glob gives", ([2, 3], [3, 2]))

    def test_of_shards_that_cannot_be_read(self):
        self.check("member 0 could not read its shards to count their items: OSError: no shard 2", ([2, 3], [2, 3]), fails)

    def test_of_shards_of_another_length(self):
        self.check("shard 0 (3) ended behind 40 items, not 41 as lengths says", ([3],), lengths=[41])
        self.check("shard 0 (3) has more items, not 39 as lengths says", ([3],), lengths=[39])
        self.check("an epoch of 0 samples", ([1], [1]))

    def test_of_lengths_and_readers_that_make_no_sense(self):
        with self.assertRaisesRegex(ValueError, "2 lengths for 1 shards"):
            dynamix.Stream([1], read, [1, 2])
        with self.assertRaisesRegex(TypeError, "takes a shard"):
            dynamix.Stream([1], [2])

    def test_of_states_of_other_shards(self):
        run, _, _ = join(4, dynamix.Stream([2, 3], read))
        state = run.state_dict()
        run.close()
        run, _, _ = join(4, dynamix.Stream([3, 2], read))
        self.assertRaisesRegex(ValueError, "other shards", run.load_state_dict, state)
        run.close()

    def test_of_reading_back(self):
        """A reader gives any place, however it has to get there."""
        reader = Reader(dynamix.Stream(range(len(LENGTHS)), read), LENGTHS)
        for place in ((0, 3, 5), (0, 3, 6), (0, 3, 2), (0, 5, 22), (1, 5, 22), (1, 3, 39)):
            self.assertEqual(reader[place][0], 1000 * place[1] + place[2])


if __name__ == "__main__":
    unittest.main()
