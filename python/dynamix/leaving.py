"""How the members of a fixed group learn that one of them has left in mid-training, while its process lives on.

    close, or the interpreter's end -> Notes.write       behind which step it has left and why, in the group's store
    a collective takes long         -> Watched.wait      looks whether a member has left before it could take part
    all close                       -> Peers.meet        a member that has gone, and had finished, has not died

A process that ends at once (os._exit, a signal) writes nothing: its connections close, and collectives fail by that.
"""
from __future__ import annotations

import atexit
import collections
import datetime
import json
import sys
import weakref
from typing import Any, Callable, Counter, Dict, NamedTuple, Optional, Protocol, Sequence

import torch.distributed

from .client import DynamixError

_distributed: Any = torch.distributed
_LOOK = datetime.timedelta(seconds=0.5)
_groups: Counter[str] = collections.Counter()  # of this process, by their members: each has notes of its own


class Note(NamedTuple):
    """What a member said when it left."""

    steps: int       # that it had completed
    finished: bool   # its training was over
    reason: str


class Notes:
    """Of the members of one group, in the store by which the script's groups were formed."""

    def __init__(self, ranks: Sequence[int], position: int) -> None:
        """All members make it at the same place. `position`: of this one."""
        name = ",".join(map(str, ranks))
        _groups[name] += 1
        self._size, self._position = len(ranks), position
        self._store: Any = None
        try:
            store = _distributed.distributed_c10d._get_default_store()
            self._store = _distributed.PrefixStore(f"dynamix/{_groups[name]}/{name}", store)
        except (AttributeError, RuntimeError, ValueError):  # a torch without that name: nobody is told
            pass
        self.is_stuck = False  # a collective of this process cannot come to its end
        self.steps_done: Callable[[], int] = lambda: -1  # of this member

    def write(self, finished: bool, reason: str) -> None:
        """This member leaves."""
        steps = self.steps_done()
        self.steps_done = lambda: steps
        try:
            if self._store is not None:
                self._store.set(str(self._position), json.dumps([steps, finished, reason]))
        except RuntimeError:  # whoever serves the store has ended
            pass

    def read(self) -> Dict[int, Note]:
        """Of the others that have left; none where the store is gone."""
        found: Dict[int, Note] = {}
        try:
            for member in range(self._size if self._store is not None else 0):
                if member != self._position and self._store.check([str(member)]):
                    found[member] = Note(*json.loads(self._store.get(str(member))))
        except RuntimeError:
            pass
        return found

    def all_have_finished(self) -> bool:
        """All others have left, and had come as far as this one."""
        read = self.read()
        return len(read) == self._size - 1 and all(note.finished and note.steps >= self.steps_done() for note in read.values())

    def has_lost_one(self) -> bool:
        """Another has left before it had come as far as this one."""
        return any(not note.finished or note.steps < self.steps_done() for note in self.read().values())

    def problem(self) -> str:
        """Why a collective of the present step cannot come to its end; empty where it may."""
        own = self.steps_done()
        for member, note in self.read().items():
            if note.steps <= own:
                told = "has ended its training" if note.finished else "has left"
                return (f"member {member} {told} behind {max(note.steps, 0)} steps ({note.reason}), and this one goes on: all "
                        "members must take the same steps")
        return ""


class Watched:
    """A collective of Gloo's."""

    def __init__(self, work: Any, notes: Optional[Notes]) -> None:
        self._work = work
        self._notes = notes

    def wait(self) -> None:
        """Raises DynamixError where a member has left that had to take part."""
        while True:
            try:
                if self._notes is None:
                    self._work.wait()
                else:
                    self._work.wait(_LOOK)
                return
            except RuntimeError:
                left = self._notes.problem() if self._notes is not None else ""
                if left and self._notes is not None:
                    self._notes.is_stuck = True
                    raise DynamixError(left) from None
                if self._notes is None:
                    raise
                if self._work.is_completed():  # since the look was over, perhaps: it then says whether it failed
                    self._work.wait()
                    return


class Closable(Protocol):
    """A run."""

    def close_now(self, reason: str, succeeded: bool, again: bool = False, at_exit: bool = False) -> None: ...


def close_at_exit(run: Closable) -> None:
    """Closes the run when the interpreter ends, as failed where an exception ends it."""
    reference = weakref.ref(run)

    def close() -> None:
        found = reference()
        if found is not None:
            problem = getattr(sys, "last_value", None)
            found.close_now("completed" if problem is None else f"{type(problem).__name__}: {problem}",
                            succeeded=problem is None, at_exit=True)

    atexit.register(close)
    weakref.finalize(run, atexit.unregister, close).atexit = False
