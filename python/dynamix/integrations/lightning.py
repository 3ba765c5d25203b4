"""Lightning, in one line: its Trainer by a callback,

    trainer = lightning.Trainer(..., callbacks=[dynamix.integrations.lightning.Dynamix()])

and Fabric by its name:

    from dynamix.integrations.lightning import Fabric   # in place of: from lightning import Fabric

The rest of the script stays as it is, its DataLoader included.
"""
from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, Mapping, Optional, Union

from lightning import Fabric as _Fabric
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.trainer.connectors.data_connector import _DataLoaderSource
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, RandomSampler

from ..joining import join
from ..leaving import told
from ..loader import Loader
from ..run import Run
from . import keep
from .micro_batches import MicroBatches
from .source import Source, refuse_sharded, source_of


class _Batches:
    """The run's batches, without a length: Lightning would end an epoch by the one that it began with, and batch sizes
    change. It fetches one batch ahead instead, to see which is the last."""

    def __init__(self, loader: Loader[Any], limit: Union[int, float], before: int) -> None:
        """`limit`: `limit_train_batches`, of an epoch: batches, or a part of them. `before`: batches that were trained on before a
        checkpoint in mid-epoch, with which this one goes on."""
        self.dataset = loader.dataset
        self.trained = before  # batches of this epoch
        self._loader, self._limit, self._before = loader, limit, before

    def __iter__(self) -> Iterator[Any]:
        # Nothing is dealt before the first batch is asked for: Lightning tries whether it is iterable.
        limit, before = self._limit, self._before
        self.trained, self._before = before, 0
        most = limit if isinstance(limit, int) else max(1, int((before + len(self._loader)) * limit)) if limit < 1 else None
        for number, batch in enumerate(self._loader, before + 1):
            yield batch
            if number == most:
                self._loader.hand_over()
                return


class Dynamix(Callback):
    """Trains on the batches of a Dynamix run, in place of those of the script's training DataLoader.

    Joins when the model is wrapped and its optimiser is there, and closes the run after `fit`. Checkpoints hold the run's
    state. Schedulers with `interval="step"` and a frequency of 1 advance by progress; others are Lightning's.
    `accumulate_grad_batches` weights micro-batches by their samples.

    Args:
        options: arguments of `dynamix.join` (`rule`, `agent`, ...).

    `fit` raises what `dynamix.join` and `run.loader` do, and NotImplementedError for several optimisers or training loaders, for
    a sampler of the script's own, and for `reload_dataloaders_every_n_epochs`.
    """

    def __init__(self, **options: Any) -> None:
        self.run: Optional[Run] = None  #: None outside of `fit`
        self._options = options
        self._micro_batches: Optional[MicroBatches] = None
        self._state: Optional[Dict[str, Any]] = None  # of a checkpoint, or of the run that is closed
        self._before = 0  # batches of its epoch that were trained on before
        self._batches: Optional[_Batches] = None
        self._source: Any = None  # of the script's loader, in the Trainer
        self._limit: Any = None   # its `limit_train_batches`

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise NotImplementedError(f"{len(trainer.optimizers)} optimisers: dynamix joins a model with one optimiser")
        if trainer.reload_dataloaders_every_n_epochs:
            raise NotImplementedError("reload_dataloaders_every_n_epochs: the run deals the samples of one data set from the beginning to "
                                      "the end; leave it out, or begin a fit of its own for each data set")
        self._source = trainer.fit_loop._data_source
        given = self._source.dataloader()
        if not isinstance(given, DataLoader):
            raise NotImplementedError(f"a training loader that is a {type(given).__name__}: dynamix deals the batches of one "
                                      "DataLoader")
        source = source_of(given)
        if trainer.overfit_batches > 0:  # the same batches in each epoch
            source = source._replace(shuffle=False)
        schedules = [each.scheduler for each in trainer.strategy.lr_scheduler_configs
                     if each.interval == "step" and each.frequency == 1 and not isinstance(each.scheduler, ReduceLROnPlateau)]
        options = {"scheduler": schedules, "scaler": getattr(trainer.precision_plugin, "scaler", None), **self._options}
        refuse_sharded(trainer.strategy.model)
        self.run = keep(join(trainer.strategy.model, trainer.optimizers[0], **options))
        if self._state is not None:
            self.run.load_state_dict(self._state)
        self._micro_batches = MicroBatches(self.run)
        self._limit = trainer.limit_train_batches
        self._batches = _Batches(source.loader(self.run, fetch_ahead=1), self._limit, self._before)
        trainer.fit_loop._data_source = _DataLoaderSource(self._batches, "train_dataloader")
        trainer.fit_loop._combined_loader = None  # of the script's, once it has asked for `estimated_stepping_batches`
        if self._limit:
            trainer.limit_train_batches = 1.0  # it fetches nothing ahead of a number that it knows

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._micro_batches is not None:
            self._micro_batches.begin()
        if self._batches is not None:
            self._batches.trained += 1

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        if self._micro_batches is None or not pl_module.automatic_optimization:
            return
        factor = self._micro_batches.factor(trainer.accumulate_grad_batches, not trainer.fit_loop._should_accumulate())
        if factor != 1 and loss.requires_grad:
            loss.register_hook(lambda gradient: gradient * factor)  # the loss itself cannot be exchanged here

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.run is not None and self.run.status.stop:
            trainer.should_stop = True

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """`val_loss` and `val_accuracy` (or `val_acc`), if the module logs them."""
        if self.run is not None and not trainer.sanity_checking:
            found = trainer.callback_metrics
            accuracy = found.get("val_accuracy", found.get("val_acc", -1))
            self.run.evaluated(test_loss=float(found.get("val_loss", math.nan)), accuracy=float(accuracy))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._close(trainer, told(exception), succeeded=False)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._close(trainer, "completed", succeeded=True)

    def _close(self, trainer: Any, reason: str, succeeded: bool) -> None:
        if self.run is None:
            return
        if succeeded:  # `save_checkpoint` may come behind `fit`
            self._state, self._before = self.run.state_dict(), self._trained()
        self.run.close_now(reason, succeeded, rests=True)
        self.run = self._micro_batches = self._batches = None
        trainer.fit_loop._data_source, trainer.limit_train_batches = self._source, self._limit

    def state_dict(self) -> Dict[str, Any]:
        state = self.run.state_dict() if self.run is not None else self._state
        return {} if state is None else {"run": state, "trained": self._trained()}

    def _trained(self) -> int:
        """Batches of the epoch with which a checkpoint goes on."""
        if self.run is None or self._batches is None:
            return self._before
        return self._batches.trained if self.run.status.cursor > 0 else 0

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self._state, self._before = state_dict.get("run"), state_dict.get("trained", 0)


class Fabric(_Fabric):
    """Lightning's Fabric, whose training loader deals the batches of a Dynamix run.

    `setup` joins its model and optimiser; the training loader is the first DataLoader that shuffles, or else the first, among
    those of `setup_dataloaders`, in whatever order the two are called. `fabric.save(path, {..., "dynamix": fabric.dynamix_run})` and
    `fabric.load` hold the run's state, and `for epoch in range(fabric.dynamix_run.epoch, epochs)` goes on where it was. Micro-batches of
    `no_backward_sync` are weighted alike within a process.

    Args:
        dynamix: arguments of `dynamix.join` (`rule`, `agent`, ...).
        args, kwargs: of Fabric.
    """

    def __init__(self, *args: Any, dynamix: Optional[Mapping[str, Any]] = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._options = dict(dynamix or {})
        self._training: Optional[_FabricBatches] = None
        self.dynamix_run: Optional[Run] = None  #: None before `setup`

    def setup(self, module: Any, *optimizers: Any, **kwargs: Any) -> Any:
        prepared = super().setup(module, *optimizers, **kwargs)
        if optimizers and self.dynamix_run is None:
            if len(optimizers) > 1:
                raise NotImplementedError(f"{len(optimizers)} optimisers: dynamix joins a model with one optimiser")
            options = {"scaler": getattr(self.strategy.precision, "scaler", None), **self._options}
            refuse_sharded(prepared[0]._forward_module)
            self.dynamix_run = keep(join(prepared[0]._forward_module, optimizers[0], **options))
            if self._training is not None:
                self._training.serve(self.dynamix_run)
        return prepared

    def setup_dataloaders(self, *dataloaders: Any, **kwargs: Any) -> Any:
        shuffled = [each for each in dataloaders if isinstance(getattr(each, "sampler", None), RandomSampler)]
        chosen = next(iter(shuffled or dataloaders[:1]), None) if self._training is None else None
        prepared: List[Any] = []
        for each in dataloaders:
            if each is chosen and isinstance(each, DataLoader) and not isinstance(each, Loader):
                moves = kwargs.get("move_to_device", True)
                self._training = _FabricBatches(source_of(each), self if moves else None)
                if self.dynamix_run is not None:
                    self._training.serve(self.dynamix_run)
                prepared.append(self._training)
            else:
                prepared.append(super().setup_dataloaders(each, **kwargs))
        return prepared[0] if len(prepared) == 1 else prepared


class _FabricBatches:
    """The training loader of a run, whose batches go to Fabric's device."""

    def __init__(self, source: Source, fabric: Optional[Fabric]) -> None:
        """`fabric`: moves batches; None: they stay where the DataLoader makes them."""
        self.dataset = source.dataset
        self._source = source
        self._fabric = fabric
        self._loader: Optional[Loader[Any]] = None

    def serve(self, run: Run) -> None:
        """The run is there."""
        self._loader = self._source.loader(run)

    def _joined(self) -> Loader[Any]:
        if self._loader is None:
            raise RuntimeError("setup(model, optimizer) comes before the training loader is used: that is where dynamix joins")
        return self._loader

    def __len__(self) -> int:
        return len(self._joined())

    def __iter__(self) -> Iterator[Any]:
        for batch in self._joined():
            yield batch if self._fabric is None else self._fabric.to_device(batch)
