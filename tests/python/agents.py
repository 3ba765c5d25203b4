"""Agents of this machine for a test, as `dynamix-node exec` starts them."""
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile

import ranks  # noqa: F401  (finds the package)

from dynamix import agent


def program():
    """Path of a dynamix-node that starts agents; None where there is none."""
    try:
        found = agent.program()
        subprocess.run([found, "exec", "--help"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return found
    except (OSError, subprocess.CalledProcessError):
        return None


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
