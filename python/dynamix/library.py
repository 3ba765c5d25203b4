"""Finds libdynamix.so and declares its functions. Nothing is loaded on import, but by the first run."""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import shutil
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, List, Tuple

from . import structures as raw

_NAME = "libdynamix.so.1"
_HOW_TO_BUILD = "cmake --preset release -Wno-dev && cmake --build --preset release --target dynamix_sdk"

# Result and arguments. Rows and samples are passed as addresses.
_FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "abi_version": (c_uint32, []),
    "agent_path": (c_size_t, [c_uint32, c_char_p, c_size_t]),
    "open": (c_void_p, [POINTER(raw.Options), c_char_p, c_size_t]),
    "close": (None, [c_void_p]),
    "error": (c_char_p, [c_void_p]),
    "next_notice": (c_char_p, [c_void_p]),
    "introduce": (c_int, [c_void_p, POINTER(raw.Workload), c_void_p]),
    "begin": (c_int, [c_void_p, c_void_p]),
    "start_epoch": (c_int, [c_void_p]),
    "deal_next": (c_int, [c_void_p, POINTER(raw.Deal)]),
    "fetch_next": (c_int, [c_void_p, POINTER(raw.Deal)]),
    "samples": (c_int, [c_void_p, c_void_p, c_size_t]),
    "ranges": (c_int, [c_void_p, c_void_p, c_size_t]),
    "shares": (c_int, [c_void_p, c_void_p, c_size_t]),
    "deliver": (c_int, [c_void_p, POINTER(raw.Deal)]),
    "leave_epoch": (c_int, [c_void_p, c_uint64]),
    "epoch_steps": (c_uint64, [c_void_p]),
    "due": (c_uint32, [c_void_p]),
    "weights": (c_int, [c_void_p, POINTER(c_double), POINTER(c_double)]),
    "set_weights": (c_int, [c_void_p, c_double, c_double]),
    "scale_f32": (c_double, [c_void_p, c_size_t, c_double]),
    "scale_f64": (c_double, [c_void_p, c_size_t, c_double]),
    "squares_f32": (c_double, [c_void_p, c_size_t]),
    "squares_f64": (c_double, [c_void_p, c_size_t]),
    "write_row": (c_int, [c_void_p, c_double, c_void_p]),
    "read_rows": (c_int, [c_void_p, c_void_p]),
    "rate": (c_int, [c_void_p, c_double, POINTER(raw.StepRate)]),
    "complete": (c_int, [c_void_p, POINTER(raw.StepTimes)]),
    "evaluated": (c_int, [c_void_p, c_double, c_double, c_double]),
    "limit_batch": (c_int, [c_void_p, c_uint32]),
    "get_status": (c_int, [c_void_p, POINTER(raw.RawStatus)]),
    "batches": (c_int, [c_void_p, c_void_p, c_size_t]),
    "state_words": (c_size_t, [c_void_p]),
    "save": (c_int, [c_void_p, c_void_p, c_size_t]),
    "restore_within": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t]),
    "catch_up": (c_int, [c_void_p, c_void_p, c_size_t]),
    "regroup": (c_int, [c_void_p, c_void_p, c_size_t]),
    "finish": (c_int, [c_void_p, c_uint32, c_char_p]),
}


def source_tree() -> pathlib.Path:
    """The repository that this package lies in, where it was not installed from it."""
    return pathlib.Path(__file__).resolve().parents[2]


def built(path: str) -> List[str]:
    """The files `path` of all build directories of the source tree, newest first."""
    found = source_tree().glob(f"build/*/{path}")
    return [str(file) for file in sorted(found, key=lambda file: -file.stat().st_mtime)]


def candidates() -> List[str]:
    """Where the library may be: where the user says, beside this file, in the source tree, where the system looks."""
    if "DYNAMIX_LIBRARY" in os.environ:
        return [os.environ["DYNAMIX_LIBRARY"]]
    beside = pathlib.Path(__file__).resolve().parent / _NAME
    return ([str(beside)] if beside.exists() else []) + built("client/" + _NAME) + [_NAME]


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, "dynamix_" + name)
        function.restype = result
        function.argtypes = arguments
    return library


@functools.lru_cache(maxsize=1)
def load() -> ctypes.CDLL:
    """The library with all its functions declared.

    Raises ImportError where there is none, or one of another version.
    """
    problems = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
            library.dynamix_abi_version.restype = c_uint32
            version = library.dynamix_abi_version()
            if version == raw.ABI_VERSION:
                return _declare(library)
            problems.append(f"{path} has ABI version {version}; this package needs {raw.ABI_VERSION}")
        except (OSError, AttributeError) as problem:
            problems.append(str(problem))
    raise ImportError(f"dynamix needs {_NAME}: {'; '.join(problems)}. Build it in the source tree with\n"
                      f"  {_HOW_TO_BUILD}\nor let $DYNAMIX_LIBRARY name it.")


def program() -> str:
    """Path of dynamix-node. Raises FileNotFoundError where there is none."""
    inside = pathlib.Path(__file__).resolve().parent / "bin" / "dynamix-node"  # of a wheel
    found = (os.environ.get("DYNAMIX_NODE") or (str(inside) if inside.exists() else None)
             or shutil.which("dynamix-node") or next(iter(built("node/dynamix-node")), None))
    if not found:
        raise FileNotFoundError("dynamix-node is neither on the PATH nor built; let $DYNAMIX_NODE name it, or build it with "
                                "`cmake --build --preset release --target dynamix-node`")
    return found
