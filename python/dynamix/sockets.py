"""The connections of process groups, so that this process can end them: nobody then waits for it, nor its own threads for
anybody."""
from __future__ import annotations

import ctypes
import os
import pathlib
import socket
import zlib
from typing import Callable, Dict, List, Optional, Sequence, Set

_libc = ctypes.CDLL(None)  # a socket object would take on socket.setdefaulttimeout, and with it whoever else has the socket
_LISTENING = "0A"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address as one of IPv6


def open_sockets() -> Dict[int, str]:
    """Of this process: what /proc says of each descriptor."""
    found: Dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # closed since
            continue
        if target.startswith("socket:"):
            found[int(name)] = target
    return found


def connection_ends() -> Dict[str, List[str]]:
    """Of the TCP connections here: addresses and ports in hexadecimal digits, in the same order on either side; by what /proc says of
    their descriptors. Nothing where /proc does not tell."""
    found: Dict[str, List[str]] = {}
    for name in ("tcp", "tcp6"):
        try:
            lines = pathlib.Path("/proc/self/net", name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for _, here, there, state, *others in map(str.split, lines):
            if state != _LISTENING:
                found[f"socket:[{others[5]}]"] = sorted(end[-len("AABBCCDD:PORT"):] if end.startswith(_MAPPED) else end for end in (here, there))
    return found


class Connections:
    """Those that come up between the object's making and `formed`."""

    def __init__(self) -> None:
        self._before: Optional[Dict[int, str]] = open_sockets()
        self._own: Dict[int, str] = {}
        self._members: Dict[int, int] = {}  # at the other ends, where they were found

    def formed(self) -> None:
        before = self._before or {}
        self._own = {descriptor: name for descriptor, name in open_sockets().items() if before.get(descriptor) != name}
        self._before = None

    def find(self, gather: Callable[[List[int]], Sequence[Optional[List[int]]]], position: int, but: Optional[int] = None) -> None:
        """Those between this process and others that find theirs now, whoever has formed them. `gather`: gives each member's numbers,
        of which this one is at `position`; `but`: a port whose connections stay."""
        here, known = open_sockets(), connection_ends()
        ends = {descriptor: zlib.crc32(" ".join(known[name]).encode()) for descriptor, name in here.items()
                if name in known and but not in [int(end.split(":")[1], 16) for end in known[name]]}
        there = {number: member for member, numbers in enumerate(gather(sorted(ends.values()))) if member != position
                 for number in numbers or []}
        self._members = {descriptor: there[number] for descriptor, number in ends.items() if number in there}
        self._own = {descriptor: here[descriptor] for descriptor in self._members}
        self._before = None

    def also_in(self, others: "Connections") -> "Connections":
        both = Connections()
        both._before, both._members = None, self._members
        both._own = {descriptor: name for descriptor, name in self._own.items() if others._own.get(descriptor) == name}
        return both

    def _still_open(self) -> Dict[int, str]:
        """Some are closed since, and their numbers used for other things."""
        now = open_sockets()
        return {descriptor: name for descriptor, name in self._own.items() if now.get(descriptor) == name}

    def lost(self) -> Set[int]:
        """Members with whom a connection has ended: Gloo closes what the other side has. -1: nobody has said whose it is."""
        return {self._members.get(descriptor, -1) for descriptor in self._own.keys() - self._still_open().keys()}

    def cut(self) -> None:
        """Ends them. Gloo's listening socket stays: `accept` that fails on Gloo's own thread ends the process."""
        for descriptor in self._still_open():
            listens, size = ctypes.c_int(), ctypes.c_uint(ctypes.sizeof(ctypes.c_int))
            failed = _libc.getsockopt(descriptor, socket.SOL_SOCKET, socket.SO_ACCEPTCONN, ctypes.byref(listens), ctypes.byref(size))
            if not failed and not listens.value:
                _libc.shutdown(descriptor, socket.SHUT_RDWR)  # which fails where it is over already

    def close(self) -> None:
        """In a forked child, which has inherited them."""
        for descriptor in self._still_open():
            os.close(descriptor)
