"""`dynamix exec --observe`: a script that is not changed by a byte, what is told of it, and that nothing else happens to it."""
import copy
import doctest
import importlib.util
import json
import math
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

import agents
import observed_scripts
import ranks
import scripts
import torch

from dynamix import adoption, agent, observation, observed_steps, world
from dynamix.adoption import Adoption
from dynamix.board import Board
from dynamix.observed_steps import ObservedStep, ObservedSteps

TORCHRUN = [*agents.torchrun(), "--nproc_per_node", "2"]
#: What torchrun does for two ranks, without loading Torch for it.
LAUNCHER = ["/bin/sh", "-c", """
status=0
for rank in 0 1; do
  RANK=$rank LOCAL_RANK=$rank "$0" "$@" &
  started="$started $!"
done
for each in $started; do
  wait $each || status=$?
done
exit $status
"""]
ENVIRONMENT = {**os.environ, "PYTHONPATH": ranks.PACKAGE, "OMP_NUM_THREADS": "1", "DYNAMIX_NODE": agents.program() or "",
               "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(agents.take_free_ports(1)[0])}


class Folder:
    """A directory with a script, in which commands run."""

    def __init__(self, path, script):
        self.path = pathlib.Path(path)
        self.write(script)

    def write(self, script):
        self.script = self.path / "train.py"
        self.script.write_text(script, encoding="utf-8")

    def run(self, options, *arguments, launcher=(*LAUNCHER, sys.executable), environment=ENVIRONMENT):
        """With agents where there are options. What was said on standard output, on standard error, and the status."""
        command = [*launcher, "train.py", *arguments]
        if options is not None:
            command = [sys.executable, "-m", "dynamix", "exec", "--workers", "2", "--set", "dashboard.listen=", *options, "--", *command]
        done = subprocess.run(command, cwd=self.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=ranks.SECONDS)
        return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.returncode

    def run_forked(self, options, *arguments, launcher=None):
        """The same, where nothing depends on how the interpreter starts."""
        with scripts.program() as python:
            return self.run(options, *arguments, launcher=launcher or (*LAUNCHER, python), environment={**ENVIRONMENT, "PYTHON_EXEC": python})

    def observed(self, run, rank):
        return json.loads((self.path / run / "observed" / f"rank-{rank}.json").read_text(encoding="utf-8"))


def parameters(text):
    """What each process prints; the two may write into one line."""
    return sorted(re.findall(r"parameters \d+ [0-9a-f]+", text))


@unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
class Observed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_script_of_torchvisions_form_is_told_what_two_lines_would_give_and_then_what_they_gave(self):
        folder = Folder(self.folder.name, observed_scripts.TORCHVISION)
        before = folder.script.read_bytes()
        plain = folder.run_forked(None, "3")[0]
        said, told, status = folder.run(["--observe", "--out", "runs/observed"], "3", launcher=TORCHRUN)
        self.assertEqual(status, 0, told)
        self.assertEqual(folder.script.read_bytes(), before)
        self.assertEqual(parameters(said), parameters(plain), "the script's numbers are others where it is observed")
        self.assertEqual(len(parameters(said)), 2)
        for rank in range(2):
            observed = folder.observed("runs/observed", rank)
            self.assertEqual((observed["batch"], observed["problem"], observed["other_models"]), (32, "", 0))
            self.assertEqual(observed["steps"], 74)  # of 75: DDP tells of a step when the next one begins
            measured = sum(count for _, _, count in observed["points"])
            self.assertGreater(measured, 10)  # those that observing had the time to look at
        self.assertIn("worker-1 is slow: it computes", told)
        self.assertRegex(told, r"equal batches cost \d+ % of the samples per second; two lines would give 1\.\d+ times as many")
        self.assertIn("run = dynamix.join(model, optimizer)          # after train.py:", told)
        self.assertIn("loader = run.loader(dataset, batch_size=32)", told)
        self.assertIn("worker-1 is slow", (folder.path / "runs/observed/report.html").read_text(encoding="utf-8"))
        summary = json.loads((folder.path / "runs/observed/summary.json").read_text(encoding="utf-8"))
        self.assertGreater(summary["steps"], 50)
        self.assertEqual({worker["last_batch"] for worker in summary["per_worker"]}, {32})
        estimated = [int(number) for number in re.search(r"shared as (\d+), (\d+)\)", told).groups()]

        folder.write(observed_scripts.joined(observed_scripts.TORCHVISION))
        _, told, status = folder.run_forked(["--out", "runs/joined", "--set", "arbitrator.policy=static"], "3", launcher=TORCHRUN)
        self.assertEqual(status, 0, told)
        self.assertRegex(told, r"observed before it joined, at equal batches: \d+ samples/s, and 1\.\d+ times as many were estimated; now "
                               r"\d+ samples/s, \d\.\d+ times as many")
        summary = json.loads((folder.path / "runs/joined/summary.json").read_text(encoding="utf-8"))
        reached = [worker["last_batch"] for worker in summary["per_worker"]]
        self.assertEqual(sum(reached), sum(estimated))
        self.assertLess(abs(reached[0] - estimated[0]), 0.15 * 64, f"{reached} of a joined run, {estimated} estimated")

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "needs accelerate")
    def test_script_of_accelerates_is_told_its_one_line(self):
        folder = Folder(self.folder.name, observed_scripts.ACCELERATE)
        before = folder.script.read_bytes()
        _, told, status = folder.run(["--observe", "--out", "run"], environment={**ENVIRONMENT, "ACCELERATE_USE_CPU": "1"})
        self.assertEqual(status, 0, told)
        self.assertEqual(folder.script.read_bytes(), before)
        self.assertIn("one line would give", told)
        self.assertIn("from dynamix.integrations.accelerate import Accelerator", told)
        observed = folder.observed("run", 0)
        self.assertEqual((observed["batch"], observed["problem"]), (32, ""))  # two micro-batches
        self.assertGreater(sum(count for _, _, count in observed["points"]), 30)

    def test_script_that_has_joined_keeps_its_batches_and_hears_what_the_policy_would_do(self):
        folder = Folder(self.folder.name, observed_scripts.joined(observed_scripts.TORCHVISION).replace("balance=True", "balance=False"))
        for option, run in (("--shadow", folder.run_forked), ("--observe", folder.run)):
            _, told, status = run([option, "--out", option[2:]], "2")
            self.assertEqual(status, 0, told)
            self.assertRegex(told, r"shadow mode: \S+ would have given worker-0 \d+, worker-1 \d+ samples per step in window \d+; they "
                                   r"had 32, 32")

    def test_script_that_fails_does_so_as_without(self):
        folder = Folder(self.folder.name, observed_scripts.FAILING)
        _, told, status = folder.run(["--observe", "--out", "run"], "3")
        self.assertEqual(status, 1, told)
        self.assertIn("ValueError: no more", told)

    def test_script_needs_no_dynamix_in_its_environment(self):
        folder = Folder(self.folder.name, observed_scripts.TORCHVISION)
        hook = os.path.join(ranks.PACKAGE, "dynamix", "observer")
        environment = {**ENVIRONMENT, "PYTHONPATH": hook}
        command = [agents.program(), "exec", "--workers", "2", "--set", "dashboard.listen=", "--observe", "--out", "run", "--", *LAUNCHER,
                   sys.executable, "train.py", "1"]
        done = subprocess.run(command, cwd=folder.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=ranks.SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        self.assertEqual(folder.observed("run", 0)["problem"], "")

    def test_script_is_refused_where_nothing_of_python_would_measure(self):
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run([agents.program(), "exec", "--workers", "1", "--observe", "--", "true"], env=environment,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("`dynamix exec --observe ...`", done.stderr.decode())


class Hook(unittest.TestCase):
    def test_runs_the_sitecustomize_that_it_stands_before(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sitecustomize.py").write_text("print('the next')\n", encoding="ascii")
            path = os.pathsep.join([os.path.join(ranks.PACKAGE, "dynamix", "observer"), folder])
            done = subprocess.run([sys.executable, "-c", "import sys, sitecustomize; print(sitecustomize.__file__, sys.path[1])"],
                                  env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, timeout=60)
            self.assertEqual(done.stdout.decode().split("\n")[0], "the next")
            self.assertEqual(done.stdout.decode().split("\n")[1], f"{folder}/sitecustomize.py {folder}")


class Copies(unittest.TestCase):
    def test_of_an_observed_model_are_plain_models(self):
        seen = []
        model = torch.nn.Linear(2, 1)
        model.register_forward_pre_hook(observation._Inputs(seen.append), with_kwargs=True)
        copy.deepcopy(model)(torch.zeros(3, 2))
        pickle.loads(pickle.dumps(model))(torch.zeros(3, 2))
        self.assertEqual(seen, [])
        model(torch.zeros(3, 2))
        self.assertEqual(seen, [3])


class Boards(unittest.TestCase):
    def test_give_rows_once_all_are_there(self):
        with tempfile.TemporaryDirectory() as folder:
            boards = [Board(folder, "row", member, 2, 3) for member in range(2)]
            for number in range(5):
                boards[0].put(number, [number, -1, 2**62])
                self.assertIsNone(boards[0].take(number))
                boards[1].put(number, [7, 8, 9])
                for board in boards:
                    self.assertEqual(board.take(number), [number, -1, 2**62, 7, 8, 9])

    def test_give_no_row_that_is_half_written(self):
        with tempfile.TemporaryDirectory() as folder:
            board = Board(folder, "row", 0, 1, 2)
            board.put(0, [1, 2])
            path = pathlib.Path(folder, "row-0")
            whole = path.read_bytes()
            with open(path, "r+b") as file:
                file.seek(20)
                file.write(bytes([whole[20] ^ 1]))
            self.assertIsNone(board.take(0))


class Steps(unittest.TestCase):
    def test_leave_out_the_first_and_those_that_were_interrupted(self):
        steps = ObservedSteps()
        for number in range(40):
            slow = number < 3 or number == 20
            steps.add(ObservedStep(8, 9.0 if slow else 0.1, 0.04, 0.01))
        steps.add(ObservedStep(8, math.nan, 0.04, 0.01))
        told = steps.summary()
        self.assertEqual((told["steps"], len(steps._usual()), told["batch"]), (41, 36, 8))
        self.assertAlmostEqual(told["step_seconds"], 0.1)
        self.assertAlmostEqual(told["compute_seconds"], 0.05)
        self.assertEqual(len(told["points"]), 1)

    def test_tell_how_each_part_of_the_run_was(self):
        steps = ObservedSteps()
        for number in range(80):
            known = 0.1 if number < 60 else math.nan
            steps.add(ObservedStep(8, known * (1 + number // 40), 0.0, 0.0))
        parts = steps.summary()["parts"]
        self.assertEqual(len(parts), 8)
        for part, expected in zip(parts, [0.1] * 4 + [0.2] * 2 + [0.0] * 2):
            self.assertAlmostEqual(part[0], expected)
            self.assertAlmostEqual(part[1], expected)

    def test_are_a_sample_of_the_whole_run(self):
        steps = ObservedSteps()
        count = 20 * observed_steps._KEPT_STEPS
        for number in range(count):
            steps.add(ObservedStep(8, 0.1 if number < count // 2 else 0.2, 0.0, 0.0))
        told = steps.summary()
        self.assertEqual(len(steps._known), observed_steps._KEPT_STEPS)
        self.assertAlmostEqual(told["step_seconds"], 0.15, delta=0.01)
        self.assertTrue(all(step > 0 for step, _ in told["parts"]))

    def test_tell_each_batch_size_that_was_seen_often(self):
        steps = ObservedSteps()
        for number in range(43):
            steps.add(ObservedStep(8 if number % 10 else 4, 0.1 if number % 10 else 0.06, 0.0, 0.0))
        steps.add(ObservedStep(3, 0.05, 0.0, 0.0))
        self.assertEqual([point[0] for point in steps.summary()["points"]], [4, 8])


class Docstrings(unittest.TestCase):
    def test_give_what_they_show(self):
        for module in (adoption, agent, observed_steps, world):
            found = doctest.testmod(module)
            self.assertGreater(found.attempted, 0, module.__name__)
            self.assertEqual(found.failed, 0, module.__name__)


class Lines(unittest.TestCase):
    def test_name_the_scripts_own_model_or_its_framework(self):
        self.assertEqual(Adoption("/a/train.py", 7, "net", "").lines(16)[0].split("  ")[0], "run = dynamix.join(net, optimizer)")
        self.assertEqual(len(Adoption("/a/train.py", 7, "net", "accelerate").lines(16)), 1)


if __name__ == "__main__":
    unittest.main()
