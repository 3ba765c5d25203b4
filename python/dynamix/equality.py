"""Whether the members train one model: begin with equal parameters, and step by equal learning rates. Averaged gradients alone do not
see to that: DistributedDataParallel makes parameters equal once, and nobody does it for a plain model."""
from __future__ import annotations

import logging
import math
from typing import Optional, Sequence

import torch

from .kernels import as_real
from .peers import Peers

_log = logging.getLogger("dynamix")
_NUMBERS = 4096      # of each parameter that are looked at
_TOLERANCE = 1e-3    # processors round differently, and what that adds up to is no other model
_RATE_TOLERANCE = 1e-6


def difference(rows: Sequence[Sequence[float]]) -> str:
    """What differs between members that have given (norm of parameters, learning rate) each; empty where nothing does.

    >>> difference([(2.0, 0.1), (2.0, 0.1)])
    ''
    >>> difference([(2.0, 0.1), (3.0, 0.1)])[:41]
    'member 1 has other parameters than member'
    """
    norm, rate = rows[0]
    for member, (other, other_rate) in enumerate(rows):
        if not math.isclose(norm, other, rel_tol=_TOLERANCE, abs_tol=1e-12):
            return (f"member {member} has other parameters than member 0 (a norm of {other:.4g}, not {norm:.4g}): gradients are averaged, and each "
                    "applies them to its own. Seed alike (torch.manual_seed) before the model is made, load the checkpoint on all members, or "
                    "wrap the model in DistributedDataParallel")
        if not math.isclose(rate, other_rate, rel_tol=_RATE_TOLERANCE):
            return (f"member {member} steps by another learning rate than member 0 ({other_rate:.4g}, not {rate:.4g}), so their parameters grow "
                    "apart. Set it by what is the same on all members: ReduceLROnPlateau by a metric over all of them (all_reduce, or "
                    "member 0's, broadcast)")
    return ""


class Equality:
    """Looks in the first step of each epoch, until it has told what differs."""

    def __init__(self, model: torch.nn.Module, peers: Peers) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._peers = peers
        self._epoch: Optional[int] = None  # that was looked at last
        self._is_told = False

    def look(self, epoch: int, rate: float) -> None:
        """Before a step, on all members. `epoch`: of it."""
        if epoch == self._epoch or self._is_told:
            return
        self._epoch = epoch
        norm = math.sqrt(math.fsum(float(as_real(parameter.detach()).reshape(-1)[:_NUMBERS].double().square().sum())
                                   for parameter in self._parameters))
        values = torch.tensor([norm if math.isfinite(norm) else 0.0, rate], dtype=torch.float64, device="cpu")
        rows = self._peers.gather(values.view(torch.int64)).wait().view(torch.float64).tolist()
        found = difference(rows)
        if found:
            self._is_told = True
            if self._peers.position == 0:
                _log.warning("%s", found)
