"""The connections of process groups, so that this process can end them: nobody then waits for it, nor its own threads for
anybody."""
from __future__ import annotations

import os
import socket
import zlib
from typing import Callable, Dict, List, Optional


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


def _ends_of(descriptor: int) -> Optional[str]:
    """Of a TCP connection, the same text on either side; None where it is something else."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as end:
            if end.family not in (socket.AF_INET, socket.AF_INET6) or end.type != socket.SOCK_STREAM:
                return None
            return " ".join(sorted(f"{address[0].replace('::ffff:', '')} {address[1]}" for address in (end.getsockname(), end.getpeername())))
    except OSError:  # it is not connected
        return None


class Connections:
    """Those that come up between the object's making and `formed`."""

    def __init__(self) -> None:
        self._before: Optional[Dict[int, str]] = open_sockets()
        self._own: Dict[int, str] = {}

    def formed(self) -> None:
        before = self._before or {}
        self._own = {descriptor: name for descriptor, name in open_sockets().items() if before.get(descriptor) != name}
        self._before = None

    def find(self, exchange: Callable[[List[int]], List[List[int]]], but: Optional[int]) -> None:
        """Those between this process and others that find theirs now, whoever has formed them. `exchange`: gives the others'
        numbers for this one's; `but`: a port whose connections stay."""
        here, ends = open_sockets(), {}
        for descriptor in here:
            text = _ends_of(descriptor)
            if text is not None and str(but) not in text.split()[1::2]:
                ends[descriptor] = zlib.crc32(text.encode())
        there = {number for numbers in exchange(sorted(ends.values())) for number in numbers}
        self._own = {descriptor: here[descriptor] for descriptor, number in ends.items() if number in there}
        self._before = None

    def _still_open(self) -> Dict[int, str]:
        """Some are closed since, and their numbers used for other things."""
        now = open_sockets()
        return {descriptor: name for descriptor, name in self._own.items() if now.get(descriptor) == name}

    def cut(self) -> None:
        """Ends them. Gloo's listening socket stays: `accept` that fails on Gloo's own thread ends the process."""
        for descriptor in self._still_open():
            try:
                with socket.socket(fileno=os.dup(descriptor)) as end:
                    if not end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        end.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is over already
                pass

    def close(self) -> None:
        """In a forked child, which has inherited them."""
        for descriptor in self._still_open():
            os.close(descriptor)
