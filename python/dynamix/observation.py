"""`dynamix exec --observe`: what a plain DistributedDataParallel script does in each step, measured without changing it.

    optimiser has stepped  -> a step has ended; its samples are the rows of the model's inputs since the one before
    next(data loader)      -> waiting for data
    DDP's own log          -> from its last gradient to the end of the exchange: waiting for the others
    buffers, collectives   -> waiting, too

It adds a hook to the model and one to torch's optimisers, and times the loader's `__next__`; gradients, samples and the order of
collectives stay the script's. Whatever goes wrong here ends the observation and is told at the end; the script goes on.
"""
from __future__ import annotations

import atexit
import contextlib
import functools
import json
import math
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from .adoption import how_to_adopt
from .client import DynamixError, agent_path
from .observed_client import ObservedClient
from .observed_steps import ObservedStep, ObservedSteps
from .step import Calls

_log_data = "_get_ddp_logging_data"
_STEPS_BEFORE = 3                # an agent is told of it: the first steps make memory, and buckets
_COST = 0.005                    # of the time, which observing may take: beyond it looks into DDP's log are left out, and steps are told later
_TOLD_LATER_MAX = 64             # steps
_COLLECTIVES = ("all_reduce", "barrier", "broadcast", "all_gather", "all_gather_into_tensor", "reduce", "gather", "scatter",
                "all_gather_object", "broadcast_object_list", "gather_object", "monitored_barrier")
_FAREWELL_SECONDS = 1.0

_observer: Optional["Observer"] = None
_has_joined = False


def _rows_of(inputs: Any, depth: int = 3) -> int:
    """Of the first tensor among a model's inputs: the samples of its batch."""
    if isinstance(inputs, torch.Tensor):
        return int(inputs.shape[0]) if inputs.dim() else 0
    if depth and isinstance(inputs, dict):
        inputs = inputs.values()
    elif not depth or not isinstance(inputs, (list, tuple)):
        return 0
    return next((rows for rows in (_rows_of(each, depth - 1) for each in inputs) if rows), 0)


class _Inputs(Calls):
    """The hook of the model's calls. A copy of the model has none."""

    def __init__(self, see: Callable[[int], None]) -> None:
        super().__init__()
        self._see = see

    def __call__(self, module: object, inputs: object, options: object = None) -> None:
        try:
            rows = _rows_of((inputs, options)) if torch.is_grad_enabled() else 0
        except Exception:  # inputs of a kind of their own
            rows = 0
        self._see(rows)

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")  # takes any arguments, and returns None


class Observer:
    """Of the first DistributedDataParallel of this process."""

    def __init__(self, model: Any, directory: str) -> None:
        self._model, self._directory = model, directory
        self._process = os.getpid()
        self._rank, self._members = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._parameters = {id(parameter) for parameter in model.parameters()}
        self._ours: Dict[int, bool] = {}  # by the optimiser's id: it steps the model's parameters
        self._steps = ObservedSteps()
        self._client: Optional[ObservedClient] = None
        self.others = 0    # DistributedDataParallel models beside it
        self._problem = ""
        self._cost = 0.0   # seconds of this thread for all this, since `began`
        self._began = 0.0
        self._ended: Optional[float] = None
        self._before: Optional[ObservedStep] = None  # the newest step, whose exchange is not known yet
        self._dataset: Any = None
        self._batches: Any = None
        self._adoption = how_to_adopt(sys._getframe())
        self._undo: List[Callable[[], None]] = []
        self._start_step()
        self._watch()

    def _watch(self) -> None:
        model = self._model
        model._set_ddp_runtime_logging_sample_rate(1)
        self._undo.append(model.register_forward_pre_hook(_Inputs(self._see_call), with_kwargs=True).remove)
        self._undo.append(register_optimizer_step_post_hook(self._see_step).remove)
        self._time(type(model), "_sync_buffers", self._waited)  # not on the model, whose copies would have it
        for name in _COLLECTIVES:
            if hasattr(torch.distributed, name):
                self._time(torch.distributed, name, self._waited)
        self._time(dataloader._BaseDataLoaderIter, "__next__", self._fetched)
        atexit.register(self._end)
        self._undo.append(lambda: atexit.unregister(self._end))

    def _time(self, owner: Any, name: str, took: Callable[[float, Any], None]) -> None:
        """Tells `took` how long each call of this function takes, and its first argument."""
        known = vars(owner).get(name)
        timed = getattr(owner, name)

        @functools.wraps(timed)
        def measured(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return timed(*arguments, **options)
            finally:
                took(time.perf_counter() - began, arguments[0] if arguments else None)

        setattr(owner, name, measured)
        self._undo.append(lambda: delattr(owner, name) if known is None else setattr(owner, name, known))

    # What is seen

    def _start_step(self) -> None:
        self._samples = self._calls = 0
        self._is_whole = True  # nothing but training has happened since the step before
        self._data = self._waits = 0.0

    def _waited(self, seconds: float, _: Any) -> None:
        self._waits += seconds

    def _fetched(self, seconds: float, iterator: Any) -> None:
        if sys.exc_info()[0] is not None:  # the loader's end
            self._is_whole = False
        self._data += seconds
        self._dataset, self._batches = getattr(iterator, "_dataset", None), getattr(iterator, "_index_sampler", None)

    def _see_call(self, rows: int) -> None:
        self._samples += rows
        self._calls += rows > 0
        self._is_whole = self._is_whole and rows > 0  # an evaluation

    def _see_step(self, optimizer: Any, *_: Any) -> None:
        now, used = time.perf_counter(), time.thread_time()
        if not self._calls or os.getpid() != self._process:
            return
        if id(optimizer) not in self._ours:
            self._ours[id(optimizer)] = any(id(parameter) in self._parameters for group in optimizer.param_groups
                                            for parameter in group["params"])
        if not self._ours[id(optimizer)]:
            return
        try:
            self._end_step(now)
        except Exception as problem:
            self._stop_telling(str(problem))
        self._start_step()
        self._cost += time.thread_time() - used
        self._ended = time.perf_counter()

    def _end_step(self, now: float) -> None:
        whole = self._is_whole and self._ended is not None
        iteration = now - self._ended if whole and self._ended is not None else math.nan
        before, self._before = self._before, ObservedStep(self._samples, iteration, self._waits, self._data)
        if before is None:
            self._began = now
            return
        may_cost = self._cost <= _COST * (now - self._began)
        step = before._replace(exchange=before.exchange + (self._logged_wait() if may_cost else math.nan))
        self._steps.add(step)
        if self._steps.count >= _STEPS_BEFORE and not self._problem and not _has_joined:
            if self._client is None:
                began = time.thread_time()
                self._client = self._connect(step.samples)
                self._cost -= time.thread_time() - began  # once a run, and not in each step
            self._client.tell(step)
            if may_cost or self._client.behind >= _TOLD_LATER_MAX:
                self._client.advance()

    def _logged_wait(self) -> float:
        """Seconds between the last gradient and the end of the exchange, of the newest pass that DDP has logged: the one of the
        step before, since it does so when the next one begins. NaN where it has logged none."""
        logged = getattr(self._model, _log_data)()
        exchange, overlap = logged.get("backward_comm_time"), logged.get("backward_compute_comm_overlap_time")
        return math.nan if exchange is None or overlap is None else max(0, exchange - overlap) * 1e-9

    def _connect(self, batch: int) -> ObservedClient:
        agent = agent_path(int(os.environ.get("LOCAL_RANK", self._rank)))
        if not agent:
            raise DynamixError("$DYNAMIX_AGENT is not set: start the script by `dynamix exec --observe`")
        try:
            samples = len(self._dataset)
        except TypeError:
            samples = 0
        drop_last = bool(getattr(self._batches, "drop_last", False)) and samples >= batch * self._members
        life = os.path.join(self._directory, os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        os.makedirs(life, exist_ok=True)
        return ObservedClient(life, self._rank, self._members, agent, batch, samples, drop_last)

    # The end

    def _stop_telling(self, problem: str) -> None:
        self._problem = problem
        client, self._client = self._client, None
        if client is not None:
            try:
                client.close(False, f"is not observed any more: {problem}")
            except Exception:
                pass

    def let_go(self) -> None:
        """The script joins: nothing is measured any more."""
        self._stop_telling("the script has joined")
        self._release()
        with contextlib.suppress(OSError), open(os.path.join(self._directory, "joined"), "w", encoding="ascii"):
            pass  # why nothing else is there

    def _release(self) -> None:
        while self._undo:
            self._undo.pop()()
        self._model = self._dataset = self._batches = None

    def _end(self) -> None:
        """Of the interpreter."""
        if os.getpid() != self._process:
            return
        self._release()  # what the script made ends when it would without this
        failure = getattr(sys, "last_value", None)
        try:
            until = time.monotonic() + _FAREWELL_SECONDS
            while self._client is not None and self._client.behind and failure is None and time.monotonic() < until:
                self._client.advance()
                time.sleep(0.01)
            if self._client is not None:
                self._client.close(failure is None, "completed" if failure is None else f"{type(failure).__name__}: {failure}")
        except Exception as problem:
            self._problem = self._problem or str(problem)
        self._write()

    def _write(self) -> None:
        usual = self._steps.summary()
        told = {"rank": self._rank, "members": self._members, **usual, "lines": self._adoption.lines(usual["batch"]),
                "other_models": self.others, "observing_seconds": self._cost, "problem": self._problem}
        path = os.path.join(self._directory, f"rank-{self._rank}.json")
        try:
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(told, file)
            os.replace(path + ".new", path)
        except OSError as problem:
            print(f"dynamix: what was observed cannot be written: {problem}", file=sys.stderr)


def attach(model: Any) -> None:
    """A DistributedDataParallel has been made: the first one is observed."""
    global _observer
    if _has_joined:
        return
    if _observer is not None:
        _observer.others += 1
        return
    directory = os.environ["DYNAMIX_OBSERVE"]
    os.makedirs(directory, exist_ok=True)
    _observer = Observer(model, directory)


def stand_aside() -> None:
    """The script joins by itself, and its run takes the agent."""
    global _observer, _has_joined
    _has_joined = True
    if _observer is not None:
        _observer.let_go()
        _observer = None
