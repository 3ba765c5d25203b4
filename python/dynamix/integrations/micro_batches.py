"""Micro-batches of one step, weighted by their samples where a framework divides each loss by a number fixed beforehand.

The gradient of a worker's step has to be the mean over its samples: the sum of n_i/n g_i over its micro-batches, of n_i
samples each and n in all. A framework accumulates g_i/k for a fixed k, which is right for k micro-batches of one size, and
wrong where an epoch's last step has fewer, or sizes change within a step. What n will be is known at the last one only:

    each but the last -> its loss times n_i/n_1
    the last          -> what has been accumulated times k n_1/n, its loss times k n_i/n

For k micro-batches of one size all of these factors are 1, and nothing is multiplied.
"""
from __future__ import annotations

from typing import List

from ..run import Run


class MicroBatches:
    """The micro-batches of the step under way."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._samples: List[int] = []
        self._settled = False  # the accumulated gradients are those of the last micro-batch's step already

    def begin(self) -> None:
        """The training loop was given its next micro-batch."""
        if self._run.taken <= 1:
            self._samples = []
        self._samples.append(self._run.counted)
        self._settled = False

    def factor(self, divisor: int, last: bool) -> float:
        """What the loss of the micro-batch at hand is to be multiplied by, before the framework divides it by `divisor`.

        `last`: its backward pass is the one whose gradients are exchanged; what has been accumulated before is brought to
        its scale.
        """
        if divisor == 1 or not self._samples:
            return 1.0
        self._run.weigh_micro_batches()
        unit, total = self._samples[0] or 1, sum(self._samples)
        if not last:
            return self._samples[-1] / unit
        scale = divisor * unit / total if total else 1.0  # a worker without samples counts for nothing in the sum
        if scale != 1 and not self._settled:
            self._run.scale_gradients(scale)
        self._settled = True
        return scale * self._samples[-1] / unit if total else 1.0
