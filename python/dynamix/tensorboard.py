"""Event files for TensorBoard from a run's ledger, by Torch's own writer."""
from __future__ import annotations

import importlib
import json
import os
from typing import Any, Dict, Iterator, Optional, Tuple

Scalar = Tuple[str, float, int]

_OF_REPORT = {"batch": ("batch",), "loss": ("training", "loss"), "accuracy": ("training", "accuracy"),
              "step_seconds": ("training", "iteration_seconds"), "compute_seconds": ("training", "compute_seconds"),
              "exchange_seconds": ("training", "exchange_seconds"), "data_seconds": ("training", "data_seconds")}
_OF_ALL = {"global_batch": ("global_batch",), "learning_rate": ("training", "learning_rate"),
           "learning_rate_gain": ("training", "gain"), "noise_scale": ("training", "noise_scale")}
_OF_EVALUATION = ("train_loss", "test_loss", "test_accuracy")


def _number(values: Any, path: Tuple[str, ...]) -> Optional[float]:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return float(values) if isinstance(values, (int, float)) else None


def _of_window(row: Dict[str, Any]) -> Iterator[Scalar]:
    for worker in row.get("workers", []):
        report = worker.get("report", {})
        training = report.get("training", {})
        step = int(report.get("first_step", 0)) + int(training.get("steps", 0))
        for name, path in _OF_REPORT.items():
            value = _number(report, path)
            if value is not None and value >= 0:  # negative: not known
                yield f"{name}/{report.get('host', '?')}", value, step
        if report.get("rank") == 0:
            for name, path in _OF_ALL.items():
                value = _number(report, path)
                if value is not None:
                    yield f"run/{name}", value, step


def _rows(ledger: str) -> Iterator[Dict[str, Any]]:
    """Of a `windows.jsonl`; lines that are cut off are left out."""
    with open(ledger, encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                continue


def _ledger(run: str) -> str:
    ledger = os.path.join(run, "windows.jsonl")
    if not os.path.isfile(ledger):
        raise FileNotFoundError(f"{run} is no run directory: it has no windows.jsonl")
    return ledger


def newest_window(run: str) -> int:
    """Of a run directory. Raises OSError where it has none."""
    windows = [int(row["key"]["window"]) for row in _rows(_ledger(run)) if row.get("kind") == "window"]
    if not windows:
        raise OSError(f"{run} has no window yet")
    return max(windows)


def scalars(ledger: str) -> Iterator[Scalar]:
    """(tag, value, step) of every window and evaluation of a `windows.jsonl`."""
    for row in _rows(ledger):
        if row.get("kind") == "window":
            yield from _of_window(row)
        elif row.get("kind") == "evaluation":
            report = row.get("report", {})
            for name in _OF_EVALUATION:
                value = _number(report, (name,))
                if value is not None and value >= 0:
                    yield f"evaluation/{name}", value, int(report.get("step", 0))


def write(run: str, directory: Optional[str] = None) -> str:
    """Writes the run's curves; returns a line for the user.

    Raises ImportError where the package tensorboard is missing, OSError where the run has no ledger.
    """
    ledger = _ledger(run)
    try:
        board: Any = importlib.import_module("torch.utils.tensorboard")
    except ImportError as problem:
        raise ImportError("torch.utils.tensorboard needs the package tensorboard (pip install tensorboard): "
                          f"{problem}") from problem
    target = directory or os.path.join(run, "tensorboard")
    writer = board.SummaryWriter(target)
    count = 0
    for tag, value, step in scalars(ledger):
        writer.add_scalar(tag, value, step)
        count += 1
    writer.close()
    return f"{count} values in {target}; show them with: tensorboard --logdir {target}"
