"""An observer's connection to its agent: it tells the steps of a plain script as a run would, one window after the other, while
decisions change nothing.

    introduce -> begin            once all members' rows are on the board
    advance   -> deal .. complete each step by itself, when the rows that it needs are there: nobody is waited for
"""
from __future__ import annotations

import collections
import ctypes
import math
from typing import Any, Deque, List, Optional, Tuple

from . import structures as raw
from .board import Board
from .client import Client
from .observed_steps import ObservedStep

_WAITING_MAX = 512  # steps; of a member that does not come


class ObservedClient:
    """Of one process. Every method may raise DynamixError, ImportError or OSError: then nothing more is told."""

    def __init__(self, directory: str, position: int, members: int, agent: str, batch: int, samples: int, drop_last: bool) -> None:
        """`samples`: of an epoch; 0: not known."""
        self._client = Client(position, members, agent)
        self._introductions = Board(directory, "introduction", position, members, raw.INTRODUCTION_COLUMNS)
        self._board = Board(directory, "row", position, members, raw.ROW_COLUMNS)
        workload = raw.Workload(batch=batch, samples=min(samples or raw.SAMPLES_MAX, raw.SAMPLES_MAX), drop_last=drop_last,
                                rule=raw.RULES["constant"], balance=raw.BALANCES[False])
        columns = (ctypes.c_int64 * raw.INTRODUCTION_COLUMNS)()
        self._client.introduce(workload, ctypes.addressof(columns))
        self._introductions.put(0, list(columns))
        self._has_begun = False
        self._waiting: Deque[ObservedStep] = collections.deque()
        self._open: Optional[Tuple[ObservedStep, int]] = None  # its row is under way
        self._rows = 0
        self._row = (ctypes.c_int64 * raw.ROW_COLUMNS)()
        self._times = raw.StepTimes()

    def tell(self, step: ObservedStep) -> None:
        """The script has made a step, which `advance` tells the agent."""
        self._waiting.append(step)
        if len(self._waiting) > _WAITING_MAX:
            raise OSError("another process does not come as far as this one")

    def advance(self) -> None:
        """Tells as many steps as it can without waiting."""
        if not self._has_begun:
            rows = self._introductions.take(0)
            if rows is None:
                return
            array = _array(rows)
            self._client.begin(ctypes.addressof(array))
            self._client.start_epoch()
            self._has_begun = True
        while self._open is not None or self._waiting:
            if self._open is None:
                self._begin_step(self._waiting.popleft())
            if not self._end_step():
                return

    @property
    def behind(self) -> int:
        """Steps that the agent has not been told."""
        return len(self._waiting) + (self._open is not None)

    def _begin_step(self, step: ObservedStep) -> None:
        client = self._client
        if client.deal() == raw.END:
            client.start_epoch()
            client.deal()
        own = client.deliver().own
        due = client.due()
        if due & raw.GATHER:
            client.write_row(math.nan if due & raw.MEASURE else 0.0, ctypes.addressof(self._row))
            self._board.put(self._rows, list(self._row))
        # What was dealt is what the agent takes the step for.
        self._open = step if step.samples == own else step._replace(iteration=math.nan), due

    def _end_step(self) -> bool:
        """False where the others' rows have not come."""
        assert self._open is not None
        step, due = self._open
        client = self._client
        if due & raw.GATHER:
            rows = self._board.take(self._rows)
            if rows is None:
                return False
            self._rows += 1
            array = _array(rows)
            client.read_rows(ctypes.addressof(array))
        client.rate(-1.0)
        times = self._times
        known = step.is_known
        times.iteration_seconds = step.iteration if known else math.nan
        times.exchange_seconds = step.exchange if known else math.nan
        times.data_seconds = step.data
        times.compute_seconds = step.compute if known else math.nan
        times.loss = math.nan
        times.correct = times.gradient_norm = times.learning_rate = -1.0
        client.complete(times)
        for _ in client.notices():  # of decisions, which change nothing
            pass
        self._open = None
        return True

    def close(self, succeeded: bool, reason: str) -> None:
        """The process ends, or lets the agent go."""
        self._client.finish(succeeded, reason)
        self._client.close()


def _array(rows: List[int]) -> Any:
    return (ctypes.c_int64 * len(rows))(*rows)
