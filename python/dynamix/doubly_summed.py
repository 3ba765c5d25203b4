"""Whether somebody else has summed gradients before they come here: then they are the same on all members, bit by bit, though
the members' batches differ. Looked for in a run's first step that shows it, and not behind that."""
from __future__ import annotations

import zlib
from typing import Any

import torch

from .batch import tensors_of
from .peers import Peers

_ADVICE = ("the gradients of this step were the same on all members before dynamix averaged them, though their batches differ: "
           "something else sums them already (a DistributedDataParallel around the module that joined, hooks of its parameters, "
           "another library). Averaged once more, they would be the plain mean, whatever the batch sizes. Give dynamix.join the "
           "DistributedDataParallel itself, or leave the sum as it is and join with weighting=\"loss\"")


_STEPS = 16  # looked at where batches do not differ


def _checksum(values: torch.Tensor, so_far: int) -> int:
    flat = values.detach().cpu().contiguous().reshape(-1)
    found: Any = flat.view(torch.uint8).numpy() if flat.numel() else b""
    return zlib.crc32(found, so_far)


class Comparison:
    """Of the first step in which two members or more have samples, and all have gradients that are numbers."""

    def __init__(self, peers: Peers, by_loss: bool) -> None:
        self._peers = peers
        # Members of an elastic run have no group of their own in which anybody else could sum.
        self.is_due = peers.size > 1 and not peers.elastic and not by_loss
        self._left = _STEPS
        self._gradients = self._batch = 0
        self._any = False       # gradient is not 0
        self._are_finite = True

    def see_batch(self, batch: Any) -> None:
        """The training loop is given this one."""
        # By a sample of it: where all are alike, gradients are, whatever the batch sizes. And by what a sample has most of, its
        # features: numbers beside them may differ that no gradient depends on.
        samples = [tensor[:1] if tensor.dim() else tensor for tensor in tensors_of(batch)
                   if tensor.layout is torch.strided and not tensor.is_nested]
        sizes = [(sample.numel(), sample.is_floating_point()) for sample in samples]
        for sample, size in zip(samples, sizes):
            if size == max(sizes):
                self._batch = _checksum(sample, self._batch)

    def see_gradients(self, values: torch.Tensor) -> None:
        """They are about to be scaled, and summed then."""
        self._gradients = _checksum(values, self._gradients)
        self._any = self._any or bool(values.any())
        self._are_finite = self._are_finite and bool(torch.isfinite(values).all())

    def conclude(self, counted: int) -> None:
        """All members are about to step, each with so many samples. Raises RuntimeError on all of them."""
        usable = counted == 0 or (self._any and self._are_finite)
        rows = self._peers.gather(torch.tensor([self._gradients, self._batch, counted, usable], device="cpu")).wait().tolist()
        self._gradients, self._batch, self._any, self._are_finite = 0, 0, False, True
        training = [row for row in rows if row[2] > 0]
        if len(training) < 2 or not all(row[3] for row in rows):
            return
        self._left -= 1
        are_same = len({row[0] for row in training}) == 1
        self.is_due = are_same and self._left > 0
        if are_same and len({row[1] for row in training}) > 1:
            self.is_due = False
            raise RuntimeError(_ADVICE)
