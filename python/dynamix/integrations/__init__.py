"""Frameworks that train by loops of their own, each adopted in one line:

    from dynamix.integrations.accelerate import Accelerator        # in place of accelerate's
    from dynamix.integrations.transformers import Trainer          # in place of transformers'
    from dynamix.integrations.lightning import Fabric              # in place of lightning's
    trainer = lightning.Trainer(callbacks=[dynamix.integrations.lightning.Dynamix()])

Each module imports its framework, and nothing else of the package does.
"""
from __future__ import annotations

from typing import List

from ..run import Run

_runs: List[Run] = []


def keep(run: Run) -> Run:
    """Keeps a run until the interpreter ends, which closes it where nobody else did: a loop of a framework's form has no place
    of its own for `run.close()`."""
    _runs.append(run)
    return run
