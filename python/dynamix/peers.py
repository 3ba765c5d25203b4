"""The other members of a run, for gradients, by the script's group, and for what is small: rows of whole numbers, weights,
settings. These travel on the host, by a Gloo group of their own, so that they neither wait behind gradients nor make a GPU
wait; rows on the CPU travel with the last bucket of gradients instead where it is small (`Step.load_row`)."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import datetime
import json
import logging
import operator
import os
import sys
import threading
import time
import weakref
from typing import Any, List, Optional

import torch
import torch.distributed

from .client import DynamixError
from .leaving import Notes, Watched, watch
from .sockets import Connections

_distributed: Any = torch.distributed
_POLL_SECONDS = 0.02
_END_SECONDS = 5  # that a thread which looks into the store is waited for
_LISTED_MEMBERS = 512  # of larger groups nobody compares connections, which are as many as members on each
_SAID_BYTES_MAX = 16 << 20  # of what a member says at once
_SAYS = 1 << 40  # in the row by which a member announces what it says, so that no other row of one number is taken for it
_alive: "weakref.WeakSet[Peers]" = weakref.WeakSet()


class Broken(RuntimeError):
    """A member has gone, or one has come: the step is dropped, and the members form a group anew."""


class Gathering:
    """Rows that are under way."""

    def __init__(self, rows: torch.Tensor, work: Any) -> None:
        self._rows = rows
        self._work = work

    def wait(self) -> torch.Tensor:
        """Of shape (members, columns)."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        return self._rows


class Sum:
    """A sum that is under way."""

    def __init__(self, own: float, value: torch.Tensor, work: Any) -> None:
        self.own = own
        self._value = value
        self._work = work

    def wait(self) -> float:
        if self._work is not None:
            self._work.wait()
            self._work = None
        return float(self._value)


def is_initialized() -> bool:
    return bool(_distributed.is_available() and _distributed.is_initialized())


class Peers:
    """The members of `group`: the default group where there is one, else this process alone.

    All members create it at the same place of their programs, as a new process group is formed.
    """

    elastic = False  # whether members may be absent (elastic.py)
    generation = 0   # of the group, where it is formed anew
    broken = ""      # why no collective can come to its end
    notes: Optional[Notes] = None  # of members that have left; None: nobody could be told
    _watching: Optional[threading.Thread] = None

    def __init__(self, group: Any = None) -> None:
        self.hold()
        self.group = group
        self.size = int(_distributed.get_world_size(group)) if is_initialized() else 1
        self.position = int(_distributed.get_rank(group)) if is_initialized() else 0
        self.present: List[bool] = [True] * self.size
        self._connections = Connections()
        self._side = self._form() if self.size > 1 else None
        self._connections.formed()
        if self._side is not None:
            ranks = _distributed.get_process_group_ranks(group if group is not None else _distributed.group.WORLD)
            self.notes = Notes(ranks, self.position)
            self._watch_members(self.notes)
        self._rows: Optional[torch.Tensor] = None  # of `gather(again=True)`, and each member's
        self._views: List[List[torch.Tensor]] = []

    def _watch_members(self, notes: Notes) -> None:
        """Where one leaves, nobody waits for it any more in any group over Gloo that there is by now. Beside NCCL nobody can tell
        whose connections are whose, and in the run's own group alone."""
        if "nccl" in str(_distributed.distributed_c10d.get_backend_config(self.group)):
            notes.cut = self._connections.cut
            return
        if self.size > _LISTED_MEMBERS:
            return
        between = Connections()
        between.find(self.gather_objects, self.position, _store_port())
        notes.cut = between.cut
        notes.lost = between.also_in(self._connections).lost  # of the run's own group: the script may end others
        self._watching = watch(notes)
        weakref.finalize(self, notes.has_left.set).atexit = False

    def hold(self) -> None:
        """At the interpreter's end no thread of a process group may be the last to hold a collective: to let go of it and its
        tensors such a thread needs the interpreter, and one that needs it then aborts the process. So the groups of our own
        end before, and the newest collectives of the script's group are kept."""
        self.held: List[Any] = []             # the newest collectives of gradients
        self.buffers: Any = None              # that `average` sums
        self._process = os.getpid()
        _alive.add(self)

    def leave(self) -> None:
        """Ends the threads that are this object's own, and those of its groups, unless one waits for what does not come."""
        self.buffers = None  # which hold the model's parameters
        if self.notes is not None and self.notes.is_stuck:
            return
        if self.notes is not None and self._watching is not None:
            self.notes.has_left.set()
            self._watching.join(_END_SECONDS)
        side, self._side = self._side, None
        if side is not None and is_initialized():
            with contextlib.suppress(ValueError):  # the script has ended all groups, and formed others
                _distributed.destroy_process_group(side)

    def _form(self) -> Any:
        if self.position < 0:
            raise ValueError("this process is not a member of process_group")
        timeout = _timeout_of(self.group)
        if _distributed.get_backend(self.group) == "gloo":  # fails where a process has ended, for which forming a group would wait
            _distributed.barrier(self.group)
        if self.size == _distributed.get_world_size():
            return _distributed.new_group(backend="gloo", timeout=timeout)
        ranks = _distributed.get_process_group_ranks(self.group)
        return _distributed.new_group(ranks, timeout, "gloo", use_local_synchronization=True)

    def all_reduce(self, values: torch.Tensor) -> Any:
        """Starts to add up the members' gradients, in place. Returns the work."""
        group = self.group if self.group is not None else _distributed.group.WORLD
        if values.device.type != "cpu" or group is None:
            return _distributed.all_reduce(values, group=group, async_op=True)
        # Of the group itself: torch.distributed's takes three times as long for so little, here and below.
        return Watched(group.allreduce([values]), self.notes)

    def gather(self, row: torch.Tensor, again: bool = False) -> Gathering:
        """Starts to gather the members' rows: whole numbers of shape (columns,), the same on all. `again`: nobody needs the
        rows any more that were gathered so before, and theirs is the memory of these."""
        if self._side is None:
            return Gathering(row.unsqueeze(0).clone(), None)
        rows = self._rows if again else None
        if rows is None:
            rows = torch.empty((self.size, row.numel()), dtype=row.dtype, device="cpu")
            if again:
                self._rows, self._views = rows, [list(rows.unbind(0))]
        work = self._side.allgather(self._views if again else [list(rows.unbind(0))], [row])
        return Gathering(rows, Watched(work, self.notes))

    def sum(self, own: float) -> Sum:
        """Starts to add up the members' numbers."""
        value = torch.tensor([own], dtype=torch.float64, device="cpu")
        return Sum(own, value, Watched(self._side.allreduce([value]), self.notes) if self._side is not None else None)

    def close_inherited(self) -> None:
        """In a forked loader worker: it keeps no connection open that has to end with its member."""

    def fail(self, reason: str) -> Broken:
        """A collective has failed. Where the members cannot form a group anew its error stands."""
        return Broken(reason)

    def introductions(self, row: torch.Tensor) -> torch.Tensor:
        """The members' rows, by which they introduce themselves. Waits for all."""
        return self.gather(row).wait()

    def gather_objects(self, own: object) -> List[Any]:
        """What the members say, by position, as JSON gives it back: tuples come as lists, whole numbers of numpy as Python's. None of those
        that are absent. Waits for all. Nothing that another member sends is run as code, as it would be by unpickling.

        Raises DynamixError where one sends what is none, or too much.
        """
        mine = torch.frombuffer(bytearray(json.dumps(own, default=operator.index).encode()), dtype=torch.uint8)
        told = self.gather(torch.tensor([_SAYS + mine.numel()], dtype=torch.int64, device="cpu")).wait()[:, 0].tolist()
        sizes = [row - _SAYS if row else 0 for row in self.checked(told, says=True)]
        longest = max(sizes)
        if longest > _SAID_BYTES_MAX:
            raise DynamixError(f"member {sizes.index(longest)} says {longest} bytes at once; {_SAID_BYTES_MAX} are taken")
        row = torch.zeros(longest, dtype=torch.uint8, device="cpu")
        row[:mine.numel()] = mine
        rows = self.gather(row).wait()
        return [None if self.elastic and size <= 0 else _read(member, bytes(rows[member, :max(0, size)].numpy()))
                for member, size in enumerate(sizes)]

    @staticmethod
    def checked(rows: List[int], says: bool) -> List[int]:
        """Rows of one number each, 0 of a member that is absent. `says`: this one is about to say something, and does not train. Raises
        DynamixError where another does the other thing."""
        if any(row and (row >= _SAYS) != says for row in rows):
            talks, trains = (next(member for member, row in enumerate(rows) if row and (row >= _SAYS) == said) for said in (True, False))
            raise DynamixError(f"member {talks} is in run.loader() or run.load_state_dict(), and member {trains} trains: call these on all "
                               "members, behind the same step")
        return rows

    def from_first(self, own: Any) -> Any:
        """The object of member 0. Waits for it."""
        return self.gather_objects(own)[0]

    def meet(self, seconds: float) -> Optional[bool]:
        """Waits for the members to come here, too, or to have been here. False where one has left before and will not come. None
        where nobody can tell: one is late, or the script has destroyed its groups."""
        if self._side is None:
            return True
        if not is_initialized():
            return None
        limit, notes = time.monotonic() + seconds, self.notes
        value = torch.zeros(1, device="cpu")
        try:
            work = self._side.allreduce([value])
            while not work.is_completed() and time.monotonic() < limit:
                if notes is not None and notes.has_lost_one():
                    break
                time.sleep(_POLL_SECONDS)
            if work.is_completed():
                work.wait()
                return True
        except RuntimeError:  # the connection of one that has ended
            return notes is not None and notes.all_have_finished()
        self.held.append((work, value))
        self._connections.cut()  # or the group's threads would wait on
        if notes is not None and notes.has_lost_one():
            return False
        return None


def _read(member: int, said: bytes) -> Any:
    try:
        return json.loads(said)
    except (ValueError, RecursionError) as problem:
        raise DynamixError(f"what member {member} says cannot be read: {problem}") from None


@atexit.register
def _leave_groups() -> None:
    for peers in list(_alive):
        if peers._process != os.getpid():  # a forked child's end: its parent goes on with these connections
            continue
        if peers.notes is not None and peers.notes.is_stuck:  # the group's thread would keep this process from ending
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(peers.held))
        peers.leave()


def _store_port() -> Optional[int]:
    """Of the store in which the script's groups were formed, where it has one: notes are read through it to the end."""
    try:
        store = _distributed.distributed_c10d._get_default_store()
        while hasattr(store, "underlying_store"):
            store = store.underlying_store
        return int(store.port)
    except (AttributeError, RuntimeError, ValueError):
        return None


def _timeout_of(group: Any) -> datetime.timedelta:
    """How long the user lets a collective wait; Torch's default where the group does not say."""
    try:
        found = _distributed.distributed_c10d._get_default_group() if group is None else group
        timeout: datetime.timedelta = found._get_backend(found._device_types[0]).options._timeout
        return timeout
    except (AttributeError, IndexError, RuntimeError):
        standard: datetime.timedelta = _distributed.constants.default_pg_timeout
        return standard


def group_of(model: torch.nn.Module, group: Optional[Any], mesh: Any = None) -> Optional[Any]:
    """The process group that the gradients of `model` are summed in. `mesh`: that it is sharded over."""
    if group is None and mesh is not None and mesh.ndim == 1 and mesh.size() < _distributed.get_world_size():
        return mesh.get_group()
    own = getattr(model, "process_group", None) if isinstance(model, torch.nn.parallel.DistributedDataParallel) else None
    if own is None:
        return group
    if group is not None and group is not own:
        raise ValueError("process_group is another one than the model's; leave it out, the model's is used")
    return own
