"""The run that `dynamix.join` returns."""
from __future__ import annotations

import ctypes
import logging
import math
import multiprocessing
import operator
import os
import threading
import weakref
from typing import Any, Dict, List, Optional, Sequence, TypeVar, Union

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils.data import Dataset

from . import agent as agents
from . import structures as raw
from .batch import rows_of
from .client import JOINS_AGAIN, Client, DynamixError
from .contents import check_contents
from .cost import Costs, costs_of
from .ddp import Hook, register
from .device_clock import clock_of
from .draws import Draws
from .elastic import Members
from .equality import Equality
from .finite import Finite, check_agreed
from .flat_shards import collectives_of, is_sharded
from .gradients import average, unwrapped, warn_of_rule, warn_of_times
from .joined import gather
from .leaving import ANOTHER_ENDED, LEFT, close_at_exit, told
from .loader import Batches, Loader, check, fetched_ahead, whole
from .memory import Guard, Loss, Weight
from .optimizer import Round, Schedule, Swap, refuse_others, swap_optimizer, swap_scaler, warn_of_unknown_kind
from .peers import Broken, Peers
from .sharded import Collectives
from .status import Status, status_of
from .step import Calls, Step
from .stepping import Stepping
from .stream import Reader, Stream, identity_of, lengths_of

_log = logging.getLogger("dynamix")
_Sample = TypeVar("_Sample", covariant=True)
_STATE_VERSION = 2
_VERSIONS_READ = (1, 2)  # the first has its words in a tensor
_LATE_SECONDS = 30  # behind which a wait for others is told of
_MEETING_SECONDS = 60
_MEETING_SECONDS_AT_EXIT = 1.5  # whoever waits in a collective of the script's for this process need not do so for long


class Run(Stepping):
    """A training run among the processes of a group. Made by `join`."""

    def __init__(self, model: torch.nn.Module, optimizers: List[Optimizer], schedulers: Sequence[Any], rule: Optional[str],
                 agent: agents.Agent, scaler: Any, peers: Peers, by_loss: bool, options: Dict[str, Any],
                 is_kind_unknown: bool, finite: Optional[Finite]) -> None:
        self._called = model  # by the script
        self._model = model = unwrapped(model)
        self._optimizers = optimizers
        self._is_kind_unknown = is_kind_unknown  # of the optimisers: adaptive or not
        self._rule = rule
        self._agent = agent
        self._scaler = scaler
        self._finite = finite
        self._peers = peers
        self._options = options
        self._client: Optional[Client] = None
        self._hosted: Optional[agents.Hosted] = None
        self._step: Optional[Step] = None
        self._loader: Optional[Loader[Any]] = None
        self._draws: Optional[Draws] = None
        self._costs: Optional[Costs] = None
        self._state: Optional[Dict[str, Any]] = None
        self._guard: Optional[Guard] = None
        self._equality: Optional[Equality] = None
        self._call_hook: Any = None
        self._alignment = None  # of an elastic run
        self._process = os.getpid()
        self._linked = self._closed = self._warned = False
        self._meeting_seconds: float = _MEETING_SECONDS
        self._by_loss = by_loss
        self._distributed = by_loss or is_sharded(model) or isinstance(model, DistributedDataParallel)  # somebody else sums gradients
        self._hook: Union[Hook, Collectives, None] = None
        self._round = Round(self, len(optimizers))
        self._swaps: List[Union[Swap, Schedule]] = []
        self._schedules: List[Schedule] = []
        self._others: Any = None
        try:
            self._take(schedulers)
        except BaseException:  # the script may mend what was refused, and join again
            self.close("join was refused", succeeded=False)
            raise
        close_at_exit(self)

    def _take(self, schedulers: Sequence[Any]) -> None:
        """Connects to the agent, and takes what the script has given."""
        model = self._model
        if self._agent is not None:
            self._open(agents.find(self._agent, self._peers))
        if isinstance(model, DistributedDataParallel) and not self._by_loss:
            self._hook = register(model, self._peers)
        elif is_sharded(model) and not self._by_loss:
            self._hook = collectives_of(model, self._peers)
        for number, optimizer in enumerate(self._optimizers):
            self._swaps.append(swap_optimizer(optimizer, self._round, number))
        reference = weakref.ref(self)
        self._others = refuse_others(self._optimizers, model, self._round, lambda: (found := reference()) is not None and found.trains)
        if self._scaler is not None:
            self._swaps.append(swap_scaler(self._scaler, self))
        for scheduler in schedulers:
            self._schedules.append(Schedule(scheduler, self))
            self._swaps.append(self._schedules[-1])

    def _open(self, path: str) -> None:
        """Connects to the agent. Raises on all members where one cannot."""
        problem = None
        self._linked = bool(path)
        before = os.sched_getaffinity(0)
        try:
            self._client = Client(self._peers.position, self._peers.size, path)
        except DynamixError as error:
            problem = str(error)
        cpus = os.sched_getaffinity(0)  # the agent of several workers gives each its part of the machine
        if cpus != before and torch.get_num_threads() > len(cpus):
            torch.set_num_threads(len(cpus))
        # Members of an elastic run come one by one.
        said = self._peers.gather_objects(problem) if not self._peers.elastic else [problem]
        problems = [f"member {member}: {text}" for member, text in enumerate(said) if text]
        if problems:
            if self._client is not None:
                self._client.close()
                self._client = None
            raise DynamixError("; ".join(problems))

    # Data

    def loader(self, dataset: Dataset[_Sample], batch_size: int = 1, shuffle: bool = True, *, seed: int = 0,
               weights: Any = None, budget: Optional[int] = None, cost: Any = None, grouped: bool = True,
               drop_last: bool = False, lowest_batch: Optional[int] = None, highest_batch: Optional[int] = None,
               fetch_ahead: Optional[int] = None, **options: Any) -> Loader[_Sample]:
        """The training loader of this run; one a run, made by all members at the same place.

        Instead of `DataLoader(dataset, batch_size, sampler=DistributedSampler(dataset), ...)`: deals each sample once an epoch.

        Args:
            dataset: map-style, the same on all members; or a `dynamix.Stream`, of which `shuffle` shuffles the shards.
            batch_size: samples of this worker a step until decided otherwise, 1 to 2**20; may differ between members. Where agents
                decide by the noise scale, adascale and square-root begin with a quarter of it, or `lowest_batch`.
            shuffle: a new permutation each epoch (as DistributedSampler does), or the samples in their order.
            seed: of the permutations; that of member 0 counts.
            weights: one a sample: each epoch draws as many samples as there are, by weight and with replacement, as
                WeightedRandomSampler(weights, len(weights)) does. The same on all members; the draws follow from `seed`.
            budget, cost: in place of `batch_size`: the cost of this worker's samples per step at the start, and the cost of each sample
                (its tokens, say), above 0 and the same on all members. The mean is over their cost, unless the script calls `weight`.
                Batch sizes, their bounds and `status` are then costs, too.
            grouped: samples of a step are alike in cost, for batches that are padded. False: mixed, and shared out more evenly.
            drop_last: drops an epoch's last step where the samples do not fill all batches. There must be one that they fill;
                where batches grow beyond the data set later, an epoch has one step all the same.
            lowest_batch, highest_batch: within which decisions may move this worker's batch size. By default the
                agent's; for agents that the run starts itself, an eighth and the fourfold of `batch_size`.
            fetch_ahead: batches that a framework takes before it has trained on the one at hand, 0 or 1. None: 0, and a
                step that took more batches than it called the model is refused.
            options: DataLoader's own (num_workers, collate_fn, pin_memory, prefetch_factor, persistent_workers, ...).

        Raises ValueError, TypeError or NotImplementedError for what cannot be dealt, DynamixError where members do not fit together.
        """
        self._must_be_open()
        if self._loader is not None:
            raise RuntimeError("this run has its training loader; use a plain DataLoader for other data")
        check(dataset, fetch_ahead, options)
        batch_size = whole("batch_size", batch_size, "give the samples of this worker a step, 1 or more")
        lowest_batch, highest_batch = (whole(name, bound, "give a number of samples, 1 or more") if bound else None
                                       for name, bound in (("lowest_batch", lowest_batch), ("highest_batch", highest_batch)))
        seed = operator.index(seed)
        if self._peers.elastic and fetch_ahead:
            raise NotImplementedError("an elastic run has a loop that fetches no batch ahead of training")
        source: Any = dataset
        shards: Dict[str, Any] = {}  # of a stream
        if budget is not None or cost is not None:
            self._costs = costs = costs_of(source, budget, cost, seed, shuffle, grouped, batch_size != 1 or weights is not None, self._peers)
            batch_size, shuffle = costs.batch, False  # of the units; the line is shuffled
            lowest_batch, highest_batch = costs.units_of(lowest_batch), costs.units_of(highest_batch)
        if weights is not None:
            if isinstance(dataset, Stream):
                raise NotImplementedError("weights=... and a Stream, whose items cannot be drawn one by one")
            self._draws = Draws(weights, len(source), seed)
            if not self._peers.elastic:
                self._draws.agree(self._peers)
        check_contents(dataset, self._peers)
        if isinstance(dataset, Stream):
            identity = identity_of(dataset)
            lengths = lengths_of(dataset, identity, self._peers)
            source = Reader(dataset, lengths)
            shards = {"lengths": (ctypes.c_uint64 * len(lengths))(*lengths), "shards": len(lengths), "identity": identity,
                      "lanes": options.get("num_workers", 0)}
        if weights is not None:
            shuffle = False  # draws come in no order
        ahead = fetched_ahead(options) if self._costs is None else 0
        workload = raw.Workload(batch=batch_size, samples=len(source) if self._costs is None else self._costs.units, seed=seed, shuffle=shuffle,
                                drop_last=drop_last, lowest_batch=lowest_batch or 0, highest_batch=highest_batch or 0,
                                rule=raw.RULES[self._rule], ahead=ahead, **shards, **self._options)
        if self._agent is None:
            self._host(batch_size, lowest_batch or max(1, batch_size // 8), highest_batch or 4 * batch_size)
        assert self._client is not None
        self._step = Step(self._client, self._peers, self._scaler, clock_of(self._model), self._by_loss, self._finite)
        self._step.costs, self._step.buffers, self._step.leaves = self._costs, self._model.buffers, self._model.parameters
        self._step.loads_rows = all(parameter.device.type == "cpu" for parameter in self._model.parameters())
        if isinstance(self._peers, Members):
            self._join_members(self._peers, workload)
        else:
            self._introduce(workload)
            if self._peers.notes is not None:
                client, run = self._client, weakref.ref(self)  # who reads the notes keeps no run alive
                self._peers.notes.steps_done = lambda: int(client.status().step)
                self._peers.notes.is_within_step = lambda: (found := run()) is not None and found.is_within_step
            rows, choices, loads = zip(*self._peers.gather_objects((self._step.loads_rows, self.nan, self._state is not None)))
            check_agreed(choices)
            if len(set(loads)) > 1:
                raise DynamixError(f"member {loads.index(True)} has loaded a state, and member {loads.index(False)} has not: call "
                                   "run.load_state_dict(state) on all members, with the same state")
            self._step.loads_rows = all(rows)
        device = next((parameter.device for parameter in self._model.parameters()), torch.device("cpu"))
        agents.check_gpu(self._client.status().gpu - 1, device)
        if self._hook is not None:
            self._hook.step = self._step
        if isinstance(self._hook, Collectives):
            self._step.replicas = self._hook.replicas
        if self._state is not None and not self.came_in:
            self._load(self._state)
        reference = weakref.ref(self)
        self._step.leave_out = lambda in_time: (found := reference()) is not None and found._leave_out_unmade(in_time)
        self._step.calls, self._step.checks_calls = Calls(self._step.begin_pass), fetch_ahead is None
        self._call_hook = self._called.register_forward_pre_hook(self._step.calls)
        if self._peers.size > 1 and not self._by_loss and not is_sharded(self._model):
            self._equality = Equality(self._model, self._peers)
        batches = Batches(self._client, self._step, len(source), ahead, bool(shards), self._draws)
        self._loader = Loader(source, batches, self._client, self._step, batch_size, fetch_ahead or 0, **options)
        return self._loader

    def _host(self, initial: int, lowest: int, highest: int) -> None:
        settings: Dict[str, object] = {"batch.initial": initial, "batch.lowest": lowest, "batch.highest": highest}
        self._hosted = agents.Hosted(self._peers, settings)
        self._open(self._hosted.socket(self._peers.position))

    def _introduce(self, workload: raw.Workload) -> torch.Tensor:
        assert self._client is not None
        row, is_first = torch.zeros(raw.INTRODUCTION_COLUMNS, dtype=torch.int64, device="cpu"), self._peers.position == 0
        self._client.introduce(workload, row.data_ptr())
        rows = self._peers.introductions(row)
        is_adascale = int(rows[0, raw.RULE_COLUMN]) == raw.RULES["adascale"]
        if self._by_loss and is_adascale:  # as the agents say; `join` has refused it from the script
            workload.rule = raw.RULES["square-root"]
            self._client.introduce(workload, row.data_ptr())
            rows = self._peers.gather(row).wait()
        self._client.begin(rows.data_ptr())
        if self._by_loss and is_adascale and is_first:
            warn_of_rule()
        elif is_adascale and self._is_kind_unknown and is_first:
            warn_of_unknown_kind(self._optimizers)
        if self._by_loss and self._linked and is_first:
            warn_of_times()
        return rows

    # Steps

    def weight(self, items: float) -> None:
        """The loss of this step is a mean over `items` items that are not samples: tokens, targets that are not ignored. 0 is allowed.
        To be called on all members in each step (or never), once, before its backward pass."""
        step = self._ready()
        try:
            step.weigh(items)
        except Broken:  # the optimiser's step is dropped
            pass

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """With `weighting="loss"`, in each step and on all members: `run.scale(loss).backward()`. The plain mean of the members'
        gradients is then that of the joined batch. One batch per step; a loss over no items that is NaN stays so."""
        if not self._by_loss:
            raise RuntimeError("run.scale() is for dynamix.join(..., weighting=\"loss\"); gradients are weighted already")
        return self._ready().scale_loss(loss)

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """The members' tensors, one after the other in the order of their positions: of features for a contrastive loss, of
        outputs for a metric. On all members; in a backward pass, too, or on none.

        Args:
            tensor: of shape (samples of this member, ...); the numbers of samples may differ, the rest may not.

        Returns a tensor of shape (samples of all members, ...), the same on all: exactly the joined batch, without what stands in
        for an empty one. It is differentiable: a loss over it, or a mean over a member's own rows of it, has the gradient of the
        joined batch once gradients are averaged. Where the group of an elastic run breaks, the own tensor: the step is dropped.
        """
        step = self._ready()
        step.settle()
        return gather(tensor, step, self._peers)

    def average_gradients(self) -> None:
        """Replaces the gradients by their mean over the joined batch: for models without DistributedDataParallel, between
        backward and the optimiser's step (or clipping), on all members."""
        if self._distributed:
            raise RuntimeError("this model's gradients are averaged already")
        parameters = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        step = self._ready()
        try:
            average(parameters, step, self._peers)
        except Broken:  # the optimiser's step is dropped
            pass

    def backward(self, loss_of: Loss, *batch: Any, weight_of: Optional[Weight] = None, micro_batch: int = 0) -> torch.Tensor:
        """Forward and backward pass of a batch, which outlives a lack of memory: in place of `optimizer.zero_grad()`,
        `loss = loss_of(*batch)` and `loss.backward()`. Once a step.

        Where memory does not hold the batch, its gradients are dropped, this worker's limit (`limit_batch`) becomes half
        of what was tried, a warning says so, and the batch is trained in parts whose gradients are accumulated with their
        share of it. From then on larger batches are trained in parts at once. Nothing is exchanged before all parts are
        done, so gradients are not exchanged while backward runs, and other workers wait meanwhile.

        Layers that look at the whole batch (batch norm) see the parts, and random ones draw anew for each.

        Args:
            loss_of: gives the mean loss over the samples of `batch`, of no dimensions; called once a part.
            batch: tensors whose rows are the samples, and lists, tuples and mappings of them. What has other rows than the
                first tensor is given to each part whole.
            weight_of: the loss is a mean over so many items of `batch` instead of samples (see `weight`), on all members.
            micro_batch: rows of a part at most, on this member: a fast one has more parts than a slow one, and all have one sum.

        Returns the mean loss, detached. Raises the error of a sample that memory does not hold, ValueError and NotImplementedError.
        """
        micro_batch = whole("micro_batch", micro_batch, "give the rows of a part, 1 or more") if micro_batch else 0
        step = self._ready()
        if self._by_loss:
            raise NotImplementedError("run.backward() with weighting=\"loss\": use a smaller batch_size or highest_batch")
        if self._guard is None:
            self._guard = Guard(self._model, step, self._scaler)
        loss = self._guard.backward(loss_of, batch, weight_of, micro_batch)
        step.note_loss(loss)
        return loss

    def find_batch(self, loss_of: Loss, *batch: Any, highest: int = 0) -> int:
        """The largest batch that this worker's memory holds, by at most five trials: gradients of `batch` repeated to other numbers
        of rows, with the optimiser's state there. Nothing is exchanged or kept. Decisions stay below; `backward` makes parts of more.
        Args:
            loss_of, batch: as `backward` takes them. Of a run that deals by cost, the batch at hand.
            highest: rows that nobody wants more than; 0: eight times those of `batch`.
        Returns the rows, a tenth of a GPU's memory, or a quarter of the host's, left as a margin. Raises MemoryError where it does not hold one.
        """
        step = self._ready()
        if self._by_loss or (self._costs is not None and not step.counted):
            raise NotImplementedError("run.find_batch() goes without weighting=\"loss\", and with cost=... it takes the batch at hand")
        if self._guard is None:
            self._guard = Guard(self._model, step, self._scaler)
        found = self._guard.find(loss_of, batch, self._optimizers, highest or 8 * rows_of(batch))
        step.restart_clock()
        return found

    def report(self, loss: Optional[Any] = None, correct: Optional[int] = None) -> None:
        """What this worker's batch of the present step showed, for reports and policies. Call it before the optimiser's
        step, as often as is convenient: of each micro-batch, where a step has several. A loss that passes through `scale`, `backward`
        or an optimiser's closure is known.

        Args:
            loss: mean over the batch. Reading a tensor waits for its device.
            correct: how many samples of the batch were classified correctly.
        """
        step = self._ready()
        step.settle()
        if step.newest > 0:
            step.report(None if loss is None else float(loss.detach() if isinstance(loss, torch.Tensor) else loss),
                        None if correct is None else float(correct))

    def evaluated(self, *, accuracy: float = -1.0, test_loss: float = math.nan, train_loss: float = math.nan) -> None:
        """The model was evaluated, on all members; that of member 0 counts. Accuracy 0 to 1, losses of any sign; leave out what is
        not known."""
        step = self._ready()
        if self._peers.position == 0:
            step.client.evaluated(train_loss, test_loss, accuracy)
        step.restart_clock()

    def limit_batch(self, samples: int) -> None:
        """From now on this worker takes no decision above so many samples: its memory does not hold more. Before `load_state_dict`
        no step has more."""
        samples = whole("samples", samples, "this worker cannot be limited to less than 1")
        self._ready().client.limit_batch(samples if self._costs is None else self._costs.units_of(samples))

    @property
    def counted(self) -> int:
        """Samples of the batch at hand that count: 0 where the epoch had none left for this worker, which has a stand-in. Of several
        micro-batches in a step: of the newest."""
        step = self._ready()
        step.settle()
        return step.newest

    @property
    def taken(self) -> int:
        """Batches that the training loop has taken for the step at hand."""
        step = self._ready()
        step.settle()
        return step.taken

    @property
    def share(self) -> float:
        """This worker's part of the joined batch, as far as the loop has taken it: what its mean loss counts for in that of all."""
        return self._ready().share() or 0.0

    def weigh_micro_batches(self) -> None:
        """From now on somebody weights the losses of micro-batches by their samples, so that they are not taken for alike."""
        self._ready().weighs_micro_batches = True

    def scale_gradients(self, factor: float) -> None:
        """Multiplies what this worker has accumulated, before its last backward pass of a step. `dynamix.integrations` does
        that, where a framework has divided its losses by another number than that of the step's micro-batches."""
        for parameter in self._model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    @property
    def progress(self) -> float:
        """Steps of the base batch that training has made, by the learning-rate rule: what schedules advance by."""
        return self._step.progress if self._step is not None else 0.0

    # State

    @property
    def came_in(self) -> bool:
        """This process has come into an elastic training that was under way, and has the state of the others."""
        return self._alignment is not None and self._alignment.came_in

    @property
    def epoch(self) -> int:
        """The epoch of the next step, from 0: `for epoch in range(run.epoch, epochs)` goes on where a checkpoint was written."""
        return self.status.epoch

    @property
    def status(self) -> Status:
        """Where the run stands now."""
        return status_of(self._ready().client, self._peers.size, self._is_over, 1 if self._costs is None else self._costs.unit)

    def state_dict(self) -> Dict[str, Any]:
        """The state after the last completed step, the same on all members, however much has been fetched ahead: for
        checkpoints, beside those of model and optimiser."""
        # Bytes: torch.distributed.checkpoint loads a tensor into one of the same size alone, and that follows the number of members.
        words = bytes(self._ready().client.save())
        state: Dict[str, Any] = {"version": _STATE_VERSION, "words": words, "schedules": [schedule.steps for schedule in self._schedules]}
        if self._draws is not None:
            state["weights"] = self._draws.state()
        if self._costs is not None:
            state["cost"] = self._costs.state()
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continues from `state_dict()`, also of another number of members. On all members, before the first epoch."""
        self._must_be_open()
        if "words" not in state or "schedules" not in state:
            raise ValueError("this is not what run.state_dict() has given: load that part of the checkpoint")
        if state.get("version") not in _VERSIONS_READ:
            raise ValueError(f"this state has version {state.get('version')!r}; this package reads up to {_STATE_VERSION}")
        if len(state["schedules"]) != len(self._schedules):
            raise ValueError(f"this state is of a run with {len(state['schedules'])} schedulers; this one has {len(self._schedules)}")
        if self._step is None:
            self._state = state  # until the loader is there
        else:
            self._load(state)

    def _load(self, state: Dict[str, Any]) -> None:
        if self.came_in:
            raise RuntimeError("this member has come into a training that is under way and has its state; load a checkpoint, "
                               "the model's included, only after run.loader() and `if not run.came_in`")
        late = threading.Timer(_LATE_SECONDS, _log.warning, ("member %d has waited for the others in run.load_state_dict() for %g s: it is called "
                                                             "on all members", self._peers.position, _LATE_SECONDS))
        late.daemon = True
        late.start()
        try:
            if self._peers.notes is not None:
                self._peers.notes.meet_to_load()
            limits = self._peers.gather_objects(self._ready().client.limit)
        finally:
            late.cancel()
        self.restore(state, [limit or 0 for limit in limits])
        if self._loader is not None:
            self._loader.end_iterators()

    def regroup(self, present: Sequence[bool]) -> None:
        """Goes on behind the last completed step with the members that are present."""
        assert self._client is not None
        self._client.regroup(present)

    def restore(self, state: Dict[str, Any], limits: Optional[Sequence[int]] = None) -> None:
        """Goes on from a state in the middle of a training: as a member of an elastic run that comes into it (`limits`: None), or
        from a checkpoint, within each member's limit (0: none)."""
        step = self._step
        assert step is not None
        words = state["words"]
        if isinstance(words, torch.Tensor):
            words = words.to(torch.int64).cpu().numpy().tobytes()
        if self._draws is not None:
            self._draws.restore(state.get("weights"))
        elif "weights" in state:
            raise ValueError("this state is of samples that were drawn by weight: give the same weights=...")
        if self._costs is not None:
            self._costs.restore(state.get("cost"))
        elif "cost" in state:
            raise ValueError("this state is of samples that were dealt by cost: give the same budget=... and cost=...")
        if limits is None:
            step.client.catch_up(bytearray(words))
        else:
            step.client.restore(bytearray(words), limits)
        step.progress = step.client.status().progress
        for schedule, steps in zip(self._schedules, state["schedules"]):
            schedule.restore(int(steps), self.steps_made)

    # The end

    def close(self, reason: str = "completed", *, succeeded: bool = True, again: bool = False) -> None:
        """Training is over: tells the agent, and gives optimiser and schedulers back as they were. A second time: does nothing.

        On all members; they wait up to a minute for each other. Where one has ended before it came here, training counts as
        failed, so that the agents wait for the group's next start. So they do with `again`: this process joins once more, with
        another model or optimiser say.
        """
        self.close_now(reason, succeeded, again)

    def close_now(self, reason: str, succeeded: bool, again: bool = False, at_exit: bool = False, rests: bool = False) -> None:
        """`at_exit`: of the interpreter, so that this process takes part in nothing more. In mid-epoch it has left then. `rests`: of a training
        by a framework, behind which another may begin; the agent learns with the interpreter's end whether one did."""
        if self._closed or self._process != os.getpid():  # a forked child's end is not its parent's
            return
        leaves = at_exit and self.is_within_epoch
        if isinstance(self._peers, Members) and self._alignment is not None and self._alignment.rows is not None:
            if leaves and succeeded:
                succeeded, reason = False, LEFT
            if succeeded:
                self._meet(self._peers)
            else:
                self._peers.say_left()
        self._closed = True
        if self._peers.notes is not None:
            self._peers.notes.write(succeeded, reason)
        if self._hook is not None:
            self._hook.release()
        for swap in reversed(self._swaps):
            swap.undo()
        if self._others is not None:
            self._others.remove()
        if self._call_hook is not None:
            self._call_hook.remove()
        if self._step is not None:
            self._step.release()
        if self._client is not None:
            rests = rests and succeeded and self._linked and self._hosted is None and self._step is not None and not self._client.status().stop
            rests = rests and multiprocessing.parent_process() is None  # such a process may end by os._exit, behind which nobody says anything
            try:
                if self._step is not None:
                    if succeeded and self._linked and not self._peers.elastic:
                        met = self._peers.meet(_MEETING_SECONDS_AT_EXIT if at_exit else self._meeting_seconds)
                        if met is False or (met is None and leaves):
                            succeeded, rests, reason = False, False, LEFT if met is None else ANOTHER_ENDED
                            _log.warning("%s; the agent of this one waits for the group's next start", reason)
                    if rests:
                        self._client.rest(reason)
                    else:
                        self._client.finish(succeeded and not again, JOINS_AGAIN if again else reason)
            except DynamixError as problem:
                _log.warning("the agent was not told that training is over: %s", problem)
            if not rests:
                self._client.close()
        if self._hosted is not None:
            self._hosted.end(self._peers, succeeded)
        if (succeeded or self._step is None) and not (at_exit or self._peers.elastic):  # where it has failed, something may be under way
            self._peers.leave()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Any, problem: Any, _: Any) -> None:
        self.close("completed" if problem is None else told(problem), succeeded=kind is None)

    @property
    def trains(self) -> bool:
        """It is open, and its loader is made."""
        return not self._closed and self._step is not None

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("this run is closed")

    def _ready(self) -> Step:
        self._must_be_open()
        if self._step is None:
            raise RuntimeError("make the training loader first: run.loader(dataset, batch_size=...)")
        return self._step
