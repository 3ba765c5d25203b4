"""The Hugging Face Trainer, in one line:

    from dynamix.integrations.transformers import Trainer   # in place of: from transformers import Trainer

A Trainer of another kind, or of the script's own, takes part by `class MyTrainer(Joins, Seq2SeqTrainer)`.
"""
from __future__ import annotations

import math
import os
import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import torch
import torch.distributed
import transformers
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from ..checkpoint import save
from ..loader import Loader
from ..run import Run
from .accelerate import join_prepared
from .source import Source, source_of

_STATE_FILE = "dynamix.pt"


class _Batches:
    """The Trainer's loader: it asks for one before the model is in DistributedDataParallel, and gets the run's behind that."""

    def __init__(self, source: Source, group_samples: int) -> None:
        """`group_samples`: of all processes, in a batch at the start."""
        self.source = source
        self.dataset = source.dataset
        self.run: Optional[Run] = None
        self.loader: Optional[Loader[Any]] = None
        self.counts: List[int] = []  # samples of the micro-batches of the step at hand
        self.given = 0               # micro-batches of this epoch
        self.is_over = False         # this epoch has no more
        self._group_samples = group_samples

    def __len__(self) -> int:
        """Batches of an epoch, at the present batch sizes."""
        if self.loader is not None:
            return len(self.loader)
        samples = len(self.dataset)
        return samples // self._group_samples if self.source.drop_last else -(-samples // self._group_samples)

    def __iter__(self) -> Iterator[Any]:
        assert self.run is not None and self.loader is not None
        self.given, self.is_over = 0, False
        for batch in self.loader:
            self.counts.append(self.run.counted)
            self.given += 1
            yield batch if self.counts[-1] else _without_items(batch)
        self.is_over = True


def _without_items(batch: Any) -> Any:
    """A stand-in for a batch without samples: its labels are those that losses ignore, so that it has no tokens to count."""
    labels = batch.get("labels") if hasattr(batch, "get") else None
    if isinstance(labels, torch.Tensor) and not labels.is_floating_point():
        batch["labels"] = torch.full_like(labels, -100)
    return batch


class _StepsInEpoch(int):
    """What the Trainer's loop takes for the number of an epoch's micro-batches. It is not known before they are dealt, since
    batch sizes change; the loop asks whether the micro-batch at hand is the last one, `step + 1 == steps_in_epoch`, so that
    it steps on an incomplete accumulation. This number is equal to that one."""

    _batches: _Batches

    @classmethod
    def of(cls, batches: _Batches) -> "_StepsInEpoch":
        number = cls(len(batches))
        number._batches = batches
        return number

    def __eq__(self, other: object) -> bool:
        return self._batches.is_over and other == self._batches.given

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class _Callback(transformers.TrainerCallback):
    """What the Trainer says by its events."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.join_dynamix()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.expect_steps()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.count_epochs()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.end_epoch()

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        self._trainer.report_evaluation(metrics or {})

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.save_dynamix()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer.close_dynamix()


class Joins:
    """Makes a Trainer train on the batches of a Dynamix run; in front of it among the bases.

    `train` joins when model and optimiser are ready, and closes the run at its end. Checkpoints hold the run's state in
    `dynamix.pt`. `num_train_epochs` is counted in samples and `max_steps` in the optimiser's steps, whatever batch sizes become,
    and the schedule advances by progress. A loss over tokens is weighted by each process's own, in place of
    `average_tokens_across_devices`.

    Args:
        dynamix: arguments of `dynamix.join` (`rule`, `agent`, ...).
        args, kwargs: of the Trainer.
    """

    def __init__(self, *args: Any, dynamix: Optional[Mapping[str, Any]] = None, **kwargs: Any) -> None:
        if not hasattr(transformers.Trainer, "_init_training_state"):
            raise ImportError(f"this is transformers {transformers.__version__}, whose Trainer has another loop than the one that "
                              "dynamix follows: install 5.24 or later")
        self.dynamix_run: Optional[Run] = None  #: None outside of `train`
        self._join_options = dict(dynamix or {})
        self._batches: Optional[_Batches] = None
        self._resumed: Optional[Dict[str, Any]] = None  # the state of the run in the checkpoint
        self._epochs_before = 0  # that another run than this one has trained
        self._samples_before = 0  # that the run had trained on before this call of `train`
        self._micro_batch = 0  # of those of the step at hand, the next one
        self._items: Any = None  # that their losses are divided by; None: they are means over samples
        self._backward: Any = None  # accelerate's
        super().__init__(*args, **kwargs)
        trainer: Any = self
        trainer.args.average_tokens_across_devices = False
        trainer.add_callback(_Callback(self))

    # What the Trainer calls

    def create_accelerator_and_postprocess(self) -> None:
        parent: Any = super()
        parent.create_accelerator_and_postprocess()
        trainer: Any = self
        self._backward = trainer.accelerator.backward
        trainer.accelerator.backward = self._weighted_backward

    def get_train_dataloader(self) -> Any:
        parent: Any = super()
        trainer: Any = self
        if self.dynamix_run is not None:  # `train` begins anew, with a smaller batch say
            self.dynamix_run.close(again=True)
            self.dynamix_run = None
        source = source_of(parent.get_train_dataloader())
        self._batches = _Batches(source, _sum_over_processes(source.batch_size, trainer.args.device))
        return self._batches

    def set_initial_training_values(self, args: Any, dataloader: Any) -> Tuple[Any, ...]:
        trainer: Any = super()
        values = list(trainer.set_initial_training_values(args, dataloader))
        if self._batches is None:
            raise NotImplementedError(f"{type(self).__name__} has a get_train_dataloader() in front of dynamix's, which so never sees the data: "
                                      "put Joins in front of the class that has it, class MyTrainer(Joins, YourTrainer)")
        values[1] = max(1, len(self._batches.dataset))  # steps of an epoch: `get_batch_samples` ends it
        values[5] = _StepsInEpoch.of(self._batches)
        if args.max_steps > 0:
            values[0] = sys.maxsize  # epochs
        return tuple(values)

    def _init_training_state(self, max_steps: Any, steps: Any, epochs: Any, checkpoint: Any, trial: Any) -> Tuple[int, int]:
        """Returns the epoch to go on with, and 0 batches to skip: the run goes on at its place."""
        parent: Any = super()
        parent._init_training_state(max_steps, steps, epochs, checkpoint, trial)
        self._resumed, self._epochs_before = None, 0
        if checkpoint is None:
            return 0, 0
        path = os.path.join(checkpoint, _STATE_FILE)
        if not os.path.exists(path):  # saved by a Trainer without dynamix, whose place in the data nobody knows
            trainer: Any = self
            self._epochs_before = int(trainer.state.epoch or 0)
            return self._epochs_before, 0
        self._resumed = torch.load(path, weights_only=True)
        assert self._resumed is not None
        self._epochs_before = int(self._resumed["epochs_before"])
        return int(self._resumed["epoch"]), 0

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Tuple[List[Any], Any]:
        trainer: Any = super()
        if self._batches is None or self.dynamix_run is None:
            batches, items = trainer.get_batch_samples(epoch_iterator, num_batches, device)
            return batches, items
        self._batches.counts = []
        batches, items = trainer.get_batch_samples(epoch_iterator, num_batches, device)
        if not batches:
            trainer_itself: Any = self
            trainer_itself.control.should_epoch_stop = True
        elif items is not None:  # of this process
            self.dynamix_run.weight(float(items))
            items = items.clamp(min=1)
        self._micro_batch, self._items = 0, items
        return batches, items

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        trainer: Any = super()
        loss = trainer.training_step(*args, **kwargs)
        if self.dynamix_run is not None:  # what is logged is the plain mean over processes
            factor = self._factor() * self.dynamix_run.share * len(self.dynamix_run.status.batches)
            loss = loss * factor if factor else torch.zeros_like(loss)
        self._micro_batch += 1
        return loss

    def _factor(self) -> float:
        """The Trainer has divided a mean over samples by the number of micro-batches; they may be of different sizes."""
        if self._batches is None or self._items is not None:
            return 1.0
        assert self.dynamix_run is not None
        self.dynamix_run.weigh_micro_batches()
        counts = self._batches.counts
        return len(counts) * counts[self._micro_batch] / sum(counts) if sum(counts) else 1.0

    def _weighted_backward(self, loss: Any, **kwargs: Any) -> None:
        factor = self._factor()
        self._backward(loss if factor == 1 else loss * factor, **kwargs)

    def _finalize_training(self, trial: Any, num_train_samples: Any, start_time: Any) -> Any:
        """Its samples per second are of those that this call of `train` has trained on: what the Trainer takes them for, so many in
        each step of an estimate, it multiplies by its steps and divides by `max_steps`."""
        parent: Any = super()
        trainer: Any = self
        assert self.dynamix_run is not None
        state = trainer.state
        if trainer.args.max_steps <= 0:
            state.max_steps = state.global_step
        steps = state.global_step - trainer._initial_global_step
        samples = self.dynamix_run.status.samples - self._samples_before
        return parent._finalize_training(trial, samples * max(state.max_steps, 1) / max(steps, 1), start_time)

    # What its events call

    def join_dynamix(self) -> None:
        """The model is wrapped, and the optimiser, the schedule and a checkpoint's state are there."""
        trainer: Any = self
        assert self._batches is not None
        schedule = trainer.lr_scheduler
        by_progress = isinstance(schedule, LRScheduler) and not isinstance(schedule, ReduceLROnPlateau)
        options = {"scheduler": schedule if by_progress else None, **self._join_options}
        self.dynamix_run = self._batches.run = join_prepared(trainer.model_wrapped, trainer.optimizer, options)
        if self._resumed is not None:
            self.dynamix_run.load_state_dict(self._resumed["run"])
        self._batches.loader = self._batches.source.loader(self.dynamix_run, fetch_ahead=0)
        self._samples_before = self.dynamix_run.status.samples

    def _epochs_trained(self) -> float:
        assert self.dynamix_run is not None and self._batches is not None
        status = self.dynamix_run.status
        return self._epochs_before + status.epoch + status.cursor / max(1, len(self._batches.dataset))

    def expect_steps(self) -> None:
        """Where epochs are to be trained, tells the Trainer how many steps they take at the present batch sizes: it ends the
        training behind so many, and this is never the last one, since epochs end it."""
        trainer: Any = self
        assert self._batches is not None
        if trainer.args.max_steps <= 0:
            left = trainer.args.num_train_epochs - self._epochs_trained()
            steps = left * len(self._batches) / trainer.args.gradient_accumulation_steps
            trainer.state.max_steps = trainer.state.global_step + max(2, math.ceil(steps - 1e-6))

    def count_epochs(self) -> None:
        """A step is completed."""
        trainer: Any = self
        assert self.dynamix_run is not None
        trainer.state.epoch = self._epochs_trained()
        ends = trainer.args.max_steps <= 0 and trainer.state.epoch >= trainer.args.num_train_epochs
        if self.dynamix_run.status.stop or ends and trainer.args.num_train_epochs % 1:  # whole epochs end by themselves
            trainer.control.should_training_stop = True

    def end_epoch(self) -> None:
        """Behind the last one the Trainer evaluates and saves where it does so by steps. By itself it would at `max_steps`, which
        `expect_steps` keeps ahead."""
        trainer: Any = self
        args, state, control = trainer.args, trainer.state, trainer.control
        if args.max_steps > 0 or math.ceil(state.epoch - 1e-6) < args.num_train_epochs:
            return
        step = state.global_step
        if args.eval_strategy == "steps" and step % state.eval_steps != 0 and args.eval_delay <= step:
            control.should_evaluate = True
        if args.save_strategy == "steps" and (state.save_steps <= 0 or step % state.save_steps != 0):
            control.should_save = True

    def report_evaluation(self, metrics: Mapping[str, Any]) -> None:
        """`eval_loss` and `eval_accuracy`, if there are any, of an evaluation while the run trains."""
        if self.dynamix_run is not None and self._batches is not None and self._batches.loader is not None:
            self.dynamix_run.evaluated(test_loss=float(metrics.get("eval_loss", math.nan)), accuracy=float(metrics.get("eval_accuracy", -1)))

    def save_dynamix(self) -> None:
        """Beside the rest of the newest checkpoint."""
        trainer: Any = self
        assert self.dynamix_run is not None
        state = {"run": self.dynamix_run.state_dict(), "epoch": int(self._epochs_trained() + 1e-9), "epochs_before": self._epochs_before}
        if trainer.args.should_save:
            folder = os.path.join(trainer._get_output_dir(trial=None), f"checkpoint-{trainer.state.global_step}")
            os.makedirs(folder, exist_ok=True)
            save(state, os.path.join(folder, _STATE_FILE))

    def close_dynamix(self) -> None:
        """This call of `train` is over."""
        assert self.dynamix_run is not None
        self.dynamix_run.close_now("completed", True, rests=True)
        self.dynamix_run = self._batches = None


def _sum_over_processes(number: int, device: torch.device) -> int:
    total = torch.tensor([number], device=device)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(total)
    return int(total)


class Trainer(Joins, transformers.Trainer):
    """transformers' Trainer on the batches of a Dynamix run: see `Joins`."""
