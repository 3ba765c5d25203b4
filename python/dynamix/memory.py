"""`run.backward`: the gradient of a batch, in micro batches where memory does not hold it whole; `run.find_batch`.

    passes over the parts, nothing is exchanged -> out of memory: gradients dropped, limit lowered, told, parts halved, again
                                                -> one pass over zeros through DDP, which sums what has been accumulated
"""
from __future__ import annotations

import logging
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .batch import part_of, resized, rows_of
from .ddp import can_sum_later, sum_accumulated
from .flat_shards import is_sharded
from .largest import memory_of, search, trim, unchanged, unsynced
from .step import Step

_log = logging.getLogger("dynamix")
_PASSES = 2  # of a trial: the second one, as each step of the training, meets memory as the one before has left it

Loss = Callable[..., torch.Tensor]
Weight = Callable[..., float]


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an error says that a device, or the host, has no memory left."""
    text = str(problem)
    return isinstance(problem, MemoryError) or isinstance(problem, RuntimeError) and (
        "out of memory" in text or "DefaultCPUAllocator" in text and "allocate" in text or
        # oneDNN's, of its scratch memory; of a "primitive descriptor" it says that it knows no such operation.
        "could not create a primitive" in text and "primitive descriptor" not in text)


class Guard:
    """Trains batches of one run within the memory that there is."""

    def __init__(self, model: torch.nn.Module, step: Step, scaler: Any = None) -> None:
        if isinstance(model, DistributedDataParallel) and not can_sum_later(model):
            raise NotImplementedError("run.backward() needs DistributedDataParallel without static_graph and "
                                      "find_unused_parameters, and no complex parameters; use a smaller batch_size, "
                                      "or run.loader(highest_batch=...)")
        if is_sharded(model):
            raise NotImplementedError("run.backward() and a sharded model: a pass that fails has taken part in some collectives and not in "
                                      "others; use a smaller batch_size, or run.loader(highest_batch=...)")
        self._model = model
        self._step = step
        self._scaler = scaler
        self._holds: Optional[float] = None  # that memory is known to hold at once: samples, or the cost of some

    @property
    def _parameters(self) -> List[torch.nn.Parameter]:
        """Those that are trained now: a script may unfreeze some."""
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def find(self, loss_of: Loss, batch: Sequence[Any], optimizers: Sequence[Optimizer], highest: int) -> int:
        """The largest batch that memory holds, in rows like those of `batch`."""
        rows = rows_of(batch)
        problem: List[str] = []

        def attempt(wanted: int) -> bool:
            problem.clear()
            try:
                for _ in range(_PASSES):
                    self._drop_gradients()
                    with unsynced(self._model):
                        loss: Any = loss_of(*resized(tuple(batch), rows, wanted))
                        (loss if self._scaler is None else self._scaler.scale(loss)).backward()
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                problem.append(str(error).splitlines()[0] if str(error) else type(error).__name__)
            self._drop_gradients()
            return not problem

        with unchanged(self._model, optimizers):
            chosen, trials = search(attempt, memory_of(self._parameters), rows, highest)
        tried = ", ".join(f"{trial.rows} {'ran' if trial.ran else 'did not'}" for trial in trials)
        if not chosen.rows:
            raise MemoryError(f"{chosen.reason} ({tried}; {problem[0]})")
        self._holds = self._step.amount_of(chosen.rows, rows)
        self._step.limit(self._holds)
        _log.info("memory holds %d samples at once (%s; %s)", chosen.rows, chosen.reason, tried)
        return chosen.rows

    def backward(self, loss_of: Loss, batch: Sequence[Any], weight_of: Optional[Weight], micro_batch: int = 0) -> torch.Tensor:
        step = self._step
        step.settle()
        if step.has_run_backward and not step.peers.broken:
            raise RuntimeError("run.backward() was called twice in one step, and drops the gradients of before: give it the whole batch, of "
                               "which micro_batch=... makes parts")
        rows = rows_of(batch)
        weight = None if weight_of is None else float(weight_of(*batch))
        if weight is not None:
            self._step.weigh(weight)
        amount = self._step.amount_of(rows, rows)
        at_once = rows if self._holds is None or amount <= self._holds else max(1, int(rows * self._holds / amount))
        at_once = min(at_once, micro_batch or rows)
        while True:
            self._drop_gradients()
            problem = ""
            try:
                loss = self._accumulate(loss_of, batch, rows, at_once, weight_of, weight)
            except (RuntimeError, MemoryError) as error:
                if at_once == 1 or not is_out_of_memory(error):
                    raise
                problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            if not problem:
                break
            at_once = self._lower(at_once, rows, problem)
        if isinstance(self._model, DistributedDataParallel):
            sum_accumulated(self._model)
        step.has_run_backward = True
        return loss

    def _drop_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def _lower(self, failed: int, rows: int, problem: str) -> int:
        """Called outside of the handler, whose exception would keep the failed pass's tensors."""
        self._drop_gradients()
        if any(parameter.device.type == "cuda" for parameter in self._parameters):
            torch.cuda.empty_cache()
        trim()
        if isinstance(self._model, DistributedDataParallel):
            wrapped: Any = self._model
            wrapped.require_forward_param_sync = False  # the failed pass has broadcast the buffers; peers do it once
        holds = -(-failed // 2)
        self._holds = self._step.amount_of(holds, rows)
        self._step.limit(self._holds)
        _log.warning("memory does not hold %d samples at once (%s); this worker trains %d at once from now on, larger batches "
                     "in parts, and takes no decision above %d", failed, problem, holds, holds)
        return holds

    def _accumulate(self, loss_of: Loss, batch: Sequence[Any], rows: int, at_once: int, weight_of: Optional[Weight],
                    weight: Optional[float]) -> torch.Tensor:
        parts = -(-rows // at_once)
        mean: Any = 0.0
        with unsynced(self._model):
            for number in range(parts):
                share, part = self._part(batch, rows, number, parts, weight_of, weight)
                if share == 0 and parts > 1:  # the mean over no items is NaN
                    continue
                loss = loss_of(*part)
                weighted = loss if share == 1 else loss * share
                scaled: Any = weighted if self._scaler is None else self._scaler.scale(weighted)
                scaled.backward()
                mean = mean + weighted.detach()
        return torch.as_tensor(mean)

    def _part(self, batch: Sequence[Any], rows: int, number: int, parts: int, weight_of: Optional[Weight],
              weight: Optional[float]) -> Tuple[float, Sequence[Any]]:
        """A part, and its share in the batch's mean."""
        if parts == 1:
            return 1.0, batch
        first, last = rows * number // parts, rows * (number + 1) // parts
        part: Sequence[Any] = part_of(tuple(batch), rows, first, last)
        if weight_of is None or weight is None:
            return self._step.part_of_mean(rows, first, last), part
        return (float(weight_of(*part)) / weight if weight > 0 else 0.0), part
