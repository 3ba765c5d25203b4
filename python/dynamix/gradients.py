"""`run.average_gradients()`: the mean gradient for models without DistributedDataParallel, and which models have none."""
from __future__ import annotations

import logging
from typing import Dict, List, Sequence, Tuple

import torch
from torch.nn.parallel import DistributedDataParallel

from .flat_shards import flat_problem
from .kernels import numbers_of
from .peers import Peers, is_initialized
from .sharded import sharding_problem
from .step import Step

_log = logging.getLogger("dynamix")
_BUFFER_BYTES = 25 * 2**20


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The DistributedDataParallel that torch.compile has wrapped, or the model itself."""
    inner = getattr(model, "_orig_mod", None)
    return inner if isinstance(inner, DistributedDataParallel) else model


def check_model(model: torch.nn.Module, by_loss: bool) -> None:
    """Raises NotImplementedError for what sums gradients where they cannot be weighted."""
    kinds = {base.__name__ for module in model.modules() for base in type(module).__mro__}
    kinds |= {type(parameter).__name__ for parameter in model.parameters()}
    kinds |= {type(getattr(parameter, "data", parameter)).__name__ for parameter in model.parameters()}
    if not by_loss and any(_sums_statistics(module) for module in model.modules()):
        raise NotImplementedError("SyncBatchNorm sums what other members' losses say of its statistics, and nobody can weight that: "
                                  "dynamix.join(..., weighting=\"loss\") with run.scale(loss), or BatchNorm in its place")
    if not by_loss and any(isinstance(module, DistributedDataParallel) for module in model.modules() if module is not model):
        raise NotImplementedError(f"{type(model).__name__} holds a DistributedDataParallel, which sums gradients by itself: give "
                                  "dynamix.join that one")
    if "DeepSpeedEngine" in kinds:
        raise NotImplementedError("DeepSpeed steps an optimiser of its own; wrap the model in DistributedDataParallel or FSDP")
    for kind, problem_of in (("FullyShardedDataParallel", flat_problem), ("DTensor", sharding_problem)):
        problem = problem_of(model) if kind in kinds and not by_loss else ""
        if problem:
            raise NotImplementedError(problem)


def _sums_statistics(module: torch.nn.Module) -> bool:
    """It is a SyncBatchNorm (torch's, or apex's) of several processes: its backward pass adds up gradients of all their losses."""
    is_one = any(base.__name__ == "SyncBatchNorm" for base in type(module).__mro__)
    return is_one and is_initialized() and torch.distributed.get_world_size(getattr(module, "process_group", None)) > 1


def warn_of_times() -> None:
    """Of weighting="loss"."""
    _log.warning("with weighting=\"loss\" nobody can tell computing from waiting for others, so agents are told no times of "
                 "steps: policies that go by them share the global batch equally, whichever host is slow")


def warn_of_rule() -> None:
    """Of weighting="loss", where nobody has named a rule."""
    _log.warning("the agents' rule is AdaScale, which needs each member's own gradient, and weighting=\"loss\" has none: the learning "
                 "rate follows the square root of the global batch; dynamix.join(rule=...) names another rule")


def _real(values: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs of real ones, in one dimension more; others as they are."""
    return torch.view_as_real(values) if values.is_complex() else values


def _copy(to: List[torch.Tensor], values: List[torch.Tensor]) -> None:
    if to:
        torch._foreach_copy_(to, values)


class _Buffer:
    """What the gradients of some parameters of one type and device are summed in, and behind them one number for each: whether it has
    a gradient."""

    def __init__(self, parameters: List[torch.nn.Parameter]) -> None:
        self._parameters = parameters
        self.counts = [numbers_of(parameter) for parameter in parameters]
        self.whole = torch.empty(sum(self.counts) + len(parameters), dtype=parameters[0].dtype.to_real(), device=parameters[0].device)
        self.values, self._present = torch.split(self.whole, [sum(self.counts), len(parameters)])
        self._parts = [part.view_as(_real(parameter)) for part, parameter in zip(torch.split(self.values, self.counts), parameters)]

    def take(self, is_stand_in: bool) -> None:
        """Writes the gradients."""
        gradients = [parameter.grad for parameter in self._parameters]
        if any(gradient is not None and gradient.is_sparse for gradient in gradients):
            raise NotImplementedError("sparse gradients cannot be weighted; build the embedding with sparse=False")
        self._present.copy_(torch.tensor([gradient is not None and not is_stand_in for gradient in gradients], device="cpu"))
        for part, gradient in zip(self._parts, gradients):
            if gradient is None:
                part.zero_()
        there = [(part, _real(gradient)) for part, gradient in zip(self._parts, gradients) if gradient is not None]
        _copy([part for part, _ in there], [gradient for _, gradient in there])

    def give(self) -> None:
        """Reads the means. A parameter that no sample of the joined batch has used has none: at a gradient of zeros an optimiser with
        momentum moves it."""
        there: List[Tuple[torch.Tensor, torch.Tensor]] = []
        for parameter, part, exists in zip(self._parameters, self._parts, (self._present > 0).tolist()):
            if not exists:
                parameter.grad = None
                continue
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            there.append((_real(parameter.grad), part))
        _copy([gradient for gradient, _ in there], [part for _, part in there])


class Buffers:
    """Of a model's parameters, the last one first."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._layout = _layout(parameters)
        groups: List[List[torch.nn.Parameter]] = []
        filling: Dict[object, Tuple[List[torch.nn.Parameter], int]] = {}
        for parameter in reversed(parameters):
            kind = (parameter.dtype.to_real(), parameter.device)
            group, size = filling.get(kind, ([], _BUFFER_BYTES))
            if size >= _BUFFER_BYTES:
                group, size = [], 0
                groups.append(group)
            group.append(parameter)
            filling[kind] = (group, size + parameter.numel() * parameter.element_size())
        self.all = [_Buffer(group) for group in groups]

    def fit(self, parameters: Sequence[torch.nn.Parameter]) -> bool:
        """They are the same, as they were when the buffers were made."""
        return self._layout == _layout(parameters)


def _layout(parameters: Sequence[torch.nn.Parameter]) -> List[Tuple[object, ...]]:
    return [(id(parameter), parameter.dtype, parameter.device, parameter.shape) for parameter in parameters]


@torch.no_grad()
def average(parameters: Sequence[torch.nn.Parameter], step: Step, peers: Peers) -> None:
    """Replaces each gradient by the mean over the joined batch."""
    step.open()
    if peers.buffers is None or not peers.buffers.fit(parameters):
        peers.buffers = Buffers(parameters)
    buffers, works = peers.buffers.all, []
    for buffer in buffers:
        buffer.take(step.is_stand_in)
        step.scale(buffer.values, buffer.counts)
        works.append(peers.all_reduce(buffer.whole) if peers.size > 1 else None)
    peers.held = works
    step.launch()
    for buffer, work in zip(buffers, works):
        step.wait(work)
        step.summed(buffer.values, buffer.counts)
        buffer.give()
