"""The manifest of deployments/kubernetes, without a Kubernetes cluster: its parts agree, and its scripts are run."""
import http.server
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import yaml
except ImportError:
    print("skipped: there is no python3-yaml")
    sys.exit(77)

DIRECTORY = pathlib.Path(__file__).resolve().parents[2] / "deployments" / "kubernetes"
PROGRAM = pathlib.Path(os.environ["DYNAMIX_NODE"])
SERVICE, JOB = yaml.safe_load_all((DIRECTORY / "dynamix.yaml").read_text())
POD = JOB["spec"]["template"]["spec"]
KEYS, TRAINING = POD["initContainers"][0], POD["containers"][0]


def run(*arguments, **options):
    return subprocess.run([str(each) for each in arguments], check=True, capture_output=True, text=True, **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Manifest(unittest.TestCase):
    def test_parts_agree(self):
        self.assertEqual(JOB["spec"]["completions"], JOB["spec"]["parallelism"])
        labels = JOB["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(SERVICE["spec"]["selector"].items(), labels.items())
        self.assertEqual(SERVICE["metadata"]["name"], POD["subdomain"])
        volumes = {volume["name"] for volume in POD["volumes"]}
        for container in (KEYS, TRAINING):
            self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        ports = {port["port"] for port in SERVICE["spec"]["ports"]}
        self.assertEqual({port["containerPort"] for port in TRAINING["ports"]}, ports)

    def test_readme_makes_a_cluster_of_the_same_pods(self):
        text = (DIRECTORY / "README.md").read_text()
        init = next(line for line in text.splitlines() if line.startswith("dynamix-node init"))
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(init.replace("dynamix-node", str(PROGRAM), 1), shell=True, check=True, cwd=directory,
                           stdout=subprocess.DEVNULL)
            plan = run(PROGRAM, "check", "--cluster", f"{directory}/cluster.toml").stdout
        for index in range(JOB["spec"]["completions"]):
            name = f"{JOB['metadata']['name']}-{index}.{SERVICE['metadata']['name']}"
            self.assertIn(f"{name}:{SERVICE['spec']['ports'][0]['port']}", plan)

    def test_probe_asks_the_page(self):
        class Page(http.server.BaseHTTPRequestHandler):
            answer = b"ok\n"

            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(self.answer if self.path == "/healthz" else b"another page\n")

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            command = TRAINING["livenessProbe"]["exec"]["command"]
            probe = [each.replace("8080", str(server.server_port)) for each in command]
            arbitrator = {**os.environ, "INDEX": "0"}
            self.assertEqual(subprocess.run(probe, env=arbitrator, timeout=20).returncode, 0)
            Page.answer = b"no\n"
            self.assertNotEqual(subprocess.run(probe, env=arbitrator, timeout=20).returncode, 0)
            server.shutdown()
        quiet = {"stderr": subprocess.DEVNULL, "timeout": 20}
        self.assertNotEqual(subprocess.run(probe, env=arbitrator, **quiet).returncode, 0)
        self.assertEqual(subprocess.run(probe, env={**os.environ, "INDEX": "1"}, **quiet).returncode, 0)


class Pod:
    """The containers' scripts, in a directory in place of the pod's file system and under the pod's name."""

    def __init__(self, root, index, shared, incarnation=0):
        self.root = root / f"pod-{index}-{incarnation}"
        for each in ("keys", "run"):
            (self.root / each).mkdir(parents=True)
        for name, source in shared.items():
            (self.root / name).symlink_to(source)
        commands = self.root / "bin"
        commands.mkdir()
        (commands / "hostname").write_text(f"#!/bin/sh\necho dynamix-{index}\n")
        (commands / "hostname").chmod(0o755)
        (commands / "dynamix-node").symlink_to(PROGRAM)
        self.environment = {**os.environ, "INDEX": str(index), "PATH": f"{commands}:{os.environ['PATH']}"}
        self.log = self.root / "log"

    def command(self, container):
        return [*container["command"], container["args"][0].replace("/dynamix/", f"{self.root}/")]

    def unpack_keys(self):
        run(*self.command(KEYS), env=self.environment)

    def start(self):
        with self.log.open("w") as log:
            return subprocess.Popen(self.command(TRAINING), env=self.environment, stdout=log, stderr=log)


class Scripts(unittest.TestCase):
    def test_what_was_stopped_is_not_started_again(self):
        for code, expected in ((0, 0), (1, 1), (2, 2), (3, 0), (130, 0), (137, 137)):
            with self.subTest(code=code), tempfile.TemporaryDirectory() as directory:
                pod = Pod(pathlib.Path(directory), 1, {})
                program = pod.root / "bin" / "dynamix-node"
                program.unlink()
                program.write_text(f"#!/bin/sh\nexit {code}\n")
                program.chmod(0o755)
                self.assertEqual(pod.start().wait(60), expected)
                self.assertEqual("is not restarted" in pod.log.read_text(), code != expected)

    def test_pods_train_are_drained_and_replaced(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "cluster").mkdir()
            (root / "all-keys").mkdir()
            cluster = root / "cluster" / "cluster.toml"
            run(PROGRAM, "init", "--hosts", "dynamix-0.dynamix=127.0.0.1,dynamix-1.dynamix=127.0.0.2", "--port",
                free_port(), "--out", cluster)
            page = f'[dashboard]\nlisten = "127.0.0.1:{free_port()}"\n'
            cluster.write_text(cluster.read_text().replace("[arbitrator]\n", page + "[arbitrator]\n")
                               .replace("[training]\n", "[training]\nepochs = 1000\n"))
            run(PROGRAM, "keys", "init", "--cluster", cluster, "--keys", root / "made")
            run("tar", "-cf", root / "all-keys" / "keys.tar", "-C", root / "made", "hosts")
            shared = {name: root / name for name in ("cluster", "all-keys")}
            pods = [Pod(root, index, shared) for index in range(2)]
            for index, pod in enumerate(pods):
                pod.unpack_keys()
                hosts = list((pod.root / "keys" / "hosts").iterdir())
                self.assertEqual([each.name for each in hosts], [f"dynamix-{index}.dynamix"])
                self.assertEqual({each.stat().st_mode & 0o777 for each in hosts[0].iterdir()}, {0o600})
            processes = [pod.start() for pod in pods]
            try:
                self.wait_for_windows(pods)
                processes[0].send_signal(signal.SIGTERM)  # the arbitrator's
                self.assertEqual(processes[0].wait(60), 143, pods[0].log.read_text())
                pods[0] = Pod(root, 0, shared, incarnation=1)  # on another node, where it has nothing
                pods[0].unpack_keys()
                processes[0] = pods[0].start()
                ledger = self.wait_for_windows(pods)
                self.assertIsNone(processes[1].poll(), pods[1].log.read_text())
                processes[1].send_signal(signal.SIGTERM)
                self.assertEqual(processes[1].wait(60), 143, pods[1].log.read_text())
                self.assertIsNone(processes[0].poll(), pods[0].log.read_text())
                self.assertIn("has left", ledger.read_text())
                processes[0].send_signal(signal.SIGTERM)
                self.assertEqual(processes[0].wait(60), 143, pods[0].log.read_text())
            finally:
                for process in processes:
                    if process.poll() is None:
                        process.terminate()
                        process.wait(60)

    def wait_for_windows(self, pods):
        """Until the arbitrator has decided on windows of both. Returns its ledger."""
        ledger = pods[0].root / "run" / "windows.jsonl"
        for _ in range(900):
            rows = ledger.read_text().splitlines() if ledger.exists() else []
            if any('"kind":"window"' in row and all(f'"host":"dynamix-{index}.dynamix"' in row for index in range(2))
                   for row in rows):
                return ledger
            time.sleep(0.1)
        self.fail("\n".join(pod.log.read_text() for pod in pods))


if __name__ == "__main__":
    unittest.main()
