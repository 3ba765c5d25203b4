"""The largest batch that memory holds (`run.find_batch`), in five trials or fewer.

    the optimiser's state is there -> a trial: gradients of so many rows, nothing is exchanged, nothing is kept
                                   -> what it took, or that memory did not hold it -> the next number of rows
                                   -> the limit, with a margin
"""
from __future__ import annotations

import contextlib
import ctypes
import math
import pathlib
import re
import resource
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .optimizer import has_joined, innermost

MOST_TRIALS = 5
_MARGIN = 0.1        # of the memory that there is
_HOST_MARGIN = 0.25  # of the host's, whose allocator tears it to pieces from step to step, and whose lack ends the process
_HOST_STEPS = 16     # times as many rows as have run, at most, are tried next there
_HOST_REACH = 0.5    # of the way to what should fit: memory has grown up to 1.3 times as much as rows
_CLOSE = 1 / 16      # of what has run: no nearer is looked


_trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim() -> None:
    """Memory of the host that is not used any more is given back, as far as the C library can tell."""
    if _trim is not None:
        _trim(0)


class Trial(NamedTuple):
    rows: int
    ran: bool
    bytes: float  # beyond what was held before; NaN: not measured


class Choice(NamedTuple):
    rows: int    # to try next, or the limit
    ends: bool   # it is the limit; 0 where memory does not hold one row
    reason: str


def choose(trials: Sequence[Trial], start: int, highest: int, room: float, kills: bool) -> Choice:
    """What to try next, or the limit. Pure.

    Args:
        start: rows of the first trial.
        highest: rows that nobody wants more than.
        room: bytes that there were before the first trial.
        kills: a process that needs more than there is may be killed: nothing is tried that is not known to be near.
    """
    if not trials:
        return Choice(min(start, highest), False, "the batch at hand")
    ran = max((trial.rows for trial in trials if trial.ran), default=0)
    failed = min((trial.rows for trial in trials if not trial.ran), default=0)
    if failed == 1:
        return Choice(0, True, "memory does not hold one row")
    if not ran:
        if len(trials) == MOST_TRIALS:
            return Choice(0, True, f"memory does not hold {failed} rows")
        return Choice(max(1, failed // 4), False, f"memory does not hold {failed} rows")
    room_for = _room_for(trials, room, kills)
    most = min(highest, (failed or highest + 1) - 1, room_for)
    if failed:
        settled = ran - math.ceil(ran * _MARGIN) if ran > 1 else ran
        if len(trials) == MOST_TRIALS or failed - ran <= max(1, int(ran * _CLOSE)):
            return Choice(settled, True, f"memory does not hold {failed} rows, and holds {ran}")
        wanted = min(most, round((ran * failed) ** 0.5))
        if wanted <= ran:
            return Choice(settled, True, f"memory does not hold {failed} rows, and {ran} take nearly all of it")
        return Choice(wanted, False, f"between {ran}, which ran, and {failed}")
    if most < ran:
        return Choice(max(1, most), True, f"{ran} rows leave less than the margin")
    if len(trials) == MOST_TRIALS or most - ran <= int(ran * _CLOSE):
        return Choice(ran, True, "nobody wants more" if ran >= highest else f"{ran} rows take nearly all of it")
    if kills:
        most = min(most, ran * _HOST_STEPS, ran + math.ceil(_HOST_REACH * (room_for - ran)))
    return Choice(most, False, f"by what {ran} rows take")


def _room_for(trials: Sequence[Trial], room: float, kills: bool) -> int:
    """Rows that fit by what trials took, the margin left; a large number where none was measured."""
    measured = [trial for trial in trials if trial.ran and trial.bytes > 0]
    if not measured:
        return 2**30
    newest = max(measured)  # by its mean: an allocator has room to spare at one trial, and has torn it to pieces at another
    return min(2**30, int(room * (1 - (_HOST_MARGIN if kills else _MARGIN)) * newest.rows / newest.bytes))


class Host:
    """Memory of this process."""

    kills = True  # where the kernel finds none

    def __init__(self) -> None:
        self._before = _of_process("VmRSS")

    def room(self) -> float:
        """Bytes that this process can still get: of the machine, of its control groups, of its own limits."""
        found = [self.left()]
        for kind, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
            most = resource.getrlimit(kind)[0]
            if most != resource.RLIM_INFINITY:
                found.append(most - _of_process(used))
        return max(0.0, min(found))

    def left(self) -> float:
        """Of the machine and of its control groups alone: what trials have freed is there again, which its own addresses do not tell."""
        return max(0.0, min([_of_file("/proc/meminfo", "MemAvailable"), *_of_groups()]))

    def begin(self) -> None:
        """A trial begins."""
        self._counts = True
        try:
            pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            self._counts = False

    def took(self) -> float:
        """At most since then, beyond what there was at first: what a trial leaves behind is used by the next one."""
        return max(0.0, _of_process("VmHWM") - self._before) if self._counts else float("nan")

    def free(self) -> None:
        trim()


class Device:
    """Memory of a GPU."""

    kills = False

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cuda: Any = torch.cuda
        self._before = self._cuda.memory_allocated(device)

    def room(self) -> float:
        free, _ = self._cuda.mem_get_info(self._device)
        held = self._cuda.memory_reserved(self._device) - self._cuda.memory_allocated(self._device)
        return float(free + held)

    def left(self) -> float:
        return self.room()

    def begin(self) -> None:
        self._cuda.reset_peak_memory_stats(self._device)

    def took(self) -> float:
        self._cuda.synchronize(self._device)
        return float(self._cuda.max_memory_allocated(self._device) - self._before)

    def free(self) -> None:
        self._cuda.empty_cache()


def _of_file(path: str, name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB", pathlib.Path(path).read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    return float(found[1]) * 1024 if found is not None else 0.0


def _of_process(name: str) -> float:
    return _of_file("/proc/self/status", name)


def _of_groups() -> Iterator[float]:
    """What the control groups of this process leave, of either version."""
    with contextlib.suppress(OSError, ValueError):
        for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kinds, own = line.split(":", 2)
            if not kinds:
                root, limit, usage, prefix = "/sys/fs/cgroup", "memory.max", "memory.current", ""
            elif "memory" in kinds.split(","):
                root, limit, usage, prefix = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
            else:
                continue
            group = pathlib.Path(root, own.strip("/"))
            for folder in [group, *group.parents]:
                most = (folder / limit).read_text(encoding="ascii").strip() if (folder / limit).exists() else "max"
                if most != "max":
                    used = int((folder / usage).read_text(encoding="ascii"))
                    parts = dict(row.split() for row in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
                    files = sum(int(parts.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))  # which the kernel gives up
                    yield float(int(most) - used + files)


def memory_of(parameters: Sequence[torch.nn.Parameter]) -> Any:
    device = next((parameter.device for parameter in parameters), torch.device("cpu"))
    return Device(device) if device.type == "cuda" else Host()


@contextlib.contextmanager
def unchanged(model: torch.nn.Module, optimizers: Sequence[Optimizer]) -> Iterator[None]:
    """Within it passes may be made and optimisers have their whole state; behind it all is as before: parameters, gradients, buffers,
    random numbers, optimisers that had no state."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = [parameter.grad for parameter in parameters]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    random = torch.get_rng_state()
    on_device: Optional[Tuple[torch.device, torch.Tensor]] = None
    if parameters and parameters[0].device.type == "cuda":
        cuda: Any = torch.cuda
        on_device = parameters[0].device, cuda.get_rng_state(parameters[0].device)
    # Of one that wraps another it has the state; ZeroRedundancyOptimizer's own step would exchange parameters.
    fresh = [each for each in (innermost(optimizer) for optimizer in optimizers) if not each.state]
    sync = getattr(model, "require_forward_param_sync", None)
    wrapped: Any = model
    if sync is not None:
        wrapped.require_forward_param_sync = False
    try:
        for optimizer in fresh:
            _make_state(optimizer)
        for parameter in parameters:
            parameter.grad = None
        yield
    finally:
        for optimizer in fresh:
            optimizer.state.clear()
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        torch.set_rng_state(random)
        if on_device is not None:
            cuda.set_rng_state(on_device[1], on_device[0])
        if sync is not None:
            wrapped.require_forward_param_sync = sync


def _make_state(optimizer: Optimizer) -> None:
    """By a step at rates of 0, as torch.distributed.checkpoint does."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], torch.Tensor) else 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    # Of the class that it had before it joined: this is no step of the run's.
    stepping: Any = super(type(optimizer), optimizer) if has_joined(optimizer) else optimizer
    stepping.step()
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
        for parameter in group["params"]:
            parameter.grad = None


def search(attempt: Callable[[int], bool], memory: Any, start: int, highest: int) -> Tuple[Choice, List[Trial]]:
    """Tries until there is a limit. `attempt`: whether memory held so many rows."""
    trials: List[Trial] = []
    room = memory.room()
    while True:
        chosen = choose(trials, start, highest, room, memory.kills)
        if chosen.ends:
            fits = max(1, _room_for(trials, memory.left(), memory.kills))
            if fits < chosen.rows:
                chosen = Choice(fits, True, f"{chosen.reason}; the trials have left less room than there was")
            return chosen, trials
        memory.begin()
        ran = attempt(chosen.rows)
        trials.append(Trial(chosen.rows, ran, memory.took() if ran else float("nan")))
        memory.free()


def unsynced(model: torch.nn.Module) -> Any:
    """Gradients are accumulated, and exchanged by nobody."""
    wrapped: Any = model
    return wrapped.no_sync() if isinstance(model, DistributedDataParallel) else contextlib.nullcontext()
