"""Members of an elastic run may be killed at any moment: the others go on at once, and no sample is lost or used twice."""
import ctypes
import io
import json
import logging
import mmap
import multiprocessing
import os
import pathlib
import tempfile
import threading
import time
import unittest

import agents
import elastic
import ranks
import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix
import dynamix.elastic
from dynamix import structures as raw
from dynamix.client import Client
from dynamix.elastic import Members
from dynamix.peers import Broken


class Elastic(unittest.TestCase):
    def check(self, kills, seed, with_agents, streams, passes=1, **options):
        trial = elastic.Trial(kills, seed, with_agents, streams, passes, **options).run()
        print(trial.report())
        self.assertEqual(trial.problems, [])
        self.assertEqual(trial.killed, kills)
        # A death drops a step, and so does a member's coming; one that dies while it comes does it once more.
        self.assertLessEqual(trial.redone, 4 * kills * passes)

    def test_runs_outlive_their_members(self):
        self.check(int(os.environ.get("DYNAMIX_TEST_KILLS", 6)), 3, False, False)

    def test_runs_whose_steps_have_several_synchronised_passes_outlive_their_members(self):
        self.check(4, 7, False, None, 3)

    def test_members_that_meet_by_tcp_do_not_wait_for_one_that_dies_while_a_group_forms(self):
        for prefix in ("", "run"):
            trial = elastic.Trial(6, 3, by_tcp=True, prefix=prefix).run()
            print(trial.report())
            self.assertEqual(trial.problems, [])

    def test_models_with_branches_that_not_all_members_use_in_a_step(self):
        self.check(4, 11, False, False, branches=True)

    def test_members_may_come_for_the_first_time_while_others_train(self):
        for least, seed in ((2, 13), (1, 17)):
            self.check(2, seed, False, None, least=least)

    def test_streams_outlive_the_members_that_lease_them(self):
        self.check(4, 5, False, True)

    def test_training_begins_with_no_more_members_than_there_are(self):
        with self.assertRaisesRegex(ValueError, r"elastic_least=3: training begins with 1 to \$WORLD_SIZE \(2\) members"):
            alone(lambda _: make(torch.distributed.HashStore(), elastic_least=3), 2)
        with self.assertRaisesRegex(ValueError, "elastic_least=... is of an elastic run"):
            dynamix.join(nn.Linear(2, 1), torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1), agent="off", elastic_least=1)

    @unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
    def test_runs_outlive_their_members_while_agents_decide(self):
        self.check(4, 4, True, None)


def done(folder, rank, life, since=0.0):
    """When a member completed its first step behind `since`; None where it has not."""
    path = pathlib.Path(folder, f"journal-{rank}-{life}")
    lines = path.read_text(encoding="ascii").splitlines()[:-1] if path.exists() else []
    times = [line["time"] for line in map(json.loads, lines) if "done" in line and line["time"] > since]
    return times[0] if times else None


def wait_until(true):
    limit = time.monotonic() + ranks.SECONDS
    while not true() and time.monotonic() < limit:
        time.sleep(0.02)
    return true()


@unittest.skipUnless(os.geteuid() == 0, "needs root, for namespaces of processes")
class Hosts(unittest.TestCase):
    """Two hosts of two members: those of one see nothing of the other's processes."""

    def start(self, first, folder, life):
        process = multiprocessing.get_context("fork").Process(target=elastic.apart, args=(elastic.host, first, folder, life))
        process.start()
        return process

    def test_may_be_lost_with_all_their_members_and_come_back(self):
        with tempfile.TemporaryDirectory() as folder:
            left, lost = self.start(0, folder, 0), self.start(2, folder, 0)
            try:
                self.assertTrue(wait_until(lambda: all(done(folder, rank, 0) for rank in range(4))))
                lost.kill()
                lost.join()
                died = time.monotonic()
                self.assertTrue(wait_until(lambda: all(done(folder, rank, 0, died + 0.2) for rank in range(2))))
                print(f"two members of a host go on {done(folder, 0, 0, died + 0.2) - died:.2f} s behind the loss of the other "
                      f"host, of which they wait {elastic.HOST_SECONDS}")
                lost = self.start(2, folder, 1)
                for each in (left, lost):
                    each.join(ranks.SECONDS)
                self.assertEqual((left.exitcode, lost.exitcode), (0, 0))
                self.assertTrue(done(folder, 2, 1), "the host did not come back before the end")
                trial = elastic.Trial(streams=True, world=4)
                trial.check(folder)
                self.assertEqual(trial.problems, [])
            finally:
                for each in (left, lost):
                    each.kill()
                    each.join()


def alone(function, world, rank=0):
    """Calls `function(rank)` as a member of an elastic run."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    try:
        return function(rank)
    finally:
        del os.environ["RANK"], os.environ["WORLD_SIZE"]


def data(count=60):
    return torch.utils.data.TensorDataset(torch.arange(count), torch.randn(count, 3))


def make(store, **options):
    model = nn.Linear(3, 1)
    return dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off", elastic=store, **options)


def other_layout(_, __, path, rank):
    """Why one of two members whose models have other buckets is refused."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

    def join(_):
        layers = nn.Sequential(nn.Linear(8, 64), nn.Linear(64, 4096), nn.Linear(4096, 1))
        model = DistributedDataParallel(layers, bucket_cap_mb=1e-4 if rank else 25)
        run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off",
                           elastic=torch.distributed.FileStore(path, -1))
        try:
            run.loader(data(), batch_size=4)
        except dynamix.DynamixError as problem:
            return str(problem)

    return alone(join, 2, rank)


def other_wrapping(rank, world, options):
    """Why models with these options of DistributedDataParallel are refused."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=rank, world_size=world)

    def join(option):
        model = DistributedDataParallel(nn.Linear(3, 1), **{option: True})
        try:
            alone(lambda _: dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off",
                                         elastic=torch.distributed.HashStore()), world)
        except NotImplementedError as problem:
            return str(problem)
        return "nothing was refused"

    return [(option, join(option)) for option in options]


def train_a_stream(_, __, folder, rank, size, steps):
    """A member that dies behind so many steps, or where there are none trains whole epochs until `refused` is there.
    Returns the epochs' items, or why it was refused."""
    def train(_):
        stream = dynamix.Stream(range(4), lambda shard: ((15 * shard + item, torch.ones(3)) for item in range(15)),
                                [15] * 4)
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        store = torch.distributed.FileStore(os.path.join(folder, "store"), -1)
        run = dynamix.join(model, optimizer, agent="off", elastic=store)
        try:
            loader = run.loader(stream, batch_size=4)
        except dynamix.DynamixError as problem:
            return str(problem)
        train_batch, left, epochs = ranks.trainer(run, model, optimizer), steps, []
        while not os.path.exists(os.path.join(folder, "refused")):
            taken = {}  # of a step that is done again the last counts
            for batch in loader:
                taken[run.status.step] = batch[0].tolist()[:run.counted]
                train_batch(batch)
                left -= 1
                if left == 0:
                    os._exit(1)
            epochs.append(taken)
        run.close()
        return epochs
    return alone(train, size, rank)


def read_while_a_group_forms(rank, world, port, prefixes):
    """Whether the store can be read behind an attempt at a group with a member that does not come, for which Torch
    waits."""
    store = ranks.store(port)
    for prefix in prefixes:
        store = torch.distributed.PrefixStore(prefix, store)
    members = Members(store, 0, 2, 10 * ranks.SECONDS)
    members._roster = {0: members._identity, 1: members._identity}
    formed = members._form_generation(1)
    reading = threading.Thread(target=members._read, args=("anything",), daemon=True)
    reading.start()
    reading.join(ranks.SECONDS / 3)
    return formed, reading.is_alive()


class Stores(unittest.TestCase):
    def test_are_read_while_a_group_forms_without_end(self):
        served = ranks.store()
        for prefixes in ((), ("run",), ("runs", "7")):  # one behind the other: a fork while the store's thread serves another may hang
            self.assertEqual(ranks.run(read_while_a_group_forms, 1, served.port, prefixes), [(False, False)])


def member_of_all(path, rank, world):
    """A member whose next generation is of all that come to this store."""
    members = Members(torch.distributed.FileStore(path, -1), rank, world, 10 * ranks.SECONDS)
    members._store.set(f"identity/{rank}", json.dumps(members._identity))
    members._roster = {member: json.loads(members._store.get(f"identity/{member}")) for member in range(world)}
    members.present = [True] * world
    return members


def form_what_the_second_gives_up(_, __, path, rank):
    """It does so at once, and its thread forms the groups all the same, as one does that was only slow."""
    if rank == 1:
        dynamix.elastic._FORM_SECONDS, have_all_formed = -2, Members._have_all_formed
        Members._have_all_formed = lambda self, number, _, limit: have_all_formed(self, number, False, limit)
    formed = member_of_all(path, rank, 2)._form_generation(1)
    pathlib.Path(f"{path}-{rank}").touch()
    wait_until(lambda: os.path.exists(f"{path}-{1 - rank}"))  # whoever ends early is lost to the other
    return formed


def kill_the_second_amid_an_exchange(_, __, path, rank, source, received):
    """What ended the first one's exchange. `received`: memory of both, where the other side of `source` has its tensor."""
    members = member_of_all(path, rank, 2)
    assert members._form_generation(1)
    values = torch.frombuffer(received, dtype=torch.float32) if rank != source else torch.ones(len(received) // 4)
    members.buffers = [values]
    if rank == 0:
        ranks.kill_amid(members._roster[1][2], received)
    try:
        members.broadcast(values, source)
    except Broken as problem:
        members.leave()
        return str(problem), members.buffers


def train_beside_a_newcomer(_, __, folder, rank, way):
    """The first one's longest step in seconds, or why the second did not come in, whose groups fail or hang, or whose options differ.
    Where they hang, the first waits for others for less time than an attempt takes."""
    def form(*_):
        if way == "hangs":
            time.sleep(10 * ranks.SECONDS)
        raise RuntimeError("no such interface")

    seconds = ranks.SECONDS if way == "differs" else 2 if way == "hangs" and not rank else 10

    def train(_):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = dynamix.join(model, optimizer, agent="off", elastic=torch.distributed.FileStore(os.path.join(folder, "store"), -1),
                           elastic_least=1, elastic_seconds=seconds,
                           nan="drop" if rank and way == "differs" else None)
        try:
            loader = run.loader(data(), batch_size=4)
        except dynamix.DynamixError as problem:
            return str(problem)
        train_batch, ends = ranks.trainer(run, model, optimizer), []
        while not os.path.exists(os.path.join(folder, "over")):
            for batch in loader:
                train_batch(batch)
                time.sleep(0.005)  # it trains beside the other for many seconds
                ends.append(time.monotonic())
            pathlib.Path(folder, "trains").touch()
        return max(end - before for before, end in zip(ends, ends[1:]))

    if rank and way != "differs":
        torch.distributed.ProcessGroupGloo = form
    return alone(train, 2, rank)


class Generations(unittest.TestCase):
    def test_are_not_begun_by_some_of_their_members_where_another_has_given_up(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "store")
            with ranks.Group(form_what_the_second_gives_up, 1, path, 0) as one, \
                    ranks.Group(form_what_the_second_gives_up, 1, path, 1) as other:
                self.assertEqual([one.result(0), other.result(0)], [(True, False)] * 2)

    def test_end_where_a_member_dies_that_has_sent_or_received_a_part_of_a_tensor(self):
        """Of such an operation Gloo does not tell that its connection has ended."""
        for source in (0, 1):
            received = mmap.mmap(-1, 2**27)
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "store")
                with ranks.Group(kill_the_second_amid_an_exchange, 1, path, 1, source, received), \
                        ranks.Group(kill_the_second_amid_an_exchange, 1, path, 0, source, received) as survives:
                    survives.limit = time.monotonic() + ranks.SECONDS / 3
                    self.assertEqual(survives.result(0), (True, ("a connection to another member has ended", None)), f"member {source} sends")

    def test_await_a_member_that_lives_though_another_process_has_its_number(self):
        store = torch.distributed.HashStore()
        members = [Members(store, rank, 2, 1) for rank in (0, 1, 1)]
        last = {member: members[member]._identity for member in (0, 1)}
        self.assertEqual(members[0]._awaited(last, {0, 1}, {0: last[0], 1: members[2]._identity}), {1})
        self.assertEqual(members[0]._awaited(last, {0, 1}, last), set())
        for key, value in (("1/closed", json.dumps(last)), ("1/outcome", "formed"), ("2/0", json.dumps(last[0])),
                           ("2/1", json.dumps(members[2]._identity))):
            members[0]._store.set(key, value)
        members[1]._roster = last
        self.assertEqual(members[1]._agree(2, time.monotonic() + ranks.SECONDS / 3, False), last)

    def test_are_left_to_those_that_have_the_state(self):
        """Who was left behind would else begin one alone, and its state would be the newest."""
        store = torch.distributed.HashStore()
        members = [Members(store, rank, 2, 1) for rank in (0, 1)]
        first = {member: members[member]._identity for member in (0, 1)}
        for key, value in (("1/closed", json.dumps(first)), ("1/outcome", "formed"), ("2/closed", json.dumps({0: first[0]})),
                           ("2/outcome", "formed"), ("3/1", json.dumps(first[1]))):
            members[1]._store.set(key, value)
        members[1]._roster = first
        with self.assertRaisesRegex(dynamix.DynamixError, r"members \[0\] have not taken this one in within 1 s"):
            members[1]._agree(3, time.monotonic(), False)

    def test_are_left_to_those_that_are_about_to_form_the_first(self):
        """Of an elastic run that fewer begin than may come: who came meanwhile would else begin another training."""
        store = torch.distributed.HashStore()
        one, other = (Members(store, rank, 2, 1, 1) for rank in (0, 1))
        for key, value in (("1/closed", json.dumps({0: one._identity})), ("2/1", json.dumps(other._identity))):
            other._store.set(key, value)
        with self.assertRaisesRegex(dynamix.DynamixError, r"members \[0\] have not taken this one in within 1 s"):
            other._agree(2, time.monotonic(), False)
        one._store.set("1/outcome", "given up")
        self.assertEqual(other._agree(2, time.monotonic() + ranks.SECONDS / 3, False), {1: other._identity})

    def test_await_no_member_of_another_machine_that_has_come_anew(self):
        """Whose death nobody else can see; where all have, nobody has the state, and training begins again."""
        store = torch.distributed.HashStore()
        here, lost = (Members(store, rank, 2, 1) for rank in (0, 1))
        lost._identity[1] = "another machine's"
        for key, value in (("1/closed", json.dumps({0: here._identity, 1: lost._identity})), ("1/outcome", "formed")):
            here._store.set(key, value)
        here._roster, limit = {0: here._identity, 1: lost._identity}, time.monotonic() + ranks.SECONDS / 3
        anew = {member: [lost._identity[0], "a third machine's", *lost._identity[2:4], member] for member in (0, 1)}
        for number, own in ((2, here._identity), (3, anew[0])):
            here._identity = own
            for member, identity in ((0, own), (1, anew[1])):
                here._store.set(f"{number}/{member}", json.dumps(identity))
            self.assertEqual(here._agree(number, limit, False), {0: own, 1: anew[1]})
            here._store.set(f"{number}/outcome", "given up")

    def test_go_on_without_a_newcomer_that_cannot_come_in(self):
        absent = "members [0] have not taken this one in within 10 s"
        for way, reason in (("fails", absent), ("hangs", absent), ("differs", "nan=... differs")):
            with tempfile.TemporaryDirectory() as folder, ranks.Group(train_beside_a_newcomer, 1, folder, 0, way) as trains:
                self.assertTrue(wait_until(lambda: os.path.exists(os.path.join(folder, "trains"))))
                with ranks.Group(train_beside_a_newcomer, 1, folder, 1, way) as comes:
                    good, said = comes.result(0)
                    self.assertTrue(good and reason in said, said)
                    pathlib.Path(folder, "over").touch()
                    good, longest = trains.result(0)
                    self.assertTrue(good, longest)
                    print(f"a newcomer that {way} held the other up for {longest:.2f} s")


class Introductions(unittest.TestCase):
    def columns(self, **given):
        """Of a member's introduction, as the library writes it."""
        row, lengths = torch.zeros(raw.INTRODUCTION_COLUMNS, dtype=torch.int64), (ctypes.c_uint64 * 2)(40, given.pop("second", 60))
        workload = {"batch": 4, "samples": sum(lengths), "seed": 1, "shards": 2, "lengths": lengths, "lanes": 1, "ahead": 2, **given}
        Client(0, 1).introduce(raw.Workload(**workload), row.data_ptr())
        return row.tolist()

    def test_tell_the_data_loader_behind_everything_else(self):
        """So that a member may come back with another one (LOADER_COLUMNS)."""
        plain = self.columns()
        for given, is_of_loader in (({"lanes": 3}, True), ({"ahead": 5}, True), ({"batch": 5}, False), ({"seed": 2}, False),
                                    ({"second": 61}, False), ({"shuffle": 1}, False), ({"drop_last": 1}, False), ({"rule": 2}, False),
                                    ({"lowest_batch": 2}, False), ({"highest_batch": 9}, False), ({"window_steps": 7}, False),
                                    ({"noise_interval": 3}, False), ({"adaptive": 1}, False), ({"balance": 1}, False),
                                    ({"identity": 9}, False)):
            changed = [column for column, (one, other) in enumerate(zip(plain, self.columns(**given))) if one != other]
            self.assertTrue(changed, given)
            self.assertEqual({column >= raw.LOADER_COLUMNS for column in changed}, {is_of_loader}, given)


def train_beside_one_that_is_refused(_, __, folder, rank):
    """The first member's steps, or why the second was refused, whose process lives on, and whether it came in when it tried again."""
    refused, goes_on, came = (os.path.join(folder, name) for name in ("refused", "goes on", "came"))

    def train(_):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = dynamix.join(model, optimizer, agent="off", elastic=torch.distributed.FileStore(os.path.join(folder, "store"), -1),
                           elastic_least=1, elastic_seconds=10 * ranks.SECONDS)
        try:
            loader = run.loader(data(), batch_size=4 + rank)
        except dynamix.DynamixError as problem:
            pathlib.Path(refused).touch()
            wait_until(lambda: os.path.exists(goes_on))
            run.loader(data(), batch_size=4)
            pathlib.Path(came).touch()
            run.close(succeeded=False)
            return str(problem), run.came_in
        train_batch, left = ranks.trainer(run, model, optimizer), 3
        while left > 0 or not os.path.exists(came):
            left -= os.path.exists(refused)
            for batch in loader:
                train_batch(batch)
            pathlib.Path(goes_on if left <= 0 else os.path.join(folder, "trains")).touch()
        return run.status.step
    return alone(train, 2, rank)


def follow_a_schedule(_, __, folder, rank, named):
    """The rates by epoch of a member that trains, or comes in later and says when both end; and what it logs. `named`: the schedule
    is stepped by the epoch's number."""
    end, told = pathlib.Path(folder, "end"), io.StringIO()
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))

    def train(_):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1], 0.1)
        run = dynamix.join(model, optimizer, agent="off", elastic=torch.distributed.FileStore(os.path.join(folder, "store"), -1),
                           elastic_least=1)
        loader = run.loader(data(), batch_size=4)
        if rank == 1:
            end.write_text(str(run.epoch + 3))
        train_batch, rates, epoch = ranks.trainer(run, model, optimizer), {}, run.epoch
        while not end.exists() or epoch < int(end.read_text() or epoch + 1):
            if named:
                schedule.step(epoch)
            for batch in loader:
                train_batch(batch)
            rates[epoch] = optimizer.param_groups[0]["lr"]
            if not named:
                schedule.step()
            epoch += 1
            if epoch == 2:
                pathlib.Path(folder, "trains").touch()
        run.close()
        return rates
    return alone(train, 2, rank), told.getvalue()


class Schedules(unittest.TestCase):
    def check(self, named):
        with tempfile.TemporaryDirectory() as folder, ranks.Group(follow_a_schedule, 1, folder, 0, named) as stays:
            self.assertTrue(wait_until(lambda: os.path.exists(os.path.join(folder, "trains"))))
            with ranks.Group(follow_a_schedule, 1, folder, 1, named) as comes:
                (good, (own, told)), (_, (other, _)) = stays.result(0), comes.result(0)
        self.assertTrue(good)
        return [(own[epoch], rate) for epoch, rate in other.items()], told

    def test_that_begin_anew_where_a_member_comes_are_told_of(self):
        rates, told = self.check(False)
        self.assertTrue(any(one != other for one, other in rates))
        self.assertRegex(told, r"member 1 steps by another learning rate than member 0, .*scheduler.step\(epoch\)")

    def test_that_are_stepped_by_the_number_of_the_epoch_are_the_same(self):
        rates, told = self.check(True)
        self.assertEqual(rates, [(0.1 * 0.1,) * 2] * 3)
        self.assertNotIn("another learning rate", told)


class Refusals(unittest.TestCase):
    def test_of_a_member_whose_process_lives_on_hold_nobody_up(self):
        """And it may come again, as the others need it."""
        with tempfile.TemporaryDirectory() as folder, ranks.Group(train_beside_one_that_is_refused, 1, folder, 0) as trains:
            self.assertTrue(wait_until(lambda: os.path.exists(os.path.join(folder, "trains"))))
            with ranks.Group(train_beside_one_that_is_refused, 1, folder, 1) as refused:
                trains.limit = time.monotonic() + ranks.SECONDS / 3
                good, steps = trains.result(0)
                self.assertTrue(good, steps)
                self.assertGreater(steps, 45)
                text, came_in = refused.result(0)[1]
                self.assertIn("with another batch size", text)
                self.assertTrue(came_in)

    def test_of_a_member_that_comes_into_a_stream_with_another_world_size(self):
        with tempfile.TemporaryDirectory() as folder, ranks.Group(train_a_stream, 1, folder, 0, 2, 0) as others:
            with ranks.Group(train_a_stream, 1, folder, 1, 2, 3) as dies:
                self.assertFalse(dies.result(0)[0])
            with ranks.Group(train_a_stream, 1, folder, 1, 3, 0) as comes:
                self.assertEqual(comes.result(0), (True, "this training has 2 members, and this one was started with a "
                                                         "$WORLD_SIZE of 3"))
            pathlib.Path(folder, "refused").touch()
            good, epochs = others.result(0)
            self.assertTrue(good, epochs)
            for taken in epochs[1:]:  # of the first the other member has trained some
                self.assertEqual(sorted(item for items in taken.values() for item in items), list(range(60)))

    def test_of_members_that_do_not_come_and_of_runs_that_have_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            store = torch.distributed.FileStore(os.path.join(folder, "store"), -1)
            began = time.monotonic()
            run = alone(lambda rank: make(store, elastic_seconds=1), 2)
            with self.assertRaisesRegex(dynamix.DynamixError, r"members \[1\] have not come within 1 s"):
                run.loader(data(), batch_size=4)
            self.assertLess(time.monotonic() - began, 10)
            store = torch.distributed.FileStore(os.path.join(folder, "other"), -1)
            run = alone(lambda rank: make(store), 1)
            run.loader(data(), batch_size=4)
            run.close()
            run = alone(lambda rank: make(store), 1)
            with self.assertRaisesRegex(dynamix.DynamixError, "has come to its end"):
                run.loader(data(), batch_size=4)

    def test_of_what_an_elastic_run_cannot_do(self):
        store = torch.distributed.HashStore()
        with self.assertRaisesRegex(ValueError, "RANK"):
            make(store)
        with self.assertRaisesRegex(NotImplementedError, "agent=None"):
            model = nn.Linear(3, 1)
            dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent=None, elastic=store)
        with self.assertRaisesRegex(NotImplementedError, "GradScaler"):
            dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), elastic=store, scaler=torch.amp.GradScaler("cpu"))
        run = alone(lambda rank: make(store), 1)
        with self.assertRaisesRegex(NotImplementedError, "no batch ahead"):
            run.loader(data(), batch_size=4, fetch_ahead=1)

    def test_of_models_that_are_wrapped_in_another_way(self):
        expected = {"find_unused_parameters": "run.average_gradients()", "static_graph": "without static_graph"}
        for option, text in ranks.run(other_wrapping, 1, list(expected))[0]:
            self.assertIn(expected[option], text)

    def test_of_members_with_other_buckets(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "store")
            with ranks.Group(other_layout, 1, path, 0) as one, ranks.Group(other_layout, 1, path, 1) as other:
                for each in (one, other):
                    good, text = each.result(0)
                    self.assertTrue(good and "lie in other buckets" in text, text)


if __name__ == "__main__":
    unittest.main()
