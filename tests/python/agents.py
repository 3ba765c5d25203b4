"""Agents of this machine for a test, as `dynamix-node exec` starts them."""
import contextlib
import functools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import ranks  # noqa: F401  (finds the package)

from dynamix import agent


@functools.cache
def program():
    """Path of a dynamix-node that starts agents; None where there is none."""
    try:
        found = agent.program()
        subprocess.run([found, "exec", "--help"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return found
    except (OSError, subprocess.CalledProcessError):
        return None


def torchrun():
    """The words that start torchrun where no other one is met: by a file where torch has no libuv, which it else asks for."""
    meeting = ["--rdzv_conf", "store_type=file"] if os.environ.get("USE_LIBUV") == "0" else ["--rdzv_endpoint", "127.0.0.1:0"]
    return [sys.executable, "-m", "torch.distributed.run", "--rdzv_backend", "c10d", *meeting]


def running(launcher):
    """Process ids of the agents that `launcher` has started and that run."""
    found = []
    for child in pathlib.Path(f"/proc/{launcher}/task").glob("*/children"):
        for process in child.read_text().split():
            try:
                if b"--agent-socket" in pathlib.Path(f"/proc/{process}/cmdline").read_bytes():
                    found.append(int(process))
            except OSError:  # it has ended meanwhile
                pass
    return found


def kill(launcher):
    """Kills all agents that `launcher` has started, which starts them again. Returns their number."""
    processes = running(launcher)
    for process in processes:
        os.kill(process, signal.SIGKILL)
    return len(processes)


def kill_one(launcher, source):
    """Kills one of them, drawn from `source`, if there is one. Returns how many."""
    processes = sorted(running(launcher))
    if processes:
        os.kill(source.choice(processes), signal.SIGKILL)
    return 1 if processes else 0


class Started:
    """The directory of sockets, the run directory, the launcher's process, how it ended and what it said."""

    def __init__(self, process, sockets, run):
        self.process, self.sockets, self.run = process, sockets, run
        self.status, self.said = None, ""

    def log(self, worker):
        return pathlib.Path(self.run, "logs", f"worker-{worker}.log").read_text(errors="replace")


_reservations = []


def take_free_ports(count):
    """Below those that the kernel gives away by itself, and reserved among all of Dynamix's processes on this machine for as
    long as this one lives (links/free_port.cpp)."""
    ports, port = [], 20_000 + os.getpid() * 64 % 12_000
    while len(ports) < count:
        port = port + 1 if port < 32_000 else 20_000
        reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
            reservation.bind(f"\0dynamix-port-{port}")
        except OSError:
            reservation.close()
            continue
        _reservations.append(reservation)
        ports.append(port)
    return ports


class Host:
    """The process of a host, its run directory, and what it has said."""

    def __init__(self, folder, name):
        self.name, self.run = name, os.path.join(folder, name)
        self._said = pathlib.Path(folder, f"{name}.log")
        command = [agent.program(), "run", "--cluster", os.path.join(folder, "cluster.toml"), "--name", name,
                   "--out", self.run, "--log-to-stderr"]
        with open(self._said, "wb") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=said)

    def said(self):
        return self._said.read_text(errors="replace")

    def socket(self, slot):
        return os.path.join(self.run, "agents", f"{slot}.sock")


@contextlib.contextmanager
def shared_hosts(hosts, workers, **settings):
    """An arbitrator, and so many hosts with so many workers each, every one with a process of its own, as on machines of
    their own, and GPUs of the numbers 10 HOST + WORKER; settings of [batch], [arbitrator] ... as in `started`. The arbitrator comes first."""
    with tempfile.TemporaryDirectory() as folder:
        sections = {"cluster": ['name = "shared"', "detect_ms = 5000"], "training": ['trainer = "client"'],
                    "dashboard": ['listen = ""']}
        settings.setdefault("arbitrator__policy", '"goodput"')
        for name, value in settings.items():
            section, _, field = name.partition("__")
            sections.setdefault(section, []).append(f"{field} = {value}")
        text = "".join(f"[{section}]\n" + "\n".join(lines) + "\n" for section, lines in sections.items())
        ports = take_free_ports(hosts + 1)
        text += f'[[host]]\nname = "hub"\nport = {ports[0]}\nroles = ["arbitrator"]\n'
        for i in range(hosts):
            gpus = [10 * i + slot for slot in range(workers)]
            text += f'[[host]]\nname = "m{i}"\nport = {ports[i + 1]}\nworkers = {workers}\ngpus = {gpus}\n'
        pathlib.Path(folder, "cluster.toml").write_text(text, encoding="utf-8")
        started_hosts = [Host(folder, name) for name in ["hub"] + [f"m{i}" for i in range(hosts)]]
        try:
            limit = time.monotonic() + 60
            while not all(os.path.exists(host.socket(slot)) for host in started_hosts[1:] for slot in range(workers)):
                if time.monotonic() > limit or any(host.process.poll() is not None for host in started_hosts):
                    raise RuntimeError("\n".join(host.said() for host in started_hosts))
                time.sleep(0.02)
            yield started_hosts
        finally:
            for host in started_hosts:
                host.process.kill()
                host.process.wait()


@contextlib.contextmanager
def started(workers, **settings):
    """Agents for so many ranks until the block ends; settings of the cluster file as batch__initial=8."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = [agent.program(), "exec", "--workers", str(workers), "--out", run]
        for name, value in settings.items():
            command += ["--set", f"{name.replace('__', '.')}={value}"]
        command += ["--", "/bin/sh", "-c", 'echo "$DYNAMIX_AGENT"; exec cat >/dev/null']
        with open(os.path.join(folder, "said"), "wb") as said:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, cwd=folder)
        agents = Started(process, process.stdout.readline().decode().strip(), run)
        try:
            yield agents
        finally:
            process.stdin.close()
            process.stdout.close()
            try:
                agents.status = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            agents.said = pathlib.Path(folder, "said").read_text(errors="replace")
