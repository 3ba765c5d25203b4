"""The examples run, shortly: with two ranks and in one process; one of them under torchrun."""
import importlib.util
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import agents
import ranks
import scripts
import torch.distributed

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "OMP_NUM_THREADS": "1"}
ranks.SECONDS = max(ranks.SECONDS, 400)


def run_script(rank, world, script, arguments, shown):
    """As torchrun would, but in this process, which has loaded Torch and joined a group: what it prints goes to `shown`."""
    with open(f"{shown}-{rank}", "w", buffering=1, encoding="utf-8") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        if world > 1:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
        sys.argv = [script, *arguments]
        sys.path.insert(0, os.path.dirname(script))
        with unittest.mock.patch("torch.distributed.init_process_group"):
            runpy.run_path(script, run_name="__main__")


def example(name, *arguments, world=1):
    """What the example prints."""
    with tempfile.TemporaryDirectory() as folder:
        shown = os.path.join(folder, "shown")
        ranks.run(run_script, world, str(SOURCE / "examples" / name), ["--agent", "off", *arguments], shown)
        return "".join(pathlib.Path(f"{shown}-{rank}").read_text(encoding="utf-8") for rank in range(world))


def under_torchrun(name, *arguments):
    with scripts.program() as python:
        done = subprocess.run([*agents.torchrun(), "--nproc_per_node", "2", str(SOURCE / "examples" / name), "--agent", "off",
                               *arguments], env={**ENVIRONMENT, "PYTHON_EXEC": python}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=ranks.SECONDS)
    text = done.stdout.decode(errors="replace")
    assert done.returncode == 0, text
    return text


def epochs(text):
    return [line[line.index("epoch "):] for line in text.splitlines() if "epoch " in line and "batch sizes" in line]


@unittest.skipUnless(os.path.isdir("/usr/share/datasets/fashion-mnist"), "apt-get install dataset-fashion-mnist")
class FashionMNIST(unittest.TestCase):
    def test_trains_with_and_without_dynamix(self):
        options = ("--epochs", "1", "--samples", "6000")
        for text in (under_torchrun("fashion_mnist.py", *options), example("fashion_mnist.py", *options, "--plain", world=2)):
            self.assertGreater(float(text.split("accuracy ")[1].split()[0]), 0.25)

    def test_resumes_from_its_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            options = ("--samples", "2000", "--checkpoint", path, "--workers", "1")
            self.assertEqual(len(epochs(example("fashion_mnist.py", "--epochs", "1", *options))), 1)
            shown = epochs(example("fashion_mnist.py", "--epochs", "2", *options))
            self.assertEqual(len(shown), 1)
            self.assertIn("epoch 1", shown[0])

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "needs torchvision")
    def test_trains_a_resnet_and_a_vgg(self):
        for model in ("resnet18", "vgg11_bn"):
            shown = epochs(example("resnet.py", "--model", model, "--epochs", "1", "--samples", "256", world=2))
            self.assertIn("of 4 steps", shown[0])
        plain = example("resnet.py", "--epochs", "1", "--samples", "256", "--plain", "--evaluate", "100", world=2)
        self.assertRegex(plain, r"epoch 0: loss \d+\.\d+, accuracy 0\.\d+ after \d+\.\d s of training, rate \d\.\d+ after "
                                r"4 steps in all")


class Text(unittest.TestCase):
    def test_trains_a_transformer(self):
        for options in ((), ("--workers", "1", "--stream", *map(str, (SOURCE / "docs").glob("*.md")))):
            shown = epochs(example("transformer.py", "--epochs", "2", *options, world=2))
            losses = [float(line.split("loss ")[1].split(",")[0]) for line in shown]
            self.assertLess(losses[-1], 3.3)

    def test_trains_a_causal_language_model_and_fine_tunes_it(self):
        texts = ("--texts", *(str(SOURCE / "docs" / name) for name in ("sizing.md", "faults.md", "reports.md")))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "base.pt")
            shown = epochs(example("causal_lm.py", *texts, "--save", path, world=2)) + epochs(example("causal_lm.py", *texts, "--start", path))
        losses = [float(line.split("loss ")[1].split()[0]) for line in shown]
        self.assertEqual(len(losses), 4)
        self.assertEqual(losses, sorted(losses, reverse=True))

    def test_trains_an_lstm(self):
        losses = [float(line.split("loss ")[1].split(",")[0]) for line in epochs(example("lstm.py", world=2))]
        self.assertEqual(len(losses), 3)
        self.assertLess(losses[-1], losses[0])


class Choices(unittest.TestCase):
    def test_trains_ncf_on_choices_that_are_drawn_and_on_a_file(self):
        found = [float(line.split(": ")[1].split()[0]) for line in epochs(example("ncf.py", world=2))]
        self.assertGreater(found[-1], 0.3, "a fifth is chance")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ratings.csv"
            rows = (f"{7 + 3 * (i % 40)},{100 + 5 * (i % 30)},4.5,{i}" for i in range(600))
            path.write_text("\n".join(["userId,movieId,rating,timestamp", *rows]) + "\n", encoding="utf-8")
            self.assertEqual(len(epochs(example("ncf.py", "--ratings", str(path), "--epochs", "1"))), 1)


def needs(*packages):
    missing = [package for package in packages if not importlib.util.find_spec(package)]
    if not os.path.isdir("/usr/share/datasets/fashion-mnist"):
        missing.append("dataset-fashion-mnist")
    if agents.program() is None:
        missing.append("dynamix-node")
    return unittest.skipIf(missing, f"needs {', '.join(missing)} (CONTRIBUTING.md)")


def shown_command(name):
    """The command that an example's first lines show, as words."""
    text = (SOURCE / "examples" / name).read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if "dynamix-node exec" in line).split()


class Lines(unittest.TestCase):
    def test_that_adopt_dynamix_are_as_many_as_the_table_of_frameworks_says(self):
        """Imports are not counted but in place of a framework's own."""
        table = (SOURCE / "docs/sdk.md").read_text(encoding="utf-8").split("## Frameworks")[1].split("\n\n")[1]
        said = {cells[1].strip(): int(re.match(r" *(\d+)", cells[3])[1]) for cells in (line.split("|") for line in table.splitlines()[2:])}
        adopts = re.compile(r"import .*# in place of|dynamix(\.|::)join\(|run(\(\))?\.(loader|sampler|step|finish|close)\(|\[Dynamix\(")
        found = {}
        for framework, name in (("accelerate", "with_accelerate.py"), ("Hugging Face Trainer", "with_transformers.py"),
                                ("Lightning's Trainer", "with_lightning.py"), ("Lightning's Fabric", "with_fabric.py"),
                                ("Ray Train's torch trainer", "with_ray.py"), ("none (DistributedDataParallel)", "fashion_mnist.py"),
                                ("none (LibTorch)", "cpp/train.cpp")):
            text = (SOURCE / "examples" / name).read_text(encoding="utf-8")
            code = text.split('"""', 2)[2] if name.endswith(".py") else text
            found[framework] = len([line for line in code.splitlines() if adopts.search(line)])
        self.assertEqual(found, said)


class Frameworks(unittest.TestCase):
    """Each trains two epochs with two ranks and their agents, by the command that it shows."""

    def check(self, name, prints=True):
        words = shown_command(name)
        variables = dict(word.split("=") for word in words[:words.index("dynamix-node")])
        words = words[len(variables):]
        at = words.index("--") + 1
        words[at:at + 1] = agents.torchrun() if words[at] == "torchrun" else [sys.executable]
        words[0], words[-1] = agents.program(), str(SOURCE / words[-1])
        with tempfile.TemporaryDirectory() as folder:
            words[2:2] = ["--out", "run"]
            done = subprocess.run(words, env={**ENVIRONMENT, **variables}, cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=ranks.SECONDS)
            text = done.stdout.decode(errors="replace")
            self.assertEqual(done.returncode, 0, text)
            summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text(encoding="utf-8"))
        if prints:
            self.assertEqual({line.split(":")[0] for line in epochs(text)}, {"epoch 0", "epoch 1"}, text)
        self.assertEqual((summary["succeeded"], summary["reason"], summary["samples"]), (True, "completed", 24000))
        self.assertGreater(summary["decisions"]["applied"], 0)

    @needs("accelerate")
    def test_accelerate(self):
        self.check("with_accelerate.py")

    @needs("lightning")
    def test_fabric(self):
        self.check("with_fabric.py")

    @needs("lightning")
    def test_lightning(self):
        self.check("with_lightning.py")

    @needs("ray")
    def test_ray(self):
        """Whose workers' lines are colourful."""
        self.check("with_ray.py", prints=False)

    @needs("transformers", "accelerate")
    def test_transformers(self):
        self.check("with_transformers.py")


if __name__ == "__main__":
    unittest.main()
