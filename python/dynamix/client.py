"""A run of the C library as a Python object: numbers and structs in, numbers and structs out, no Torch."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import weakref
from ctypes import byref, c_double
from typing import Iterator, List, Optional, Sequence, Set, Tuple

from . import structures as raw
from .library import load

JOINS_AGAIN = "this process joins again"


class DynamixError(RuntimeError):
    """What the client library refuses; the message says what to do."""


def agent_path(local_rank: int) -> str:
    """The socket that $DYNAMIX_AGENT means for this local rank; empty where it is not set."""
    text = ctypes.create_string_buffer(4096)
    load().dynamix_agent_path(local_rank, text, len(text))
    return os.fsdecode(text.value)


#: Of this process (a fork begins anew): clients that have an agent, and agents that were told that training is over.
_clients: "weakref.WeakValueDictionary[Tuple[int, str], Client]" = weakref.WeakValueDictionary()
_told_end: Set[Tuple[int, str]] = set()


class Client:
    """One member of a run. To be used by the process that made it alone, by one thread at a time.

    Every method raises DynamixError where the library refuses a call.
    """

    def __init__(self, position: int, members: int, agent: Optional[str] = None, timeout_seconds: float = 5) -> None:
        self._library = load()
        self._process = os.getpid()
        self._key = (self._process, os.path.realpath(agent)) if agent else None
        before = _clients.get(self._key) if self._key is not None else None
        if before is not None and before._rests_with is not None:
            before._end_rest(again=True)
        elif before is not None:
            raise DynamixError(f"this process has joined the agent at {agent} already: close() that run before it joins again")
        self._rests_with: Optional[str] = None
        self._numbers = (ctypes.c_uint32 * 64)()
        self._own, self._total = c_double(), c_double()
        self._rate = raw.StepRate()
        self.limit = 0  # that `limit_batch` was told; 0: none
        self.dealt = raw.Deal()
        self.delivered = raw.Deal()
        options = raw.Options(position=position, members=members, connect_timeout_ms=int(timeout_seconds * 1000),
                              agent=os.fsencode(agent) if agent else None)
        text = ctypes.create_string_buffer(1024)
        self._run: Optional[int] = self._library.dynamix_open(byref(options), text, len(text))
        if not self._run:
            told = ("; a run of this process has told it that training is over: close(again=True) such a run before another one "
                    "joins" if self._key in _told_end else "")
            raise DynamixError(text.value.decode(errors="replace") + told)
        if self._key is not None:
            _clients[self._key] = self

    def close(self) -> None:
        """Frees the run; a forked child leaves the socket to its parent."""
        if self._run and os.getpid() == self._process:
            self._library.dynamix_close(self._run)
            if self._key is not None:
                _clients.pop(self._key, None)
        self._run = None

    @property
    def handle(self) -> int:
        if os.getpid() != self._process:
            raise DynamixError(f"this run belongs to process {self._process}; a forked process cannot use it")
        if not self._run:
            raise DynamixError("this run is closed")
        return self._run

    def _check(self, code: int) -> int:
        """Of a call with `_run`, which the library itself refuses where the run is closed or another process's: `handle` is asked only
        then, for the reason."""
        if code == raw.ERROR:
            raise DynamixError(self._library.dynamix_error(self.handle).decode(errors="replace"))
        return code

    def notices(self) -> Iterator[str]:
        """Lines for the user's log that have come up since the last call."""
        while True:
            line = self._library.dynamix_next_notice(self._run)
            if line is None:
                return
            yield line.decode(errors="replace")

    # Beginning. Rows are int64, one row per member, given by the address of the first number.

    def introduce(self, workload: raw.Workload, row: int) -> None:
        self._check(self._library.dynamix_introduce(self._run, byref(workload), row))

    def begin(self, rows: int) -> None:
        self._check(self._library.dynamix_begin(self._run, rows))

    # Samples

    def start_epoch(self) -> None:
        self._check(self._library.dynamix_start_epoch(self._run))

    def deal(self) -> int:
        """Deals the next step's samples into `dealt`. Returns OK, END or WAIT."""
        return self._check(self._library.dynamix_deal_next(self._run, byref(self.dealt)))

    def fetch(self) -> int:
        """Fetches the samples that are used next into `dealt`: `own`, `epoch`, `ranges`. Returns OK, END or WAIT."""
        return self._check(self._library.dynamix_fetch_next(self._run, byref(self.dealt)))

    def samples(self) -> List[int]:
        """The numbers of the samples that were fetched or dealt last; one number where there are none."""
        count = max(self.dealt.own, 1)
        if count > len(self._numbers):
            self._numbers = (ctypes.c_uint32 * (2 * count))()
        self._check(self._library.dynamix_samples(self._run, ctypes.addressof(self._numbers), count))
        return self._numbers[:count]

    def ranges(self) -> List[Tuple[int, int, int]]:
        """Where they lie: items `first` to `last` - 1 of a shard, (shard, first, last), in the order of their use."""
        count = self.dealt.ranges
        words = (ctypes.c_uint64 * (3 * count))()
        self._check(self._library.dynamix_ranges(self._run, ctypes.addressof(words), count))
        return list(zip(words[0::3], words[1::3], words[2::3]))

    def shares(self, members: int) -> List[int]:
        """How many samples of the newest deal are each member's."""
        counts = (ctypes.c_uint32 * members)()
        self._check(self._library.dynamix_shares(self._run, ctypes.addressof(counts), members))
        return list(counts)

    def deliver(self) -> raw.Deal:
        """The oldest batch that was dealt is with the training loop now."""
        self._check(self._library.dynamix_deliver(self._run, byref(self.delivered)))
        return self.delivered

    def leave_epoch(self, steps_to_come: int) -> None:
        """The loop breaks off the epoch behind so many of the steps that are dealt."""
        self._check(self._library.dynamix_leave_epoch(self._run, steps_to_come))

    def epoch_steps(self) -> int:
        return int(self._library.dynamix_epoch_steps(self.handle))

    # Steps

    def due(self) -> int:
        return int(self._library.dynamix_due(self._run))

    def weights(self) -> Tuple[float, float]:
        """Own and total weight of what has been delivered since the last completed step."""
        self._check(self._library.dynamix_weights(self._run, byref(self._own), byref(self._total)))
        return self._own.value, self._total.value

    def set_weights(self, own: float, total: float) -> None:
        self._check(self._library.dynamix_set_weights(self._run, own, total))

    def write_row(self, own_square: float, row: int) -> None:
        self._check(self._library.dynamix_write_row(self._run, own_square, row))

    def read_rows(self, rows: int) -> None:
        self._check(self._library.dynamix_read_rows(self._run, rows))

    def rate(self, global_square: float) -> raw.StepRate:
        self._check(self._library.dynamix_rate(self._run, global_square, byref(self._rate)))
        return self._rate

    def complete(self, step: raw.StepTimes) -> None:
        self._check(self._library.dynamix_complete(self._run, byref(step)))

    # Beside the steps

    def evaluated(self, train_loss: float, test_loss: float, accuracy: float) -> None:
        self._check(self._library.dynamix_evaluated(self._run, train_loss, test_loss, accuracy))

    def limit_batch(self, samples: int) -> None:
        self._check(self._library.dynamix_limit_batch(self._run, samples))
        self.limit = min(self.limit or samples, samples)

    def status(self) -> raw.RawStatus:
        status = raw.RawStatus()
        self._check(self._library.dynamix_get_status(self._run, byref(status)))
        return status

    def batches(self, members: int) -> List[int]:
        numbers = (ctypes.c_uint32 * members)()
        self._check(self._library.dynamix_batches(self._run, ctypes.addressof(numbers), members))
        return list(numbers)

    def save(self) -> bytearray:
        """The state behind the last completed step: words of 64 bits in the machine's order."""
        count = int(self._library.dynamix_state_words(self.handle))
        words = bytearray(8 * count)
        if count:
            address = ctypes.addressof(ctypes.c_char.from_buffer(words))
            self._check(self._library.dynamix_save(self._run, address, count))
        return words

    def restore(self, words: bytearray, limits: Sequence[int] = ()) -> None:
        """`limits`: of each member's batch, 0 for none; the same on all members."""
        address, highest = ctypes.addressof(ctypes.c_char.from_buffer(words)), (ctypes.c_uint32 * len(limits))(*limits)
        self._check(self._library.dynamix_restore_within(self._run, address, len(words) // 8, ctypes.addressof(highest),
                                                         len(limits)))

    def catch_up(self, words: bytearray) -> None:
        """Takes the others' state, before `regroup`."""
        self._check(self._library.dynamix_catch_up(self._run, ctypes.addressof(ctypes.c_char.from_buffer(words)), len(words) // 8))

    def regroup(self, present: Sequence[bool]) -> None:
        """Goes on behind the last completed step with the members that are present."""
        flags = (ctypes.c_uint32 * len(present))(*map(int, present))
        self._check(self._library.dynamix_regroup(self._run, ctypes.addressof(flags), len(present)))

    def finish(self, succeeded: bool, reason: str) -> None:
        self._check(self._library.dynamix_finish(self._run, int(succeeded), reason.encode(errors="replace")))
        if succeeded and self._key is not None:
            _told_end.add(self._key)

    def rest(self, reason: str) -> None:
        """Training is over, unless another run of this process begins: the agent learns of the end with that of the interpreter, and then
        that this process joins again."""
        self._rests_with = reason
        atexit.register(self._end_rest)

    def _end_rest(self, again: bool = False) -> None:
        atexit.unregister(self._end_rest)
        with contextlib.suppress(DynamixError):  # the agent has ended before
            self.finish(not again, JOINS_AGAIN if again else self._rests_with or "")
        self.close()
