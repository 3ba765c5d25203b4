"""Rows of numbers that the processes of one machine leave for each other in files, without waiting: for an observer, which may
take part in no collective of the script's.

    row n -> put(n, row)      into this member's own file, in the place of row n - 2
    take(n)                   the rows n of all members, once all are there

A member puts row n only when it has taken row n - 1, so nobody's row is written over before all have read it.
"""
from __future__ import annotations

import mmap
import os
import struct
import zlib
from typing import List, Optional, Sequence

_PLACES = 2
_HEAD = struct.Struct("=qI")  # number of the row, and a checksum: a row that is being written has another


class Board:
    """Of one kind of rows, `columns` int64 each."""

    def __init__(self, directory: str, name: str, position: int, members: int, columns: int) -> None:
        """Makes this member's file. Raises OSError where that cannot be."""
        self._paths = [os.path.join(directory, f"{name}-{member}") for member in range(members)]
        self._columns = columns
        self._place = _HEAD.size + 8 * columns
        self._maps: List[Optional[mmap.mmap]] = [None] * members
        with open(self._paths[position] + ".new", "wb") as file:
            file.write(bytes(_PLACES * self._place))
        os.replace(self._paths[position] + ".new", self._paths[position])
        self._own = self._map(position)

    def _map(self, member: int) -> Optional[mmap.mmap]:
        found = self._maps[member]
        if found is None:
            try:
                with open(self._paths[member], "r+b") as file:
                    found = self._maps[member] = mmap.mmap(file.fileno(), _PLACES * self._place)
            except (OSError, ValueError):  # it has not come so far
                pass
        return found

    def put(self, number: int, row: Sequence[int]) -> None:
        """`number` from 0."""
        numbers = struct.pack(f"={self._columns}q", *row)
        assert self._own is not None
        at = number % _PLACES * self._place
        self._own[at + _HEAD.size:at + self._place] = numbers
        self._own[at:at + _HEAD.size] = _HEAD.pack(number + 1, zlib.crc32(numbers, number + 1))

    def take(self, number: int) -> Optional[List[int]]:
        """The rows of all members, one behind the other; None where one is missing."""
        rows: List[int] = []
        for member in range(len(self._paths)):
            source = self._map(member)
            if source is None:
                return None
            at = number % _PLACES * self._place
            found, check = _HEAD.unpack(source[at:at + _HEAD.size])
            numbers = source[at + _HEAD.size:at + self._place]
            if found != number + 1 or check != zlib.crc32(numbers, number + 1):
                return None
            rows += struct.unpack(f"={self._columns}q", numbers)
        return rows
