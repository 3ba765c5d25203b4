"""Every item of a stream is dealt exactly once an epoch, whoever leases which shard, and read in its shard's order."""
import collections
import ctypes
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
from dynamix.stream import Reader

LENGTHS = [17, 0, 5, 40, 1, 23, 30]
ITEMS = sum(LENGTHS)


def read(shard):
    """Items that name their shard and their place in it."""
    for item in range(LENGTHS[shard]):
        yield 1000 * shard + item, torch.full((3,), 0.01 * item + 0.001 * shard)


ALL = collections.Counter(1000 * shard + item for shard, length in enumerate(LENGTHS) for item in range(length))


class Members:
    """The members of a run in one process: each with a client, and a loader that fetches ahead of what is dealt, or deals
    ahead. Of those that go on from a state some may be absent."""

    def __init__(self, source, lengths, words=None, lanes=None, fetches=None):
        self.random = source
        self.lanes = lanes or [source.randint(1, 4) for _ in range(source.randint(1, 4))]
        self.size = len(self.lanes)
        self.ahead = [source.randint(0, 5) for _ in range(self.size)]
        self.fetches = fetches or [source.random() < 0.5 for _ in range(self.size)]
        self.clients = [Client(position, self.size) for position in range(self.size)]
        rows = torch.zeros((self.size, raw.INTRODUCTION_COLUMNS), dtype=torch.int64)
        for position, client in enumerate(self.clients):
            client.introduce(raw.Workload(batch=source.randint(1, 12), samples=sum(lengths), seed=3, shuffle=True, window_steps=4,
                                          ahead=max(1, self.ahead[position]) * self.fetches[position], shards=len(lengths),
                                          lengths=(ctypes.c_uint64 * len(lengths))(*lengths), lanes=self.lanes[position]),
                             rows[position].data_ptr())
        for client in self.clients:
            client.begin(rows.data_ptr())
            if words is not None:
                client.restore(bytearray(words))
        self.here = list(range(self.size))
        if words is not None:
            self.here = sorted(source.sample(self.here, source.randint(1, self.size)))
            for position in self.here:
                self.clients[position].regroup([each in self.here for each in range(self.size)])

    def start_epoch(self):
        self.waiting = [collections.deque() for _ in self.clients]  # batches that were dealt, or places that were fetched
        for position in self.here:
            self.clients[position].start_epoch()

    def places(self, client):
        return [(client.dealt.epoch, shard, item) for shard, first, last in client.ranges() for item in range(first, last)]

    def batch(self, position):
        """This member's next batch; None behind the epoch's last."""
        client, waiting = self.clients[position], self.waiting[position]
        if not self.fetches[position]:
            while len(waiting) <= self.random.randint(0, self.ahead[position]) and client.deal() == raw.OK:
                places = self.places(client)
                assert client.dealt.padded or len(places) == client.dealt.own
                waiting.append([] if client.dealt.padded else places)
            return waiting.popleft() if waiting else None
        if client.deal() != raw.OK:
            return None
        own = client.dealt.own
        while (len(waiting) < own or self.random.random() < 0.5) and client.fetch() == raw.OK:
            waiting.extend(self.places(client))
        return [waiting.popleft() for _ in range(own)]

    def step(self):
        """The items of each member's next step; None behind the epoch's last."""
        taken = [self.batch(position) for position in self.here]
        if None in taken:
            assert taken == [None] * len(taken)
            return None
        self.complete()
        return taken

    def complete(self):
        clients = [self.clients[position] for position in self.here]
        rows = torch.zeros((self.size, raw.ROW_COLUMNS), dtype=torch.int64)
        for client, position in zip(clients, self.here):
            client.deliver()
            if self.random.random() < 0.05:
                client.limit_batch(self.random.randint(1, 12))
            if client.due() & raw.GATHER:
                client.write_row(0.0, rows[position].data_ptr())
        for client in clients:
            if client.due() & raw.GATHER:
                client.read_rows(rows.data_ptr())
            client.rate(0.0)
            client.complete(raw.StepTimes())

    def save(self):
        saved = {bytes(self.clients[position].save()) for position in self.here}
        assert len(saved) == 1, "the members' states differ"
        return saved.pop()

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
                    words = members.save()
                    members.close()  # the next may be more or fewer, with other loaders
                    members = Members(source, lengths, words, members.lanes if source.random() < 0.5 else None)
                    members.start_epoch()
            self.assertEqual(used, collections.Counter((epoch, shard, item) for shard, length in enumerate(lengths)
                                                       for item in range(length)))
        members.close()

    def test_are_read_with_little_that_is_read_in_vain(self):
        """Two members with two loader workers each: what their readers read against what they give."""
        lengths = [200] * 40
        members, position, opened = Members(random.Random(1), lengths, lanes=[2, 2], fetches=[True, True]), {}, 0
        members.start_epoch()
        while True:
            for member, client in enumerate(members.clients):
                while client.fetch() == raw.OK:
                    for shard, first, last in client.ranges():
                        at_shard, at = position.get((member, client.dealt.lane), (None, 0))
                        opened += last - (at if at_shard == shard and at <= first else 0)
                        position[member, client.dealt.lane] = (shard, last)
            if [client.deal() for client in members.clients] != [raw.OK] * 2:
                break
            members.complete()
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
                cursor = run.status.cursor
                break
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
                state = run.state_dict()
                break
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
        self.check("shard 0 (3) ended after 40 items, not 41 as lengths says", ([3],), lengths=[41])
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
        self.assertRaisesRegex(dynamix.DynamixError, "other shards", run.load_state_dict, state)
        run.close()

    def test_of_reading_back(self):
        """A reader gives any place, however it has to get there."""
        reader = Reader(dynamix.Stream(range(len(LENGTHS)), read), LENGTHS)
        for place in ((0, 3, 5), (0, 3, 6), (0, 3, 2), (0, 5, 22), (1, 5, 22), (1, 3, 39)):
            self.assertEqual(reader[place][0], 1000 * place[1] + place[2])


if __name__ == "__main__":
    unittest.main()
