"""What an observer has measured of a script's steps, and what it says of them at the end. Pure."""
from __future__ import annotations

import collections
import math
import random
import statistics
from typing import Any, Dict, List, NamedTuple, Tuple

_KEPT_STEPS = 4096
_PARTS = 8            # of the run, by whose spread an estimate's error is known
_BATCHES = 64         # sizes that are told of
_FEW_STEPS = 3        # of one size, which are chance
_LONGEST = 4          # times the median: a checkpoint was written, the machine was suspended
_WARM_UP_STEPS = 3


class ObservedStep(NamedTuple):
    """One step of the script's optimiser. Seconds; NaN where they are not known.

    >>> round(ObservedStep(samples=32, iteration=0.10, exchange=0.04, data=0.01).compute, 3)
    0.05
    """

    samples: int      # of this process
    iteration: float  # from the end of the step before
    exchange: float   # waiting for the others' gradients and in collectives
    data: float       # waiting for the data loader

    @property
    def compute(self) -> float:
        """What is left of the iteration."""
        return max(0.0, self.iteration - self.exchange - self.data)

    @property
    def is_known(self) -> bool:
        return self.samples > 0 and not math.isnan(self.iteration + self.exchange)


class ObservedSteps:
    """A sample of the run's steps, all of them equally likely in it, and how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._seen = 0  # that might have been kept
        self._known: List[Tuple[int, ObservedStep]] = []  # with the step's number
        self._random = random.Random(0)  # the script's own stays as it is

    def add(self, step: ObservedStep) -> None:
        self.count += 1
        if self.count <= _WARM_UP_STEPS or not step.is_known:
            return
        self._seen += 1
        if len(self._known) < _KEPT_STEPS:
            self._known.append((self.count, step))
        elif (place := self._random.randrange(self._seen)) < _KEPT_STEPS:
            self._known[place] = self.count, step

    def _usual(self) -> List[Tuple[int, ObservedStep]]:
        """Without those that took much longer than most."""
        if not self._known:
            return []
        longest = _LONGEST * statistics.median(step.iteration for _, step in self._known)
        return [(number, step) for number, step in self._known if step.iteration <= longest]

    def summary(self) -> Dict[str, Any]:
        """Means of the steps with the most frequent batch size, and for each size the mean seconds of computing, of the same steps: what
        is gained is a part of them. `parts`: the means of a step and of computing in each part of the run; zeros where no step was
        looked at."""
        numbered = self._usual()
        usual = [step for _, step in numbered]
        sizes = collections.Counter(step.samples for step in usual)
        batch = sizes.most_common(1)[0][0] if sizes else 0
        of_batch = [step for step in usual if step.samples == batch]

        def mean(seconds: List[float]) -> float:
            return sum(seconds) / len(seconds) if seconds else 0.0

        points = [[size, mean([step.compute for step in usual if step.samples == size]), count]
                  for size, count in sizes.most_common(_BATCHES) if count >= _FEW_STEPS or size == batch]
        parts: List[List[ObservedStep]] = [[] for _ in range(_PARTS)]
        for number, step in numbered:
            if step.samples == batch:
                parts[(number - 1) * _PARTS // self.count].append(step)
        return {"steps": self.count, "batch": batch, "points": sorted(points),
                "parts": [[mean([step.iteration for step in part]), mean([step.compute for step in part])] for part in parts],
                "step_seconds": mean([step.iteration for step in of_batch]),
                "compute_seconds": mean([step.compute for step in of_batch]),
                "exchange_seconds": mean([step.exchange for step in of_batch]),
                "data_seconds": mean([step.data for step in of_batch])}
