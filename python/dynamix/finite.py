"""`dynamix.join(nan=...)`: steps whose gradient is not finite, found in the sums, which all members have, and by whom.

    each backward pass -> begin_pass
    own gradients      -> see_own       their squares, before they are summed
    the sums           -> see_sums      their squares
    optimizer.step     -> keeps         where a sum is not finite, all tell each other whose gradient was not
"""
from __future__ import annotations

import logging
import math
from typing import Callable, List, Optional, Sequence, Tuple

import torch

from .client import DynamixError
from .kernels import Number
from .peers import Peers

_log = logging.getLogger("dynamix")
CHOICES = (None, "drop", "stop")
DROPPED_IN_A_ROW = 50  # at which training ends: nothing is learned any more
_TOLD = 10             # dropped steps, one by one


def describe(members: Sequence[int], size: int, step: int) -> str:
    """Whose gradients have spoiled a step; of no members where finite ones add up to more than a number holds.

    >>> describe([1], 4, 7)
    'the gradient of member 1 in step 7 is not finite'
    """
    if not members:
        return f"the members' gradients of step {step} add up to no finite number"
    if len(members) == size > 1:
        return f"the gradients of all members in step {step} are not finite"
    return f"the gradient of member {', of member '.join(map(str, members))} in step {step} is not finite"


def _are_finite(parts: Sequence[Number]) -> bool:
    device = next((part.device for part in parts if isinstance(part, torch.Tensor)), None)
    if device is None:
        return all(math.isfinite(part) for part in parts)
    stacked = torch.stack([torch.as_tensor(part, dtype=torch.float64, device=device) for part in parts])
    return bool(torch.isfinite(stacked).all())  # waits for the device


def check_agreed(choices: Sequence[Optional[str]]) -> None:
    """Raises DynamixError where the members have chosen differently, of which some would wait for others in vain."""
    if len(set(choices)) > 1:
        told = ", ".join(f"{choice!r} on member {member}" for member, choice in enumerate(choices))
        raise DynamixError(f"dynamix.join's nan is {told[:200]}: it is the same on all members")


class Finite:
    """Looks at the gradients of each step. A pass over memory more; on a device the host waits for it."""

    def __init__(self, choice: str, peers: Peers, is_sharded: bool) -> None:
        """`choice`: "drop" or "stop", the same on all members. `is_sharded`: each has a part of the sums."""
        self.choice = choice
        self._peers = peers
        self._is_sharded = is_sharded
        self._passes: List[Tuple[List[Number], List[Number]]] = []  # of the step: own squares, and those of the sums
        self._dropped = self._in_a_row = 0

    def forget(self) -> None:
        """The next step begins."""
        self._passes.clear()

    def begin_pass(self) -> None:
        self._passes.append(([], []))

    def see_own(self, squares: Sequence[Number]) -> None:
        self._passes[-1][0].extend(squares)

    def see_sums(self, squares: Sequence[Number]) -> None:
        self._passes[-1][1].extend(squares)

    def _find(self) -> Optional[List[int]]:
        """The members that have spoiled the step; None where its sums are finite."""
        own = summed = True
        for of_own, of_sums in self._passes:  # a pass behind one that is spoiled begins with that one's sums
            own, summed = own and _are_finite(of_own), _are_finite(of_sums)
            if not summed:
                break
        if summed and not self._is_sharded:
            return None
        rows = self._peers.gather(torch.tensor([not own, not summed, self._in_a_row], dtype=torch.int64, device="cpu")).wait()
        self._in_a_row = int(rows[:, 2].max())  # a member that has come into an elastic run has counted fewer
        return rows[:, 0].nonzero().flatten().tolist() if bool(rows[:, 1].any()) else None

    def keeps(self, step: Callable[[], int]) -> bool:
        """Whether the optimiser may make this step, the same on all members. Raises DynamixError where training is to end before it."""
        members = self._find()
        if members is None:
            self._in_a_row = 0
            return True
        reason = describe(members, self._peers.size, step())
        if self.choice == "stop":
            raise DynamixError(f"{reason}; dynamix.join(..., nan=\"drop\") goes on without such steps")
        self._dropped += 1
        self._in_a_row += 1
        if self._in_a_row >= DROPPED_IN_A_ROW:
            raise DynamixError(f"{self._in_a_row} steps in a row were dropped: {reason}")
        if (self._peers.position == 0 or self._peers.position in members) and self._dropped <= _TOLD:
            _log.warning("member %d: %s: all members drop this step%s", self._peers.position, reason,
                         "; further ones are dropped without a word" if self._dropped == _TOLD else "")
        return False
