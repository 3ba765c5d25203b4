"""`run.average_gradients()`: the mean gradient for models without DistributedDataParallel."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import torch

from .peers import Peers
from .step import Step

_BUFFER_BYTES = 25 * 2**20

_Buffer = Tuple[torch.Tensor, List[Tuple[torch.nn.Parameter, torch.Tensor]]]


def _groups(parameters: Sequence[torch.nn.Parameter]) -> List[List[torch.nn.Parameter]]:
    """Parameters of one type and device, so many as fill a buffer, the last one first."""
    groups: List[List[torch.nn.Parameter]] = []
    filling: Dict[object, Tuple[List[torch.nn.Parameter], int]] = {}
    for parameter in reversed(parameters):
        kind = (parameter.dtype, parameter.device)
        group, size = filling.get(kind, ([], _BUFFER_BYTES))
        if size >= _BUFFER_BYTES:
            group, size = [], 0
            groups.append(group)
        group.append(parameter)
        filling[kind] = (group, size + parameter.numel() * parameter.element_size())
    return groups


def _fill(group: Sequence[torch.nn.Parameter]) -> _Buffer:
    """One buffer for the gradients of `group`, and behind them one number for each: whether it has a gradient."""
    numbers = sum(parameter.numel() for parameter in group)
    buffer = torch.zeros(numbers + len(group), dtype=group[0].dtype, device=group[0].device)
    views = []
    first = 0
    for place, parameter in enumerate(group):
        view = buffer[first:first + parameter.numel()]
        first += parameter.numel()
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                raise NotImplementedError("sparse gradients cannot be weighted; build the embedding with sparse=False")
            view.copy_(parameter.grad.reshape(-1))
            buffer[numbers + place] = 1
        views.append((parameter, view))
    return buffer, views


def average(parameters: Sequence[torch.nn.Parameter], step: Step, peers: Peers) -> None:
    """Replaces each gradient by the mean over the joined batch. A parameter that no member has a gradient of keeps none."""
    step.open()
    keys = {id(parameter): key for key, parameter in enumerate(parameters)}
    pending: List[Tuple[_Buffer, Any, Any]] = []
    for group in _groups(parameters):
        buffer, views = _fill(group)
        parts = [(keys[id(parameter)], view) for parameter, view in views]
        step.scale(buffer[:buffer.numel() - len(group)], parts)
        work = None
        if peers.size > 1:
            work = peers.all_reduce(buffer)
        pending.append(((buffer, views), parts, work))
    step.launch()
    for (buffer, views), parts, work in pending:
        step.wait(work)
        step.summed(buffer, parts)
        present = (buffer[buffer.numel() - len(views):] > 0).tolist()
        for (parameter, view), exists in zip(views, present):
            if exists and parameter.grad is None:
                parameter.grad = view.reshape(parameter.shape).clone()
            elif exists and parameter.grad is not None:
                parameter.grad.copy_(view.reshape(parameter.shape))
