"""How the members of a fixed group learn that one of them has left in mid-training, while its process lives on.

    close, or the interpreter's end -> Notes.write       after which step it has left and why, in the group's store
    a collective takes long         -> Watched.wait      looks whether a member has left before it could take part
    one of the script's own does    -> watch             the same, on a thread, and ends it
    a loop is left amid its epoch   -> Notes.break_off   others that have a further step of it end, as if this one had left
    all close                       -> Peers.meet        a member that has gone, and had finished, has not died

A process that ends at once (os._exit, a signal) writes nothing: its connections close, and collectives fail by that, or see it at
their looks (`wait_for`).
"""
from __future__ import annotations

import atexit
import collections
import datetime
import json
import logging
import sys
import threading
import time
import weakref
from typing import Any, Callable, Collection, Counter, Dict, NamedTuple, Optional, Protocol, Sequence

import torch.distributed

from .client import DynamixError

_log = logging.getLogger("dynamix")
_distributed: Any = torch.distributed
_LOOK = datetime.timedelta(seconds=0.5)
LEFT = "left in mid-epoch"
ANOTHER_ENDED = "another worker has ended before the end of its training"
_OF_STEPS = "torch.nn.parallel.distributed"  # whose functions wait for others within a step: for buffers
_COLLECTIVES = ("torch.distributed.distributed_c10d", _OF_STEPS)  # and for what the script exchanges
_POLL_SECONDS = 0.002
_LOOKS = 20  # without a move, from which on other code is supposed to wait for others
_MEMBERS_A_LOOK = 64  # of larger groups each member looks less often, so that their store is not asked more
_groups: Counter[str] = collections.Counter()  # of this process, by their members: each has notes of its own
_outlived = id(None)  # of the newest exception, when training last went on behind it


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
        self.is_within_step: Callable[[], bool] = lambda: False  # the training loop has a batch, and so needs the others
        self.thread = threading.get_ident()  # of the newest step
        self.cut: Callable[[], None] = lambda: None  # ends the members' connections, as far as they are known
        self.lost: Callable[[], Collection[int]] = lambda: ()  # members with whom a connection has ended, as far as they are known
        self.has_left = threading.Event()  # this member
        self._loads = 0  # states that all members have met to load
        self._is_loading = False
        self._epoch = -1  # that the newest loop began, or went on with
        self._steps_before = 0  # that were completed by then

    def write(self, finished: bool, reason: str) -> None:
        """This member leaves."""
        self.has_left.set()
        steps = self.steps_done()
        self.steps_done = lambda: steps
        try:
            if self._store is not None:
                self._store.set(str(self._position), json.dumps([steps, finished, reason]))
                self._store.set("left", "")
        except RuntimeError:  # whoever serves the store has ended
            pass

    def meet_to_load(self) -> None:
        """Waits for the others, which come to load a state, too. Until all are there this member takes part in no collective: others that train
        would take it for one of their step. Raises DynamixError where one does not come."""
        name, wait_seconds, death = f"load {self._loads}", _POLL_SECONDS, ""
        self._is_loading = True
        try:
            if self._store is None:
                return
            self._store.set(name, json.dumps([self._position, self.steps_done()]))
            self._store.add(f"{name} here", 1)
            while int(self._store.add(f"{name} here", 0)) < self._size:
                time.sleep(wait_seconds)
                if wait_seconds == self.look_seconds:
                    before, death = death, self.death()
                    reason = self.problem() or (death if before else "")
                    if reason:
                        raise DynamixError("run.load_state_dict() was called on this member, and has to be on all, behind the same step: " + reason)
                wait_seconds = min(2 * wait_seconds, self.look_seconds)
        finally:
            self._loads += 1
            self._is_loading = False

    def begin_epoch(self, epoch: int) -> None:
        """The training loop of this member begins an epoch, or goes on with it: the same number on all members."""
        self._epoch, self._steps_before = epoch, self.steps_done()

    def break_off(self) -> None:
        """The training loop of this member has left its epoch, of which it takes no further step. One of which it has completed none
        begins again."""
        steps = self.steps_done()
        if self._store is None or self.has_left.is_set() or steps <= self._steps_before:
            return
        try:
            self._store.set(f"break {self._loads} {self._epoch}", json.dumps([self._position, steps]))
        except RuntimeError:  # the store is gone
            pass

    def problem_of_others(self) -> str:
        """Why the present step cannot come to its end, where another member does something else meanwhile: it waits to load a state, or
        has left the loop. Empty where none does."""
        own = self.steps_done()
        if self._store is None or self._is_loading or not self.is_within_step():
            return ""
        try:
            for name, told in ((f"load {self._loads}", "is in run.load_state_dict() behind {} steps, and this one trains on: call it on all "
                                                       "members, behind the same step"),
                               (f"break {self._loads} {self._epoch}", "has left the training loop behind {} steps, and this one goes on with that "
                                                                      "epoch: leave it on all members behind the same step")):
                if self._store.check([name]):
                    member, steps = json.loads(self._store.get(name))
                    if steps <= own:
                        return f"member {member} {told.format(max(steps, 0))}"
        except RuntimeError:  # the store is gone
            pass
        return ""

    def somebody_has_left(self) -> bool:
        """In one look, of all the others. Raises RuntimeError where the store is gone."""
        return self._store is not None and bool(self._store.check(["left"]))

    @property
    def look_seconds(self) -> float:
        """Between two looks of a member's thread."""
        return _LOOK.total_seconds() * max(1, self._size / _MEMBERS_A_LOOK)

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

    def problem(self, of_step: bool = True) -> str:
        """Why a collective cannot come to its end: of the present step, or else one of the script's own, in which those that have
        finished may take part. Empty where it may."""
        own = self.steps_done()
        for member, note in self.read().items():
            if note.steps < own or note.steps == own and (of_step or not note.finished):
                told = "has ended its training" if note.finished else "has left"
                return (f"member {member} {told} after {max(note.steps, 0)} steps ({note.reason}), and this one goes on: all "
                        "members must take the same steps")
        return ""

    def problem_of_step(self) -> str:
        """Why a collective of the present step's own cannot come to its end. Empty where it may."""
        return self.problem() or self.problem_of_others()

    def death(self) -> str:
        """Of a member that has ended without a word, for which a collective may wait. Empty where none is known."""
        lost = set(self.lost())
        dead = sorted(lost - set(self.read())) if lost else []
        return f"member {dead[0]} has died, or has ended its process groups, and this one waits for it" if dead else ""


def wait_for(work: Any, why_over: Callable[[], str], look: Optional[datetime.timedelta] = None) -> str:
    """Waits for a collective of Gloo's, and where it takes long looks why it cannot come to its end. Returns why; empty: it has come to
    it. Raises the collective's own error.

    Gloo tells a collective of a connection's end only while none of its data have passed: one whose tensor is partly sent or received
    would wait for as long as collectives may take."""
    while True:
        try:
            work.wait(look or _LOOK)
            return ""
        except RuntimeError:
            if work.is_completed():  # since the look was over, perhaps: it then says whether it failed
                work.wait()
                return ""
            reason = why_over()
            if reason:
                return reason


class Watched:
    """A collective of Gloo's."""

    def __init__(self, work: Any, notes: Optional[Notes]) -> None:
        self._work = work
        self._notes = notes
        self._death = ""  # that the last look told of

    def wait(self) -> None:
        """Raises DynamixError where a member has gone that had to take part."""
        notes = self._notes
        if notes is None:
            self._work.wait()
            return
        try:
            reason = wait_for(self._work, lambda: self._why_over(notes))
        except RuntimeError:
            reason = notes.problem_of_step()
            if not reason:
                raise
        if reason:
            notes.cut()
            notes.is_stuck = not self._has_ended()
            raise DynamixError(reason)

    def _why_over(self, notes: Notes) -> str:
        """Of a death at the second look: what that member has sent may be all that is needed."""
        before, self._death = self._death, notes.death()
        return notes.problem_of_step() or (self._death if before else "")

    def _has_ended(self) -> bool:
        """Behind a cut, or soon."""
        try:
            self._work.wait(_LOOK)
        except RuntimeError:
            pass
        return bool(self._work.is_completed())


def watch(notes: Notes) -> threading.Thread:
    """Ends a collective of the script's own for which the thread that trains waits, where another member has left that had to take
    part, or one of a step where another does something else meanwhile. Runs until this member leaves, or the store has gone."""
    thread = threading.Thread(target=_watch, args=(notes,), name="dynamix", daemon=True)
    thread.start()
    return thread


def _watch(notes: Notes) -> None:
    at: Any = None  # where that thread was at the last look: its frame itself, since another one may come to lie at the same place
    looks = 0       # at which it has not moved
    while not notes.has_left.wait(notes.look_seconds):
        try:
            has_left = notes.somebody_has_left()
        except RuntimeError:  # nobody learns anything any more, and torch would tell of each look
            return
        frame: Any = sys._current_frames().get(notes.thread)
        place = None if frame is None else frame.f_globals.get("__name__")
        is_collective = place in _COLLECTIVES
        if not has_left and not is_collective:  # a frame that is kept would keep its tensors
            at, looks = None, 0
            continue
        before, at = at, (frame, None if frame is None else frame.f_lasti)
        looks = looks + 1 if at == before else 0
        if frame is None or looks < (1 if is_collective else _LOOKS):
            continue
        # Elsewhere, or behind the loop, it may be an evaluation that takes its time, and those that have finished wait for its end.
        left = notes.problem(of_step=is_collective and notes.is_within_step()) if has_left else ""
        if not left and place == _OF_STEPS:  # in the script's own, a member may wait for another one that comes late
            left = notes.problem_of_others()
        if left:
            _log.error("%s; what this one waits for is ended", left)
            notes.cut()
            return


def told(problem: BaseException) -> str:
    """Why a run ends: some exceptions have no text (KeyboardInterrupt)."""
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__


class Closable(Protocol):
    """A run."""

    @property
    def thread(self) -> Optional[int]: ...

    @property
    def is_within_epoch(self) -> bool: ...

    def close_now(self, reason: str, succeeded: bool, again: bool = False, at_exit: bool = False, rests: bool = False) -> None: ...


def outlive_exceptions() -> None:
    """A run or an epoch begins: what was raised before (in an earlier cell of a notebook, say) has not ended this process."""
    global _outlived
    _outlived = id(getattr(sys, "last_value", None))


def _ending(run: Optional[Closable]) -> Optional[BaseException]:
    """The exception that ends the interpreter, or has ended this run's training in an interactive one, which goes on behind each."""
    problem: Optional[BaseException] = getattr(sys, "last_value", None)
    is_interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    if id(problem) == _outlived or is_interactive and run is not None and not run.is_within_epoch:
        return None
    return problem


def close_at_exit(run: Closable) -> None:
    """Closes the run when the interpreter ends, as failed where an exception ends it; then before it waits for the script's threads,
    which may take part in what nobody else does any more; but those may train, too, while the main thread ends."""
    reference = weakref.ref(run)

    def close(on_exception: bool = False) -> None:
        found = reference()
        problem = _ending(found)
        if on_exception and (problem is None or found is None or found.thread not in (None, threading.main_thread().ident)):
            return
        if found is not None:
            found.close_now("completed" if problem is None else told(problem), succeeded=problem is None, at_exit=True)

    atexit.register(close)
    weakref.finalize(run, atexit.unregister, close).atexit = False
    outlive_exceptions()
    register_early: Any = getattr(threading, "_register_atexit", None)
    if register_early is not None and threading.current_thread() is threading.main_thread():
        register_early(close, on_exception=True)
