"""Samples that are dealt by their cost (`run.loader(budget=, cost=)`): tokens, say. Members have budgets of cost a step, not counts.

    an epoch's samples, shuffled -> windows -> sorted by cost in each, up and down in turns -> one line, as long as all their cost
    the run deals lengths of the line        -> a sample is of the member whose length holds its end
    not grouped: no windows, and             -> a step's samples, the costliest first, each to who has the least for its budget; evened out

The run counts in units, so many that a budget is 64 of them at the start: it deals them as it deals samples, whatever budgets
become, and each sample is somebody's exactly once. Who has which follows from the epoch and the line alone, so that a run which goes
on from a checkpoint needs nothing else. Neighbours on the line cost nearly the same: what is padded to the longest is little, and
all members' samples of a step are alike.
"""
from __future__ import annotations

import bisect
import hashlib
import heapq
import logging
import math
import operator
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .client import DynamixError
from .draws import one_each
from .peers import Peers
from .stream import Stream
from .structures import SAMPLES_MAX, Deal

_log = logging.getLogger("dynamix")
_UNITS = 64               # of a budget
_WINDOW_STEPS = 32
_FEWEST_WINDOWS = 8       # of an epoch
_EXCHANGES = 4            # of each member with another, where a step's samples are mixed


class Share(NamedTuple):
    """What one step's deal is to this member. Costs are in units."""

    samples: int
    own: float     # cost of them
    square: float  # the sum of its squares
    total: float   # of all members' samples
    each: Tuple[float, ...] = ()  # sample's of this member's

    def and_also(self, share: Share) -> Share:
        """Of a step with several batches."""
        return Share(self.samples + share.samples, self.own + share.own, self.square + share.square, self.total + share.total,
                     self.each + share.each)


def _checked(cost: Any, samples: int) -> torch.Tensor:
    given = one_each("cost", cost, samples)
    if bool((given <= 0).any()):
        raise ValueError("costs have to be finite and above 0")
    return given


class Costs:
    """Of one run. Costs are float64; budgets, lengths and places on the line are in units."""

    def __init__(self, cost: Any, samples: int, budget: Any, seed: int, shuffle: bool, grouped: bool, members: int) -> None:
        """Of this member alone, until `agree`. `grouped`: samples of a step are alike. Raises ValueError for what cannot be dealt
        by."""
        self._costs = _checked(cost, samples)
        try:
            self._budget = operator.index(budget)
        except TypeError:
            self._budget = 0
        highest = float(self._costs.max())
        if isinstance(budget, bool) or self._budget < highest:
            raise ValueError(f"budget={budget!r}: a whole number, the cost of this worker's samples in a step, and not less than that "
                             f"of the costliest sample, {highest:g}")
        self._shuffle, self._grouped = shuffle, grouped and shuffle
        self._digest = hashlib.sha256(self._costs.numpy().tobytes() + bytes([self._grouped, self._shuffle])).hexdigest()
        self._epoch: Optional[int] = None  # that the line is of
        self._line = self._line_costs = self._ends = torch.empty(0, device="cpu")
        self._dealt: Dict[int, Share] = {}  # by step, until they are delivered
        self._fit = Fit()
        self._settle(seed, [self._budget] * members)

    def agree(self, peers: Peers) -> None:
        """All members deal alike. They call it at the same place; those of an elastic run have said before how many units an epoch
        has. Raises DynamixError on all of them."""
        said = [each for each in peers.gather_objects((self._budget, self._seed, self._digest)) if each is not None]
        if len({each[2] for each in said}) > 1:
            raise DynamixError("the members' costs differ, or whether samples are grouped or shuffled: give all members the same")
        if peers.elastic and len({each[0] for each in said}) > 1:
            raise DynamixError("the members' budgets differ, and those of an elastic run begin with equal ones")
        self._settle(int(said[0][1]), [int(each[0]) for each in said])

    def _settle(self, seed: int, budgets: List[int]) -> None:
        self._seed, total = seed, float(self._costs.sum())
        self.unit = min(budgets) / _UNITS
        self.batch = max(1, round(self._budget / self.unit))  # at the start
        self.units = math.ceil(total / self.unit)
        if self.units > SAMPLES_MAX:
            raise ValueError(f"an epoch costs {total:g}, more than {SAMPLES_MAX // _UNITS} of the smallest budgets, {min(budgets)}: give "
                             "larger ones")
        # Of many steps, so that neighbours are alike; and many an epoch, so that it is shuffled.
        self._window = max(min(_WINDOW_STEPS * sum(budgets), total / _FEWEST_WINDOWS), 4 * sum(budgets))

    def units_of(self, cost: Optional[int]) -> int:
        """A bound on a budget, in units; 0 for none."""
        return max(1, round(cost / self.unit)) if cost else 0

    def samples_of(self, dealt: Deal, shares: Sequence[int], position: int) -> List[int]:
        """The samples of the newest deal. Where it holds none, one that counts for nothing, twice: batch norm needs two values."""
        self._draw(dealt.epoch)
        begin = dealt.first - sum(shares[:position])
        first, last = self._index(begin), self._index(begin + sum(shares))
        costs = self._line_costs[first:last].tolist()
        if self._grouped:
            cuts = [self._index(place) - first for place in (dealt.first, dealt.first + shares[position])]
            own = list(range(*cuts))
        else:
            own = split(costs, shares)[position]
        each = tuple(costs[place] for place in own)
        self._dealt[dealt.step] = Share(len(own), math.fsum(each), math.fsum(cost**2 for cost in each), math.fsum(costs), each)
        if not own:
            return [int(self._line[min(first, len(self._line) - 1)])] * 2
        return self._line[first:last][own].tolist()

    def deliver(self, delivered: Deal) -> Share:
        """Of the batch that is with the training loop now."""
        for step in [step for step in self._dealt if step < delivered.step]:  # of an epoch that was left
            del self._dealt[step]
        return self._dealt.pop(delivered.step)

    def state(self) -> List[Any]:
        return [self._seed, self._digest, self.unit, self._window]

    def restore(self, state: Optional[List[Any]]) -> None:
        """Deals as the members of the state did. Raises ValueError where they had other costs or budgets."""
        if state is None or state[1] != self._digest:
            raise ValueError("this state is of other costs or another order, or of none: give those that it was trained with")
        if state[2] != self.unit:
            raise ValueError(f"this state counts by the {_UNITS}th part of {state[2] * _UNITS:g}, which was the smallest budget: give the "
                             "same budgets; run.limit_batch and highest_batch bound them")
        self._seed, self._window, self._epoch = int(state[0]), float(state[3]), None

    def _draw(self, epoch: int) -> None:
        """The line of an epoch."""
        if self._epoch == epoch:
            return
        count = len(self._costs)
        order = torch.arange(count, device="cpu")
        if self._shuffle:
            order = torch.randperm(count, generator=torch.Generator("cpu").manual_seed(self._seed + epoch), device="cpu")
        if self._grouped:
            window = ((self._costs[order].cumsum(0) - self._costs[order]) / self._window).floor()
            # By cost within each window; the other way round in every second one, so that no step holds both ends.
            keys = torch.where(window % 2 == epoch % 2, self._costs[order], -self._costs[order])
            by_cost = torch.argsort(keys, stable=True)
            order = order[by_cost[torch.argsort(window[by_cost], stable=True)]]
        self._line, self._line_costs, self._epoch = order, self._costs[order] / self.unit, epoch
        self._ends = self._line_costs.cumsum(0)

    def _index(self, place: int) -> int:
        """Of the first sample that ends behind this place on the line."""
        if place >= self.units:
            return len(self._line)
        found: Any = torch.searchsorted(self._ends, float(place), right=True)
        return int(found)

    def measure(self, share: Share, seconds: float) -> None:
        """A step of this member's has computed so long."""
        turn = self._fit.add(share.own, share.square, seconds)
        if turn is not None and turn < 2 * float(self._costs.max()) / self.unit:
            _log.warning("samples of twice the cost take more than twice as long: seconds go with c + c*c/%.3g of a cost c. Give "
                         "run.loader(cost=) that, and a budget for it, and members' steps take equally long", turn * self.unit)
            self._fit = Fit(0)


def split(costs: Sequence[float], shares: Sequence[int]) -> List[List[int]]:
    """Deals the samples of a step to members in proportion to their shares: the costliest first, each to the member that would have
    the least for its share; then those with most and with least exchange samples. Pure. Returns each member's places among `costs`,
    in their order."""
    parts: List[List[int]] = [[] for _ in shares]
    loads = [0.0] * len(shares)
    usual = math.fsum(costs) / max(len(costs), 1)
    heap = [(usual / share, member) for member, share in enumerate(shares) if share > 0]
    heapq.heapify(heap)
    for place in sorted(range(len(costs)), key=lambda place: -costs[place]):
        member = heap[0][1]
        parts[member].append(place)
        loads[member] += costs[place]
        heapq.heapreplace(heap, ((loads[member] + usual) / shares[member], member))
    present = [member for member, share in enumerate(shares) if share > 0]
    for _ in range(_EXCHANGES):
        present.sort(key=lambda member: (loads[member] / shares[member], member))
        for least, most in zip(present[:len(present) // 2], reversed(present)):
            wanted = (loads[most] * shares[least] - loads[least] * shares[most]) / (shares[most] + shares[least])
            moved = _exchange(costs, parts[most], parts[least], wanted, shares[least] / shares[most])
            loads[most], loads[least] = loads[most] - moved, loads[least] + moved
    return [sorted(part) for part in parts]


def _exchange(costs: Sequence[float], giver: List[int], taker: List[int], wanted: float, size: float) -> float:
    """Exchanges one sample for another, or for none, so that nearly as much cost as is wanted goes to the taker. Returns how much.
    `size`: the taker's share over the giver's; where it is small, too much is worse than too little."""
    taker.sort(key=lambda place: (costs[place], place))
    theirs = [costs[place] for place in taker]
    best, given, back, error = 0.0, -1, -1, wanted * size
    for number, place in enumerate(giver):
        near = bisect.bisect_left(theirs, costs[place] - wanted)
        for other in (near - 1, near, -1):
            if other >= len(theirs) or (other < 0 and len(giver) == 1):
                continue
            moves = costs[place] - (theirs[other] if other >= 0 else 0.0)
            off = (wanted - moves) * size if moves < wanted else moves - wanted
            if off < error:
                best, given, back, error = moves, number, other, off
    if given >= 0:
        taken = [taker.pop(back)] if back >= 0 else []
        taker.append(giver[given])
        giver[given:given + 1] = taken
    return best


def costs_of(dataset: Any, budget: Any, cost: Any, seed: int, shuffle: bool, grouped: bool, has_others: bool,
             peers: Peers) -> Costs:
    """Of a run's loader. `has_others`: samples are counted or drawn, too. Raises ValueError or NotImplementedError."""
    if budget is None or cost is None or has_others:
        raise ValueError("budget=... and cost=... go together, and without batch_size and weights")
    if isinstance(dataset, Stream):
        raise NotImplementedError("cost=... and a Stream, whose items cannot be dealt one by one")
    costs = Costs(cost, len(dataset), budget, seed, shuffle, grouped, peers.size)
    if not peers.elastic:
        costs.agree(peers)
    return costs


class Fit:
    """Whether steps take as long as their cost says, or longer the more of it single samples have, as attention makes them: least
    squares of seconds = a sum(c) + b sum(c^2)."""

    def __init__(self, steps: int = 256) -> None:
        """Concludes once, behind so many steps; 0: never."""
        self._left = steps
        self._rows: List[List[float]] = []

    def add(self, cost: float, square: float, seconds: float) -> Optional[float]:
        """The cost of a step's samples, the sum of its squares, and how long it took. Returns the cost of a sample at which the
        square takes as long as the rest, where it is there beyond four of its standard errors."""
        if self._left == 0 or not (math.isfinite(seconds) and seconds > 0 and cost > 0):
            return None
        self._rows.append([cost, square, seconds])
        self._left -= 1
        return self._conclude() if self._left == 0 else None

    def _conclude(self) -> Optional[float]:
        rows = torch.tensor(self._rows, dtype=torch.float64, device="cpu")
        self._rows = []
        # Relative, so that a step of many samples says no more than one of few; the slowest tenth was disturbed.
        rows = rows[:, :2] / rows[:, 2:]
        rows = rows[torch.argsort(rows.sum(1), descending=True)[:len(rows) * 9 // 10]]
        scale = rows.mean(0)
        rows = rows / scale
        products = rows.T @ rows
        if float(torch.linalg.cond(products)) > 1e8:
            return None
        inverse = torch.linalg.inv(products)
        found = inverse @ rows.sum(0)
        variance = float((1 - rows @ found).square().sum()) / (len(rows) - 2)
        linear, squared = (float(each) for each in found)
        if linear <= 0 or squared <= 4 * math.sqrt(variance * float(inverse[1, 1])):
            return None
        return linear / squared * float(scale[1] / scale[0])
