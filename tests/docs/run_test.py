"""The pages' commands, run as a reader would: whole pages in their order, the others' commands each by itself. What is
not run here says by what it is covered, or why it is not. Commands with torchrun need a Python with torch."""
import gzip
import importlib.util
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import pages

PROGRAM = pathlib.Path(os.environ["DYNAMIX_NODE"]).resolve()
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
DEPLOYMENTS = pages.SOURCE / "deployments"
PATIENCE_SECONDS = 600
# Pages whose blocks are typed one behind the other, in one directory.
WHOLE = ("docs/first-hour.md", "docs/own-model.md")
# They train, serve or wait for others until somebody ends them.
LASTING = re.compile(r"dynamix-node (compare|dashboard|experiment \S+|local|run|swarm|train-policy|faults) ")
# What is not run here: by what it is, or why nothing does.
ELSEWHERE = (
    (r"make (run|test|node && .*)$", "what this test is a part of; `make run` by hand"),
    (r"apt-get install \./build/packages", "tests/packages/bare_debian"),
    (r"dynamix-node local$", "tests/packages/bare_debian; the same with --out in the first hour"),
    (r"dynamix-node launch ", "launch_test"),
    (r"dynamix-node arbitrators ", "cluster_forms_test"),
    (r"dynamix-node run --cluster cluster.toml --name ada --out RUN &", "python_slots, cluster_client_test"),
    (r"dynamix-node exec --run RUN ", "python_slots, cluster_client_test"),
    (r"for h in ada ben; do", "by hand: makes network namespaces, as root"),
    (r"dynamix-node exec --workers 2 --out runs/one ", "the same on the page of an own model"),
    (r"dynamix-node exec --workers 4 ", "python_agents; with two workers on the page of an own model"),
    (r"dynamix-node run --cluster cluster.toml --name guest", "cluster_open_test"),
    (r"dynamix tensorboard ", "python_packaging"),
    (r"dynamix exec --workers 2 -- torchrun ", "wheel_test"),
    (r"(make wheel|pip install )", "wheel_test"),
    (r"prometheus ", "browser_board"),
    (r"(bible|apt-get install bible-kjv|dynamix-node experiment compression)", "needs bible-kjv, and 20 minutes"),
    (r"dynamix-node experiment vgg11-sgd", "20 minutes; deployments/experiments is read by comparison_test"),
    (r"dynamix-node local .*ml-20m", "needs MovieLens, which everybody has to fetch; a test reads files of that form"),
    (r"dynamix-node local --cluster deployments/clusters/text-2.toml$", "needs perl-doc; the line below it is run"),
    (r"dynamix-node keys issue ", "cluster_open_test"),
    (r"sudo setcap ", "changes the program's file; capabilities are those of ebpf_probes_test"),
    (r"(cp \.\.\.|podman |kubectl )", "never: there was no Kubernetes; manifest and scripts are those of kubernetes_test"),
    (r"(cd DIRECTORY|sbatch )", "by hand with slurm-wlm, as the page says"),
    (r"(useradd|install|systemctl) ", "changes the machine; the unit is that of systemd_unit_test"),
)


def why_not(line):
    return next((why for pattern, why in ELSEWHERE if re.match(pattern, line)), None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Reader:
    """A shell in a directory with a reader's own files."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        commands = self.directory / "bin"
        commands.mkdir()
        (commands / "dynamix-node").symlink_to(PROGRAM)
        (commands / "python3").symlink_to(sys.executable)  # the one that has torch, whatever else is on the PATH
        (commands / "torchrun").write_text(f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run --rdzv_backend c10d '
                                           f'--rdzv_endpoint 127.0.0.1:0 "$@"\n', encoding="ascii")
        (commands / "torchrun").chmod(0o755)
        (self.directory / "deployments").symlink_to(DEPLOYMENTS)
        self.environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "D": str(DEPLOYMENTS),
                            "PYTHONPATH": str(pages.SOURCE / "python")}

    def start(self, line):
        with open(self.directory / "said", "wb") as said:
            alone = re.match(r"dynamix-node [^;&|]*$", line) is not None
            return subprocess.Popen(["bash", "-c", f"exec {line}" if alone else line], stdout=said,
                                    stderr=subprocess.STDOUT, cwd=self.directory, env=self.environment)

    def said(self):
        return (self.directory / "said").read_text(encoding="utf-8", errors="replace")

    def run(self, line):
        """The exit status."""
        return self.start(line).wait(PATIENCE_SECONDS)

    def begin(self, line):
        """Starts it and asks it to end once it has said something, or has had time to."""
        process = self.start(line)
        for _ in range(200):
            if self.said() or process.poll() is not None:
                break
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        return process.wait(PATIENCE_SECONDS)

    def smaller_data(self):
        """A tenth of Fashion-MNIST."""
        folder = self.directory / "data"
        folder.mkdir()
        for part, count in (("train", 6000), ("t10k", 1000)):
            for kind, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
                name = f"{part}-{kind}-ubyte.gz"
                with gzip.open(DATA / name) as whole:
                    start = whole.read(header + count * size)
                (folder / name).write_bytes(gzip.compress(start[:4] + count.to_bytes(4, "big") + start[8:], 1))
        return folder

    def write_cluster(self):
        """The hosts of `make run` on free ports, with windows that a short run has many of."""
        text = (DEPLOYMENTS / "clusters" / "local-4.toml").read_text(encoding="utf-8")
        text = re.sub(r"port = \d+", lambda _: f"port = {free_port()}", text).replace('"../', f'"{DEPLOYMENTS}/')
        text = text.replace("window_steps = 10", "window_steps = 2").replace("epochs = 12 ", "epochs = 8 ")
        text = text.replace('dataset = "fashion-mnist"',
                            f'dataset = "fashion-mnist"\ndata_path = "{self.smaller_data()}"')
        for name in ("cluster.toml", "my.toml", "my-cluster.toml"):
            (self.directory / name).write_text(text + '[dashboard]\nlisten = ""\n', encoding="utf-8")


@unittest.skipUnless(DATA.exists(), "apt-get install dataset-fashion-mnist")
class WholePages(unittest.TestCase):
    def test_lead_from_their_first_command_to_their_last(self):
        torch = importlib.util.find_spec("torch") is not None
        for name in WHOLE:
            page = pages.SOURCE / name
            with tempfile.TemporaryDirectory() as directory:
                reader = Reader(directory)
                for file, text in pages.files(page):
                    (reader.directory / file).write_text(text, encoding="utf-8")
                for line in pages.commands(page):
                    if why_not(line) or (re.search("torchrun|python3|model.pt", line) and not torch):
                        continue
                    with self.subTest(page=name, command=line):
                        if line.startswith("dynamix-node local "):
                            line += f" --set dashboard.listen=127.0.0.1:{free_port()}"
                        expected = 124 if line.startswith("timeout ") else 0
                        self.assertEqual(reader.run(line), expected, reader.said())


@unittest.skipUnless(DATA.exists(), "apt-get install dataset-fashion-mnist")
class Commands(unittest.TestCase):
    def test_run_as_they_are_shown(self):
        with tempfile.TemporaryDirectory() as directory:
            reader = Reader(directory)
            reader.write_cluster()
            for line in ("dynamix-node local --cluster cluster.toml --trace --out runs/RUN",
                         "dynamix-node keys init --cluster cluster.toml --keys keys"):
                self.assertEqual(reader.run(line), 0, reader.said())
            for page in pages.PAGES:
                if pages.name_of(page) in WHOLE:
                    continue
                for line in dict.fromkeys(pages.commands(page)):
                    if why_not(line) is None:
                        with self.subTest(page=pages.name_of(page), command=line):
                            self.check(reader, self.own(line, reader))

    @staticmethod
    def own(line, reader):
        """With the reader's own names and free ports in it."""
        number = len(list(reader.directory.iterdir()))
        line = re.sub(r" \[--listen.*", f" --listen 127.0.0.1:{free_port()}", line)
        line = line.replace("build/release/node/dynamix-node", "dynamix-node")
        line = re.sub(r"--(html|out) FILE", rf"--\1 file-{number}", line)
        line = line.replace("=FILE", f"={DEPLOYMENTS}/policies/ppo.dynamix")
        for name, text in (("FILE", "cluster.toml"), ("HOST", "ada"), ("PATH", f"agent-{number}.sock"),
                           ("RUN", "runs/RUN")):
            line = re.sub(rf"\b{name}\b", text, line)
        if re.match(r"dynamix-node (compare|faults|local|run|swarm) ", line) and "--out" not in line:
            line += f" --out out-{number}"
        if line.startswith("dynamix-node keys init"):
            line += f" --keys keys-{number}"
        if line.startswith("dynamix-node init"):
            line = line.replace("--out cluster.toml", f"--out made-{number}.toml")
        return line

    def check(self, reader, line):
        if LASTING.match(line):
            self.assertIn(reader.begin(line), (0, 1, 130), reader.said())  # 1: stopped before its end
            self.assertNotIn("error: ", reader.said())
        else:
            self.assertEqual(reader.run(line), 0, reader.said())

    def test_that_are_not_run_here_are_accounted_for(self):
        """Reasons for commands that no page has any more go, too."""
        told = [line for page in pages.PAGES for line in pages.commands(page)]
        for pattern, why in ELSEWHERE:
            self.assertTrue(any(re.match(pattern, line) for line in told), f"{pattern}: {why}")


if __name__ == "__main__":
    unittest.main()
