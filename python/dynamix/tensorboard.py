"""Event files for TensorBoard from a run's ledger, by Torch's own writer, or where that lacks its package tensorboard
by one that knows scalars alone."""
from __future__ import annotations

import contextlib
import datetime
import glob
import gzip
import importlib
import json
import logging
import math
import os
import socket
import struct
import time
import zlib
from typing import IO, Any, Dict, Iterator, List, Optional, Tuple

_log = logging.getLogger("dynamix")

Scalar = Tuple[str, float, int]
TimedScalar = Tuple[str, float, int, Optional[float]]

_OF_REPORT = {"batch": ("batch",), "loss": ("training", "loss"), "accuracy": ("training", "accuracy"),
              "step_seconds": ("training", "iteration_seconds"), "compute_seconds": ("training", "compute_seconds"),
              "exchange_seconds": ("training", "exchange_seconds"), "data_seconds": ("training", "data_seconds")}
_OF_ALL = {"global_batch": ("global_batch",), "learning_rate": ("training", "learning_rate"),
           "learning_rate_gain": ("training", "gain"), "noise_scale": ("training", "noise_scale")}
_OF_EVALUATION = ("train_loss", "test_loss", "test_accuracy")
_ATTEMPTS = 8  # at opening parts that are rotated, compressed and dropped meanwhile
_LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]  # finite float32


def _number(values: Any, path: Tuple[str, ...]) -> Optional[float]:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    with contextlib.suppress(OverflowError):
        return float(values) if isinstance(values, (int, float)) else None
    return None


def _of_window(row: Dict[str, Any]) -> Iterator[Scalar]:
    for worker in row.get("workers", []):
        report = worker.get("report", {})
        training = report.get("training", {})
        step = int(report.get("first_step", 0)) + int(training.get("steps", 0))
        timed = training.get("iteration_seconds")
        for name, path in _OF_REPORT.items():
            value = _number(report, path)
            known = timed if name.endswith("_seconds") else value != 0 if name == "loss" else True
            if value is not None and known and (value >= 0 or name == "loss"):
                yield f"{name}/{report.get('host', '?')}", value, step
        if report.get("rank") == 0:
            for name, path in _OF_ALL.items():
                value = _number(report, path)
                if value is not None:
                    yield f"run/{name}", value, step


def _parts(ledger: str) -> List[str]:
    """A `windows.jsonl` and the older parts beside it, compressed ones before what may not be yet, oldest first."""
    own = os.stat(ledger)
    stem = ledger[: -len(".jsonl")]
    parts: Dict[str, str] = {}
    for path in sorted(glob.glob(glob.escape(stem) + "-[0-9]*.jsonl*"), reverse=True):
        begin = path[len(stem) + 1 :].split(".", 1)[0]
        if path.endswith((".jsonl", ".jsonl.gz")) and not os.path.samestat(os.stat(path), own):
            parts.setdefault(begin, path)
    return [parts[begin] for begin in sorted(parts)] + [ledger]


def _open(part: str) -> IO[str]:
    if part.endswith(".gz"):
        return gzip.open(part, "rt", encoding="utf-8", errors="replace")
    return open(part, encoding="utf-8", errors="replace")


def _opened(ledger: str) -> List[IO[str]]:
    """The parts at one moment, oldest first. Raises OSError where they are not there, or do not stay for so long."""
    for _ in range(_ATTEMPTS):
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
            parts = _parts(ledger)
            files = [stack.enter_context(_open(part)) for part in parts]
            if _parts(ledger) == parts:
                stack.pop_all()
                return files
    raise FileNotFoundError(f"{ledger} or a part beside it is gone whenever it is opened")


def _rows_of(part: IO[str]) -> Iterator[Dict[str, Any]]:
    """Without lines that are cut off; of a damaged part those before the damage, and a warning."""
    with part:
        try:
            for line in part:
                with contextlib.suppress(ValueError, RecursionError):
                    row = json.loads(line)
                    if isinstance(row, dict):
                        yield row
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            _log.warning("%s is damaged, its rows from there on are left out: %s", part.name, problem)


def rows(ledger: str) -> Iterator[Dict[str, Any]]:
    """Of a `windows.jsonl` and its older parts, oldest first."""
    for part in _opened(ledger):
        yield from _rows_of(part)


def _ledger(run: str) -> str:
    ledger = os.path.join(run, "windows.jsonl")
    if not os.path.isfile(ledger):
        lacks = "it has no windows.jsonl" if os.path.isdir(run) else "there is no such directory"
        raise FileNotFoundError(f"{run} is not a run directory: {lacks}")
    return ledger


def _of_evaluation(row: Dict[str, Any]) -> Iterator[Scalar]:
    report = row.get("report", {})
    for name in _OF_EVALUATION:
        value = _number(report, (name,))
        if value is not None and (value != 0 if name.endswith("loss") else value >= 0):  # others: not known
            yield f"evaluation/{name}", value, int(report.get("step", 0))


def _origin(start: Dict[str, Any]) -> Optional[float]:
    """When `at_seconds` was 0 for the arbitrator that wrote this row and those behind it, in seconds since 1970."""
    try:
        began = datetime.datetime.strptime(str(start.get("started_at")), "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None
    return began.replace(tzinfo=datetime.timezone.utc).timestamp() - (_number(start, ("at_seconds",)) or 0)


def scalars(ledger: str) -> Iterator[TimedScalar]:
    """(tag, value, step, time) of every window and evaluation of a `windows.jsonl`. The time is when its row was
    written, in seconds since 1970, to the second; None where no row before it says when its arbitrator began."""
    origin: Optional[float] = None
    for row in rows(ledger):
        if row.get("kind") == "start":
            origin = _origin(row)
        found = {"window": _of_window, "evaluation": _of_evaluation}.get(str(row.get("kind")))
        at = _number(row, ("at_seconds",))
        when = origin + at if origin is not None and at is not None else None
        try:
            of_row = list(found(row)) if found is not None else []
        except (AttributeError, OverflowError, TypeError, ValueError):  # no window or evaluation, whatever it says that it is
            continue
        for tag, value, step in of_row:
            if abs(step) < 2**63:
                yield tag.encode(errors="replace").decode(), value, step, when


def _crc_table() -> List[int]:
    """Of CRC-32C (Castagnoli), which event files are checked by."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _crc_table()


def _masked_crc(values: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in values:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _number_of(value: int) -> bytes:
    """A protobuf varint; negative numbers in two's complement of 64 bits."""
    value &= 2**64 - 1
    text = bytearray()
    while value > 0x7F:
        text.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*text, value])


def _nested(field: int, values: bytes) -> bytes:
    return _number_of(field << 3 | 2) + _number_of(len(values)) + values


class _ScalarWriter:
    """What of torch.utils.tensorboard.SummaryWriter is needed here: records of tensorflow.Event, each between its
    length and checksums (TFRecord)."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._file = open(os.path.join(directory, name), "xb")
        self._record(_nested(3, b"brain.Event:2"), None)  # file_version

    def _record(self, event: bytes, when: Optional[float]) -> None:
        event = struct.pack("<Bd", 1 << 3 | 1, time.time() if when is None else when) + event  # wall_time
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked_crc(length) + event + _masked_crc(event))

    def add_scalar(self, tag: str, value: float, step: int, walltime: Optional[float]) -> None:
        value = max(min(value, _LARGEST), -_LARGEST)  # in this order NaN stays
        scalar = _nested(1, tag.encode()) + struct.pack("<Bf", 2 << 3 | 5, value)  # tag, simple_value
        self._record(b"\x10" + _number_of(step) + _nested(5, _nested(1, scalar)), walltime)  # step, summary.value

    def close(self) -> None:
        self._file.close()


def _writer(directory: str) -> Any:
    try:
        return importlib.import_module("torch.utils.tensorboard").SummaryWriter(directory)
    except ImportError:
        return _ScalarWriter(directory)


def write(run: str, directory: Optional[str] = None) -> str:
    """Writes the run's curves, each value with the time at which the run had it; returns a line for the user.

    Raises OSError where the run has no ledger, or the files cannot be written.
    """
    ledger = _ledger(run)
    target = directory or os.path.join(run, "tensorboard")
    count = 0
    with contextlib.closing(_writer(target)) as writer:
        for tag, value, step, when in scalars(ledger):
            writer.add_scalar(tag, value, step, walltime=when)
            count += 1
    return f"{count} values in {target}; show them with: tensorboard --logdir {target}"
