"""The training loader: Torch's DataLoader, with batches that the run deals."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import logging
import multiprocessing
import operator
import os
import signal
import sys
import threading
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, default_collate

from . import structures as raw
from .client import Client, DynamixError
from .draws import Draws
from .leaving import outlive_exceptions, told
from .peers import Broken, Peers
from .pieces import Pieces
from .step import Step
from .stream import Stream

_log = logging.getLogger("dynamix")
_Sample = TypeVar("_Sample", covariant=True)
_PREFETCH_FACTOR = 2  # DataLoader's own
_PR_SET_PDEATHSIG = 1
_prctl: Any = getattr(ctypes.CDLL(None), "prctl", None)
_REFUSED = {
    "sampler": "the run deals the samples; leave the sampler (DistributedSampler) out, shuffle=False keeps their order; in place of "
               "WeightedRandomSampler(w, len(w)) give weights=w",
    "batch_sampler": "the run decides the batches; give batch_size",
}


def whole(name: str, value: Any, advice: str) -> int:
    """A number of 1 or more, also one of numpy's. Raises ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r} is not a whole number: {advice}") from None
    if isinstance(value, bool) or number < 1:
        raise ValueError(f"{name}={value!r}: {advice}")
    return number


def check(dataset: Any, fetch_ahead: Any, options: Any) -> None:
    """Refuses what cannot be dealt exactly once, with a message that says what to do instead."""
    if isinstance(dataset, IterableDataset) and not isinstance(dataset, Stream):
        raise NotImplementedError("an IterableDataset chooses its items by itself, so nobody can see to it that each is used "
                                  "once; give its shards, and what reads one of them: dynamix.Stream(files, read)")
    if isinstance(dataset, DataLoader):
        raise TypeError("run.loader makes the DataLoader: give the data set, run.loader(loader.dataset, batch_size=..., num_workers=...)")
    if isinstance(dataset, Stream):
        pass
    elif not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"the data set is a {type(dataset).__name__}, which needs __getitem__ and __len__")
    elif len(dataset) == 0:
        raise ValueError(f"the data set is empty: len() of this {type(dataset).__name__} is 0")
    for name, reason in _REFUSED.items():
        if options.pop(name, None) is not None:
            raise ValueError(f"run.loader({name}=...): {reason}")
    options.pop("in_order", None)  # samples are used in the order in which they are dealt
    if fetch_ahead not in (None, 0, 1):
        raise ValueError(f"fetch_ahead={fetch_ahead!r}: 0 or 1; what holds more batches than one cannot be followed")


def fetched_ahead(options: Any) -> int:
    """Batches that a DataLoader of these options fetches before they are dealt: its workers collate what can be cut into
    batches of another size. What a `collate_fn` of the script's own gives cannot be."""
    workers = max(0, options.get("num_workers", 0))
    is_plain = options.get("collate_fn") in (None, default_collate)
    return int(workers * (options.get("prefetch_factor") or _PREFETCH_FACTOR)) if is_plain else 0


class Dealt(Sampler[int]):
    """What a loop finds as `loader.sampler`: the run deals the samples, in another order each epoch by itself."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("the run deals the samples: iterate over the loader")

    def set_epoch(self, epoch: int) -> None:
        """Does nothing: the run knows which epoch it is."""


def check_accumulation() -> None:
    """Raises RuntimeError where accelerate accumulates gradients and nobody tells it which batch is an epoch's last: it would
    not step on those that are fewer, and what they have accumulated would be left to the next epoch."""
    module = sys.modules.get("accelerate.state")
    state = module.GradientState() if module is not None else None
    if state is not None and state.num_steps > 1 and state.active_dataloader is None:
        raise RuntimeError(f"accelerate accumulates {state.num_steps} batches, and would lose an epoch's last ones where they are "
                           "fewer: take the Accelerator of dynamix.integrations.accelerate in place of accelerate's own")


class Batches:
    """The DataLoader's batch sampler. Where the DataLoader's workers `fetch` pieces (`Pieces`), they do so as far as the run
    has leased samples to this member, and a batch is dealt when the training loop asks for it. Else a batch is dealt when it
    is fetched, and new batch sizes come behind those that were."""

    def __init__(self, client: Client, step: Step, samples: int, ahead: int, is_stream: bool,
                 draws: Optional[Draws] = None) -> None:
        self._client = client
        self._step = step
        self._is_stream = is_stream
        self._draws = draws  # of samples by weight
        self.ahead = ahead  # pieces that are fetched before they are dealt
        self.fetching: Deque[int] = collections.deque()  # samples of each piece that is under way
        self.stands_in = False  # the next piece is of one sample that does not count
        self.goes_on = False  # the next iterator is of the epoch that stands open
        self.turn = 0  # of the newest epoch; the iterators of older ones are over
        self.sampler = Dealt(samples)

    def __len__(self) -> int:
        return self._client.epoch_steps()

    def __iter__(self) -> Iterator[List[Any]]:
        # Nothing begins before the first item is asked for: DataLoader's iterators make two of these, and use one.
        return _Fetching(self) if self.ahead > 0 else self._dealt()

    def start(self) -> int:
        """Returns the turn of the epoch that begins, or goes on."""
        if not self.goes_on:
            with contextlib.suppress(Broken):
                self._step.read_rows()  # of gradients that nobody has stepped by
            self._client.start_epoch()
            notes = self._step.peers.notes
            if notes is not None:
                notes.begin_epoch(self._client.status().epoch)
        self.goes_on = self.stands_in = False
        self.fetching.clear()
        self._step.start_epoch()
        self.turn += 1
        return self.turn

    def check_turn(self, turn: int) -> None:
        if turn != self.turn:
            raise RuntimeError("this iterator's epoch is over: a newer iterator of the same loader has begun, or a state was loaded since; "
                               "load the state before iter(loader)")

    def deal(self) -> bool:
        """Deals the next batch. False: there is none. Raises Broken where that is not known."""
        while True:
            code = self._client.deal()
            if code != raw.WAIT:
                return code == raw.OK
            if self._step.peers.broken:  # the rows do not come any more
                raise Broken(self._step.peers.broken)
            self._step.read_rows()

    def _dealt(self) -> Iterator[List[Any]]:
        turn = self.start()
        while self.deal():
            yield self.items()
            self.check_turn(turn)

    def next_piece(self, turn: int) -> List[Any]:
        """Raises StopIteration where none is leased; the next deal may change that."""
        if turn != self.turn:
            raise StopIteration
        if self.stands_in:
            self.stands_in = False
        elif self._client.fetch() != raw.OK:
            raise StopIteration
        self.fetching.append(self._client.dealt.own)
        return self.items()

    def items(self) -> List[Any]:
        """What was fetched or dealt last, for the data set."""
        dealt = self._client.dealt
        if self._is_stream:
            items: List[Any] = [(dealt.epoch, shard, item) for shard, first, last in self._client.ranges()
                                for item in range(first, last)]
        elif self._step.costs is not None:
            peers = self._step.peers
            return self._step.costs.samples_of(dealt, self._client.shares(peers.size), peers.position)
        else:
            items = self._client.samples()
            if self._draws is not None:
                items = self._draws.samples_of(dealt.epoch, items)
        # No batch can be empty. Twice the same sample, since batch norm needs two values; they are not counted.
        return items * 2 if dealt.padded else items


class _Fetching(Iterator[List[Any]]):
    """Of one epoch. It may have nothing now and more later, which no generator can."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._turn: Optional[int] = None

    def __next__(self) -> List[Any]:
        if self._turn is None:
            self._turn = self._batches.start()
        return self._batches.next_piece(self._turn)


def _end_with_member() -> None:
    member = multiprocessing.parent_process()
    if member is not None:
        member.join()
        os._exit(1)


class WorkerStart:
    """The start of a DataLoader's worker, in front of the script's own: it ends with its member.

    Torch's watchdog in the worker looks whether its parent is still the one that it had when the watchdog began. A
    worker whose member dies before that would take whoever has adopted it for its member, and wait for good; one of a
    server of forks, which is its parent, always would.
    """

    def __init__(self, peers: Peers, then: Optional[Callable[[int], None]]) -> None:
        self._close_inherited: Optional[Callable[[], None]] = peers.close_inherited if peers.elastic else None
        self._then = then
        self._member: Optional[int] = os.getpid()
        # The signal comes when the thread ends that forked.
        self._signalled = _prctl is not None and threading.current_thread() is threading.main_thread()

    def __getstate__(self) -> Dict[str, Any]:
        # A worker that is not forked by its member has inherited nothing.
        return {**vars(self), "_close_inherited": None, "_member": None}

    def __call__(self, worker: int) -> None:
        if self._member is None:
            threading.Thread(target=_end_with_member, daemon=True).start()
        else:
            if self._signalled:
                _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._member:  # it died before
                os._exit(1)
        if self._close_inherited is not None:
            self._close_inherited()
        if self._then is not None:
            self._then(worker)


class _Epoch(Iterator[Any]):
    """What a loop iterates over. Behind an error of the data set's a generator would end as an epoch does."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._problem = ""

    def __next__(self) -> Any:
        if self._problem:
            raise RuntimeError(f"this iterator has ended with an error, and not with its epoch ({self._problem}): catch errors in the data set's "
                               "own __getitem__, or begin a new iterator")
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except Exception as problem:
            self._problem = told(problem)
            raise


class Loader(DataLoader[_Sample]):
    """A DataLoader whose batches are those of a run. `len()` is the number of steps that an epoch has at the present batch
    sizes."""

    #: accelerate's `prepare` would deal the batches out to the processes once more.
    _is_accelerate_prepared = True

    def __init__(self, dataset: Dataset[_Sample], batches: Batches, client: Client, step: Step, batch_size: int,
                 fetch_ahead: int, **options: Any) -> None:
        self._client = client
        self._step = step
        self._fetch_ahead = fetch_ahead
        self._held = 0  # batches that a framework has, and has not trained on as far as it is known
        self._batches = batches
        self._given = batch_size
        self._at_work: Optional[object] = None  # the newest iterator, as long as it is at work
        self._is_handed_over = False  # the training loop goes on behind the end of the newest iterator
        self._moved = False  # the group was formed anew: what was fetched is not dealt any more
        self.is_within_epoch = False  # one was begun, and its end has not been seen
        self.is_over = False  # the others have ended the training without this member
        self._is_collated_apart = options.get("collate_fn") not in (None, default_collate) and step.costs is None
        whole: Any = dataset
        self._length: Optional[int] = len(whole) if not isinstance(dataset, IterableDataset) else None  # None: nobody looks
        super().__init__(dataset, batch_sampler=batches, **options)
        vars(self)["sampler"] = batches.sampler  # DataLoader makes one that knows no set_epoch

    @property
    def batch_size(self) -> Optional[int]:
        """This worker's in the step that is completed next; once the run is closed, the one that was given."""
        try:
            return int(self._client.status().batch)
        except DynamixError:
            return self._given

    @batch_size.setter
    def batch_size(self, value: Optional[int]) -> None:
        """DataLoader sets None, and refuses to set anything later."""

    def set_epoch(self, epoch: int) -> None:
        """Does nothing: the run knows which epoch it is."""

    def __len__(self) -> int:
        return len(self._batches)

    def end_iterators(self) -> None:
        """A state is loaded: what iterators have fetched by now is not dealt behind it."""
        self._batches.turn += 1

    def deal_again(self) -> None:
        """What was fetched ahead is dropped; an epoch that is under way goes on with what the run deals now."""
        self._moved = self.is_in_loop

    @property
    def is_in_loop(self) -> bool:
        """An iterator is at work."""
        return self._at_work is not None

    def _look_at_length(self) -> None:
        """Tells once where the data set has grown or shrunk behind `run.loader`, which DataLoader's own samplers would follow."""
        data: Any = self.dataset
        length = len(data) if self._length is not None else None
        if length != self._length and self._step.peers.position == 0:
            _log.warning("the data set has %s samples, and had %s when run.loader was made, which are those that are dealt: run.close(again=True), and "
                         "join again with what it has now", length, self._length)
            self._length = None

    def __iter__(self) -> Any:
        check_accumulation()
        self._look_at_length()
        began = self._step.fetching()
        source = self._fetch()
        return _Epoch(self._deliver(source, self._batches.turn, began))

    def _fetch(self) -> Iterator[Any]:
        """Torch's own iterator, which starts its workers where they do not live yet."""
        given = self.worker_init_fn
        self.worker_init_fn = WorkerStart(self._step.peers, given)
        try:
            return super().__iter__()
        finally:
            self.worker_init_fn = given

    def _next(self, source: Any, turn: int, pieces: Pieces) -> Any:
        """The next batch, dealt now, out of pieces. Raises StopIteration behind the last one."""
        batches = self._batches
        batches.check_turn(turn)
        if not batches.deal():
            if not batches.fetching:
                next(source, None)  # it sees that nothing follows
            raise StopIteration
        own = self._client.dealt.own
        # A stand-in is the next piece that torch asks for, whenever it does: nothing else is fetched until then, so that what was
        # dealt last is the stand-in still. It comes behind the pieces that are under way now.
        batches.stands_in = own == 0
        before = len(batches.fetching) if own == 0 else 0
        self._keep_fetching(source)
        while before > 0 or pieces.samples < own:
            piece = self._next_piece(source)
            pieces.add(piece, batches.fetching.popleft())
            before -= 1
        if own > 0:
            return pieces.take(own)
        stand_in = self._next_piece(source)
        batches.fetching.popleft()
        return stand_in

    @staticmethod
    def _next_piece(source: Any) -> Any:
        try:
            return next(source)
        except StopIteration:
            raise RuntimeError("the DataLoader ended before what it was dealt was fetched") from None

    def _keep_fetching(self, source: Any) -> None:
        """Torch's iterator asks for as many pieces as it has given, which may be too few once a deal has leased more."""
        fetching, before = self._batches.fetching, -1
        while before < len(fetching) < self._batches.ahead:
            before = len(fetching)
            source._try_put_index()

    def _deliver(self, source: Iterator[Any], turn: int, began: Any) -> Iterator[Any]:
        """Hands the batches on, and tells the run which one is with the training loop: each behind those that a framework
        has fetched before it and not trained on.

        Where a loop steps once for several batches, and the group breaks between them, it is given the last one again until
        it steps: that step is dropped, and then its samples are dealt again."""
        step = self._step
        self._held = again = 0
        batch: Any = None
        pieces = Pieces()
        mine = self._at_work = object()
        dealt_in = -1  # turn of the batch at hand
        self._moved = self._is_handed_over = False
        self.is_within_epoch = True
        outlive_exceptions()
        try:
            while True:
                if self.is_over:
                    self.is_within_epoch = False
                    return
                if self._moved:
                    self._moved, self._batches.goes_on = False, True
                    del source  # before its workers' successors
                    source, pieces, again = self._fetch(), Pieces(), 0
                    turn = self._batches.turn
                if self._is_dropped() and again < len(self):
                    again, dealt_in = again + 1, self._batches.turn
                    yield batch
                    began = step.fetching()
                    continue
                try:
                    batch = self._next(source, turn, pieces) if self._batches.ahead > 0 else next(source)
                except Broken:
                    continue
                except StopIteration:
                    if self._is_dropped(at_end=True) and again < len(self):
                        continue
                    self._take_held()
                    self.is_within_epoch = False
                    return
                if self._held < self._fetch_ahead:
                    self._held += 1
                else:
                    if step.opened and not step.peers.elastic:
                        step.hold_back(functools.partial(self._take_and_look, batch))
                    else:
                        self._take_and_look(batch)
                step.fetched(began, batch)
                dealt_in = self._batches.turn
                yield batch
                began = step.fetching()
        except GeneratorExit:  # a `break`; the next epoch has not begun yet
            if self._at_work is mine and dealt_in == self._batches.turn:
                self._leave_epoch()
            raise
        finally:
            if self._at_work is mine:  # an older one may end behind its successor's beginning
                self._at_work = None

    def _is_dropped(self, at_end: bool = False) -> bool:
        """Whether the step that batches were taken for cannot be completed. `at_end` of an epoch this is settled: what the
        others have said so far is waited for."""
        step = self._step
        if at_end and step.taken and step.peers.elastic:
            try:
                step.read_rows()
            except Broken:
                pass
        return bool(step.taken and step.peers.broken)

    def _leave_epoch(self) -> None:
        """The training loop was left amid it."""
        try:
            self._client.leave_epoch(0)
        except DynamixError:  # the run is closed, or another process's
            return
        notes = self._step.peers.notes
        if notes is not None and not self._is_handed_over:
            notes.break_off()

    def hand_over(self) -> None:
        """No more is fetched in this epoch, which ends here: the training loop goes on with what was fetched ahead."""
        self._take_held()
        self._is_handed_over = True
        self._client.leave_epoch(self._step.taken)

    def _take_held(self) -> None:
        self._step.settle()
        for _ in range(self._held):
            self._take()
        self._held = 0

    def _take_and_look(self, batch: Any) -> None:
        taken = self._take()
        if self._is_collated_apart and self._fetch_ahead == 0:
            self._step.see_rows(batch, taken.own)

    def _take(self) -> raw.Deal:
        taken = self._client.deliver()
        self._step.take(taken)
        return taken
