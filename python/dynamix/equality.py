"""Whether the members train one model: begin with equal parameters, and step by equal learning rates from equal states of their optimisers.
Averaged gradients alone do not see to that: DistributedDataParallel makes parameters equal once, and nobody does it for a plain model."""
from __future__ import annotations

import logging
import math
import sys
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch.nn.parallel import DistributedDataParallel

from .kernels import as_real
from .optimizer import is_of_torch
from .peers import Broken, Peers

_log = logging.getLogger("dynamix")
_NUMBERS = 4096      # of each parameter that are looked at
_TOLERANCE = 1e-3    # processors round differently, and what that adds up to is no other model
_RATE_TOLERANCE = 1e-5
_COMES_BACK = ("; and a schedule of the script's own that steps once an epoch by its number, scheduler.step(epoch): where a member comes back, "
               "it has a new one")


def other_parameters(norms: Sequence[float]) -> str:
    """What differs between members whose parameters have these norms, NaN where they are not finite; empty where nothing does.

    >>> other_parameters([2.0, 2.0])
    ''
    >>> other_parameters([2.0, 3.0])[:41]
    'member 1 has other parameters than member'
    """
    member = _other(norms, _TOLERANCE)
    if member == 0:
        return ""
    if math.isnan(norms[0]) or math.isnan(norms[member]):
        return f"member {0 if math.isnan(norms[0]) else member} has parameters that are NaN or infinite, and others have none"
    return (f"member {member} has other parameters than member 0 (a norm of {norms[member]:.4g}, not {norms[0]:.4g}): gradients are averaged, and each "
            "applies them to its own. Seed alike (torch.manual_seed) before the model is made, load the checkpoint on all members, or "
            "wrap the model in DistributedDataParallel")


def other_rates(marks: Sequence[float]) -> str:
    """What differs between members whose learning rates have these marks (`mark_of`); empty where nothing does."""
    member = _other(marks, 0, _RATE_TOLERANCE)
    if member == 0:
        return ""
    return (f"member {member} steps by another learning rate than member 0, in one of its optimisers' groups at least, so their parameters grow "
            "apart. Set it by what is the same on all members: ReduceLROnPlateau by a metric over all of them (all_reduce, or "
            "member 0's, broadcast)")


def other_states(norms: Sequence[float]) -> str:
    """What differs between members whose optimisers' states have these norms; empty where nothing does."""
    member = _other(norms, _TOLERANCE)
    if member == 0:
        return ""
    return (f"the optimiser of member {member} has another state than that of member 0 (a norm of {norms[member]:.4g}, not {norms[0]:.4g}), so they step "
            "differently by the same gradients: load a checkpoint of the optimiser on all members, or on none")


def mark_of(rates: Sequence[float]) -> float:
    """A number that differs wherever a rate does, however small beside the others, or two change places.

    >>> abs(mark_of([0.5, 1e-7]) - mark_of([0.5, 1.01e-7])) > 0.01 and abs(mark_of([0.5, 0.1]) - mark_of([0.1, 0.5])) > 0.1
    True
    """
    return math.fsum(math.sqrt(2 + number) * math.log(max(rate, sys.float_info.min)) for number, rate in enumerate(rates))


_LOOKS = (other_parameters, other_rates, other_states)


def _norm_of(tensors: Iterable[torch.Tensor]) -> float:
    """Of up to so many numbers of each. Waits for a device once. In 32 bits, since some have no more."""
    norms = [torch.linalg.vector_norm(as_real(tensor.detach()).reshape(-1)[:_NUMBERS].float()) for tensor in tensors]
    norm = float(torch.linalg.vector_norm(torch.stack([each.to(norms[0].device) for each in norms]))) if norms else 0.0
    return norm if math.isfinite(norm) else math.nan


def _state_of(optimizer: torch.optim.Optimizer, shared: Set[int]) -> Iterator[torch.Tensor]:
    """Of those parameters, by their ids, where it is one of torch's own; others may keep a part of it on each member."""
    if is_of_torch(optimizer):
        for parameter in (each for group in optimizer.param_groups for each in group["params"] if id(each) in shared):
            yield from (value for value in optimizer.state.get(parameter, {}).values() if torch.is_tensor(value) and value.is_floating_point())


def _other(values: Sequence[float], tolerance: float, least: float = 1e-12) -> int:
    """The first member whose number is not member 0's; 0 where there is none."""
    return next((member for member, value in enumerate(values) if not math.isclose(values[0], value, rel_tol=tolerance, abs_tol=least) and
                 not (math.isnan(values[0]) and math.isnan(value))), 0)


class Equality:
    """Looks in the first step of each epoch, and of a group that was formed anew, and tells once what differs: parameters, and the rates and
    states of the optimisers."""

    def __init__(self, model: torch.nn.Module, peers: Peers) -> None:
        self._module: Any = model.module if isinstance(model, DistributedDataParallel) else model
        self._peers = peers
        self._looked: Optional[Tuple[int, int]] = None  # the epoch and the group's generation
        self._to_look = [*_LOOKS]

    def look(self, epoch: int, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Before a step, on all members. `epoch`: of it."""
        peers = self._peers
        if (epoch, peers.generation) == self._looked:
            return
        self._looked = epoch, peers.generation  # also where it has told everything: a newcomer has not
        shared = self._shared()
        rates = mark_of([float(group["lr"]) for optimizer in optimizers for group in optimizer.param_groups])
        known = {id(parameter) for parameter in shared}
        state = _norm_of(value for optimizer in optimizers for value in _state_of(optimizer, known))
        values = torch.tensor([_norm_of(shared), rates, state], dtype=torch.float64, device="cpu")
        try:
            rows = peers.gather(values.view(torch.int64)).wait().view(torch.float64).tolist()
        except Broken:  # the optimiser's step is dropped
            return
        first = peers.present.index(True)
        columns = zip(*(rows[member if here else first] for member, here in enumerate(peers.present)))
        for find, numbers in zip(_LOOKS, columns):
            found = find(numbers) if find in self._to_look else ""
            if found:
                self._to_look.remove(find)
                if peers.position == first:
                    _log.warning("%s%s", found, _COMES_BACK if peers.elastic and find is other_rates else "")

    def _shared(self) -> List[torch.Tensor]:
        """The parameters that are the same on all members."""
        own = getattr(self._module, "_ddp_params_and_buffers_to_ignore", ())  # which DistributedDataParallel leaves to each member
        return [parameter for name, parameter in self._module.named_parameters() if parameter.requires_grad and name not in own]
