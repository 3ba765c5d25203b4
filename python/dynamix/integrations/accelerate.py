"""accelerate, in one line:

    from dynamix.integrations.accelerate import Accelerator   # in place of: from accelerate import Accelerator

The script stays as it is. `prepare` joins once it has seen the model, its optimiser and their DataLoader, and gives that
loader back as one whose batches the run deals.
"""
from __future__ import annotations

import contextlib
import logging
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import torch
from accelerate import Accelerator as _Accelerator
from accelerate.data_loader import DataLoaderStateMixin
from accelerate.scheduler import AcceleratedScheduler
from accelerate.state import GradientState
from accelerate.utils import send_to_device
from torch.utils.data import DataLoader, RandomSampler

from ..joining import join
from ..loader import Loader
from ..optimizer import has_ended
from ..run import Run
from . import keep
from .micro_batches import MicroBatches
from .source import refuse_sharded, source_of

_log = logging.getLogger("dynamix")
_NOTHING: Any = object()  # behind the last batch, which may be None
#: Of accelerate's GradientAccumulationPlugin: how it has to be, and why.
_ACCUMULATION = (("sync_each_batch", False, "gradients are exchanged once a step, which gives the same sums"),
                 ("sync_with_dataloader", True, "an epoch's last step takes what is left of it"))


def join_prepared(model: torch.nn.Module, optimizer: Any, options: Mapping[str, Any]) -> Run:
    """Joins with what accelerate has prepared: `optimizer` is an AcceleratedOptimizer."""
    refuse_sharded(model)
    run = keep(join(model, optimizer.optimizer, scaler=optimizer.scaler, **options))
    optimizer.__setstate__({})  # with a scaler it holds the optimiser's step of before
    return run


class TrainingLoader(DataLoaderStateMixin):
    """The training loader of a run, with what accelerate looks for in its own: which batch is an epoch's last, so that
    `accumulate` steps on it. Fetches one batch ahead for that."""

    _is_accelerate_prepared = True
    _drop_last = True  # nobody pads an epoch, so that `gather_for_metrics` has nothing to cut off

    def __init__(self, given: Any, device: Optional[torch.device], prepare: Callable[[], Any]) -> None:
        """`device`: where batches go; None: they stay where the DataLoader makes them. `prepare` makes accelerate's own loader of
        it, which is used as long as there is nothing to train."""
        self.given = given
        self.dataset = given.dataset
        self.gradient_state = GradientState()
        self.in_epoch = False  # the script's loop over it is under way
        self._device = device
        self._prepare = prepare
        self._plain: Any = None
        self._loader: Optional[Loader[Any]] = None
        self._micro_batches: Optional[MicroBatches] = None

    def serve(self, loader: Loader[Any], micro_batches: MicroBatches) -> None:
        """The run is there."""
        self._loader, self._micro_batches, self._plain = loader, micro_batches, None

    def _before(self) -> Any:
        """accelerate's own loader."""
        if self._plain is None:
            self._plain = self._prepare()
        return self._plain

    def __len__(self) -> int:
        return len(self._before() if self._loader is None else self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._loader is None:
            return getattr(self._before(), name)
        if name in ("sampler", "batch_sampler"):
            raise AttributeError(f"the training loader of a dynamix run has no {name}: the run deals the batches, and goes on at "
                                 "its place by itself after load_state; leave skip_first_batches out")
        return getattr(self._loader, name)

    def set_epoch(self, epoch: int) -> None:
        """Nothing in a run, which counts its epochs."""
        if self._loader is None:
            self._before().set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        loader, micro_batches = self._loader, self._micro_batches
        if loader is None or micro_batches is None:
            yield from self._before()
            return
        self.begin()
        self.in_epoch = True
        try:
            source = iter(loader)
            batch = next(source, _NOTHING)
            while batch is not _NOTHING:
                following = next(source, _NOTHING)
                self.end_of_dataloader = following is _NOTHING
                micro_batches.begin()
                yield batch if self._device is None else send_to_device(batch, self._device)
                batch = following
        finally:
            self.in_epoch = False
            self.end()


class Scheduler(AcceleratedScheduler):
    """accelerate's, which makes as many steps for each of the optimiser's as there are processes: a schedule is written for
    batches of one of them. In an epoch's loop it makes so many for each step of the base batch, by the run's progress;
    between epochs it steps as accelerate's does."""

    def __init__(self, prepared: Any, accelerator: "Accelerator") -> None:
        """`prepared`: what accelerate made."""
        super().__init__(prepared.scheduler, prepared.optimizers, prepared.step_with_optimizer, prepared.split_batches)
        self.steps = 0  # made by progress
        self._accelerator = accelerator

    def step(self, *args: Any, **kwargs: Any) -> None:
        run = self._accelerator.dynamix_run
        if (run is None or args or kwargs or not self.step_with_optimizer or not self._accelerator.in_epoch or
                not self.gradient_state.sync_gradients):
            super().step(*args, **kwargs)
            return
        target = int(run.progress * (1 if self.split_batches else self._accelerator.num_processes) + 1e-6)
        while self.steps < target and not has_ended(self.scheduler):
            self.steps += 1
            self.scheduler.step()


class _State:
    """What a checkpoint holds: of the run, and how far its schedules are."""

    def __init__(self, accelerator: "Accelerator") -> None:
        self._accelerator = accelerator

    def state_dict(self) -> Dict[str, Any]:
        return {"run": self._accelerator.joined.state_dict(), "schedules": [each.steps for each in self._accelerator.schedules]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._accelerator.joined.load_state_dict(state["run"])
        for schedule, steps in zip(self._accelerator.schedules, state["schedules"]):
            schedule.steps = steps


class Accelerator(_Accelerator):
    """accelerate's Accelerator, whose training loader deals the batches of a Dynamix run.

    `prepare` joins when it has seen a model, its optimiser and their DataLoader, in whatever order. The training loader is
    the DataLoader that shuffles; where none does, the first that is prepared together with an optimiser. Others are
    accelerate's. `save_state` and `load_state` hold the run's state, and `for epoch in range(accelerator.dynamix_run.epoch, epochs)`
    goes on where it was. `accumulate` weights micro-batches by their samples.

    Args:
        dynamix: arguments of `dynamix.join` (`rule`, `agent`, ...).
        args, kwargs: of accelerate's own.

    `prepare` raises what `dynamix.join` and `run.loader` do, and NotImplementedError for samplers of the script's own, and for
    several models or optimisers.
    """

    def __init__(self, *args: Any, dynamix: Optional[Mapping[str, Any]] = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._options = dict(dynamix or {})
        self._trained: List[torch.nn.Module] = []  # the models as they were given back
        self._loader: Optional[TrainingLoader] = None
        self._chosen: Any = None  # of the loaders that are being prepared
        self._micro_batches: Optional[MicroBatches] = None
        self._accumulates = False
        self._before: Optional[Run] = None  # whose model `free_memory` has let go
        self._is_told_of_none = False
        self.dynamix_run: Optional[Run] = None  #: None before it has joined

    @property
    def joined(self) -> Run:
        """The run. Raises RuntimeError before there is one."""
        if self.dynamix_run is None:
            raise RuntimeError("dynamix has not joined: prepare the model, its optimiser and the training loader first")
        return self.dynamix_run

    @property
    def in_epoch(self) -> bool:
        """The script's loop over the training loader is under way."""
        return self._loader is not None and self._loader.in_epoch

    @property
    def schedules(self) -> Any:
        """The prepared schedulers."""
        return [each for each in self._schedulers if isinstance(each, Scheduler)]

    def prepare(self, *args: Any, device_placement: Any = None) -> Any:
        loaders = [each for each in args if isinstance(each, DataLoader)]
        shuffled = [each for each in loaders if isinstance(getattr(each, "sampler", None), RandomSampler)]
        trains = any(isinstance(each, torch.optim.Optimizer) for each in args)
        self._chosen = next(iter(shuffled or (loaders if trains else [])), None)
        prepared = super().prepare(*args, device_placement=device_placement)
        self._join()
        return prepared

    def prepare_model(self, model: Any, device_placement: Any = None, evaluation_mode: bool = False) -> Any:
        prepared = super().prepare_model(model, device_placement, evaluation_mode)
        if not evaluation_mode and prepared not in self._trained and any(each.requires_grad for each in prepared.parameters()):
            self._trained.append(prepared)
        return prepared

    def prepare_data_loader(self, data_loader: Any, device_placement: Any = None, slice_fn_for_dispatch: Any = None) -> Any:
        if isinstance(data_loader, TrainingLoader):
            return data_loader
        if self._loader is None and data_loader is self._chosen and not getattr(data_loader, "_is_accelerate_prepared", False):
            moves = self.device_placement if device_placement is None else device_placement
            parent: Any = super()
            self._loader = TrainingLoader(data_loader, self.device if moves else None, lambda: parent.prepare_data_loader(
                data_loader, device_placement, slice_fn_for_dispatch))
            return self._loader
        return super().prepare_data_loader(data_loader, device_placement, slice_fn_for_dispatch)

    def prepare_scheduler(self, scheduler: Any) -> Any:
        prepared = super().prepare_scheduler(scheduler)
        if isinstance(prepared, Scheduler):
            return prepared
        ours = Scheduler(prepared, self)
        self._schedulers[self._schedulers.index(prepared)] = ours
        return ours

    def _join(self) -> None:
        """Joins, where all that it takes has been prepared."""
        if self.dynamix_run is not None or self._loader is None or not self._optimizers or not self._trained:
            return
        if len(self._trained) > 1 or len(self._optimizers) > 1:
            raise NotImplementedError(f"{len(self._trained)} models that train, {len(self._optimizers)} optimisers: dynamix joins one "
                                      "model with one optimiser; prepare the others with an Accelerator of accelerate's")
        for name, value, reason in _ACCUMULATION:
            if self.gradient_state.plugin_kwargs.get(name, value) != value:
                _log.warning("accelerate's %s=%s is ignored: %s", name, not value, reason)
                self.gradient_state.plugin_kwargs[name] = value
        source = source_of(self._loader.given)
        if self.split_batches:
            source = source._replace(batch_size=source.batch_size // self.num_processes)
        if self._before is not None:
            self._before.close(again=True)
            self._before = None
        self.dynamix_run = join_prepared(self._trained[0], self._optimizers[0], self._options)
        self._micro_batches = MicroBatches(self.dynamix_run)
        self._loader.serve(source.loader(self.dynamix_run, fetch_ahead=1), self._micro_batches)
        self.register_for_checkpointing(_State(self))

    @contextlib.contextmanager
    def accumulate(self, *models: Any) -> Iterator[None]:
        with super().accumulate(*models):
            self._accumulates = True
            try:
                yield
            finally:
                self._accumulates = False

    def backward(self, loss: Any, **kwargs: Any) -> None:
        if self.dynamix_run is None and not self._is_told_of_none:
            self._is_told_of_none = True
            _log.warning("accelerator.backward() comes before dynamix has joined: this trains as without it. Prepare the model, its optimiser "
                         "and the training DataLoader in one call of accelerator.prepare(), or give that loader shuffle=True")
        if self._accumulates and self._micro_batches is not None:
            factor = self._micro_batches.factor(self.gradient_accumulation_steps, self.sync_gradients)
            loss = loss if factor == 1 else loss * factor
        super().backward(loss, **kwargs)

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """The training loader is at its place after `load_state`, and is given back as it is."""
        if isinstance(dataloader, TrainingLoader):
            return dataloader
        return super().skip_first_batches(dataloader, num_batches)

    def free_memory(self, *objects: Any) -> Any:
        """As accelerate's; the next `prepare` joins anew."""
        self._before = self.dynamix_run or self._before
        self.dynamix_run = self._loader = self._micro_batches = None
        self._trained = []
        for state in [each for each in self._custom_objects if isinstance(each, _State)]:
            self._custom_objects.remove(state)
        return super().free_memory(*objects)

    def end_training(self) -> None:
        """As accelerate's; the run ends before the process group does."""
        for run in (self.dynamix_run, self._before):
            if run is not None:
                run.close()
        super().end_training()
