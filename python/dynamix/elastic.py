"""A group that loses members and takes them back while training goes on: `dynamix.join(..., elastic=store)`.

    a collective fails          -> the group's sockets are cut, so that nobody waits for anybody (Members.fail)
    a member leaves alive       -> it says so in the store, and cuts its sockets (Members.say_left)
    one is done, others go on   -> they tell it that they need it no more (Members.why_over), and it leaves (Members.end)
    at the optimiser's step     -> a new generation is formed through the store (Members.gather_members): all members of
                                   the last one that live, and those that have come since
                                -> who is behind takes the state of the most advanced member (Alignment)
                                -> the step is left out, and its samples are dealt again

Each member's process group of the script's own is itself alone; gradients travel by this module's.
"""
from __future__ import annotations

import hashlib
import importlib
import io
import json
import logging
import os
import pathlib
import pickle
import threading
import time
import zlib
from datetime import timedelta
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Protocol, Sequence, Set

import torch
import torch.distributed

from .client import Client, DynamixError
from .leaving import wait_for
from .peers import Broken, Gathering, Peers, Sum
from .sockets import Connections
from .structures import LOADER_COLUMNS, POSITION_COLUMN, RANK_COLUMN

_log = logging.getLogger("dynamix")
_distributed: Any = torch.distributed
_FORM_SECONDS, _FORM_SECONDS_EACH = 5, 0.5  # each: many members of one machine share its cores
_LOOK_SECONDS = 0.05     # between two looks for members that come
_POLL_SECONDS = 0.003
_WAIT_LOOK = timedelta(seconds=0.2)  # between two looks why a collective takes long
_END_SECONDS = 2         # that a member which has finished waits for the others
_LEAVE_SECONDS = 1       # that the threads of a group whose sockets are cut are waited for
_AVOID_SECONDS = 30      # from one attempt at a group with a newcomer that cannot connect to the next
_ENDED = "the training of this store has come to its end; a new one needs a new store"

def _process() -> List[Any]:
    """Of this process, so that another one on the machine can tell whether it lives, and of no other call."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return [boot, os.readlink("/proc/self/ns/pid"), os.getpid(), started(os.getpid()), time.time_ns()]


def started(process: int) -> Optional[str]:
    """When a process was started; None where there is none that lives."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


class Ended(DynamixError):
    """The training has come to its end without this member."""


class _Work:
    """A collective of a generation."""

    def __init__(self, members: "Members", work: Any) -> None:
        self._members = members
        self._work = work

    def wait(self) -> None:
        """Raises Broken where the generation has ended."""
        try:
            reason = wait_for(self._work, self._members.why_over, _WAIT_LOOK)
        except RuntimeError as problem:
            reason = str(problem)
        if reason:
            raise self._members.fail(reason)


class Members(Peers):
    """The members of an elastic run, of which some may be absent."""

    elastic = True

    def __init__(self, store: Any, position: int, size: int, timeout_seconds: float, least: int = 0) -> None:
        """`least`: so many begin to train, and others may come for the first time later; 0: all do."""
        self.hold()
        self._given = store
        self._store = _distributed.PrefixStore("dynamix", store)
        self.group = None
        self.position, self.size = position, size
        self._least = least or size
        self.generation = 0
        self.aligned = 0              # the newest generation in which this member had the training's state
        self.present: List[bool] = [False] * size
        self.broken = ""              # why this generation has ended
        self.steps_done: Callable[[], int] = lambda: -1  # by this member
        self._timeout = timeout_seconds
        self._identity = _process()
        self._roster: Dict[int, List[Any]] = {}  # identities of the present members
        self._gradients: Any = None
        self._row_group: Any = None
        self._connections = Connections()        # that have come up while this generation's groups were formed
        self._between = self._connections        # of these, those to other members, once they are known
        self._looked = 0.0
        self._avoided: Dict[str, float] = {}     # newcomers with whom no group was formed, and until when they are left out

    # A generation's end

    def fail(self, reason: str) -> Broken:
        """The generation is over, on any thread: cuts its sockets, so that everybody's collectives end."""
        if not self.broken:
            self.broken = reason or "a collective failed"
        self._connections.cut()
        return Broken(self.broken)

    def why_over(self) -> str:
        """Why a collective that takes long cannot come to its end, as far as this member's connections tell; empty where nothing does.
        Where another one is done, it learns how far this one is, which goes on: it need not wait any longer to give it its last step."""
        if not self.broken and self.aligned == self.generation:
            try:
                if self._read(f"{self.generation}/done"):
                    self._store.set(f"{self.generation}/past/{self.position}", str(self.steps_done()))
            except RuntimeError as problem:  # whoever serves the store has ended, which is no end of the collective
                _log.debug("nobody was told how far this member is: %s", problem)
        return self.broken or ("a connection to another member has ended" if self._between.lost() else "")

    def leave(self) -> None:
        """Ends the groups. On a thread: their own may wait on for an operation that Gloo has forgotten (`leaving.wait_for`). That
        one fails in the end and writes nothing more, since its connections are cut."""
        self._connections.cut()
        groups = [self._gradients, self._row_group]
        self._gradients = self._row_group = None
        self.buffers = None  # which it may have yet
        ending = threading.Thread(target=groups.clear, daemon=True)
        ending.start()
        ending.join(_LEAVE_SECONDS)

    def close_inherited(self) -> None:
        self._connections.close()

    # Forming the next one

    def gather_members(self, everyone: bool = False) -> None:
        """Forms the next generation of all members that live: those of the last one and those that wait to come in. The
        first is of all members that training begins with, and so is one of `everyone`: where none has begun to train.

        Raises DynamixError where it does not come about in time, Broken where it has ended already.
        """
        limit = time.monotonic() + self._timeout
        self.leave()
        number, before = self.generation, self._roster
        while True:
            number = max(number, int(self._read("generation") or 0)) + 1
            self._store.set(f"{number}/{self.position}", json.dumps(self._identity))
            roster = self._agree(number, limit, everyone)
            if roster.get(self.position) != self._identity:
                continue  # it was closed without this one
            self._roster, began = roster, time.monotonic()
            if self._form_generation(number):
                self.generation, self.broken = number, ""
                self.present = [member in roster for member in range(self.size)]
                self._find_connections()
                return
            newcomers = [each for each in roster.values() if each not in before.values() and each != self._identity]
            if before and newcomers and not self._somebody_is_dead():
                self._avoided.update({self._name(each): time.monotonic() + _AVOID_SECONDS for each in newcomers})
                limit += time.monotonic() - began  # the others are not to end for them
            if time.monotonic() > limit:
                raise DynamixError(f"no group could be formed within {self._timeout:.0f} s")

    def _read(self, key: str) -> str:
        """Empty where it is not there, for which get() would wait."""
        return bytes(self._store.get(key)).decode() if self._store.check([key]) else ""

    def _agree(self, number: int, limit: float, everyone: bool) -> Dict[int, List[Any]]:
        """The members of the generation: the first who has seen all that are to come says so for all. Where members of the last one
        live, one that comes anew leaves it to them."""
        while True:
            closed = self._read(f"{number}/closed")
            if closed:
                return _roster_of(closed)
            here = {member: json.loads(text) for member in range(self.size) for text in [self._read(f"{number}/{member}")]
                    if text}
            here = {member: identity for member, identity in here.items() if not self._is_dead(identity)}
            if self._roster and here.get(self.position) != self._identity:  # another process has come with this one's number
                self._store.set(f"{number}/{self.position}", json.dumps(self._identity))
            if self._read("ended"):
                raise Ended(_ENDED)
            last = {} if everyone else self._last(number)
            living = {member for member, identity in last.items()
                      if not self._is_dead(identity) and not self._has_come_anew(identity, here.get(member, identity))}
            if last and not living and any(self._read(self._name(identity)) == "finished" for identity in last.values()):
                raise Ended(_ENDED)
            is_new = last.get(self.position) != self._identity
            awaited = living if living and is_new else self._awaited(last, living, here)
            if time.monotonic() > limit:
                if living and is_new:
                    raise DynamixError(f"members {sorted(living)} have not taken this one in within {self._timeout:.0f} s")
                if not last or not self._roster:
                    raise DynamixError(f"members {sorted(awaited)} have not come within {self._timeout:.0f} s")
                awaited = set()
            if not awaited:
                chosen = {member: identity for member, identity in here.items() if not self._is_avoided(identity)}
                self._store.compare_set(f"{number}/closed", "", json.dumps(chosen))
                self._store.set("generation", str(number))
            else:
                time.sleep(_POLL_SECONDS)

    def _last(self, number: int) -> Dict[int, List[Any]]:
        """The members of the newest generation before this one that has come about, or may yet: who came during the first one would
        else begin another beside it."""
        while number > 1:
            number -= 1
            outcome = self._read(f"{number}/outcome")
            roster = _roster_of(self._read(f"{number}/closed") or "{}") if outcome != "given up" else {}
            if outcome == "formed" or not all(self._is_dead(identity) for identity in roster.values()):
                return roster
        return {}

    def _has_come_anew(self, identity: Sequence[Any], now: Sequence[Any]) -> bool:
        """Another process has come with the number of a member of another machine, of which nobody here can tell otherwise that it has died."""
        return now != identity and list(identity[:2]) != self._identity[:2]

    def _awaited(self, last: Mapping[int, List[Any]], living: Collection[int], here: Mapping[int, List[Any]]) -> Set[int]:
        """Who has to come yet before the generation is closed: on one machine, those of the last one that live."""
        if not living:  # nobody has the training's state: it begins, or begins again
            return set(range(self.size)) - set(here) if len(here) < self._least else set()
        return {member for member in living if here.get(member) != last[member]}  # another process may have taken its place

    @property
    def can_begin(self) -> bool:
        return sum(self.present) >= self._least

    def introductions(self, row: torch.Tensor) -> torch.Tensor:
        """Of members that have not come yet they are like that of the first that has, but for their agents' ranks: nobody's."""
        rows = self.gather(row).wait()
        first = rows[self.present.index(True)].clone()
        for member in range(self.size):
            if not self.present[member]:
                rows[member] = first
                rows[member, POSITION_COLUMN], rows[member, RANK_COLUMN] = member, -1 - member
        return rows

    def tell(self, name: str, text: str) -> None:
        """Something that all present members say alike, to those that come."""
        if self.present.index(True) == self.position and self._read(name) != text:
            self._store.set(name, text)

    def told(self, name: str) -> str:
        """What members that live said; empty where none does."""
        generation = int(self._read("generation") or 0)
        last = json.loads(self._read(f"{generation}/closed") or "{}")
        return self._read(name) if not all(self._is_dead(identity) for identity in last.values()) else ""

    def _is_avoided(self, identity: Sequence[Any]) -> bool:
        return time.monotonic() < self._avoided.get(self._name(identity), 0)

    def _waits(self, member: int) -> bool:
        """To come into the next generation."""
        text = self._read(f"{self.generation + 1}/{member}")
        identity = json.loads(text) if text else None
        return identity is not None and not self._is_dead(identity) and not self._is_avoided(identity)

    def _is_dead(self, identity: Sequence[Any]) -> bool:
        """Or has left."""
        if self._read(self._name(identity)):
            return True
        same_machine = list(identity[:2]) == self._identity[:2]
        return same_machine and started(int(identity[2])) != identity[3]

    def _form_generation(self, number: int) -> bool:
        """On a thread that is left where it does not come to an end: a member may die meanwhile."""
        members = sorted(self._roster)
        self._connections = self._between = Connections()
        formed: List[Any] = []

        def form() -> None:
            again = _connected_anew(self._given)
            for name in ("gradients", "rows"):
                store = _distributed.PrefixStore(f"dynamix/{number}/{self._roster_name()}/{name}", again)
                formed.append(_distributed.ProcessGroupGloo(store, members.index(self.position), len(members),
                                                            timedelta(seconds=self._timeout)))

        thread = threading.Thread(target=_quietly, args=(form,), daemon=True)
        thread.start()
        limit = time.monotonic() + _FORM_SECONDS + _FORM_SECONDS_EACH * len(members)
        while thread.is_alive() and time.monotonic() < limit:
            thread.join(0.02)
            if self._somebody_is_dead() or self._read(f"{number}/outcome"):  # which another has given up
                thread.join(0.1)
                break
        self._connections.formed()
        if not self._have_all_formed(number, len(formed) == 2, limit):
            self._connections.cut()
            return False
        self._gradients, self._row_group = formed
        return True

    def _have_all_formed(self, number: int, formed: bool, limit: float) -> bool:
        """One answer for all: a member that had formed the groups would wait in them for one that has given them up, whose
        abandoned thread may still take connections, and that one would wait for the other to come to the next generation."""
        name, answer = f"{number}/outcome", "" if formed else "given up"
        if formed and self._store.add(f"{number}/formed", 1) == len(self._roster):
            answer = "formed"
        while not self._read(name):
            if not answer and (time.monotonic() > limit or self._somebody_is_dead()):
                answer = "given up"
            if answer:
                self._store.compare_set(name, "", answer)
            else:
                time.sleep(_POLL_SECONDS)
        return self._read(name) == "formed"

    def _find_connections(self) -> None:
        """Of this generation's groups alone: the script, or a group that was given up, may have others, and close them."""
        between = Connections()
        between.find(self.gather_objects, self.position)
        self._between = between.also_in(self._connections)

    def _somebody_is_dead(self) -> bool:
        return any(self._is_dead(identity) for identity in self._roster.values())

    def _roster_name(self) -> str:
        """The same on the members of this generation alone, whatever else meets in their store."""
        return hashlib.sha256(json.dumps(sorted(self._roster.items())).encode()).hexdigest()[:16]

    def somebody_comes(self, rarely: bool = True) -> bool:
        """Whether a member waits to come in. Looked for by the first one that is present; `rarely`: not at each call."""
        now = time.monotonic()
        if self.present.index(True) != self.position or (rarely and now - self._looked < _LOOK_SECONDS):
            return False
        self._looked = now
        return any(not self.present[member] and self._waits(member) for member in range(self.size))

    # Collectives

    def _start(self, launch: Callable[[], Any]) -> _Work:
        if self.broken:
            raise Broken(self.broken)
        try:
            return _Work(self, launch())
        except RuntimeError as problem:
            raise self.fail(str(problem)) from None

    def all_reduce(self, values: torch.Tensor) -> _Work:
        return self._start(lambda: self._gradients.allreduce([values]))

    def gather(self, row: torch.Tensor, again: bool = False) -> Gathering:
        rows = torch.zeros((self.size, row.numel()), dtype=row.dtype, device="cpu")
        here = [rows[member] for member in range(self.size) if self.present[member]]
        return Gathering(rows, self._start(lambda: self._row_group.allgather([here], [row])))

    def sum(self, own: float) -> Sum:
        value = torch.tensor([own], dtype=torch.float64, device="cpu")
        return Sum(own, value, self._start(lambda: self._row_group.allreduce([value])))

    def broadcast(self, values: torch.Tensor, source: int) -> None:
        """In place, from the member at `source`."""
        options = _distributed.BroadcastOptions()
        options.rootRank, options.rootTensor = sorted(self._roster).index(source), 0
        self._start(lambda: self._gradients.broadcast([values], options)).wait()

    # A member's end

    def _name(self, identity: Sequence[Any]) -> str:
        return f"left/{identity[2]}-{identity[4]}"

    def say_left(self, finished: bool = False) -> None:
        """This member takes part no more, however long its process lives: the others go on without it."""
        try:
            self._store.set(self._name(self._identity), "finished" if finished else "left")
        except RuntimeError as problem:  # whoever serves the store has ended
            _log.debug("nobody was told that this member has left: %s", problem)
        self._identity = _process()  # where the script has it come again, it does so as another one
        self.leave()

    def end(self, seconds: float = _END_SECONDS) -> None:
        """This member is done with the last step, and waits a while for the others to be so: for those that are behind it. Who
        trains on, or evaluates, is left alone then: at once where all have said that they have made that step, too. Raises Broken
        where the group has to be formed anew before."""
        limit, own = time.monotonic() + seconds, self.steps_done()
        self._store.set(f"{self.generation}/done/{self.position}", "1")
        self._store.set(f"{self.generation}/done", "1")
        while not self._read("ended"):
            waiting = {member: identity for member, identity in self._roster.items() if member != self.position and
                       not self._read(f"{self.generation}/done/{member}") and not self._read(self._name(identity))}
            if any(member != self.position and self._waits(member) for member in range(self.size)):
                raise self.fail("a member comes")
            if any(self._is_dead(identity) for identity in waiting.values()):
                raise self.fail("a member has died")
            if not waiting:
                self._store.set("ended", "1")
            elif time.monotonic() > limit or all(int(self._read(f"{self.generation}/past/{member}") or -1) >= own for member in waiting):
                break
            else:
                time.sleep(_POLL_SECONDS)
        self.say_left(finished=True)


def _roster_of(closed: str) -> Dict[int, List[Any]]:
    return {int(member): identity for member, identity in json.loads(closed).items()}


def members_through(store: Any, agent: object, seconds: float, least: int) -> Members:
    """The members of `join(..., elastic=store, agent=agent, elastic_least=least)`. Raises NotImplementedError or ValueError for what
    cannot be."""
    if agent is None:
        raise NotImplementedError("agent=None lets member 0 host the agents, and an elastic run outlives it; start them "
                                  "beside it (dynamix-node exec), or join with agent=\"off\"")
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        raise ValueError("elastic=store needs $RANK and $WORLD_SIZE") from None
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        raise ValueError("the members of an elastic run meet through its store; initialise torch.distributed with each "
                         "process alone: init_process_group(\"gloo\", store=HashStore(), rank=0, world_size=1)")
    if not 0 <= least <= size:
        raise ValueError(f"elastic_least={least}: training begins with 1 to $WORLD_SIZE ({size}) members, or 0 for all of them")
    return Members(store, rank, size, seconds, least)


def _connected_anew(store: Any) -> Any:
    """The same store, but for prefixes, which cannot be read. One thread's wait in a TCPStore keeps all others of its
    connection waiting, so this is another one."""
    below = store
    while hasattr(below, "underlying_store"):
        below = below.underlying_store
    if isinstance(below, _distributed.TCPStore):
        return _distributed.TCPStore(below.host, below.port, None, False, use_libuv=below.libuvBackend)
    return store


class Stateful(Protocol):
    """What of a run its peers need."""

    def state_dict(self) -> Dict[str, Any]: ...

    def restore(self, state: Dict[str, Any]) -> None: ...

    def regroup(self, present: Sequence[bool]) -> None: ...


class Alignment:
    """Gives the members of a new generation one state."""

    def __init__(self, members: Members, client: Client, model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer],
                 schedulers: Sequence[Any], layout: Sequence[int], row: torch.Tensor, run: Stateful) -> None:
        """`layout`: numbers that say how gradients lie in buffers; `row`: this member's introduction."""
        self._members = members
        self._client = client
        self._model, self._optimizers, self._schedulers = model, list(optimizers), list(schedulers)
        self._layout = zlib.crc32(repr(list(layout)).encode())
        self._row = row
        self._run = run
        self.rows: Optional[torch.Tensor] = None  # of all members' introductions, once this one has begun
        self.came_in = False

    def _groups(self) -> str:
        """Of parameters, of each optimiser."""
        return json.dumps([[len(group["params"]) for group in each.param_groups] for each in self._optimizers])

    def check_groups(self, others: str) -> None:
        """Raises DynamixError where the others' optimisers have `others`, which this one's cannot take the state of."""
        if others and others != self._groups():
            raise DynamixError(f"the optimisers of this training have groups of {others} parameters by now, and those of this member "
                               f"{self._groups()}: where one comes back, it has to call add_param_group as the others have before "
                               "run.loader()")

    def align(self) -> bool:
        """All take the state of the most advanced member. False where none has begun."""
        members, begun = self._members, self.rows is not None
        # One that was left behind by an earlier generation may have done other steps than those of the later one.
        own = (members.aligned, int(self._client.status().step)) if begun else (0, -1)
        table = members.gather(torch.tensor([*own, self._layout], dtype=torch.int64, device="cpu")).wait().tolist()
        said = {member: table[member] for member in range(members.size) if members.present[member]}
        newest = max((row[0], row[1]) for row in said.values())
        source = next(member for member, row in said.items() if (row[0], row[1]) == newest)
        # Those that have begun give up for no newcomer, which breaks the group by leaving it.
        if self._layout != said[source][2] or newest[1] < 0 and any(row[2] != self._layout for row in said.values()):
            raise DynamixError("the members' gradients lie in other buckets, some of them on a GPU, or nan=... differs: use one model, "
                               "one torch, one kind of device and one nan=... everywhere")
        if newest[1] < 0:
            return False
        first = newest[1] == 0  # then all take the parameters of one, as DistributedDataParallel does it
        if first or any((row[0], row[1]) < newest for row in said.values()):
            packed = self._send(source)
            if own < newest or (first and source != members.position):
                self._unpack(packed)
        self._run.regroup(members.present)
        members.tell("groups", self._groups())
        members.aligned = members.generation
        self.came_in = self.came_in or not (begun or first)
        return True

    def _send(self, source: int) -> bytes:
        """The state of the member at `source`."""
        stream = io.BytesIO()
        if source == self._members.position:
            torch.save({"model": self._model.state_dict(), "rows": self.rows,
                        "optimizers": [each.state_dict() for each in self._optimizers],
                        "schedulers": [_state_of(each) for each in self._schedulers], "run": self._run.state_dict()}, stream)
        packed = bytearray(stream.getvalue())
        size = torch.tensor([len(packed)], dtype=torch.int64, device="cpu")
        self._members.broadcast(size, source)
        values = torch.frombuffer(packed, dtype=torch.uint8) if packed else torch.empty(int(size), dtype=torch.uint8, device="cpu")
        self._members.broadcast(values, source)
        return bytes(values.numpy())

    def _unpack(self, packed: bytes) -> None:
        state = _load(packed)
        self.check_groups(json.dumps([[len(group["params"]) for group in each["param_groups"]] for each in state["optimizers"]]))
        if self.rows is not None:
            self._client.regroup(self._members.present)  # drops what is dealt
        else:
            rows: torch.Tensor = state["rows"]
            if len(rows) != self._members.size:
                raise DynamixError(f"this training has {len(rows)} members, and this one was started with a $WORLD_SIZE of "
                                   f"{self._members.size}")
            known = rows[self._members.position].clone()
            if int(known[RANK_COLUMN]) < 0:  # it has not come before (Members.introductions)
                known[RANK_COLUMN] = self._row[RANK_COLUMN]
            if not torch.equal(known[:LOADER_COLUMNS], self._row[:LOADER_COLUMNS]):
                raise DynamixError("this member has come back with another batch size, data set or agent than it had before")
            self._client.begin(rows.data_ptr())
            self.rows = rows
        self._model.load_state_dict(state["model"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        for scheduler, saved in zip(self._schedulers, state["schedulers"]):
            scheduler.load_state_dict(saved)
        self._run.restore(state["run"])


def _state_of(scheduler: Any) -> Any:
    """Without functions, which every member has itself: SWALR keeps one in its state in torch 2.6."""
    return _without_functions(scheduler.state_dict())


def _without_functions(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _without_functions(value) for name, value in state.items() if not callable(value)}
    return [_without_functions(each) for each in state] if isinstance(state, list) else state


def _of_numpy() -> List[Any]:
    """What numpy's own numbers are made of, which a learning rate may be."""
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        return []
    return [numpy.float64(0).__reduce__()[0], numpy.dtype, *{type(numpy.dtype(kind)) for kind in "?bBhHiIlLqQefd"}]


def _load(packed: bytes) -> Any:
    """Another member's state. No code of its choice is run."""
    known = torch.serialization.get_safe_globals()  # those that the script has named stay so
    try:
        with torch.serialization.safe_globals([each for each in _of_numpy() if each not in known]):
            return torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        raise DynamixError("the state of another member holds what is not taken from others by itself; where model, optimiser and "
                           f"schedulers are your own, name its classes in torch.serialization.add_safe_globals: {problem}") from None


def _quietly(form: Callable[[], None]) -> None:
    try:
        form()
    except RuntimeError as problem:
        _log.debug("a group was not formed: %s", problem)
