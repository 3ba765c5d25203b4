"""One step of the optimiser, as the other members need it: weights, squares, the row, times.

    first gradients -> open       this worker's share of the joined batch
    each buffer     -> scale      in place, before it is summed
                    -> summed     behind it
    last buffer     -> launch     the row of numbers that the members exchange is under way; or it travels with the buffer:
                       load_row   in place of `scale`, and
                       unload_rows behind the sum
    optimizer.step  -> factor     the rows are read, the learning rate is known
                    -> complete   reported

The hook, `average_gradients` and the optimiser drive it; it knows none of them.
"""
from __future__ import annotations

import collections
import logging
import math
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from . import structures as raw
from .batch import lengths_of, tensors_of
from .client import Client, DynamixError
from .cost import Costs, Share
from .device_clock import DeviceClock, StepSeconds
from .doubly_summed import Comparison
from .finite import Finite
from .kernels import Number, multiply, multiply_and_square, squares
from .peers import Gathering, Peers, Sum

_log = logging.getLogger("dynamix")
_LOADED_BYTES = 2**20  # of buffers that are copied, so that a row travels with them; a collective of its own costs as much
_ROW_BYTES = 8 * raw.ROW_COLUMNS


class Calls:
    """Counts a model's forward passes that a backward pass may follow, and tells of them. Lies among the model's hooks."""

    def __init__(self, tell: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self._tell = tell

    def __call__(self, module: object, inputs: object) -> None:
        if torch.is_grad_enabled():
            self.count += 1
            if not torch.compiler.is_compiling():
                self._tell()

    def __reduce__(self) -> Any:
        # A copy of the model, or one that is read from a file, has a hook that gives back its inputs and needs no dynamix.
        return getattr, ({}, "get")


class Step:
    """The step that is completed next. One object serves all steps of a run."""

    def __init__(self, client: Client, peers: Peers, scaler: Any = None, clock: Optional[DeviceClock] = None,
                 by_loss: bool = False, finite: Optional[Finite] = None) -> None:
        """`clock`: of the device that computes; None: the host does. `by_loss`: somebody else sums gradients. `finite`: looks whether
        all steps' gradients are; None: nobody does."""
        self.client = client
        self.peers = peers
        self.scaler = scaler
        self.counted = 0                    # samples of the batches at hand that count
        self.newest = 0                     # the same of the newest of them
        self.taken = 0                      # batches that the training loop has taken for this step
        self.costs: Optional[Costs] = None  # that samples are dealt by
        self.calls: Optional[Calls] = None  # of the model; None: nobody looks
        self.checks_calls = False           # a step that calls the model less often than it takes batches is refused
        self.leaves: Callable[[], Iterable[torch.Tensor]] = lambda: ()  # of the model, that gradients are accumulated in
        self.weighs_micro_batches = False   # somebody has, by their samples: those of a step are not alike
        self.leave_out: Callable[[bool], object] = lambda _: None  # the step, whose gradients were summed; False: it is too late
        self.cleared = False                # the optimiser's gradients, since they were summed
        self._held_back: Optional[Callable[[], None]] = None  # takes a batch that is of this step, or of the next
        self._is_called = False             # the model, by the script, and not what lies in it
        self._weighs: Optional[bool] = None  # all members do; None: not known yet
        self._dropping: List[Any] = []      # hooks that make a stand-in's gradients zeros
        self.thread: Optional[int] = None   # of the newest step
        self.learning_rate = -1.0           # that the optimiser uses in this step
        self.progress = 0.0                 # of the schedules, in steps of the base batch
        self.loss = math.nan
        self.correct = -1.0
        self._reports: Dict[int, Tuple[int, Optional[float], Optional[float]]] = {}  # by micro-batch: samples, loss, correct ones
        self.loads_rows = False             # the same on all members: rows may travel behind the last bucket
        self.buffers: Callable[[], Iterable[torch.Tensor]] = lambda: ()  # of the model
        self.replicas = 0                   # of each shard of the gradients; 0: every member has all of them
        self._by_loss = by_loss
        self._comparison = Comparison(peers, by_loss)
        self._finite = finite
        self._clock = clock
        self._data_seconds = 0.0            # of the host's clock, as are the next two
        self._exchange_seconds = 0.0
        self._ended: Optional[float] = None  # when the step before was completed
        self._times = raw.StepTimes(on_device=clock is not None)
        # Views that last, since each operation of Torch's takes as long as agreeing on a decision does.
        rows = torch.zeros((peers.size, raw.ROW_COLUMNS), dtype=torch.int64, device="cpu")  # those of others are zeros
        self._row, self._sent_bytes = rows[peers.position], rows.view(-1).view(torch.uint8)
        self._received = torch.empty_like(rows)
        self._received_bytes = self._received.view(-1).view(torch.uint8)
        self._loaded = self._scaled = self._bytes_behind = torch.empty(0, device="cpu")  # a buffer with rows behind it, and its parts
        self._untrained: Deque[int] = collections.deque()  # samples of batches that have been taken, and have seen no forward pass
        self._own_squares: List[Number] = []
        self._global_squares: List[Number] = []
        self._is_told_of_rows = False
        self._forget_batches()
        self._reset()

    def _reset(self) -> None:
        self._due: Optional[int] = None  # not known before the first gradient
        self._share = self._repeats = 1.0
        self.is_stand_in = False  # the batches at hand count for nothing, and those of other members do
        self._measures = False
        self._weights: Optional[Sum] = None
        self._given: Optional[float] = None  # by `weigh`
        self._rows: Optional[Gathering] = None
        self._square_sum: Optional[Sum] = None
        self._row_written = self._on_device = self.has_run_backward = False
        self._own_squares.clear()
        self._global_squares.clear()
        if self._finite is not None:
            self._finite.forget()

    def start_epoch(self) -> None:
        """What was taken in the epoch before and not stepped by counts for nothing."""
        self._reset()
        self._forget_batches()
        self.restart_clock()

    def _forget_batches(self) -> None:
        self.counted = self.newest = self.taken = self._dealt = self._stand_ins = 0
        self.cleared, self._held_back, self._held_passes, self._taken_at_sum = False, None, False, 0
        self._untrained.clear()
        self._summed = self._of_pass = 0.0, 0.0  # weights of what had been taken at the newest sum, and of that sum alone
        self._drop_gradients(False)
        self._odd_rows: Optional[Tuple[int, int]] = None  # of a batch, and samples that it was dealt as
        self._kept: List[Tuple[torch.Tensor, torch.Tensor]] = []  # buffers, and what they were before a stand-in's pass
        self._share_of_cost = Share(0, 0.0, 0.0, 0.0)
        if self.calls is not None:
            self.calls.count = 0

    def take(self, delivered: raw.Deal) -> None:
        """The training loop is given this batch."""
        if self.cleared:
            self.leave_out(False)
        self.taken += 1
        self._dealt += delivered.own
        samples = delivered.own
        if self.costs is not None:
            share, before = self.costs.deliver(delivered), self._share_of_cost
            samples, self._share_of_cost = share.samples, before.and_also(share)
        self.counted, self.newest = self.counted + samples, samples
        self._stand_ins += samples == 0
        self._untrained.append(samples)
        if not self._is_called or self.calls is None or self.calls.count >= self.taken - 1:  # else `begin_pass` knows of which one it is
            self._drop_gradients(samples == 0)
        if samples == 0 and not self._kept:
            self._kept = [(buffer, buffer.detach().clone()) for buffer in self.buffers()]

    def begin_pass(self) -> None:
        """A forward pass through the model: of the oldest batch that has seen none, as a loop may take several before it trains."""
        self._held_passes = self._held_back is not None
        self._is_called = True
        if self._untrained:
            self._drop_gradients(self._untrained.popleft() == 0)

    def _drop_gradients(self, drops: bool) -> None:
        """Those of a stand-in would be accumulated beside others of its step. They are zeros even where the loss is NaN."""
        if drops != bool(self._dropping):
            for hook in self._dropping:
                hook.remove()
            leaves: Iterable[Any] = self.leaves() if drops else ()
            self._dropping = [leaf.register_hook(torch.zeros_like) for leaf in leaves if leaf.requires_grad]

    def release(self) -> None:
        """The run is closed."""
        self._drop_gradients(False)

    def hold_back(self, take: Callable[[], None]) -> None:
        """The training loop is given a batch behind gradients that were summed. It is one more of this step, unless these are dropped:
        then the optimiser has left the step out, and this is the next one's."""
        self.settle()
        self._held_back = take
        if self.cleared:
            self.settle()

    def settle(self) -> None:
        """What is held back is needed, or the gradients have been dropped."""
        take, self._held_back = self._held_back, None
        if take is None:
            return
        passes = self._held_passes
        is_sharded = self._by_loss or self.replicas > 0  # a member may have no part of any gradient
        if self.cleared or not is_sharded and all(leaf.grad is None for leaf in self.leaves()):
            self.leave_out(True)
        take()
        if passes:
            self.begin_pass()

    def clear(self) -> None:
        """The optimiser's gradients are dropped."""
        if self.opened:
            self.cleared = True
            self.settle()
        if self.opened and self.taken > self._taken_at_sum:
            self.leave_out(False)

    def see_rows(self, batch: Any, dealt: int) -> None:
        """Of a batch that the script's own collate function has made of so many samples. Tensors of several lengths (boxes, packed
        tokens) say nothing about samples, nor does what lies in a list of them."""
        if self._is_told_of_rows or not dealt:
            return
        rows = {len(tensor) for tensor in tensors_of(batch) if tensor.dim() > 0 and not tensor.is_nested}
        if len(rows) == 1 and dealt not in rows and dealt not in lengths_of(batch):
            self._odd_rows = (rows.pop(), dealt)

    def check_taken(self) -> None:
        """Raises RuntimeError where the training loop holds batches that it cannot have trained on."""
        if self.checks_calls and self.calls is not None and 0 < self.calls.count < self.taken:
            raise RuntimeError(
                f"{self.taken} batches were taken from run.loader() for this step, and the model was called "
                f"{self.calls.count} times: something fetches batches ahead of training on them, so that their samples would "
                "count a step early. Pass fetch_ahead=1 to run.loader() where it fetches one batch ahead (as accelerate's "
                "and Lightning's loaders do); fetch_ahead=0 where all of these batches are part of this step, also those that the "
                "loop skips")

    @property
    def opened(self) -> bool:
        """Gradients of this step have been summed."""
        return self._due is not None

    # Weights

    def weigh(self, amount: float) -> None:
        """The loss is a mean over so many items instead of samples. Once a step, on all members."""
        self.settle()
        if self._given is not None:
            raise RuntimeError("run.weight() was called twice in one step; tell the sum over its micro batches at once")
        if not 0 <= amount < math.inf:
            raise ValueError(f"run.weight({amount}): a weight is a finite number that is not negative")
        self._given = float(amount) if self.counted else 0.0
        if self._weighs is not None:
            self._agree_on_weights()

    def _agree_on_weights(self) -> None:
        """That weights are given, or none. Known from the first step on; without that, those who give some would wait for the others."""
        is_given = self._given is not None
        if self._weighs is None:
            rows = self.peers.checked(self._wait_for(self.peers.gather(torch.tensor([1 + is_given], device="cpu")))[:, 0].tolist(), says=False)
            if {1, 2} <= set(rows):  # 0: of one that is absent
                raise DynamixError(f"run.weight() was called in this step on member {rows.index(2)} and not on member {rows.index(1)}: call it on "
                                   "all members in each step, with 0 where there is nothing to weigh, or never")
            self._weighs = is_given
        if is_given != self._weighs:
            raise RuntimeError(f"run.weight() was {'' if is_given else 'not '}called in this step, and {'not ' if is_given else ''}in the first one: "
                               "call it on all members in each step, with 0 where there is nothing to weigh, or never")
        if self._given is not None and self._weights is None:
            self._weights = self.peers.sum(self._given)

    def open(self) -> None:
        """The gradients of a backward pass are about to be summed."""
        # Of several passes before one optimiser's step the first is measured: behind it gradients hold those of others.
        self.settle()
        self.cleared, self._taken_at_sum = False, self.taken
        self._agree_on_weights()
        first = self._due is None
        if not self._row_written:  # each batch that was taken may have become a reason
            self._due = self.client.due()
        self._measures = first and bool((self._due or 0) & raw.MEASURE)
        if self._finite is not None:
            self._finite.begin_pass()
        if self._weights is None:
            if self._odd_rows is not None and not self._is_told_of_rows:
                self._is_told_of_rows = True
                _log.warning("a batch has %d rows and was dealt as %d samples, by which its gradient is weighted: where collate_fn drops "
                             "samples, or the loss is a mean over something else, call run.weight(n) in each step, on all members", *self._odd_rows)
            try:
                own, total = self._weights_of_pass()
                self._repeats = self._repeats_of_batches() if first else 1.0
            except DynamixError as problem:
                self._due = None
                raise DynamixError(f"{problem}: each step of the optimiser takes one batch of run.loader() or more, and a "
                                   "batch is used for one step") from None
        else:
            own, total = self._weights.own, self._wait_for(self._weights)
            self.client.set_weights(own, total)
        self._share = own / total * self._repeats if total > 0 else 0.0
        self.is_stand_in = total > 0 and own == 0

    def share(self) -> Optional[float]:
        """This worker's part of the joined batch, as far as it has been taken; None where nobody weights: the loss is, or no step
        is under way."""
        if self._by_loss or self.taken == 0:
            return None
        self._agree_on_weights()
        own, total = self._weights_of_batches() if self._weights is None else (self._weights.own, self._weights.wait())
        return own / total if total > 0 else 0.0

    def _weights_of_batches(self) -> Tuple[float, float]:
        """By their samples, or by the cost of these."""
        own, total = self.client.weights()
        if self.costs is not None:
            own, total = self._share_of_cost.own, self._share_of_cost.total
            self.client.set_weights(own, total)
        return own, total

    def _weights_of_pass(self) -> Tuple[float, float]:
        """Of what has been taken since the sum before. A later pass over the same batches has their weights."""
        own, total = self._weights_of_batches()
        if total != self._summed[1] or total == 0:
            self._of_pass = own - self._summed[0], total - self._summed[1]
            self._summed = own, total
        return self._of_pass

    def _repeats_of_batches(self) -> float:
        """What a worker's accumulated gradient is multiplied by where stand-ins are among its micro-batches: the script has divided
        losses by the number of all, and the others are alike."""
        trained = self.calls is None or not 0 < self.calls.count < self.taken
        if self.weighs_micro_batches or not trained or not 0 < self._stand_ins < self.taken:
            return 1.0
        return self.taken / (self.taken - self._stand_ins)

    def note_loss(self, loss: Any) -> None:
        """As it comes by, where the script has not reported it: one number on the host, of a batch that counts."""
        if math.isnan(self.loss) and self.counted and isinstance(loss, torch.Tensor) and loss.numel() == 1 and not loss.is_cuda:
            self.loss = float(loss.detach())

    def report(self, loss: Optional[float], correct: Optional[float]) -> None:
        """Of the micro-batch at hand; what was reported of it before is replaced. The step's are means over the samples of all that
        are reported."""
        if correct is not None and correct > self.newest:  # once, of all of them
            self.correct = correct / self.counted
            correct = None
        before = self._reports.get(self.taken, (0, None, None))
        self._reports[self.taken] = self.newest, before[1] if loss is None else loss, before[2] if correct is None else correct
        losses = [(samples, value) for samples, value, _ in self._reports.values() if value is not None and samples]
        if losses:
            self.loss = math.fsum(samples * value for samples, value in losses) / sum(samples for samples, _ in losses)
        right = [(samples, value) for samples, _, value in self._reports.values() if value is not None and samples]
        if right:
            self.correct = sum(value for _, value in right) / sum(samples for samples, _ in right)

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """What sums gradients divides by the number of members, and nobody sees them before."""
        self.settle()
        if self.taken > 1:
            raise RuntimeError(f"{self.taken} batches were taken for this step: with weighting=\"loss\" a step takes one, since "
                               "the weight of the first depends on those behind it")
        self.note_loss(loss)
        self.open()
        self.launch()
        return loss * (self._share * self.peers.size)

    def amount_of(self, rows: int, whole: int) -> float:
        """What so many of the `whole` rows of the batch at hand are in what the run deals by: samples, or units of cost."""
        return rows if self.costs is None else self._share_of_cost.own * rows / whole

    def part_of_mean(self, rows: int, first: int, last: int) -> float:
        """How much these of the rows of the batch at hand are of the mean over it: by their cost, where rows are the samples dealt."""
        each = self._share_of_cost.each
        return math.fsum(each[first:last]) / self._share_of_cost.own if len(each) == rows else (last - first) / rows

    def limit(self, amount: float) -> None:
        """This member takes no decision above it."""
        self.client.limit_batch(max(1, int(amount)))

    # Gradients

    @property
    def measures(self) -> bool:
        """The squares of this pass's gradients are part of the row, which waits for them."""
        return self._measures

    @property
    def wants_squares(self) -> bool:
        """Of this pass's gradients: `scale` is to be told the counts, and `summed` to be called."""
        return self._measures or self._finite is not None

    def _take_own(self, found: List[Number]) -> None:
        """The squares of a buffer of this member's."""
        if self._measures:
            self._own_squares += found
        if self._finite is not None:
            self._finite.see_own(found)

    def scale(self, values: torch.Tensor, counts: Optional[Sequence[int]], out: Optional[torch.Tensor] = None) -> None:
        """Scales a buffer of this member's mean gradient by its share, in place or into `out`. It holds so many numbers of each parameter.

        On the CPU their squares are added exactly, so that it makes no difference to any bit how parameters are laid out in
        buffers.
        """
        if self._comparison.is_due:
            self._comparison.see_gradients(values)
        self._on_device |= values.device.type != "cpu"
        if self.wants_squares and counts is not None:
            self._take_own(multiply_and_square(values, self._share, counts, out))
        else:
            multiply(values, self._share, out)

    def summed(self, values: torch.Tensor, counts: Sequence[int]) -> None:
        """Takes a buffer of the mean gradient over all members."""
        if not self.wants_squares:
            return
        found = squares(values, counts)
        if self._measures:
            self._global_squares += found
        if self._finite is not None:
            self._finite.see_sums(found)

    def load_row(self, values: torch.Tensor, counts: Optional[Sequence[int]]) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
        """The last buffer of a pass, scaled, and behind it the members' rows, byte by byte, which floats of any kind add up exactly: to
        be summed in its place; and the scaled part of it. None where no row is due, or the buffer is not small, on all members alike."""
        rows = self.peers.size * _ROW_BYTES
        if (not self._row_is_due or not self.loads_rows or rows > values.numel() or
                values.numel() * values.element_size() > _LOADED_BYTES):
            return None
        if self._scaled.numel() != values.numel() or self._loaded.dtype != values.dtype:
            self._loaded = torch.empty(values.numel() + rows, dtype=values.dtype, device="cpu")
            self._scaled, self._bytes_behind = self._loaded[:values.numel()], self._loaded[values.numel():]
        self.scale(values, counts, self._scaled)
        self._fill_row()
        self._bytes_behind.copy_(self._sent_bytes)
        return self._loaded, self._scaled

    def unload_rows(self) -> None:
        """Takes the members' rows, which were behind a buffer that is summed by now."""
        self._received_bytes.copy_(self._bytes_behind)
        self._rows = Gathering(self._received, None)

    def launch(self) -> None:
        """All buffers of the pass are on their way; so is the row now, where one is due. On a GPU its numbers are not
        there yet, and the row is written when the optimiser steps."""
        if not self._on_device:
            self._write_row()

    def wait(self, work: Any) -> None:
        """Waits for a collective of gradients (on a GPU its stream does), and counts how long."""
        if work is None:
            return
        since = self.mark()
        work.wait()
        self.waited(since)

    def mark(self) -> Any:
        """Now; on a GPU a place among its work. Returns what `waited` takes."""
        return time.perf_counter() if self._clock is None else self._clock.mark()

    def fetching(self) -> Any:
        """The training loop asks for its next batch now. Returns what `fetched` takes."""
        return self.mark()

    def waited(self, since: Any) -> None:
        """This member (on a GPU its stream) has waited for others since then."""
        if self._clock is None:
            self.add_exchange(time.perf_counter() - since)
        else:
            self._clock.exchanged(since)

    def add_exchange(self, seconds: float) -> None:
        """The host has waited for others so long."""
        self._exchange_seconds += seconds

    def fetched(self, since: Any, batch: Any) -> None:
        """The loop is given its batch."""
        if self._comparison.is_due:
            self._comparison.see_batch(batch)
        if self._clock is None:
            self._data_seconds += time.perf_counter() - since
        else:
            self._clock.fetched(since)

    @property
    def _row_is_due(self) -> bool:
        return not self._row_written and self._due is not None and bool(self._due & raw.GATHER)

    def _write_row(self) -> None:
        if self._row_is_due:
            self._fill_row()
            self._rows = self.peers.gather(self._row, again=True)
            if self.replicas and (self._due or 0) & raw.MEASURE:
                self._square_sum = self.peers.sum(self._plain(self._global_squares) / self.replicas)

    def _fill_row(self) -> None:
        # A pass over replicas whose sum is left to a later one has squares of its own alone.
        measured = self._own_squares and (self._global_squares or not self.replicas)
        unmeasured = bool((self._due or 0) & raw.MEASURE) and not measured
        square = math.nan if unmeasured else self._plain(self._own_squares) * self._repeats**2
        if not unmeasured and not math.isfinite(square):  # a GradScaler expects it, and `_finite` tells of it
            square = math.inf if self.scaler is None and self._finite is None else math.nan
        self.client.write_row(square, self._row.data_ptr())
        self._row_written = True

    def _plain(self, parts: List[Any]) -> float:
        """The sum, without the factor that a GradScaler has put on the loss, for which it waits for the device."""
        if not parts:
            return 0.0
        factor = float(self.scaler.get_scale()) if self.scaler is not None else 1.0
        device = next((part.device for part in parts if isinstance(part, torch.Tensor)), None)
        if device is not None:  # read at once
            parts = torch.stack([torch.as_tensor(part, dtype=torch.float64, device=device) for part in parts]).tolist()
        try:
            return math.fsum(parts) / (factor * factor)
        except (OverflowError, ValueError):  # infinities of both signs, or a sum beyond the largest number
            return math.inf

    def read_rows(self) -> None:
        """Waits for the rows that are under way, if any are."""
        if self._rows is None:
            return
        rows, self._rows = self._wait_for(self._rows), None
        self.client.read_rows(rows.data_ptr())

    # The optimiser

    def factor(self) -> Optional[float]:
        """What the learning rate of this step is multiplied by. Once a step, before the optimiser. None: the step is dropped, since
        its gradient is not finite, or since nobody has a sample, while one is dealt that costs more than a step."""
        self._write_row()
        self.read_rows()
        if self._comparison.is_due:
            self._comparison.conclude(self.counted)
        self._square = self._plain(self._global_squares) if self._square_sum is None else self._wait_for(self._square_sum)
        rate = self.client.rate(self._square)
        self.progress = rate.progress
        if self._finite is not None and not self._finite.keeps(lambda: int(self.client.status().step)):
            self.complete(skipped=True)
            return None
        if self.costs is not None and self._share_of_cost.total == 0:
            self.complete()
            return None
        return rate.factor

    def _wait_for(self, pending: Any) -> Any:
        """What others say with this member. The host waits."""
        began = time.perf_counter()
        found = pending.wait()
        self.add_exchange(time.perf_counter() - began)
        return found

    def complete(self, skipped: bool = False) -> None:
        """The optimiser has stepped, or has left the step out because of infinite gradients."""
        now = time.perf_counter()
        seconds = self._seconds(now)
        times = self._times
        times.skipped = skipped
        times.iteration_seconds = seconds.iteration
        times.data_seconds = min(seconds.iteration, seconds.data)
        times.exchange_seconds = min(seconds.iteration - times.data_seconds, seconds.exchange)
        times.compute_seconds = seconds.iteration - times.data_seconds - times.exchange_seconds
        times.loss, times.correct, times.learning_rate = self.loss, self.correct, self.learning_rate
        times.gradient_norm = math.sqrt(self._square) if self._global_squares else -1.0
        self.client.complete(times)
        if skipped:  # `factor` has counted it
            self.progress = self.client.status().progress
        self.thread = threading.get_ident()
        if self.peers.notes is not None:
            self.peers.notes.thread = self.thread
        for line in self.client.notices():
            is_warning = line.startswith("warning: ")
            _log.log(logging.WARNING if is_warning else logging.INFO, "member %d: %s", self.peers.position,
                     line[len("warning: "):] if is_warning else line)
        if self.costs is not None and self._clock is None:  # a device's times are of earlier steps
            self.costs.measure(self._share_of_cost, times.compute_seconds)
        for buffer, before in self._kept:
            with torch.no_grad():  # batch norm's statistics, say: a stand-in counts for nothing there, either
                buffer.copy_(before)
        self._reset()
        self._forget_batches()
        self.loss, self.correct, self.learning_rate = math.nan, -1.0, -1.0
        self._reports.clear()
        self._restart_host_clock(now)

    def _seconds(self, now: float) -> StepSeconds:
        """Of a step as this one, where the device is behind; NaN where none is known: also where somebody else sums
        gradients, since what this member waits for others would count as its computing."""
        if self._clock is None:
            iteration = now - self._ended if self._ended is not None else 0.0
            known: Optional[StepSeconds] = StepSeconds(iteration, self._exchange_seconds, self._data_seconds)
        else:
            known = self._clock.ended((self._dealt, self.client.delivered.total))
        return known if known is not None and not self._by_loss else StepSeconds(math.nan, math.nan, math.nan)

    def drop(self) -> None:
        """Nothing of the step under way counts, and members may have come."""
        self._weighs = None
        self.start_epoch()
        self.progress = self.client.status().progress

    def restart_clock(self) -> None:
        """The next step begins now: what has gone by since the last one (an evaluation) is not part of it."""
        self._restart_host_clock(time.perf_counter())
        if self._clock is not None:
            self._clock.restart()

    def _restart_host_clock(self, now: float) -> None:
        self._ended = now
        self._data_seconds = self._exchange_seconds = 0.0
