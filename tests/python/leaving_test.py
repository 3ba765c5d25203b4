"""A member that leaves while the others train on: they stop with a sentence, and at once."""
import datetime
import fcntl
import json
import mmap
import os
import pathlib
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import agents
import ranks
import scripts
import torch
from torch.nn.parallel import DistributedDataParallel

import dynamix
from dynamix import elastic, leaving, sockets
from dynamix.peers import Peers

SCRIPT = """
import atexit, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import torch
from torch.nn.parallel import DistributedDataParallel
import dynamix
torch.set_num_threads(1)
way, who = sys.argv[2].split(), int(sys.argv[3])
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.Linear(8, 1)
if "plain" not in way:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = dynamix.join(model, optimizer, agent="auto" if os.environ["DYNAMIX_AGENT"] else "off")
loader = run.loader(torch.utils.data.TensorDataset(torch.randn(64, 8)), batch_size=8,
                    highest_batch=4 if "is refused" in sys.argv[2] and rank == who else None)

def train():
    for epoch in range(4):
        if "between" in way and (rank, epoch) == (who, 1):
            return
        for number, (values,) in enumerate(loader):
            if "forks" in way and (rank, epoch, number) == (who, 1, 2):
                child = os.fork()
                if child == 0:
                    atexit._run_exitfuncs()  # as an interpreter ends; behind that torch's own group may hang in a forked child
                    os._exit(0)
                os.waitpid(child, 0)
            elif "together" in way and (epoch, number) == (1, 2):
                break
            elif "evaluates" not in way and (rank, epoch, number) == (who, 1, 2):
                if "thread" in way:  # that the interpreter waits for
                    threading.Thread(target=time.sleep, args=(1000,)).start()
                if "breaks" in way:
                    break
                if "raises" in way:
                    raise ValueError("a bad file")
                if "exits" in way:
                    sys.exit(3)
                if "closes" in way:
                    run.close()
                if "fails" in way:
                    run.close("a bad file", succeeded=False)
                return
            if "measures" in way:  # a collective of the script's own
                torch.distributed.all_reduce(torch.ones(1))
            optimizer.zero_grad()
            model(values).square().mean().backward()
            if "plain" in way:
                run.average_gradients()
            optimizer.step()
        if "breaks" in way and (rank, epoch) == (who, 1):
            torch.distributed.barrier()
        if "together" in way and (rank, epoch) == (who, 1):  # the other waits in the next epoch's first step, for several looks
            time.sleep(2)
    if "evaluates" in way:
        run._meeting_seconds = 1
        while rank == who and not os.path.exists(sys.argv[4]):
            time.sleep(0.05)
    run.close()

def write_time():
    with open(sys.argv[4] + f"-{rank}", "w") as file:
        file.write(str(time.monotonic()))

train()
if "evaluates" not in way and "forks" not in way and rank == who:
    write_time()
    if "lingers" in way:
        time.sleep(1000)
"""


ELASTIC = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import torch
import dynamix
torch.set_num_threads(1)
way, who, folder, rank = sys.argv[2], int(sys.argv[3]), sys.argv[4], int(os.environ["RANK"])
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
store = torch.distributed.FileStore(os.path.join(folder, "store"), -1)
store.set(f"here {rank}", "")  # on a busy machine their beginnings lie further apart than a group waits
store.wait([f"here {each}" for each in range(3)])
seconds = {"stays away": 8, "exits between": 1000}.get(way, 60)
run = dynamix.join(model, optimizer, agent="off", elastic=store, elastic_seconds=seconds)
loader = run.loader(torch.utils.data.TensorDataset(torch.randn(96, 8)), batch_size=4)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
for epoch in range(run.epoch, 4):
    if way == "exits between" and (rank, epoch) == (who, 1):
        dynamix.elastic.Members.end.__defaults__ = (1000,)
        sys.exit(4)
    for number, (values,) in enumerate(loader):
        if (rank, epoch, number) == (who, 1, 3):
            if way == "exits":
                sys.exit(4)
            if way == "is asked to end":
                os.kill(os.getpid(), signal.SIGTERM)
            if way == "raises":
                raise ValueError("a bad file")
            if way == "closes":
                run.close()
                time.sleep(1000)
            if way == "catches":
                run.close("a bad file", succeeded=False)
                time.sleep(1000)
            if way == "stays away":
                while not os.path.exists(os.path.join(folder, "2")):
                    time.sleep(0.05)
        optimizer.zero_grad()
        model(values).square().mean().backward()
        run.average_gradients()
        optimizer.step()
    if way == "evaluates" and rank == who and epoch == 3:
        while not os.path.exists(os.path.join(folder, "1")) or not os.path.exists(os.path.join(folder, "2")):
            time.sleep(0.05)
run.close()
with open(os.path.join(folder, str(rank)), "w") as file:
    print(model.weight.tolist(), file=file)
"""


THREAD = """
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import torch
import dynamix
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
begun, raised = threading.Event(), threading.Event()
run = dynamix.join(model, optimizer, agent="off") if sys.argv[2] != "train" else None

def train():
    own = run or dynamix.join(model, optimizer, agent="off")
    loader = own.loader(torch.utils.data.TensorDataset(torch.randn(64, 8)), batch_size=8)
    for epoch in range(2):
        for values, in loader:
            optimizer.zero_grad()
            model(values).mean().backward()
            optimizer.step()
            if not begun.is_set():
                begun.set()
                raised.wait(100)
                time.sleep(0.3)  # by then the main thread ends
    print("trained", own.status.step, "steps")
    own.close()

threading.Thread(target=train).start()
begun.wait(100)
hook = sys.excepthook
sys.excepthook = lambda *told: (hook(*told), raised.set())
raise ValueError("no window")
"""


def start(way, who, folder, world=2, sockets=""):
    """The processes of a fixed group, of which `who` leaves in some way in its second epoch."""
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agents.take_free_ports(1)[0]), "WORLD_SIZE": str(world), "DYNAMIX_AGENT": sockets}
    return [scripts.Script(SCRIPT, ranks.PACKAGE, way, str(who), os.path.join(folder, "file"), RANK=str(rank), LOCAL_RANK=str(rank), **group)
            for rank in range(world)]


class Leaving(unittest.TestCase):
    def check(self, way, who, status, said, world=2, sockets=""):
        """The others end, one of them at least with a sentence, since the store of the notes ends with member 0; and the leaver
        ends with its own status."""
        with tempfile.TemporaryDirectory() as folder:
            members = start(way, who, folder, world, sockets)
            try:
                texts = []
                for rank, member in enumerate(members):
                    if rank == who:
                        continue
                    ended = member.end()
                    texts.append(ended.said)
                    self.assertNotEqual(ended.status, 0, ended.said)
                self.assertRegex("\n".join(texts), said, f"{way}, {who}")
                left = pathlib.Path(folder, f"file-{who}")
                if left.exists():
                    seconds = time.monotonic() - float(left.read_text(encoding="ascii"))
                    print(f"{way}, member {who} of {world}: the others have ended {seconds:.1f} s later")
                if "lingers" not in way:
                    self.assertEqual(members[who].end().status, status)
            finally:
                for member in members:
                    member.kill()

    def test_by_a_return_ends_the_others_with_a_sentence(self):
        said = r"DynamixError: member {} has ended its training after \d steps \(completed\), and this one goes on"
        for who, way in ((0, "returns"), (1, "returns plain"), (0, "closes"), (1, "closes lingers")):
            self.check(way, who, 0, said.format(who))
        self.check("returns", 1, 0, said.format(1), world=3)

    def test_while_others_are_in_a_collective_of_their_own_ends_them(self):
        """Whose error is that of the collective, so that the sentence stands before it."""
        said = r"member {} {} after \d steps \({}\), and this one goes on: .* is ended\n(?s:.*)RuntimeError"
        self.check("fails measures lingers", 1, 0, said.format(1, "has left", "a bad file"))
        self.check("closes measures lingers", 0, 0, said.format(0, "has ended its training", "completed"))
        self.check("fails measures lingers", 1, 0, said.format(1, "has left", "a bad file"), world=3)

    def test_of_the_loop_for_a_collective_of_its_own_ends_all(self):
        said = r"DynamixError: member 1 has left the training loop behind \d steps, and this one goes on with that epoch"
        for way in ("breaks", "breaks plain"):
            self.check(way, 1, 1, said)

    def test_of_the_loop_behind_the_same_step_ends_nobody(self):
        with tempfile.TemporaryDirectory() as folder:
            members = start("together", 1, folder)
            try:
                for member in members:
                    ended = member.end()
                    self.assertEqual(ended.status, 0, ended.said)
            finally:
                for member in members:
                    member.kill()

    def test_between_epochs_ends_the_others_with_a_sentence(self):
        self.check("between", 1, 0, r"member 1 has ended its training after 4 steps")

    def test_by_an_exception_or_an_exit_ends_the_others_with_its_reason(self):
        self.check("raises", 1, 1, r"DynamixError: member 1 has left after \d steps \(ValueError: a bad file\)|Connection (closed|reset)")
        self.check("raises beside a thread lingers", 1, 1, r"DynamixError: member 1 has left after \d steps \(ValueError: a bad file\)")
        self.check("exits", 0, 3, r"DynamixError: member 0 has ended its training after \d steps")

    def test_by_one_that_is_refused_ends_the_others_with_the_reason(self):
        self.check("is refused", 1, 1, r"member 1 has left after 0 steps \(DynamixError: the batch size 8 is not within \d to 4|"
                                       "Connection (closed|reset)")

    def test_of_a_forked_child_does_not_count(self):
        with tempfile.TemporaryDirectory() as folder:
            members = start("forks", 1, folder)
            try:
                for member in members:
                    self.assertEqual(member.end(), (0, "", ""))
            finally:
                for member in members:
                    member.kill()

    def test_of_the_main_thread_leaves_another_to_train_on(self):
        for place in ("", "train"):
            script = scripts.Script(THREAD, ranks.PACKAGE, place)
            self.addCleanup(script.kill)
            ended = script.end()
            self.assertEqual((ended.status, ended.printed), (1, "trained 16 steps\n"), ended.said)
            self.assertIn("ValueError: no window", ended.said)

    @unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
    def test_beside_agents_ends_the_others_with_a_sentence(self):
        for who in (0, 1):
            with agents.started(2) as started:
                self.check("returns", who, 0, rf"member {who} has ended its training after \d steps", sockets=started.sockets)

    @unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
    def test_behind_the_last_step_leaves_one_that_evaluates_to_end_as_finished(self):
        with tempfile.TemporaryDirectory() as folder, agents.started(3) as started:
            members = start("evaluates", 0, folder, 3, started.sockets)
            for rank in (1, 2):
                self.assertEqual(members[rank].end(), (0, "", ""))
            pathlib.Path(folder, "file").touch()
            self.assertEqual(members[0].end(), (0, "", ""))
        self.assertEqual(started.status, 0, started.said)


def leave_a_batch(rank, world):
    """The member that comes late to the end evaluates long in one place, with a batch in hand that it does not train on."""
    leaving._LOOKS, leaving._LOOK = 2, datetime.timedelta(seconds=0.05)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off")
    loader = run.loader(torch.utils.data.TensorDataset(torch.randn(48, 8)), batch_size=8)
    for number, (values,) in enumerate(loader):
        within = run.is_within_step
        if number == 2:
            break
        optimizer.zero_grad()
        model(values).square().mean().backward()
        optimizer.step()
    states = (run.taken, within, run.is_within_step)
    if rank == 0:
        while not run._peers.notes.somebody_has_left():
            time.sleep(0.01)
        time.sleep(1)
    run.close()
    torch.distributed.barrier()
    return states


def join_as_over_nccl(rank, world):
    """Whether nobody looks, and what is cut is the run's own."""
    with mock.patch.object(torch.distributed.distributed_c10d, "get_backend_config", lambda group: "cuda:nccl"):
        model = torch.nn.Linear(8, 1)
        peers = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent="off")._peers
    return peers._watching is None, peers.notes.cut == peers._connections.cut


class Breaks(unittest.TestCase):
    """Of a training loop, amid an epoch, by one of two members."""

    def setUp(self):
        self.steps = [5, 5]
        self.notes = [leaving.Notes([0, 1], member) for member in range(2)]
        store = torch.distributed.HashStore()
        for member, notes in enumerate(self.notes):
            notes._store, notes.steps_done, notes.is_within_step = store, lambda member=member: self.steps[member], lambda: True
            notes.begin_epoch(3)

    def test_end_the_step_that_the_other_begins_behind_it(self):
        self.steps = [6, 6]
        self.notes[1].break_off()
        self.assertRegex(self.notes[0].problem_of_others(), "member 1 has left the training loop behind 6 steps")
        self.steps[0] = 5  # its present step is the last one of the other
        self.assertEqual(self.notes[0].problem_of_others(), "")

    def test_leave_the_next_epoch_and_one_that_begins_again(self):
        self.notes[1].break_off()  # behind no step
        self.assertEqual(self.notes[0].problem_of_others(), "")
        self.steps = [6, 6]
        self.notes[1].break_off()
        self.notes[0].begin_epoch(4)
        self.assertEqual(self.notes[0].problem_of_others(), "")


class Looks(unittest.TestCase):
    """Of the thread that ends what another one waits for."""

    def look(self, module, finished, within=True, steps=3, own=3, loads=False):
        """Whether it cuts, in some hundred looks at a thread that waits in code of that module. `loads`: the other one has not left, and waits
        to load a state."""
        with mock.patch.object(leaving, "_LOOK", datetime.timedelta(seconds=0.001)):
            notes, cut = leaving.Notes([0, 1], 0), threading.Event()
            notes._store = torch.distributed.HashStore()
            if loads:
                notes._store.set("load 0", json.dumps([1, steps]))
            else:
                notes._store.set("1", json.dumps([steps, finished, "completed"]))
                notes._store.set("left", "")
            notes.steps_done, notes.is_within_step, notes.cut = lambda: own, lambda: within, cut.set
            lock = threading.Lock()
            lock.acquire()
            names = {"__name__": module, "lock": lock}
            exec("def wait(): lock.acquire()", names)
            looks, check = [], notes.somebody_has_left
            notes.somebody_has_left = lambda: looks.append(1) or check()
            waiting = threading.Thread(target=names["wait"])
            waiting.start()
            notes.thread = waiting.ident
            watching = leaving.watch(notes)
            limit = time.monotonic() + ranks.SECONDS
            while len(looks) < 100 and not cut.is_set() and time.monotonic() < limit:
                time.sleep(0.001)
            notes.has_left.set()
            watching.join()
            lock.release()
            waiting.join()
            return cut.is_set()

    def test_end_a_collective_within_the_training_loop(self):
        with self.assertLogs("dynamix", "ERROR"):
            self.assertTrue(self.look("torch.distributed.distributed_c10d", True))
            self.assertTrue(self.look("torch.distributed.distributed_c10d", False, within=False))
            self.assertTrue(self.look("script", False, within=False))
            self.assertTrue(self.look("script", True, steps=2))

    def test_end_a_step_where_another_loads_a_state_and_no_collective_of_the_scripts_own(self):
        with self.assertLogs("dynamix", "ERROR"):
            self.assertTrue(self.look("torch.nn.parallel.distributed", False, loads=True))
        self.assertFalse(self.look("torch.distributed.distributed_c10d", False, loads=True))

    def test_leave_what_may_be_an_evaluation_behind_the_last_step(self):
        for module, within in (("script", True), ("script", False), (None, True), ("torch.distributed.checkpoint.filesystem", True),
                               ("torch.distributed.distributed_c10d", False)):
            self.assertFalse(self.look(module, True, within), module)
        self.assertFalse(self.look("torch.distributed.distributed_c10d", True, steps=4))

    def test_do_not_come_where_a_group_is_over_nccl(self):
        self.assertEqual(ranks.run(join_as_over_nccl, 2), [(True, True)] * 2)

    def test_end_where_the_store_has_gone(self):
        notes = leaving.Notes([0, 1], 0)
        notes._store = mock.Mock(check=mock.Mock(side_effect=RuntimeError))
        leaving.watch(notes).join(ranks.SECONDS)
        self.assertEqual(notes._store.check.call_count, 1)

    def test_leave_a_group_that_ends_with_a_batch_in_hand(self):
        self.assertEqual(ranks.run(leave_a_batch, 2), [(1, True, False)] * 2)


def kill_the_second_amid_an_exchange(rank, world, source, received):
    """What the first one is told. `received`: memory of both, where the other side of `source` has its tensor."""
    peers = Peers()
    processes = peers.gather_objects(os.getpid())
    values = torch.frombuffer(received, dtype=torch.float32) if rank != source else torch.ones(len(received) // 4)
    if rank == 0:
        ranks.kill_amid(processes[1], received)
    try:
        leaving.Watched(torch.distributed.broadcast(values, source, async_op=True), peers.notes).wait()
    except dynamix.DynamixError as problem:
        return str(problem), peers.notes.is_stuck


def close_a_group(rank, world):
    """A group of the script's that ends while one member is late."""
    group = torch.distributed.new_group(backend="gloo")
    peers = Peers()
    torch.distributed.destroy_process_group(group)
    if rank == 1:
        time.sleep(3)
    return peers.gather(torch.tensor([rank])).wait().tolist(), peers.notes.lost()


CONSOLE = """
import code, os, sys
sys.path.insert(0, sys.argv[1])
import torch
import dynamix
torch.set_num_threads(1)
dynamix.run.Run.close_now = lambda run, reason, succeeded, **_: os.write(1, f"{reason} {succeeded}\\n".encode())
console = code.InteractiveInterpreter()

def cell(text):
    console.runcode(compile(text, "<cell>", "exec"))

if "notebook" in sys.argv[2]:
    sys.ps1 = "In : "
if "first" in sys.argv[2]:
    cell("1 / 0")
cell('''
import torch, dynamix
model = torch.nn.Linear(8, 1)
run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent="off")
loader = run.loader(torch.utils.data.TensorDataset(torch.randn(64, 8)), batch_size=8)
''')
if "amid" in sys.argv[2]:
    cell("for number, _ in enumerate(loader): 1 / (number - 2)")
if "again" in sys.argv[2]:
    cell("for _ in loader: break")
else:
    cell("list(loader)" if "all" in sys.argv[2] else "")
if "last" in sys.argv[2]:
    cell("no_name")
"""


class Consoles(unittest.TestCase):
    def end(self, what):
        """What its run is told first."""
        return scripts.Script(CONSOLE, ranks.PACKAGE, what).end().printed.splitlines()[0]

    def test_go_on_behind_an_error_which_is_no_failure_then(self):
        for what in ("first all", "notebook first all", "notebook amid all", "notebook amid again", "amid all", "notebook all last"):
            self.assertEqual(self.end(what), "completed True", what)

    def test_fail_by_an_error_amid_the_newest_epoch_or_at_the_end(self):
        for what, reason in (("notebook amid", "ZeroDivisionError: division by zero"), ("all last", "NameError: name 'no_name' is not defined")):
            self.assertEqual(self.end(what), f"{reason} False", what)


class Reasons(unittest.TestCase):
    def test_name_an_exception_that_has_no_text(self):
        self.assertEqual([leaving.told(each) for each in (KeyboardInterrupt(), ValueError("a bad file"))],
                         ["KeyboardInterrupt", "ValueError: a bad file"])


class Deaths(unittest.TestCase):
    def test_amid_a_large_tensor_end_the_others_with_a_sentence(self):
        """Of such an operation Gloo does not tell that its connection has ended."""
        for source in (0, 1):
            with ranks.Group(kill_the_second_amid_an_exchange, 2, source, mmap.mmap(-1, 2**27)) as group:
                group.limit = time.monotonic() + ranks.SECONDS / 3
                text = "member 1 has died, or has ended its process groups, and this one waits for it"
                self.assertEqual(group.result(0), (True, (text, True)), f"member {source} sends")
                group.processes[0].kill()  # it would wait for the other one at the end of its rank

    def test_are_not_seen_in_a_group_that_the_script_has_ended(self):
        self.assertEqual(ranks.run(close_a_group, 2), [([[0], [1]], set())] * 2)


class Connected(unittest.TestCase):
    def test_are_known_by_either_side_and_stay_as_they_are(self):
        """Also where sockets of the process have a default time-out, which would make them return at once."""
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")):
            with socket.socket(family) as listening:
                listening.bind((address, 0))
                listening.listen()
                port = listening.getsockname()[1]
                with socket.create_connection(("127.0.0.1", port)) as one, listening.accept()[0] as other:
                    both, between = {one.fileno(), other.fileno()}, sockets.Connections()
                    socket.setdefaulttimeout(30)
                    try:
                        between.find(lambda own: [None, own], 0)
                        self.assertLessEqual(both, set(between._own))
                        self.assertNotIn(listening.fileno(), between._own)
                        between.find(lambda own: [None, own], 0, port)
                        self.assertTrue(both.isdisjoint(between._own))
                        flags = {fcntl.fcntl(each, fcntl.F_GETFL) & os.O_NONBLOCK for each in both}
                        between._own = {each: name for each, name in sockets.open_sockets().items() if each in {*both, listening.fileno()}}
                        between.cut()
                    finally:
                        socket.setdefaulttimeout(None)
                    self.assertEqual(flags, {0})
                    self.assertEqual((one.recv(1), other.recv(1)), (b"", b""))
                    with socket.create_connection(("127.0.0.1", port)), listening.accept()[0]:  # who listens still does
                        pass


class LeavingElastic(unittest.TestCase):
    def run_members(self, way, who, folder):
        return [scripts.Script(ELASTIC, ranks.PACKAGE, way, str(who), folder, RANK=str(rank), WORLD_SIZE="3") for rank in range(3)]

    def check(self, way, status, gone, who=1):
        """The others go on and finish alike, and the leaver ends with its own status; None: its process lingers."""
        with tempfile.TemporaryDirectory() as folder:
            members = self.run_members(way, who, folder)
            try:
                said = ""
                for rank in {0, 1, 2} - {who}:
                    ended, _, said = members[rank].end()
                    self.assertEqual(ended, 0, f"{way}: {said}")
                    self.assertEqual(said.count("was formed anew"), gone, f"{way}: {said}")
                    if gone:
                        self.assertIn(f"members gone: [{who}]", said, way)
                if status is not None:
                    ended, _, said = members[who].end()
                    self.assertEqual(ended, status, f"{way}: {said}")
                ends = [pathlib.Path(folder, str(rank)).read_text(encoding="ascii") for rank in {0, 1, 2} - {who}]
                self.assertEqual(ends[0], ends[1])
                return said
            finally:
                for member in members:
                    member.kill()

    def test_leaves_the_others_to_go_on(self):
        for way, status in (("exits", 4), ("is asked to end", 0), ("raises", 1), ("catches", None), ("closes", None)):
            self.check(way, status, 1, who=0 if way == "exits" else 1)

    def test_between_two_epochs_leaves_the_others_to_go_on_once_these_need_it_no_more(self):
        """However long it would wait for one that does not say so."""
        self.check("exits between", 4, 1, 0)

    def test_waits_for_one_that_is_behind_it(self):
        """It may have to give it the last step."""
        store, ended = torch.distributed.HashStore(), []
        first, second = (elastic.Members(store, position, 2, 60) for position in range(2))
        for members in (first, second):
            members._roster, members.generation, members.aligned = dict(enumerate((first._identity, second._identity))), 1, 1
        first.steps_done = lambda: 3
        ending = threading.Thread(target=lambda: (first.end(1000), ended.append(True)), daemon=True)
        ending.start()
        second._store.wait(["1/done"], datetime.timedelta(seconds=ranks.SECONDS))
        for second.steps_done, second.aligned in ((lambda: 2, 1), (lambda: 3, 0)):
            second.why_over()
            ending.join(0.2)
            self.assertTrue(ending.is_alive())
        second.aligned = 1
        second.why_over()
        ending.join(ranks.SECONDS)
        self.assertEqual(ended, [True])

    def test_behind_the_last_step_lets_one_that_evaluates_end_as_finished(self):
        self.check("evaluates", 0, 0, 0)

    def test_by_staying_away_for_too_long_ends_as_finished_when_the_others_have(self):
        self.assertIn("have ended the training without this one", self.check("stays away", 0, 1, 0))


if __name__ == "__main__":
    unittest.main()
