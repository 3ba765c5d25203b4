"""The examples run, shortly: with two ranks under torchrun and in one process."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE / "python"), "OMP_NUM_THREADS": "1"}
# Torch 1.13's torchrun fails under Python 3.11 unless it redirects.
TORCHRUN = ["-m", "torch.distributed.run", "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0", "-r", "1", "-t", "1"]


def example(name, *arguments, ranks=1, **variables):
    script = [str(SOURCE / "examples" / name), "--agent", "off", *arguments]
    with tempfile.TemporaryDirectory() as logs:
        launch = [*TORCHRUN, "--log_dir", logs, "--nproc_per_node", str(ranks)] if ranks > 1 else []
        done = subprocess.run([sys.executable, *launch, *script], env={**ENVIRONMENT, **variables}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=400)
    text = done.stdout.decode(errors="replace")
    assert done.returncode == 0, text
    return text


def epochs(text):
    return [line[line.index("epoch "):] for line in text.splitlines() if "epoch " in line and "batch sizes" in line]


@unittest.skipUnless(os.path.isdir("/usr/share/datasets/fashion-mnist"), "apt-get install dataset-fashion-mnist")
class FashionMNIST(unittest.TestCase):
    def test_trains_with_and_without_dynamix(self):
        for options in ((), ("--plain",)):
            text = example("fashion_mnist.py", "--epochs", "1", "--samples", "6000", *options, ranks=2)
            self.assertGreater(float(text.split("accuracy ")[1].split()[0]), 0.25)

    def test_resumes_from_its_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            options = ("--samples", "2000", "--checkpoint", path, "--workers", "1")
            self.assertEqual(len(epochs(example("fashion_mnist.py", "--epochs", "1", *options))), 1)
            shown = epochs(example("fashion_mnist.py", "--epochs", "2", *options))
            self.assertEqual(len(shown), 1)
            self.assertIn("epoch 1", shown[0])

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "apt-get install python3-torchvision")
    def test_trains_a_resnet_and_a_vgg(self):
        for model in ("resnet18", "vgg11_bn"):
            shown = epochs(example("resnet.py", "--model", model, "--epochs", "1", "--samples", "256", ranks=2))
            self.assertIn("of 4 steps", shown[0])
        plain = example("resnet.py", "--epochs", "1", "--samples", "256", "--plain", ranks=2)
        self.assertRegex(plain, r"epoch 0: loss \d+\.\d+, rate \d\.\d+ behind 4 steps in all")


class Text(unittest.TestCase):
    def test_trains_a_transformer(self):
        for options in ((), ("--workers", "1", "--stream", *map(str, (SOURCE / "docs").glob("*.md")))):
            shown = epochs(example("transformer.py", "--epochs", "2", *options, ranks=2))
            losses = [float(line.split("loss ")[1].split(",")[0]) for line in shown]
            self.assertLess(losses[-1], 3.2)


    def test_trains_an_lstm(self):
        losses = [float(line.split("loss ")[1].split(",")[0]) for line in epochs(example("lstm.py", ranks=2))]
        self.assertEqual(len(losses), 3)
        self.assertLess(losses[-1], losses[0])


class Choices(unittest.TestCase):
    def test_trains_ncf_on_choices_that_are_drawn_and_on_a_file(self):
        found = [float(line.split(": ")[1].split()[0]) for line in epochs(example("ncf.py", ranks=2))]
        self.assertGreater(found[-1], 0.3, "a fifth is chance")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ratings.csv"
            rows = (f"{7 + 3 * (i % 40)},{100 + 5 * (i % 30)},4.5,{i}" for i in range(600))
            path.write_text("\n".join(["userId,movieId,rating,timestamp", *rows]) + "\n", encoding="utf-8")
            self.assertEqual(len(epochs(example("ncf.py", "--ratings", str(path), "--epochs", "1"))), 1)


def needs(package):
    missing = not importlib.util.find_spec(package) or not os.path.isdir("/usr/share/datasets/fashion-mnist")
    return unittest.skipIf(missing, f"needs {package}, which Debian does not have, and dataset-fashion-mnist")


class Frameworks(unittest.TestCase):
    """Each trains two epochs with two ranks."""

    def check(self, name, **variables):
        shown = epochs(example(name, ranks=2, **variables))
        self.assertEqual({line.split(":")[0] for line in shown}, {"epoch 0", "epoch 1"})

    @needs("accelerate")
    def test_accelerate(self):
        self.check("with_accelerate.py", ACCELERATE_USE_CPU="1")

    @needs("lightning")
    def test_fabric(self):
        self.check("with_fabric.py", LT_ACCELERATOR="cpu", LT_DEVICES="2", LT_STRATEGY="ddp")

    @needs("lightning")
    def test_lightning(self):
        self.check("with_lightning.py")

    @needs("transformers")
    def test_transformers(self):
        text = example("with_transformers.py", ranks=2)
        self.assertIn("'train_loss'", text)


if __name__ == "__main__":
    unittest.main()
