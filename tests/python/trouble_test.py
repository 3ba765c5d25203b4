"""What goes wrong among ranks and agents is told or overcome, and nobody hangs."""
import collections
import contextlib
import datetime
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import agents
import ranks
import scripts
import torch

import dynamix

SAMPLES = 400
SETTINGS = {"batch__initial": 8, "batch__lowest": 2, "batch__highest": 32, "arbitrator__window_steps": 5}


def join(sockets, **options):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    run = dynamix.join(model, optimizer, agent=sockets)
    dataset = torch.utils.data.TensorDataset(torch.arange(SAMPLES), torch.randn(SAMPLES, 16))
    loader = run.loader(dataset, batch_size=8, **options)
    return run, loader, ranks.trainer(run, model, optimizer)


def train_epoch(rank, world, sockets, dies):
    """One epoch. The rank `dies` ends behind it, before it has said so."""
    run, loader, train = join(sockets)
    taken = []
    for batch in loader:
        taken += batch[0].tolist()[:run.counted]
        train(batch)
    if rank == dies:
        os.kill(os.getpid(), signal.SIGKILL)
    run.close()
    return taken


def take_one_slot(rank, world, sockets):
    try:
        join(os.path.join(sockets, "0.sock"))
    except dynamix.DynamixError as problem:
        return str(problem)


def never_step(rank, world, sockets):
    run, loader, _ = join(sockets)
    next(iter(loader))
    time.sleep(1)
    began = time.monotonic()
    run.close()
    return time.monotonic() - began


def train_beside_a_stopped_rank(rank, world, sockets, folder, seconds, timeout):
    """Rank 1 stops itself in the third step."""
    if timeout:
        torch.distributed.destroy_process_group()
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/again", rank=rank, world_size=world,
                                             timeout=datetime.timedelta(seconds=timeout))
    run, loader, train = join(sockets)
    taken, longest, steps, last = [], 0.0, 0, time.monotonic()
    try:
        for batch in loader:
            taken += batch[0].tolist()[:run.counted]
            if rank == 1 and steps == 2:
                os.kill(os.getpid(), signal.SIGSTOP)
            train(batch)
            steps += 1
            now = time.monotonic()
            longest, last = max(longest, now - last), now
    except RuntimeError as problem:
        run.close("a worker does not answer", succeeded=False)
        return time.monotonic() - last, str(problem)
    run.close()
    return taken, longest


def train_until_decided_anew(rank, world, sockets, folder):
    """Says in `folder` when decisions come, and trains on until more have come behind the word `go`, to the epoch's end."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    run = dynamix.join(model, optimizer, agent=sockets)
    data = torch.utils.data.TensorDataset(torch.arange(SAMPLES), torch.randn(SAMPLES, 16))
    loader, train = run.loader(data, batch_size=8), ranks.trainer(run, model, optimizer)
    taken, before, ready, limit = [], None, torch.zeros(1), time.monotonic() + ranks.SECONDS / 2
    while not ready:
        taken.append([])
        for batch in loader:
            taken[-1] += batch[0].tolist()[:run.counted]
            time.sleep(0.001 * (1 + rank) * run.counted)
            train(batch)
            decisions = run.status.decisions
            if before is None and decisions > 1:
                open(os.path.join(folder, f"decided-{rank}"), "w").close()
                if os.path.exists(os.path.join(folder, "go")):
                    before = decisions
        status = run.status
        decided = before is not None and status.decisions > before + 1 and status.connected
        ready[0] = decided or time.monotonic() > limit
        torch.distributed.all_reduce(ready, torch.distributed.ReduceOp.MIN)
    run.close()
    return taken, before, status


@contextlib.contextmanager
def mounted(path, size):
    """A file system of its own, which is soon full."""
    os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def train_beside_a_full_disk(rank, world, disk):
    """Two epochs. Where there is a disk, it is full at the first checkpoint behind a good one, and has room at the
    next."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", rule="adascale", window_steps=5)
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.arange(200), torch.randn(200, 16, generator=generator))
    loader, train = run.loader(data, batch_size=8), ranks.trainer(run, model, optimizer)
    path, full, text, kept, steps = os.path.join(disk, "checkpoint"), os.path.join(disk, "full"), "", [], 0

    def save():
        dynamix.save({"model": model.state_dict(), "dynamix": run.state_dict()}, path)
        kept.append(torch.load(path)["dynamix"]["words"])

    for _ in range(2):
        for batch in loader:
            train(batch)
            steps += 1
            if rank == 0 and disk and steps == 5:
                save()
                with contextlib.suppress(OSError), open(full, "wb", buffering=0) as file:
                    while True:
                        file.write(bytes(4096))
            elif rank == 0 and disk and steps == 8:
                before = run.state_dict()["words"]
                try:
                    save()
                except OSError as problem:
                    text = str(problem)
                assert before == run.state_dict()["words"], "the run's state has changed"
                assert torch.load(path)["dynamix"]["words"] == kept[0], "the checkpoint before is not kept"
                assert sorted(os.listdir(disk)) == ["checkpoint", "full"], "a part of a checkpoint is left"
                os.unlink(full)
                save()
                assert before == kept[-1], "the checkpoint is not that of the state"
    run.close()
    return text, [parameter.tolist() for parameter in model.parameters()]


SCRIPT = """
import os, signal, sys
import torch
import dynamix
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = dynamix.join(model, optimizer)
loader = run.loader(torch.utils.data.TensorDataset(torch.randn(400, 8)), batch_size=8)
checkpoint, killed = os.path.join(sys.argv[1], "checkpoint"), os.path.join(sys.argv[1], "killed")
if os.path.exists(checkpoint):
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    run.load_state_dict(state["dynamix"])
for epoch in range(run.epoch, 3):
    for number, (values,) in enumerate(loader):
        if (rank, epoch, number) == (1, 1, 2) and not os.path.exists(killed):
            open(killed, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(values).square().mean().backward()
        optimizer.step()
    if rank == 0:
        torch.save({"model": model.state_dict(), "dynamix": run.state_dict()}, checkpoint)
with open(os.path.join(sys.argv[1], f"samples-{rank}"), "w") as file:
    file.write(str(run.status.samples))
run.close()
"""


def wait_until(true):
    limit = time.monotonic() + ranks.SECONDS
    while time.monotonic() < limit:
        if true():
            return True
        time.sleep(0.02)
    return False


def is_stopped(process):
    with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


@unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
class Trouble(unittest.TestCase):
    def check_samples(self, results):
        counts = collections.Counter(number for taken in results for number in taken)
        self.assertEqual(counts, collections.Counter(range(SAMPLES)))

    def test_a_group_may_start_again_where_one_rank_had_ended_and_another_died(self):
        with agents.started(2) as started:
            with ranks.Group(train_epoch, 2, started.sockets, 1) as group:
                self.assertEqual(group.result(1), (False, "ended without a result"))
                self.assertTrue(group.result(0)[0])
            self.assertTrue(wait_until(lambda: "another worker has ended" in started.log(0)))
            self.check_samples(ranks.run(train_epoch, 2, started.sockets, None))
        self.assertEqual(started.status, 0)

    def test_two_ranks_with_one_socket_are_refused(self):
        with agents.started(2) as started:
            for text in ranks.run(take_one_slot, 2, started.sockets):
                self.assertIn("another process trains for this worker already; start one process for each agent", text)
            self.check_samples(ranks.run(train_epoch, 2, started.sockets, None))

    def test_ranks_that_never_step_keep_nobody(self):
        with agents.started(2) as started:
            for seconds in ranks.run(never_step, 2, started.sockets):
                self.assertLess(seconds, 30)
        self.assertEqual(started.status, 0)

    def test_a_rank_that_was_stopped_goes_on(self):
        with agents.started(2) as started:
            with ranks.Group(train_beside_a_stopped_rank, 2, started.sockets, "", 2, 0) as group:
                process = group.processes[1].pid
                self.assertTrue(wait_until(lambda: is_stopped(process)))
                time.sleep(2)
                os.kill(process, signal.SIGCONT)
                results = [group.result(rank) for rank in range(2)]
            for good, text in results:
                self.assertTrue(good, text)
            self.check_samples([taken for _, (taken, _) in results])
            self.assertGreater(results[0][1][1], 1.5)

    def test_a_rank_that_stays_stopped_ends_the_others_after_their_time_out(self):
        with agents.started(2) as started, tempfile.TemporaryDirectory() as folder:
            with ranks.Group(train_beside_a_stopped_rank, 2, started.sockets, folder, 0, 3) as group:
                good, result = group.result(0)
                self.assertTrue(good, result)
                seconds, text = result
                self.assertLess(seconds, 60)
                self.assertRegex(text.lower(), "timed out|timeout")
                os.kill(group.processes[1].pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: "a worker does not answer" in started.log(0)))

    def await_decisions(self, folder):
        self.assertTrue(wait_until(lambda: all(os.path.exists(os.path.join(folder, f"decided-{rank}")) for rank in range(2))))

    def check_decided_anew(self, results):
        for good, text in results:
            self.assertTrue(good, text)
        for epoch in range(len(results[0][1][0])):
            self.check_samples([taken[epoch] for _, (taken, _, _) in results])
        for _, (_, before, status) in results:
            self.assertTrue(status.connected)
            self.assertGreater(status.decisions, before)

    def test_agents_that_are_upgraded_decide_on(self):
        with tempfile.TemporaryDirectory() as folder:
            program, installed = agents.program(), os.path.join(folder, "dynamix-node")
            shutil.copy(program, installed)
            with unittest.mock.patch.dict(os.environ, DYNAMIX_NODE=installed), agents.started(2, **SETTINGS) as started:
                with ranks.Group(train_until_decided_anew, 2, started.sockets, folder) as group:
                    self.await_decisions(folder)
                    following = os.path.join(folder, "following")  # the next release, that says who it is
                    with open(following, "w", encoding="ascii") as file:
                        file.write(f'#!/bin/sh\ntouch {folder}/upgraded-$$\nexec {program} "$@"\n')
                    os.chmod(following, 0o755)
                    os.replace(following, installed)  # as a package does it
                    self.assertEqual(agents.kill(started.process.pid), 2)
                    open(os.path.join(folder, "go"), "w").close()
                    self.check_decided_anew([group.result(rank) for rank in range(2)])
                self.assertGreaterEqual(sum(name.startswith("upgraded-") for name in os.listdir(folder)), 2)
        self.assertEqual(started.status, 0)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to mount a small file system")
    def test_a_full_disk_of_the_agents_leaves_training_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder, mounted(os.path.join(folder, "disk"), "4m") as disk, \
                contextlib.ExitStack() as stack:
            with unittest.mock.patch.object(tempfile, "tempdir", disk):
                started = stack.enter_context(agents.started(2, **SETTINGS))
            with ranks.Group(train_until_decided_anew, 2, started.sockets, folder) as group:
                self.await_decisions(folder)
                with self.assertRaises(OSError), open(os.path.join(disk, "full"), "wb", buffering=0) as file:
                    while True:
                        file.write(bytes(4096))
                serving = set(agents.running(started.process.pid))
                open(os.path.join(folder, "go"), "w").close()
                results = [group.result(rank) for rank in range(2)]
            self.check_decided_anew(results)
            self.assertTrue(wait_until(lambda: not serving & set(agents.running(started.process.pid))))
            # One may have found room for it, as where the other has given some up.
            lost = [rank for rank in range(2) if not glob.glob(os.path.join(disk, "**", f"worker-{rank}.json"), recursive=True)]
            os.unlink(os.path.join(disk, "full"))
        self.assertEqual(started.status, 1, started.said)
        self.assertTrue(lost)
        for rank in lost:
            self.assertIn(f"error: the agent of worker-{rank} died before it had recorded how its training ended (exit "
                          "code 1)", started.said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to mount a small file system")
    def test_a_full_disk_under_a_checkpoint_is_told_and_leaves_training_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder, mounted(os.path.join(folder, "disk"), "256k") as disk:
            results = ranks.run(train_beside_a_full_disk, 2, disk)
            self.assertEqual(results[0][0], "[Errno 28] the checkpoint was not written; the one before is kept: No "
                                            f"space left on device: {os.path.join(disk, 'checkpoint')!r}")
        undisturbed = ranks.run(train_beside_a_full_disk, 2, "")
        self.assertEqual([parameters for _, parameters in results], [parameters for _, parameters in undisturbed])

    def test_a_rank_of_exec_that_is_killed_is_started_again_by_torchrun(self):
        with tempfile.TemporaryDirectory() as folder:
            script, run = os.path.join(folder, "train.py"), os.path.join(folder, "run")
            with open(script, "w", encoding="ascii") as file:
                file.write(SCRIPT)
            command = [agents.program(), "exec", "--workers", "2", "--out", run, "--", *agents.torchrun(),
                       "--nproc_per_node", "2", "--max_restarts", "2", script, folder]  # one more than it needs: a group may not meet
            with scripts.program() as python:  # of the ranks, which torchrun starts twice
                environment = {**os.environ, "PYTHONPATH": ranks.PACKAGE, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": python}
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
            self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))
            for rank in range(2):
                with open(os.path.join(folder, f"samples-{rank}"), encoding="ascii") as file:
                    self.assertEqual(file.read(), "1200")
            with open(os.path.join(run, "logs", "worker-1.log"), encoding="utf-8") as file:
                self.assertIn("client_lost", file.read(), done.stdout.decode(errors="replace"))


class Versions(unittest.TestCase):
    def load(self, code, **variables):
        ended = scripts.Script(code, **variables).end()
        self.assertNotEqual(ended.status, 0)
        return ended.said

    def test_of_library_and_package_that_do_not_fit_are_told(self):
        text = self.load("from dynamix import library, structures; structures.ABI_VERSION += 1; library.load()")
        self.assertRegex(text, "ImportError: dynamix needs libdynamix.so.1: .* has ABI version 1; this package needs 2")
        text = self.load("from dynamix import library; library.load()", DYNAMIX_LIBRARY="libc.so.6")
        self.assertRegex(text, "ImportError: .*dynamix_abi_version")
        text = self.load("from dynamix import library; library.load()", DYNAMIX_LIBRARY="/nowhere/libdynamix.so")
        self.assertRegex(text, r"ImportError: .*/nowhere/libdynamix.so(.|\n)*cmake --build")


if __name__ == "__main__":
    unittest.main()
