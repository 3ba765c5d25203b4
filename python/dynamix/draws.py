"""Samples that are drawn by weight, with replacement (`run.loader(weights=...)`): the run deals the numbers of an epoch's draws, and
all members draw alike, so a draw belongs to one member, and a resumed run goes on with the same draws."""
from __future__ import annotations

import hashlib
import math
from typing import Any, List, Optional, Sequence

import torch

from .client import DynamixError
from .peers import Peers


def one_each(name: str, given: Any, samples: int) -> torch.Tensor:
    """One finite number for each sample, as float64. Raises ValueError where these are none."""
    numbers = torch.as_tensor(given, dtype=torch.float64, device="cpu").detach()
    if numbers.dim() != 1 or len(numbers) != samples:
        raise ValueError(f"{name} has the shape {tuple(numbers.shape)}: give one number for each of the {samples} samples")
    if not bool(torch.isfinite(numbers).all()):
        raise ValueError(f"{name} has to be of finite numbers")
    return numbers


class Draws:
    """Of one run. An epoch has as many as there are samples."""

    def __init__(self, weights: Any, samples: int, seed: int) -> None:
        """`weights`: one a sample. Raises ValueError for what cannot be drawn by."""
        given = one_each("weights", weights, samples)
        if bool((given < 0).any()) or not 0 < float(given.sum()) < math.inf:
            raise ValueError("weights have to be finite, their sum, too, none negative, and one above 0 at least")
        self._sums = given.cumsum(0)
        self._seed = seed
        self._epoch: Optional[int] = None  # that `_drawn` is of
        self._drawn = torch.empty(0, dtype=torch.int64, device="cpu")
        self._digest = hashlib.sha256(given.numpy().tobytes()).hexdigest()

    def agree(self, peers: Peers) -> None:
        """All members draw alike. They call it at the same place. Raises DynamixError on all of them."""
        said = peers.gather_objects((self._seed, self._digest))
        if len({each[1] for each in said if each is not None}) > 1:
            raise DynamixError("the members' weights differ: give all members the same ones")
        self._seed = int(next(each for each in said if each is not None)[0])

    def state(self) -> List[Any]:
        return [self._seed, self._digest]

    def restore(self, state: Optional[List[Any]]) -> None:
        """Draws as the members of the state did. Raises ValueError where they had other weights."""
        if state is None or state[1] != self._digest:
            raise ValueError("this state is of other weights, or of none: give those that it was trained with")
        self._seed, self._epoch = int(state[0]), None

    def samples_of(self, epoch: int, numbers: Sequence[int]) -> List[int]:
        """The samples of these draws of an epoch."""
        if self._epoch != epoch:
            generator = torch.Generator().manual_seed((self._seed + epoch) % 2**64)
            places = torch.rand(len(self._sums), generator=generator, dtype=torch.float64, device="cpu") * self._sums[-1]
            # Right of a sum: a sample of weight 0 has no place of its own.
            self._drawn = torch.searchsorted(self._sums, places, right=True).clamp_(max=int(torch.argmax(self._sums)))
            self._epoch = epoch
        return self._drawn[list(numbers)].tolist()
