"""Scripts as a process each, which ends as an interpreter does: forked from one that has loaded Torch, since that
takes seconds of computing."""
import ctypes
import multiprocessing
import os
import sys
import types
import warnings
import weakref
from typing import NamedTuple

import ranks

import dynamix  # noqa: F401  (or each would load it)


def _interpret(source, arguments, environment, printed, said):
    """As `python -c` does in a new process."""
    os.dup2(printed, 1)
    os.dup2(said, 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    sys.modules["__main__"] = types.ModuleType("__main__")
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # or the folders of the test would go at this process's end
    warnings.resetwarnings()  # those of the tests
    for each in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", each)
    failed = ctypes.pythonapi.PyRun_SimpleString(source.encode())
    ctypes.pythonapi.Py_Exit(1 if failed else 0)


class Ended(NamedTuple):
    status: int
    printed: str  # on standard output
    said: str  # on standard error


class Script:
    """A started one, with these arguments and, beside this process's own, variables."""

    def __init__(self, source, *arguments, **variables):
        self._printed, self._said = os.memfd_create("printed"), os.memfd_create("said")
        self._process = multiprocessing.get_context("fork").Process(
            target=_interpret, args=(source, arguments, {**os.environ, **variables}, self._printed, self._said))
        self._process.start()

    def end(self):
        """Waits for it."""
        self._process.join(ranks.SECONDS)
        printed, said = (os.pread(file, 2**20, 0).decode() for file in (self._printed, self._said))
        if self._process.exitcode is None:
            raise AssertionError(f"a script has not ended within {ranks.SECONDS} s: {said}")
        return Ended(self._process.exitcode, printed, said)

    def kill(self):
        self._process.kill()
        self._process.join()
