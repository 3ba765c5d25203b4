"""Scripts as a process each, which ends as an interpreter does: forked from one that has loaded Torch, since that
takes seconds of computing."""
import contextlib
import ctypes
import json
import multiprocessing
import os
import select
import signal
import socket
import sys
import tempfile
import types
import warnings
import weakref
from typing import NamedTuple

import ranks

import dynamix  # noqa: F401  (or each would load it)

FORK = multiprocessing.get_context("fork")


def _interpret(arguments, environment, descriptors):
    """As Python does with these arguments, `-c SOURCE ...` or `FILE ...`, in a new process."""
    for number, descriptor in descriptors.items():
        os.dup2(descriptor, number)
    os.environ.clear()
    os.environ.update(environment)
    arguments = arguments[arguments[0] == "-u":]
    if arguments[0] == "-c":
        source, sys.argv = arguments[1], ["-c", *arguments[2:]]
    else:
        source, sys.argv = f"exec(compile(open({arguments[0]!r}).read(), {arguments[0]!r}, 'exec'))", arguments
    sys.path[:0] = [os.path.dirname(os.path.abspath(sys.argv[0])), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
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
        self._process = FORK.Process(target=_interpret, args=(["-c", source, *arguments], {**os.environ, **variables},
                                                              {1: self._printed, 2: self._said}))
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


#: What a command starts in the place of Python: it has its script run, hands signals on, and ends as that does.
PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect({place!r})
socket.send_fds(asked, [json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()], [0, 1, 2])
process = int(asked.recv(64))
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(process, number))
status = int(asked.recv(64))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def _answer(asked):
    """Runs a script for such a program; it dies with that."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, descriptors, _, _ = socket.recv_fds(asked, 2**18, 3)
    arguments, environment, folder = json.loads(request)
    os.chdir(folder)
    process = FORK.Process(target=_interpret, args=(arguments, environment, dict(enumerate(descriptors))))
    process.start()
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(BrokenPipeError):  # the program has died
        asked.send(str(process.pid).encode())
        ends = os.pidfd_open(process.pid)
        if ends not in select.select([asked, ends], [], [])[0]:
            process.kill()
        process.join()
        asked.send(str(process.exitcode).encode())
    process.kill()


def _serve(listening):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    while True:
        asked = listening.accept()[0]
        FORK.Process(target=_answer, args=(asked, )).start()
        asked.close()


@contextlib.contextmanager
def program():
    """Path of a program that commands of the block start in the place of Python, whose scripts are forked from this process."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        place, path = os.path.join(folder, "asked"), os.path.join(folder, "python")
        listening.bind(place)
        listening.listen()
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(python=sys.executable, place=place))
        os.chmod(path, 0o755)
        server = FORK.Process(target=_serve, args=(listening, ))
        server.start()
        try:
            yield path
        finally:
            server.kill()
            server.join()
