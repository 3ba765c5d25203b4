"""What a run does in the steps of its optimisers, which call it."""
from __future__ import annotations

import logging
from typing import Any, Optional

from torch.nn.parallel import DistributedDataParallel

from .ddp import Hook
from .elastic import Members
from .equality import Equality
from .membership import Membership
from .optimizer import Round
from .peers import Broken
from .step import Step

_log = logging.getLogger("dynamix")


class Stepping(Membership):
    """Of a run, which is made of it."""

    _by_loss: bool
    _closed: bool
    _distributed: bool
    _warned: bool
    _is_told_of_unmade = False
    _equality: Optional[Equality]
    _round: Round
    steps_made = 0  # by optimisers, or left out by them

    def average_gradients(self) -> None:
        raise NotImplementedError

    @property
    def awaits_gradients(self) -> bool:
        """No gradients have come yet of a step that needs some: none have been summed, nor, where the optimiser's step may
        do that itself, has a batch been taken."""
        step = self._step
        return step is None or not step.opened and (step.taken == 0 or self._distributed or self._peers.size > 1)

    def note_loss(self, loss: Any) -> None:
        """That an optimiser's closure has returned."""
        if not self._closed and self._step is not None:
            self._step.note_loss(loss)

    def before_step(self) -> Optional[float]:
        step = self._step
        if self._closed or step is None:
            if not self._closed and not self._warned:
                self._warned = True
                _log.warning("the optimiser steps and run.loader() was never called: this trains as without dynamix; take the "
                             "batches from run.loader(dataset, ...)")
            return 1.0
        if self._is_over:
            return None
        step.settle()
        step.check_taken()
        if self._equality is not None:
            self._equality.look(step.client.delivered.epoch, self._optimizers)
        factor = self._factor(step) if not self._peers.broken else None
        if self._peers.broken:
            self._regroup()
            return None
        return factor

    def _factor(self, step: Step) -> Optional[float]:
        if isinstance(self._hook, Hook) and isinstance(self._model, DistributedDataParallel):
            self._hook.check_pass(self._model)
        if not step.opened:
            if self._by_loss:
                raise RuntimeError("call run.scale(loss).backward() in each step, in place of loss.backward()")
            if self._distributed:
                raise RuntimeError("the optimiser steps without a backward pass through the model that joined; inside of "
                                   "no_sync() only the last backward pass before a step may be outside of it")
            if self._peers.size > 1:
                raise RuntimeError("call run.average_gradients() between backward and the optimiser's step, or give "
                                   "dynamix.join the DistributedDataParallel model")
            self.average_gradients()
        try:
            factor = step.factor()
        except Broken:
            return None
        if factor is not None:
            step.learning_rate = float(self._optimizers[0].param_groups[0]["lr"]) * factor
        return factor

    def after_step(self, skipped: bool) -> None:
        if not self._closed and self._step is not None:
            self._step.complete(skipped)
            self.steps_made += 1
            if isinstance(self._peers, Members) and self._peers.somebody_comes():
                self._peers.fail("a member comes")
                self._regroup()

    def leave_out_step(self) -> None:
        if self._round.end():  # some have stepped
            return
        if not self._closed and self._step is not None and self._step.opened:
            if self.before_step() is not None:
                self._step.complete(skipped=True)

    def clear_gradients(self) -> None:
        """By an optimiser's `zero_grad`."""
        if not self._closed and self._step is not None and not self._round.is_begun:
            self._step.clear()

    def _leave_out_unmade(self, in_time: bool) -> bool:
        """The script has dropped gradients that were summed, or a GradScaler has that nobody told of. `in_time`: before the run knew of
        batches behind them. Returns whether the step is left out."""
        if self._round.is_begun or self._step is None:
            return False
        if not self._is_told_of_unmade:
            self._is_told_of_unmade = True
            _log.warning("the gradients of step %d were dropped before the optimiser stepped by them: %s. Further ones are left out without "
                         "a word. Where a GradScaler does that, give it to dynamix.join(scaler=...)", self._step.client.status().step,
                         "the step is left out, and its samples are used up" if in_time else "its samples are counted in the next step")
        if in_time:
            self.leave_out_step()
        return in_time

    @property
    def batches_taken(self) -> int:
        """For the step under way."""
        if self._step is None:
            return 0
        self._step.settle()
        return self._step.taken
