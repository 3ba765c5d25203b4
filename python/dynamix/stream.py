"""Streams: shards that can only be read from their beginning on. Every item is dealt exactly once an epoch.

The library leases shards to lanes (client/leases.hpp), and `Reader` reads on in the shard that its lane holds. A lane is one
worker of one member's DataLoader, which fetches every n-th piece. Where no shard is left it takes over the second half of the
longest lease, so that no member runs dry before the epoch's last step.
"""
from __future__ import annotations

import hashlib
import logging
import os
import time
from typing import Any, Callable, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from .client import DynamixError
from .peers import Peers

_log = logging.getLogger("dynamix")
_Shard = TypeVar("_Shard")
_Item = TypeVar("_Item", covariant=True)

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
            member its part. Data without an end needs one: `read` ends after an epoch's items (itertools.islice).
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


def lengths_of(stream: Stream[Any, Any], identity: int, peers: Peers) -> List[int]:
    """Items of each shard, counted where the stream does not say. All members call it at the same place; those of an elastic
    run come one by one, so each of them counts all. `identity`: of the stream.

    Raises DynamixError on all members where they have other shards or one cannot read them.
    """
    lengths, problem = stream.lengths, ""
    if peers.elastic:
        return lengths if lengths is not None else [sum(1 for _ in stream.read(shard)) for shard in stream.shards]
    said = peers.gather_objects((len(stream.shards), identity, lengths))
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


def identity_of(stream: Stream[Any, Any]) -> int:
    """A hash of the shards' names, by which members see that they have the same ones."""
    names = "\0".join(map(_name, stream.shards)).encode(errors="replace")
    return int.from_bytes(hashlib.sha256(names).digest()[:8], "little")


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
            raise self._other_length(shard, f"ended after {self._next} items") from None
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
