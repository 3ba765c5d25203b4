"""Starts a system's processes as its own documents do, and ends them."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


def free_port():
    """The first of fifty that are free together, below those that the kernel gives away."""
    for port in range(21_000 + os.getpid() % 50 * 100, 31_000, 50):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for offset in range(50):
                probe = stack.enter_context(socket.socket())
                probe.bind(("127.0.0.1", port + offset))
            return port
    raise OSError("there are no free ports")


def descendants(process):
    """Process ids below this one, itself included."""
    found = [process]
    for task in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text(encoding="ascii").split():
                found += descendants(int(child))
    return found


class Running:
    """A system's processes, each of which writes its rank's file into `out`."""

    def __init__(self, system, job, python, out, environment):
        self.system, self.job, self.python, self.out, self.environment = system, job, python, out, environment
        self.processes, self.ranks = [], {}
        self.log = open(out / "log", "ab")

    def begin(self):
        """Starts them all. OSError where the first does not come."""
        system, job, python = self.system, self.job, self.python
        script = [python, str(HERE / system["script"]), *system.get("arguments", [])]
        if system["launcher"] == "torchrun":
            torchrun = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(job["workers"]), "--master-addr", "127.0.0.1",
                        "--master-port", str(job["port"]), *system.get("torchrun", [])]
            self.start([*self.agents(), *torchrun, *script[1:]])
            return
        self.script = script
        if system["launcher"] == "torchft":
            self.start([str(pathlib.Path(python).parent / "torchft_lighthouse"), "--bind", f"127.0.0.1:{job['port']}", "--min_replicas", "1",
                        "--join_timeout_ms", "1000", "--quorum_tick_ms", "50"])
        if system["launcher"] == "store":
            self.start([python, "-c", "import signal, torch.distributed as d\ns = d.TCPStore('127.0.0.1', " + str(job["port"]) +
                        ", None, True, wait_for_workers=False)\nsignal.pause()"])
            time.sleep(2)
        for rank in range(job["workers"]):
            self.start_rank(rank)
            if system["launcher"] == "hivemind" and rank == 0:
                self.job = {**job, "peers": self.first_peers()}

    def agents(self):
        if "policy" not in self.system:
            return []
        settings = [word for setting in self.system["policy"] for word in ("--set", setting)]
        return [self.environment["DYNAMIX_NODE"], "exec", "--workers", str(self.job["workers"]), "--out", str(self.out / "run"),
                "--set", "dashboard.listen=", *settings, "--"]

    def start(self, command, **variables):
        environment = {**self.environment, "PEERS_JOB": json.dumps(self.job), **variables}
        process = subprocess.Popen(command, env=environment, cwd=self.out, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                   start_new_session=True)
        self.processes.append(process)
        return process

    def start_rank(self, rank):
        self.ranks[rank] = self.start(self.script, RANK=str(rank), WORLD_SIZE=str(self.job["workers"]), MASTER_ADDR="127.0.0.1",
                                      MASTER_PORT=str(self.job["port"]), LOCAL_RANK=str(rank),
                                      TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{self.job['port']}")

    def first_peers(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for path in self.out.glob("rank-0-*.jsonl"):
                for line in path.read_text(encoding="ascii").splitlines():
                    if "peers" in line:
                        return json.loads(line)["peers"]
            time.sleep(0.1)
        raise OSError("the first peer has not come within 60 s")

    def process_of(self, rank):
        """The newest process that trains as this rank."""
        files = sorted(self.out.glob(f"rank-{rank}-*.jsonl"), key=lambda path: path.stat().st_mtime)
        return int(files[-1].stem.split("-")[2]) if files else None

    def kill(self, rank):
        """As if its host had died: with all that it has started."""
        for process in descendants(self.process_of(rank)):
            os.kill(process, signal.SIGKILL)

    def failed(self):
        """Why nothing goes on; None where all run."""
        for process in self.processes:
            if process.poll() not in (None, -signal.SIGKILL):
                lines = (self.out / "log").read_text(errors="replace").strip().splitlines()
                told = [line for line in lines if "Error" in line or "error" in line] or lines[-1:]
                return f"ended with {process.returncode}: {told[-1][:300] if told else ''}"
        return None

    def end(self):
        everybody = {each for process in self.processes for each in descendants(process.pid)}
        for process in self.processes:
            if "policy" in self.system and process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(8)
        for each in everybody:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        for process in self.processes:  # what a process has left behind that was gone before
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        self.log.close()
