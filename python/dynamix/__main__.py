"""`dynamix top|report|explain|... RUN` is dynamix-node's; `dynamix tensorboard RUN` writes event files."""
from __future__ import annotations

import os
import signal
import sys
from typing import List, Optional

from .library import program
from .tensorboard import write

_USAGE = """usage: dynamix COMMAND [RUN] [OPTION...]

  top RUN                     watch a run in the terminal
  report RUN                  tables of a run, and one page with all charts
  explain RUN                 why batch sizes were chosen, in the newest window or in --window N
  exec [OPTION...] -- COMMAND
                              start the agents of this machine, and COMMAND beside them; with --observe
                              only measure a plain script and say what joining would gain
  tensorboard RUN [DIRECTORY]
                              write event files for TensorBoard (into RUN/tensorboard)

RUN is a run directory. All but tensorboard are dynamix-node's (`dynamix report --help`), and its
other commands work here, too."""
_OF_RUNS = ("top", "report", "explain")


def main(arguments: Optional[List[str]] = None) -> int:
    """The command line. Returns the exit status."""
    if arguments is None:
        _end_on_closed_pipe()
        arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    try:
        if command == "tensorboard":
            if not 1 <= len(rest) <= 2:
                print(_USAGE, file=sys.stderr)
                return 2
            print(write(*rest))
            return 0
        if command in ("report", "explain") and not rest:
            print(f"dynamix: {command} needs the run directory: dynamix {command} RUN", file=sys.stderr)
            return 2
        if command in _OF_RUNS and rest and not rest[0].startswith("-"):
            rest = ["--run", *rest]
        if command == "exec" and "--observe" in rest[:rest.index("--") if "--" in rest else len(rest)]:
            _let_python_observe()
        return node([command, *rest])
    except (OSError, ImportError) as problem:
        print(f"dynamix: {problem}", file=sys.stderr)
        return 1


def _let_python_observe() -> None:
    """The processes that this one becomes run `observer/sitecustomize.py` first."""
    hook = os.path.join(os.path.dirname(os.path.abspath(__file__)), "observer")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (hook, os.environ.get("PYTHONPATH"))))


def _end_on_closed_pipe() -> None:
    """Quietly, as other commands do (`dynamix report RUN | head`); Python, and what it becomes, would ignore the signal."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def node(arguments: Optional[List[str]] = None) -> int:
    """dynamix-node in place of this process."""
    try:
        if arguments is None:
            _end_on_closed_pipe()
        found = program()
        os.execv(found, [found, *(sys.argv[1:] if arguments is None else arguments)])
    except OSError as problem:
        print(f"dynamix: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
