"""Runs with real agents: decisions change batch sizes, no sample is lost or used twice, and training outlives its agents."""
import collections
import contextlib
import io
import json
import logging
import math
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import agents
import ranks
import scripts
import torch

import dynamix

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def train(rank, world, epochs, samples, kill_at, slow):
    """Trains with agents that rank 0 starts. The numbers of this rank's samples by epoch, its batch sizes, and the last
    status with agents."""
    os.chdir(tempfile.mkdtemp())  # of the run directory, which only rank 0 has
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    run = dynamix.join(model, optimizer, agent=None, rule="linear")
    data = torch.utils.data.TensorDataset(torch.arange(samples), torch.randn(samples, 64))
    loader = run.loader(data, batch_size=16, num_workers=rank % 2, lowest_batch=4, highest_batch=64)
    taken, sizes, steps = [], set(), 0
    for epoch in range(epochs):
        taken.append([])
        for numbers, values in loader:
            if run.counted:
                sizes.add(run.counted)
            taken[-1] += numbers.tolist()[:run.counted]
            optimizer.zero_grad()
            model(values).square().mean().backward()
            time.sleep(run.counted * (0.0006 if rank == slow else 0.0002))
            run.average_gradients()
            optimizer.step()
            steps += 1
            if steps == kill_at and rank == 0:
                killed = agents.kill(run._hosted._process.pid)
                assert killed == world, f"{killed} agents were killed"
    status = run.status
    run.close()
    found = list(pathlib.Path("runs").glob("*/summary.json")) if rank == 0 else []
    return taken, sizes, status, steps, [json.loads(path.read_text()) for path in found]


def leave_amid_an_epoch(rank, world):
    """How the agents' process ended, while a worker of the loader lives that has inherited what they wait for."""
    os.chdir(tempfile.mkdtemp())
    model = torch.nn.Linear(4, 1)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent=None)
    with mock.patch.object(dynamix.agent, "_START_SECONDS", 1000):
        batches = iter(run.loader(torch.utils.data.TensorDataset(torch.randn(64, 4)), batch_size=4, num_workers=1))
        next(batches)
        process = run._hosted._process
        run.close("a bad file", succeeded=False)
    return process.returncode


def train_by_loss(rank, world, sockets, rule):
    """The warnings of a run whose losses are weighted, and the times that it tells of its steps."""
    model = torch.nn.Linear(4, 1)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent=sockets, weighting="loss", rule=rule)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4))
    warnings = io.StringIO()
    handler = logging.StreamHandler(warnings)
    logging.getLogger("dynamix").addHandler(handler)
    loader = run.loader(data, batch_size=8)
    logging.getLogger("dynamix").removeHandler(handler)
    client, times = run._step.client, []
    complete = client.complete
    client.complete = lambda step: (times.append((step.iteration_seconds, step.compute_seconds)), complete(step))[1]
    for values, in loader:
        run._optimizers[0].zero_grad()
        run.scale(model(values).square().mean()).backward()
        run._optimizers[0].step()
    run.close()
    return warnings.getvalue(), times


def train_again(rank, world, sockets):
    """Trains one model in two runs, the second with another optimiser. The samples of both, and why two other joins are
    refused: beside the first run, and behind the end."""
    torch.manual_seed(1)
    model, refused, taken = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1)), [], []
    data = torch.utils.data.TensorDataset(torch.arange(400), torch.randn(400, 8))

    def refuse():
        try:
            dynamix.join(torch.nn.Linear(8, 1), torch.optim.SGD([torch.zeros(1)], lr=0.1), agent=sockets)
        except dynamix.DynamixError as problem:
            refused.append(str(problem))

    for kind in (torch.optim.SGD, torch.optim.Adam):
        optimizer = kind(model.parameters(), lr=0.01)
        run = dynamix.join(model, optimizer, agent=sockets)
        taken.append([])
        for numbers, values in run.loader(data, batch_size=8):
            taken[-1] += numbers.tolist()[:run.counted]
            optimizer.zero_grad()
            model(values).square().mean().backward()
            optimizer.step()
        if kind is torch.optim.SGD:
            refuse()
        run.close(again=kind is torch.optim.SGD)
    limit = time.monotonic() + ranks.SECONDS
    while os.path.exists(os.path.join(sockets, f"{rank}.sock")) and time.monotonic() < limit:
        time.sleep(0.05)
    refuse()
    return taken, refused


def train_behind_a_refusal(rank, world, sockets):
    """How many samples a run has trained, behind a join that was refused."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding(8, 2, sparse=True))
    try:
        dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent=sockets)
    except NotImplementedError:
        model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = dynamix.join(model, optimizer, agent=sockets)
    train_on = ranks.trainer(run, model, optimizer)
    for batch in run.loader(torch.utils.data.TensorDataset(torch.arange(80), torch.randn(80, 8)), batch_size=8):
        train_on(batch)
    samples = run.status.samples
    run.close()
    return samples


def hold_the_global_batch(rank, world, sockets):
    """Global batches of a script with 16 a rank, this rank's largest one, which is 20 at most, and the decisions made."""
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    run = dynamix.join(model, optimizer, agent=sockets, rule="linear")
    data = torch.utils.data.TensorDataset(torch.arange(4000), torch.randn(4000, 64))
    train_on, whole, largest = ranks.trainer(run, model, optimizer), set(), 0
    loader = run.loader(data, batch_size=16, highest_batch=20, lowest_batch=4)
    for _ in range(2):
        for batch in loader:
            time.sleep(run.counted * (0.0012 if rank else 0.0003))
            train_on(batch)
            now = run.status
            whole.add(now.global_batch)
            largest = max(largest, now.batch)
    decisions = run.status.decisions
    run.close()
    return sorted(whole), largest, decisions


def writable_cgroups():
    """Where the whole hierarchy of version 2 is mounted for writing; empty where it is not."""
    for line in pathlib.Path("/proc/self/mounts").read_text(encoding="ascii").splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup2" and "rw" in options.split(","):
            return place
    return ""


#: They have a batch, and their agents have told so.
BEGUN = """
batches = iter(run.loader(torch.utils.data.TensorDataset(torch.randn(64, 2)), batch_size=4))
next(batches)
import time
time.sleep(2)
"""

#: Two processes that join, of which each is told that it is one of two.
STRAY = """
import os, sys, tempfile
import torch
import torch.distributed
import dynamix
rank = 0 if os.fork() else 1
torch.distributed.init_process_group("gloo", init_method="file://" + os.environ["DYNAMIX_AGENT"] + "/store", rank=rank, world_size=2)
os.environ["LOCAL_RANK"] = str(rank)
model = torch.nn.Linear(2, 1)
try:
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1))
except dynamix.DynamixError as problem:
    print(problem, file=sys.stderr, flush=True)
    os._exit(1)
"""


@unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
class Agents(unittest.TestCase):
    def check_samples(self, results, samples, epochs):
        for epoch in range(epochs):
            counts = collections.Counter(number for result in results for number in result[0][epoch])
            self.assertEqual(counts, collections.Counter(range(samples)))

    def test_change_batch_sizes_and_lose_no_sample(self):
        results = ranks.run(train, 2, 6, 4000, 0, 1)
        self.check_samples(results, 4000, 6)
        for _, sizes, status, _, _ in results:
            self.assertGreater(status.decisions, 0)
            self.assertGreater(len(sizes), 2, "the batch size never changed")
            self.assertEqual(status.samples, 24000)
        summaries = results[0][4]
        self.assertEqual(len(summaries), 1, "the run has no summary")

    def test_are_told_no_times_where_losses_are_weighted(self):
        with agents.started(2) as started:
            results = ranks.run(train_by_loss, 2, started.sockets, "linear")
        for rank, (warnings, times) in enumerate(results):
            self.assertEqual(warnings.count("no times of steps"), 1 - rank)
            self.assertGreater(len(times), 2)
            for seconds in times:
                self.assertTrue(all(map(math.isnan, seconds)), seconds)

    def test_may_die_while_training_goes_on(self):
        results = ranks.run(train, 2, 4, 4000, 30, 0)
        self.check_samples(results, 4000, 4)
        for _, _, status, steps, _ in results:
            self.assertEqual((status.step, status.samples), (steps, 16000))
            self.assertFalse(status.stop)

    def test_end_with_a_run_that_fails_beside_a_worker_of_its_loader(self):
        self.assertEqual(ranks.run(leave_amid_an_epoch, 1), [0])

    def test_keep_the_global_batch_and_the_limits_that_a_script_chose(self):
        for policy in ("lb-bsp", "omnilearn"):
            with agents.started(2, arbitrator__policy=policy) as started:  # whose file says 64 a worker
                results = ranks.run(hold_the_global_batch, 2, started.sockets)
            for whole, largest, decisions in results:
                self.assertEqual(whole, [32], policy)
                self.assertLessEqual(largest, 20)
                self.assertGreater(decisions, 0)
            self.assertEqual(results[0][1], 20)

    def test_serve_a_process_that_joins_again(self):
        with agents.started(2) as started:
            results = ranks.run(train_again, 2, started.sockets)
        self.assertEqual(started.status, 0, started.said)
        for run in range(2):
            self.assertEqual(collections.Counter(number for taken, _ in results for number in taken[run]),
                             collections.Counter(range(400)))
        for _, (beside, behind) in results:
            self.assertRegex(beside, "this process has joined the agent at .* already: close\\(\\) that run")
            self.assertRegex(behind, "has told it that training is over: close\\(again=True\\)")

    def test_serve_a_process_whose_first_join_was_refused(self):
        with agents.started(2) as started:
            self.assertEqual(ranks.run(train_behind_a_refusal, 2, started.sockets), [80] * 2)
        self.assertEqual(started.status, 0, started.said)

    def test_take_the_cluster_file_that_init_writes_for_scripts(self):
        """Also where nothing that trains built-in models is installed; then it is what init writes for everybody."""
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "cluster.toml")
            for variables, options in (({}, ["--scripts"]), ({"DYNAMIX_TRAINER": "/nowhere"}, ["--scripts"]), ({"DYNAMIX_TRAINER": "/nowhere"}, [])):
                with self.subTest(variables=variables, options=options):
                    for command in (["init", "--hosts", "ada,ben", *options, "--force", "--out", file], ["check", "--all", "--cluster", file]):
                        done = subprocess.run([agents.program(), *command], env={**os.environ, **variables}, stdout=subprocess.PIPE,
                                              stderr=subprocess.STDOUT, text=True, timeout=ranks.SECONDS)
                        self.assertEqual(done.returncode, 0, done.stdout)
                    written = pathlib.Path(file).read_text(encoding="utf-8")
                    self.assertRegex(written, r'(?m)^\[training\]\ntrainer = "client" ')
                    self.assertNotRegex(written, r"(?m)^(model|dataset) =")
                    self.assertEqual(re.findall(r'(?m)^name = "(.+)"', written), ["cluster", "ada", "ben"])
                    self.assertEqual('mode = "infer"' in written, bool(variables), "who learns needs the trainer, too")
                    self.assertRegex(done.stdout, r'(?m)^  trainer +"client"')

    def test_end_soon_after_a_command_that_none_of_their_processes_joined(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        python = stack.enter_context(scripts.program())
        for workers, command, status, told in (
                (3, ["true"], 0, "none of its processes has joined, by dynamix.join and run.loader"),
                (3, ["sh", "-c", "exit 7"], 7, "the command ended with 7: its own message stands above"),
                (3, ["sh", "-c", "exit 7"], 7, "If it is \"No module named 'dynamix'\""),
                (2, [python, "-c", STRAY + BEGUN + "sys.exit(7)"], 7, "its own message stands above\n"),
                (3, [python, "-c", STRAY], 1, "this training has 2 processes, and the cluster file has 3 workers")):
            with tempfile.TemporaryDirectory() as folder:
                began = os.path.join(folder, "ended")
                done = subprocess.run([agents.program(), "exec", "--workers", str(workers), "--set", "dashboard.listen=", "--run",
                                       os.path.join(folder, "run"), "--", "sh", "-c", '"$@"; status=$?; : > "$0"; exit $status', began, *command],
                                      env={**os.environ, "PYTHONPATH": str(SOURCE / "python")}, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True, timeout=ranks.SECONDS)
                seconds = time.time() - os.stat(began).st_mtime
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("no training process has trained a window", done.stderr)
            self.assertIn(told, done.stderr)
            self.assertNotIn("did not end in time", done.stderr)
            print(f"{command[0]}: ended {seconds:.1f} s behind the command")

    @unittest.skipUnless(os.geteuid() == 0 and writable_cgroups(), "needs root, and cgroup version 2 to write to")
    def test_are_beside_a_command_in_a_cgroup_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [agents.program(), "exec", "--workers", "1", "--run", os.path.join(folder, "run"), "--",
                       "/bin/cat", "/proc/self/cgroup"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                said = process.communicate(timeout=60)[0]
            groups = [line[3:] for line in said.splitlines() if line.startswith("0::")]
            self.assertEqual([os.path.basename(group) for group in groups], [f"dynamix-{process.pid}"])
            self.assertFalse(os.path.exists(writable_cgroups() + groups[0]), "the group is still there")

    def test_keep_torchrun_from_restarting_a_group_at_dead_addresses_unless_the_user_says_otherwise(self):
        name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
        for given, expected in (({}, "1"), ({name: "0"}, "0")):
            environment = {key: value for key, value in os.environ.items() if key != name}
            with tempfile.TemporaryDirectory() as folder:
                command = [agents.program(), "exec", "--workers", "1", "--run", os.path.join(folder, "run"), "--",
                           "/bin/sh", "-c", f'echo "store ${name}"']
                done = subprocess.run(command, env={**environment, **given}, stdout=subprocess.PIPE, timeout=60)
                self.assertEqual(done.stdout.decode(), f"store {expected}\n")

    def test_serve_a_script_under_torchrun(self):
        with tempfile.TemporaryDirectory() as folder:
            run = os.path.join(folder, "run")
            command = [agents.program(), "exec", "--workers", "2", "--run", run, "--set", "batch.initial=32", "--",
                       *agents.torchrun(), "--nproc_per_node", "2", str(SOURCE / "examples/transformer.py"), "--epochs", "2"]
            environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
            self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))
            for name in ("windows.jsonl", "summary.json", "report.html"):
                self.assertTrue(os.path.isfile(os.path.join(run, name)), f"{name} is missing")
            rows = map(json.loads, pathlib.Path(run, "windows.jsonl").read_text(encoding="utf-8").splitlines())
            sources = [row["text"] for row in rows if row.get("event") == "telemetry"]
            self.assertEqual(len(sources), 2)
            for text in sources:  # by eBPF, or with what an agent here lacks for that
                self.assertRegex(text, r"network: (eBPF\n|TCP_INFO by sock_diag, since not eBPF: (?!\[telemetry\]))")


if __name__ == "__main__":
    unittest.main()
