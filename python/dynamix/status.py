"""What `run.status` says."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Tuple

from .client import Client


@dataclass(frozen=True)
class Status:
    """Where a run stands. Of a run that deals by cost, samples are their cost."""

    batch: int             #: of this worker in the next step, samples
    global_batch: int      #: of all workers in the next step, samples
    batches: Tuple[int, ...]  #: of each worker in the next step, samples
    step: int              #: steps completed
    samples: int           #: of all workers in them
    epoch: int             #: that the next step belongs to, from 0
    cursor: int            #: samples of that epoch that are used up
    window: int            #: windows closed
    generation: int        #: of the agent's cluster; 0: none yet
    decisions: int         #: put in force
    connected: bool        #: the agent is there
    stop: bool             #: the members agreed to stop; the loader gives no more batches
    noise_scale: float     #: samples; NaN while it is not known
    progress: float        #: steps of the base batch
    gpu: Optional[int]     #: that the cluster file gives this worker, by the driver's number; None: it gives none


def status_of(client: Client, members: int, is_over: bool, unit: float = 1) -> Status:
    """`is_over`: the others have ended the training without this member. `unit`: of what the client deals by, where samples have
    costs; all numbers of samples are costs then."""
    now = client.status()
    noise = now.noise_scale * unit if now.noise_valid else math.nan
    batches = tuple(round(batch * unit) for batch in client.batches(members))
    return Status(round(now.batch * unit), round(now.global_batch * unit), batches, now.step, round(now.samples * unit), now.epoch,
                  round(now.cursor * unit),
                  now.window, now.generation, now.decisions, bool(now.connected), bool(now.stop) or is_over, noise, now.progress,
                  now.gpu - 1 if now.gpu else None)
