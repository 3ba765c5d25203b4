"""Times of steps on a GPU, by events of its stream. The host only hands work over, so its own clock shows neither when a
step ends nor how long the device waits for the other members.

    waiting begins, waiting ends -> marks
    a step ends                  -> mark; the times of the steps that the device has come to the end of

Nothing here waits for the device: what it has not come to yet is looked at again behind the next step.
"""
from __future__ import annotations

import collections
from typing import Any, Callable, Deque, List, NamedTuple, Optional, Protocol, Tuple

import torch


class Mark(Protocol):
    """A place among the work of a device: torch.cuda.Event."""

    def query(self) -> bool:
        """The device has come to it."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this one to `end`, once the device has come to both."""


class StepSeconds(NamedTuple):
    """How long a step took, and what of it the device waited."""

    iteration: float
    exchange: float  # for the other members
    data: float      # for the data loader


_Pairs = List[Tuple[Mark, Mark]]


class DeviceClock:
    """Of one device. `mark` puts a mark behind the work that was handed over so far."""

    def __init__(self, mark: Callable[[], Mark]) -> None:
        self.mark = mark
        self._last: Optional[Mark] = None  # where the step under way began
        self._exchanges: _Pairs = []
        self._fetches: _Pairs = []
        self._behind: Deque[Tuple[object, Mark, _Pairs, _Pairs, Mark]] = collections.deque()  # the device may be in them

    def exchanged(self, since: Mark) -> None:
        """The device has waited for other members since then."""
        self._exchanges.append((since, self.mark()))

    def fetched(self, since: Mark) -> None:
        """The host has waited for the data loader since then; the device, as far as it had nothing else to do."""
        self._fetches.append((since, self.mark()))

    def restart(self) -> None:
        """The next step begins now."""
        self._last = self.mark()
        self._exchanges, self._fetches = [], []

    def ended(self, work: object) -> Optional[StepSeconds]:
        """A step has been handed over. Returns the mean of the steps of as much work that the device has completed since the
        last call; None where there are none, or all were of other work."""
        end = self.mark()
        if self._last is not None:
            self._behind.append((work, self._last, self._exchanges, self._fetches, end))
        self._last, self._exchanges, self._fetches = end, [], []
        known: List[StepSeconds] = []
        while self._behind and self._behind[0][-1].query():
            done, first, exchanges, fetches, last = self._behind.popleft()
            if done == work:
                known.append(StepSeconds(first.elapsed_time(last) / 1000, _sum(exchanges), _sum(fetches)))
        return StepSeconds(*(sum(each) / len(known) for each in zip(*known))) if known else None


def _sum(pairs: _Pairs) -> float:
    return sum(first.elapsed_time(last) for first, last in pairs) / 1000


def clock_of(model: torch.nn.Module) -> Optional[DeviceClock]:
    """Of the GPU that the model's first parameter lies on; None where it lies on the host."""
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    if device.type != "cuda":
        return None

    def mark() -> Mark:
        cuda: Any = torch.cuda
        event = cuda.Event(enable_timing=True)
        event.record(cuda.current_stream(device))
        return event  # type: ignore[no-any-return]

    return DeviceClock(mark)
