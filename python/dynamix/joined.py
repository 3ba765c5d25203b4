"""`run.gather`: a tensor of the joined batch from the members' parts of it, whose sizes differ.

    rows of all members -> one sum over zeros, in which each member has written its own rows
    backward            -> the gradients times each member's part of the joined batch, summed; a member's own rows, divided by its
                           part. `average` multiplies by it once more, and what comes out is the gradient of the joined loss
"""
from __future__ import annotations

import zlib
from typing import Any, Tuple

import torch

from .client import DynamixError
from .kernels import as_real, multiply
from .peers import Broken, Peers
from .step import Step


class _Gather(torch.autograd.Function):
    """The members' rows, one behind the other."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor, place: Tuple[int, int, int], peers: Peers, step: Step) -> torch.Tensor:
        """`place`: first own row, number of own rows, rows of all."""
        first, count, total = place
        context.place, context.peers, context.step, context.shape = place, peers, step, tensor.shape
        joined = torch.zeros((total, *tensor.shape[1:]), dtype=torch.uint8 if tensor.dtype == torch.bool else tensor.dtype,
                             device=tensor.device)
        joined[first:first + count] = tensor[:count]
        peers.all_reduce(as_real(joined)).wait()
        return joined.bool() if tensor.dtype == torch.bool else joined

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        step: Step = context.step
        first, count, _ = context.place
        summed: torch.Tensor = gradients[0].contiguous().clone()
        own = torch.zeros(context.shape, dtype=summed.dtype, device=summed.device)
        try:
            share = step.share()
            multiply(summed, 1.0 if share is None else share)
            step.wait(context.peers.all_reduce(as_real(summed)))
        except Broken:  # the step is dropped
            return own, None, None, None
        if count and share != 0:
            own[:count] = summed[first:first + count] / (1.0 if share is None else share)
        return own, None, None, None


def gather(tensor: torch.Tensor, step: Step, peers: Peers) -> torch.Tensor:
    """Of the present step's batch, or where no batch has been taken of any data."""
    if tensor.dim() == 0:
        raise ValueError("run.gather() takes a tensor whose rows are samples; this one is a single number")
    since = step.mark()
    own = 0 if step.taken and not step.newest else len(tensor)  # a stand-in belongs to nobody's batch
    kind = zlib.crc32(repr((tensor.shape[1:], tensor.dtype)).encode())
    try:
        rows = peers.gather(torch.tensor([own, kind, 1], device="cpu")).wait().tolist()
        if len({row[1] for row in rows if row[2]}) > 1:
            raise DynamixError("run.gather(): the members' tensors differ in more than their numbers of rows, or in their types")
        counts = [row[0] for row in rows]
        place = (sum(counts[:peers.position]), own, sum(counts))
        found: Any = _Gather.apply(tensor, place, peers, step)  # type: ignore[no-untyped-call]
        return found  # type: ignore[no-any-return]
    except Broken:  # the step is dropped
        return tensor
    finally:
        step.waited(since)
