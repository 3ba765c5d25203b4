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

MOST_TRIALS = 5
_MARGIN = 0.1        # of the memory that there is
_STEPS = 8.0         # times as many rows as have run, at most, are tried next where too many would end the process
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
    room_for = _room_for(trials, room)
    beyond = failed or highest + 1
    most = min(highest, beyond - 1, room_for)
    if failed:
        settled = ran - math.ceil(ran * _MARGIN) if ran > 1 else ran
        if len(trials) == MOST_TRIALS or failed - ran <= max(1, int(ran * _CLOSE)):
            return Choice(settled, True, f"memory does not hold {failed} rows, and holds {ran}")
        wanted = min(most, round((ran * failed) ** 0.5))
        if wanted <= ran:
            return Choice(settled, True, f"memory does not hold {failed} rows, and {ran} take nearly all of it")
        return Choice(wanted, False, f"between {ran}, which ran, and {failed}")
    if kills:
        most = min(most, int(ran * _STEPS))
    if most < ran:
        return Choice(max(1, most), True, f"{ran} rows leave less than the margin")
    if len(trials) == MOST_TRIALS or most - ran <= int(ran * _CLOSE):
        return Choice(ran, True, "nobody wants more" if ran >= highest else f"{ran} rows take nearly all of it")
    return Choice(most, False, f"by what {ran} rows take")


def _room_for(trials: Sequence[Trial], room: float) -> int:
    """Rows that fit by what trials took, the margin left; a large number where none was measured."""
    measured = sorted((trial.rows, trial.bytes) for trial in trials if trial.ran and trial.bytes > 0)
    if not measured:
        return 2**30
    rows, took = measured[-1]
    before, took_before = measured[-2] if len(measured) > 1 else (0, 0.0)
    a_row = (took - took_before) / (rows - before) if rows > before else 0.0
    if a_row <= 0:
        a_row, before, took_before = took / rows, 0, 0.0
    return min(2**30, int(before + (room * (1 - _MARGIN) - took_before) / a_row))


class Host:
    """Memory of this process."""

    kills = True  # where the kernel finds none

    def __init__(self) -> None:
        self._before = _of_process("VmRSS")

    def room(self) -> float:
        """Bytes that this process can still get: of the machine, of its control groups, of its own limits."""
        found = [_of_file("/proc/meminfo", "MemAvailable")]
        for kind, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
            most = resource.getrlimit(kind)[0]
            if most != resource.RLIM_INFINITY:
                found.append(most - _of_process(used))
        return max(0.0, min(found + list(_of_groups())))

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
    """What the control groups of this process (version 2) leave."""
    with contextlib.suppress(OSError, ValueError):
        own = next(line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines() if line.startswith("0::"))
        group = pathlib.Path("/sys/fs/cgroup") / own.strip("/")
        for folder in [group, *group.parents]:
            if not (folder / "memory.max").exists():
                continue
            most = (folder / "memory.max").read_text(encoding="ascii").strip()
            if most != "max":
                used = int((folder / "memory.current").read_text(encoding="ascii"))
                parts = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
                files = int(parts.get("inactive_file", 0)) + int(parts.get("active_file", 0))  # which the kernel gives up
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
    fresh = [optimizer for optimizer in optimizers if not optimizer.state]
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
    optimizer.step()
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
            # What lies free between used blocks is missing where addresses are limited, and serves no large tensor.
            fits = max(1, _room_for(trials, memory.room()))
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
