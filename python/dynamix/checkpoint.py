"""Checkpoints that a full disk does not harm."""
from __future__ import annotations

import contextlib
import os
from typing import Any, BinaryIO, Optional, Union, cast

import torch


class _Sink:
    """A file whose first error is kept: torch's writer ends in another one, which does not name the cause."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.problem: Optional[OSError] = None

    def _try(self, act: Any, *arguments: Any) -> None:
        if self.problem is None:
            try:
                act(*arguments)
            except OSError as problem:
                self.problem = problem

    def write(self, values: Any) -> int:
        self._try(self._file.write, values)
        return memoryview(values).nbytes

    def flush(self) -> None:
        self._try(self._file.flush)

    def settle(self) -> None:
        """All is on the disk. Raises the first error."""
        self.flush()
        self._try(os.fsync, self._file.fileno())
        if self.problem is not None:
            raise self.problem


def save(state: Any, path: Union[str, "os.PathLike[str]"]) -> None:
    """`torch.save(state, path)` that either replaces the file at `path` as a whole or leaves it as it is.

    Raises OSError where the state cannot be written, on a full disk say: the checkpoint before is kept, training may go
    on, and a later call may succeed. torch.save itself has overwritten the file by then.
    """
    target = os.path.realpath(path)  # torch.save writes through a symbolic link
    beside = f"{target}.{os.getpid()}.new"
    try:
        with open(beside, "wb") as file:
            sink = _Sink(file)
            torch.save(state, cast(BinaryIO, sink))
            sink.settle()
        os.replace(beside, target)
    except OSError as problem:
        kept = "; the one before is kept" if os.path.exists(target) else ""
        raise OSError(problem.errno, f"the checkpoint was not written{kept}: {problem.strerror}", target) from problem
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
