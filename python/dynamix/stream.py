"""Streams: shards that can only be read from their beginning on. Every item is dealt exactly once an epoch.

    shares of a step -> Leases.take    how many items each member takes, and of which shards: pure, the same on all members
                     -> Reader         in a process of the DataLoader's: reads on in the shard that its lane holds

A lane is one worker of one member's DataLoader, which takes every n-th batch. It leases a shard and reads it to its end.
Where no shard is left it takes over the second half of the longest lease, so that no member runs dry before the epoch's
last step.
"""
from __future__ import annotations

import collections
import copy
import hashlib
import logging
import os
import time
from typing import Any, Callable, Deque, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from .client import DynamixError
from .peers import Peers

_log = logging.getLogger("dynamix")
_Shard = TypeVar("_Shard")
_Item = TypeVar("_Item", covariant=True)

#: Items `first` to `last` - 1 of a shard: (shard, first, last).
Range = Tuple[int, int, int]
#: What the reader gives: (epoch, shard, item).
Place = Tuple[int, int, int]


class Stream(IterableDataset[_Item], Generic[_Shard, _Item]):
    """Data that is read shard by shard, for `run.loader(stream, batch_size=...)`.

        stream = dynamix.Stream(sorted(glob("train-*.jsonl")), read)     # def read(path): yields the items of one file

    Also a plain IterableDataset, whose shards are divided among the workers of a DataLoader: for evaluation, say.

    Args:
        shards: names, paths or numbers, in the same order on all members.
        read: gives the items of one shard, the same ones in the same order each time within an epoch. It runs in the
            DataLoader's workers.
        lengths: how many items each shard has. None: run.loader() reads through all shards once to count them, each
            member its part. Data without an end needs one: `read` ends behind an epoch's items (itertools.islice).
    """

    def __init__(self, shards: Iterable[_Shard], read: Callable[[_Shard], Iterable[_Item]],
                 lengths: Optional[Sequence[int]] = None) -> None:
        self.shards = list(shards)
        self.read = read
        self.lengths = None if lengths is None else [int(length) for length in lengths]
        if not callable(read):
            raise TypeError(f"read is a {type(read).__name__}; give a function that takes a shard and gives its items")
        if self.lengths is not None and (len(self.lengths) != len(self.shards) or min(self.lengths, default=0) < 0):
            raise ValueError(f"{len(self.lengths)} lengths for {len(self.shards)} shards: give how many items each has")

    def __iter__(self) -> Iterator[_Item]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for shard in self.shards[first::step]:
            yield from self.read(shard)


def _name(shard: object) -> str:
    """By which members recognise a shard; directories may have other names on other hosts."""
    if isinstance(shard, (str, os.PathLike)):
        return os.path.basename(os.fspath(shard))
    return str(shard) if isinstance(shard, (int, bytes)) else ""


def lengths_of(stream: Stream[Any, Any], peers: Peers) -> List[int]:
    """Items of each shard, counted where the stream does not say. All members call it at the same place; those of an elastic
    run come one by one, so each of them counts all.

    Raises DynamixError on all members where they have other shards or one cannot read them.
    """
    lengths, problem = stream.lengths, ""
    if peers.elastic:
        return lengths if lengths is not None else [sum(1 for _ in stream.read(shard)) for shard in stream.shards]
    names = hashlib.sha256("\0".join(map(_name, stream.shards)).encode(errors="replace")).hexdigest()
    said = peers.gather_objects((len(stream.shards), names, lengths))
    for what, mine in (("number of shards", 0), ("names or order of the shards", 1), ("lengths of the shards", 2)):
        for member, other in enumerate(said):
            if other[mine] != said[0][mine]:
                raise DynamixError(f"the {what} on member {member} are not those on member 0: give all members the same "
                                   "list in the same order (sort what a directory or glob gives)")
    if lengths is not None:
        return lengths
    began = time.monotonic()
    counted: List[int] = []
    try:
        for shard in stream.shards[peers.position::peers.size]:
            counted.append(sum(1 for _ in stream.read(shard)))
    except Exception as error:  # whatever the user's function raises: the others wait for an answer
        problem = f"{type(error).__name__}: {error}"
    parts = peers.gather_objects((counted, problem))
    for member, (_, problem) in enumerate(parts):
        if problem:
            raise DynamixError(f"member {member} could not read its shards to count their items: {problem}")
    if peers.position == 0:
        _log.info("counted the items of %d shards in %.1f s; lengths=... saves that", len(stream.shards),
                  time.monotonic() - began)
    return [parts[shard % peers.size][0][shard // peers.size] for shard in range(len(stream.shards))]


class Leases:
    """Which ranges are dealt next. `lanes`: of each member."""

    def __init__(self, waiting: Iterable[Range], lanes: Sequence[int]) -> None:
        self._waiting: Deque[Range] = collections.deque(waiting)
        self._held: List[List[Optional[Range]]] = [[None] * count for count in lanes]
        self._turn = 0  # steps dealt

    def __copy__(self) -> "Leases":
        copied = Leases(self._waiting, [])
        copied._held = [list(lanes) for lanes in self._held]
        copied._turn = self._turn
        return copied

    @property
    def left(self) -> int:
        """Items that are not dealt yet."""
        held = [each for lanes in self._held for each in lanes if each is not None]
        return sum(last - first for _, first, last in [*self._waiting, *held])

    def take(self, shares: Sequence[int]) -> List[List[Range]]:
        """The next step's ranges, by member. Raises ValueError where less is left."""
        dealt: List[List[Range]] = []
        for lanes, share in zip(self._held, shares):
            lane = self._turn % len(lanes)
            ranges: List[Range] = []
            while share > 0:
                held = lanes[lane]
                shard, first, last = held if held is not None else self._lease(share)
                end = min(last, first + share)
                ranges.append((shard, first, end))
                share -= end - first
                lanes[lane] = (shard, end, last) if end < last else None
            dealt.append(ranges)
        self._turn += 1
        return dealt

    def _lease(self, wanted: int) -> Range:
        if self._waiting:
            return self._waiting.popleft()
        longest, at = 0, (0, 0)
        for member, lanes in enumerate(self._held):
            for lane, held in enumerate(lanes):
                if held is not None and held[2] - held[1] > longest:
                    longest, at = held[2] - held[1], (member, lane)
        if longest == 0:
            raise ValueError("no items are left")
        member, lane = at
        shard, first, last = self._held[member][lane] or (0, 0, 0)
        middle = last - max((longest + 1) // 2, min(longest, wanted))
        self._held[member][lane] = (shard, first, middle) if first < middle else None
        return shard, middle, last

    def give_back(self, present: Sequence[bool]) -> None:
        """What members that are absent hold is leased next."""
        for lanes, here in zip(self._held, present):
            if not here:
                self._waiting.extendleft(held for held in reversed(lanes) if held is not None)
                lanes[:] = [None] * len(lanes)

    def state(self) -> Dict[str, Any]:
        held = [each or (0, 0, 0) for lanes in self._held for each in lanes]
        ranges = torch.tensor([*held, *self._waiting], dtype=torch.int64).reshape(-1, 3)
        return {"ranges": ranges, "lanes": [len(lanes) for lanes in self._held], "turn": self._turn}

    @classmethod
    def of_state(cls, state: Dict[str, Any], lanes: Sequence[int]) -> "Leases":
        """Other lanes lease anew what those of the state held."""
        ranges: List[Range] = [tuple(each) for each in state["ranges"].tolist()]
        same = list(state["lanes"]) == list(lanes)
        count = sum(state["lanes"]) if same else 0
        leases = cls([each for each in ranges[count:] if each[1] < each[2]], lanes)
        if same:
            rest = iter(each if each[1] < each[2] else None for each in ranges[:count])
            leases._held = [[next(rest) for _ in range(size)] for size in lanes]
            leases._turn = int(state["turn"])
        return leases


class Dealing:
    """A stream as one member deals it: how far it is dealt, and how far training has come."""

    def __init__(self, stream: Stream[Any, Any], lengths: Sequence[int], peers: Peers, workers: int, seed: int,
                 shuffle: bool) -> None:
        self._lengths = list(lengths)
        self._position = peers.position
        self._lanes = [max(workers, 1)] * peers.size
        self._seed = seed
        self._shuffle = shuffle
        self._digest = hashlib.sha256(repr(([_name(shard) for shard in stream.shards], self._lengths)).encode()).hexdigest()
        self._done = Leases((), self._lanes)    # behind the last completed step
        self._head = copy.copy(self._done)      # behind the last deal
        self._ahead: Deque[Tuple[int, List[int]]] = collections.deque()  # (step, shares) of the deals between them

    def agree(self, peers: Peers) -> None:
        """All members deal alike from here on. They call it at the same place.

        Raises DynamixError on all of them where they cannot.
        """
        said = peers.gather_objects((self._lanes[self._position], self._seed, self._shuffle, self._digest))
        if len({each[2] for each in said}) > 1:
            raise DynamixError("some members shuffle the shards and others do not: pass the same shuffle everywhere")
        if len({each[3] for each in said}) > 1:
            raise DynamixError("the members' shards or their lengths differ: give all members the same list in the same order")
        self._lanes = [each[0] for each in said]
        self._seed = int(said[0][1])
        self._done = Leases((), self._lanes)

    def regroup(self, step: int, present: Sequence[bool]) -> None:
        """Behind `step` steps the members that are present go on: what was dealt and not completed is dealt again."""
        self.completed(step)
        self._ahead.clear()
        self._done.give_back(present)

    def _of_epoch(self, epoch: int) -> Leases:
        order: Sequence[int] = range(len(self._lengths))
        if self._shuffle:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            order = torch.randperm(len(self._lengths), generator=generator).tolist()
        return Leases([(shard, 0, self._lengths[shard]) for shard in order if self._lengths[shard]], self._lanes)

    def start(self, epoch: int, cursor: int, step: int) -> None:
        """Deals from the cursor of the epoch on, which is where training stands behind `step` steps."""
        self.completed(step)
        if cursor == 0:
            self._done = self._of_epoch(epoch)
        left = sum(self._lengths) - cursor
        if self._done.left != left:
            raise DynamixError(f"{self._done.left} items are leased or waiting, and {left} are to be dealt: restore a state "
                               "of this stream")
        self._head = copy.copy(self._done)
        self._ahead.clear()

    def take(self, epoch: int, step: int, shares: List[int]) -> List[Place]:
        """This member's items of the step that was dealt now. One that has none is given a stand-in, twice."""
        self._ahead.append((step, shares))
        places = [(epoch, shard, item) for shard, first, last in self._head.take(shares)[self._position]
                  for item in range(first, last)]
        return places or [(epoch, next(shard for shard, length in enumerate(self._lengths) if length), 0)] * 2

    def completed(self, step: int) -> None:
        """So many steps of the training are done."""
        while self._ahead and self._ahead[0][0] < step:
            self._done.take(self._ahead.popleft()[1])

    def state(self) -> Dict[str, Any]:
        return {"shards": self._digest, "seed": self._seed, **self._done.state()}

    def restore(self, state: Optional[Dict[str, Any]], comes_in: bool = False) -> None:
        """`comes_in`: the state is that of the members that train, and this one deals as they do. From a checkpoint all go on
        with the loader workers that they have now, as they agreed."""
        if state is None or state["shards"] != self._digest:
            raise ValueError("this state is of other shards: give those that it was trained on, in the same order")
        if comes_in:
            self._lanes, self._seed = list(state["lanes"]), int(state["seed"])
        self._ahead.clear()
        self._done = Leases.of_state(state, self._lanes)


class Reader(Dataset[_Item]):
    """The items of a stream by their places. Reads on where the next place is in the same shard, further on."""

    def __init__(self, stream: Stream[Any, _Item], lengths: Sequence[int]) -> None:
        self._stream = stream
        self._lengths = list(lengths)
        self._open: Optional[Iterator[_Item]] = None
        self._at: Tuple[int, int] = (-1, -1)  # epoch and shard that are open
        self._next = 0                        # item that is read next

    def __len__(self) -> int:
        return sum(self._lengths)

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_open": None, "_at": (-1, -1)}  # a worker opens its own

    def __getitem__(self, place: Place) -> _Item:
        epoch, shard, item = place
        if self._open is None or self._at != (epoch, shard) or item < self._next:
            self._open, self._at, self._next = iter(self._stream.read(self._stream.shards[shard])), (epoch, shard), 0
        while self._next < item:
            self._read(shard)
        value = self._read(shard)
        if self._next == self._lengths[shard]:
            self._end(shard)
        return value

    def _read(self, shard: int) -> _Item:
        assert self._open is not None
        try:
            value = next(self._open)
        except StopIteration:
            raise self._other_length(shard, f"ended behind {self._next} items") from None
        self._next += 1
        return value

    def _end(self, shard: int) -> None:
        assert self._open is not None
        more = next(self._open, self) is not self
        self._open = None
        if more:
            raise self._other_length(shard, "has more items")

    def _other_length(self, shard: int, found: str) -> DynamixError:
        told = "as lengths says" if self._stream.lengths is not None else "as they were counted"
        return DynamixError(f"shard {shard} ({_name(self._stream.shards[shard])}) {found}, not {self._lengths[shard]} "
                            f"{told}; read() has to give the same items of a shard each time")
