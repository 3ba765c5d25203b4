"""`run.average_gradients()`: the mean gradient for models without DistributedDataParallel, and which models have none."""
from __future__ import annotations

import logging
from typing import Any, Dict, List, Sequence, Tuple

import torch
from torch.nn.parallel import DistributedDataParallel

from .flat_shards import flat_problem
from .kernels import as_real, numbers_of
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


def _groups(parameters: Sequence[torch.nn.Parameter]) -> List[List[torch.nn.Parameter]]:
    """Parameters of one type and device, so many as fill a buffer, the last one first."""
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
    return groups


def _buffers(groups: Sequence[Sequence[torch.nn.Parameter]], before: List[torch.Tensor]) -> List[torch.Tensor]:
    """Those of the step before where they fit."""
    like = [(sum(map(numbers_of, group)) + len(group), group[0].dtype.to_real(), group[0].device) for group in groups]
    if [(buffer.numel(), buffer.dtype, buffer.device) for buffer in before] == like:
        return before
    return [torch.empty(count, dtype=dtype, device=device) for count, dtype, device in like]


def _fill(buffer: torch.Tensor, group: Sequence[torch.nn.Parameter], is_stand_in: bool) -> List[torch.Tensor]:
    """Writes the gradients of `group`, and behind them one number for each: whether it has a gradient. Returns the parts."""
    views = list(torch.split(buffer[:buffer.numel() - len(group)], [numbers_of(parameter) for parameter in group]))
    present = [float(parameter.grad is not None and not is_stand_in) for parameter in group]
    buffer[buffer.numel() - len(group):] = torch.tensor(present, dtype=buffer.dtype, device="cpu")
    for parameter, view in zip(group, views):
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad.is_sparse:
            raise NotImplementedError("sparse gradients cannot be weighted; build the embedding with sparse=False")
        else:
            view.copy_(as_real(parameter.grad.reshape(-1)))
    return views


def average(parameters: Sequence[torch.nn.Parameter], step: Step, peers: Peers) -> None:
    """Replaces each gradient by the mean over the joined batch. A parameter that no sample of it has used has none: at a gradient of
    zeros an optimiser with momentum moves it."""
    step.open()
    pending: List[Tuple[List[torch.Tensor], Any]] = []
    groups = _groups(parameters)
    peers.buffers = _buffers(groups, peers.buffers)
    for buffer, group in zip(peers.buffers, groups):
        views = _fill(buffer, group, step.is_stand_in)
        step.scale(buffer[:buffer.numel() - len(group)], [view.numel() for view in views])
        pending.append((views, peers.all_reduce(buffer) if peers.size > 1 else None))
    peers.held = [work for _, work in pending]
    step.launch()
    for buffer, group, (views, work) in zip(peers.buffers, groups, pending):
        step.wait(work)
        step.summed(buffer[:buffer.numel() - len(group)], [view.numel() for view in views])
        present = (buffer[buffer.numel() - len(group):] > 0).tolist()
        for parameter, view, exists in zip(group, views, present):
            mean = torch.view_as_complex(view.view(-1, 2)) if exists and parameter.is_complex() else view
            if not exists:
                parameter.grad = None
            elif parameter.grad is None:
                parameter.grad = mean.reshape(parameter.shape).clone()
            else:
                parameter.grad.copy_(mean.reshape(parameter.shape))
