"""The agent of this process: where the user says, in the environment, or started by member 0 for one machine."""
from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import selectors
import subprocess
import time
from typing import TYPE_CHECKING, Dict, Optional, Union

from .client import DynamixError, agent_path
from .library import program
from .peers import Peers

if TYPE_CHECKING:
    import torch

_log = logging.getLogger("dynamix")
_START_SECONDS = 30
_FAREWELL_SECONDS = 10

Agent = Union[str, "os.PathLike[str]", None]


def local_rank(peers: Peers) -> int:
    """This process's place among those of its machine: as torchrun says, else its place among all."""
    return int(os.environ.get("LOCAL_RANK", peers.position))


def find(agent: Agent, peers: Peers) -> str:
    """The path of the agent's socket; empty for none."""
    if agent is None or agent == "off":
        return ""
    if agent == "auto":
        path = agent_path(local_rank(peers))
        if not path and peers.position == 0:
            _log.warning("$DYNAMIX_AGENT is not set, so batch sizes stay as they are. Weights, samples and the learning "
                         "rate are right all the same. Start the script by `dynamix-node exec -- ...`, or join with "
                         "agent=None on a single machine, or with agent=\"off\" to have no agent and no warning.")
        return path
    path = os.fspath(agent)
    return os.path.join(path, f"{local_rank(peers)}.sock") if os.path.isdir(path) else path


def gpu_index(number: int, visible: Optional[str]) -> Optional[int]:
    """Which of this process's CUDA devices the driver's GPU `number` is, under $CUDA_VISIBLE_DEVICES; None: not known.

    >>> gpu_index(3, "2,3")
    1
    >>> gpu_index(3, None)
    3
    """
    if visible is None:
        return number
    names = [name.strip() for name in visible.split(",")]
    if str(number) in names:
        return names.index(str(number))
    return 0 if len(names) == 1 else None


def check_gpu(number: int, device: torch.device) -> None:
    """Warns where a model is on another GPU than the one that the cluster file gives its worker (-1: none)."""
    wanted = gpu_index(number, os.environ.get("CUDA_VISIBLE_DEVICES")) if number >= 0 else None
    if device.type == "cuda" and wanted is not None and device.index != wanted:
        _log.warning("the cluster file gives this worker GPU %d, which is cuda:%d here, and its model is on %s: start it "
                     "by `dynamix-node exec --run RUN --name HOST --slot I`, or put the model on that device", number,
                     wanted, device)


def _machine() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Hosted:
    """The agents and the arbitrator of one machine, as children of member 0. They end with it."""

    def __init__(self, peers: Peers, settings: Dict[str, object]) -> None:
        """All members call it at the same place. Raises on all of them where the agents cannot be started."""
        self._process: Optional[subprocess.Popen[bytes]] = None
        machines = peers.gather_objects(_machine())
        if len(set(machines)) > 1:
            raise DynamixError("agent=None starts the agents of one machine, and the processes of this run are on "
                               f"{len(set(machines))}; start an agent on each host (`dynamix-node run`) and set "
                               "$DYNAMIX_AGENT there")
        problem = self._directory = ""
        if peers.position == 0:
            try:
                self._directory = self._start(peers.size, settings)
            except (OSError, DynamixError) as error:
                problem = str(error)
        self._directory, problem = peers.from_first((self._directory, problem))
        if problem:
            raise DynamixError(problem)

    def _start(self, members: int, settings: Dict[str, object]) -> str:
        command = [program(), "exec", "--workers", str(members)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        # The shell lives until our end of the pipe closes, however this process ends; with it the agents end. A forked child may hold
        # that end, too (a loader's worker), so `_end` says it by a line.
        command += ["--", "/bin/sh", "-c", 'echo "$DYNAMIX_AGENT"; exec >/dev/null; read -r _']
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._read_directory()

    def _read_directory(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline() if selector.select(_START_SECONDS) else b""
        path = os.fsdecode(line).strip()
        if not path:
            self._end()
            raise DynamixError("dynamix-node exec has started no agents; its own message stands above")
        return path

    def socket(self, member: int) -> str:
        """Of the agent that serves this member."""
        return os.path.join(self._directory, f"{member}.sock")

    def end(self, peers: Peers, succeeded: bool) -> None:
        """Ends the agents, once all members have said farewell to theirs."""
        if succeeded and peers.meet(_FAREWELL_SECONDS) is not True and peers.position == 0:
            time.sleep(1)
        self._end()

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                os.write(process.stdin.fileno(), b"\n")
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
