"""What a run does where the members of an elastic one come and go."""
from __future__ import annotations

import logging
import time
from typing import Any, Dict, List, Optional, Sequence, Union

import torch
from torch.optim import Optimizer

from . import structures as raw
from .client import Client
from .cost import Costs
from .ddp import Hook
from .draws import Draws
from .elastic import Alignment, Ended, Members
from .finite import CHOICES, Finite
from .loader import Loader
from .optimizer import Schedule
from .peers import Broken, Peers
from .sharded import Collectives
from .step import Step

_log = logging.getLogger("dynamix")


class Membership:
    """Of a run, which is made of it."""

    _model: torch.nn.Module
    _optimizers: List[Optimizer]
    _schedules: List[Schedule]
    _peers: Peers
    _client: Optional[Client]
    _step: Optional[Step]
    _hook: Union[Hook, Collectives, None]
    _finite: Optional[Finite]
    _loader: Optional[Loader[Any]]
    _draws: Optional[Draws]
    _costs: Optional[Costs]
    _alignment: Optional[Alignment]

    @property
    def thread(self) -> Optional[int]:
        """Of the newest step; None before the first."""
        return None if self._step is None else self._step.thread

    @property
    def nan(self) -> Optional[str]:
        """As `join` was given it; None beside a GradScaler, too."""
        return None if self._finite is None else self._finite.choice

    @property
    def is_within_step(self) -> bool:
        """The training loop has a batch that it has not trained on, and has not been left."""
        return self._step is not None and self._step.taken > 0 and self._loader is not None and self._loader.is_in_loop

    @property
    def is_within_epoch(self) -> bool:
        """The training loop has begun an epoch and not come to its end."""
        return self._loader is not None and self._loader.is_within_epoch

    def _introduce(self, workload: raw.Workload) -> torch.Tensor:
        raise NotImplementedError

    def state_dict(self) -> Dict[str, Any]:
        raise NotImplementedError

    def restore(self, state: Dict[str, Any]) -> None:
        raise NotImplementedError

    def regroup(self, present: Sequence[bool]) -> None:
        raise NotImplementedError

    def _join_members(self, members: Members, workload: raw.Workload) -> None:
        """Comes into the training that is under way, or begins it with all others."""
        assert self._client is not None and self._step is not None
        row = torch.zeros(raw.INTRODUCTION_COLUMNS, dtype=torch.int64, device="cpu")
        self._client.introduce(workload, row.data_ptr())
        layout = [int(self._step.loads_rows), CHOICES.index(self.nan), *(self._hook.layout if isinstance(self._hook, Hook) else [])]
        alignment = self._alignment = Alignment(members, self._client, self._model, self._optimizers,
                                                [schedule.target for schedule in self._schedules], layout, row, self)
        client = self._client
        members.steps_done = lambda: int(client.status().step)
        alignment.check_groups(members.told("groups"))
        everyone = False
        while alignment.rows is None:
            try:
                members.gather_members(everyone)
                everyone = not alignment.align()
                if everyone and members.can_begin:
                    for dealt in (self._draws, self._costs):
                        if dealt is not None:
                            dealt.agree(members)
                    alignment.rows = self._introduce(workload)
                    alignment.align()
            except Broken:
                members.broken = members.broken or "it was not formed"
            except BaseException:  # the script may catch it, and its process live on: nobody is to wait for that
                members.say_left()
                raise

    def _regroup(self, closes: bool = False) -> None:
        """Forms the group anew, and goes on behind the last step that any member has completed. `closes`: this member has."""
        members, step = self._peers, self._step
        assert isinstance(members, Members) and step is not None and self._alignment is not None
        began, before, reason = time.monotonic(), members.present, members.broken
        while members.broken:
            try:
                members.gather_members()
                self._alignment.align()
            except Broken:
                pass
            except Ended:
                self._end_without_state(told=not closes)
                return
            except BaseException:  # as in `_join_members`
                members.say_left()
                raise
        step.drop()
        if self._loader is not None:
            self._loader.deal_again()
        gone = [member for member in range(members.size) if before[member] and not members.present[member]]
        come = [member for member in range(members.size) if members.present[member] and not before[member]]
        _log.warning("the group was formed anew in %.3f s after step %d, members gone: %s, members come: %s (%s)",
                     time.monotonic() - began, step.client.status().step, gone, come, reason)

    def _end_without_state(self, told: bool) -> None:
        """The others have ended the training while this member was away, for longer than they wait."""
        assert self._step is not None and self._loader is not None
        self._step.drop()
        self._loader.is_over = True
        if told:
            _log.warning("the other members have ended the training without this one, which they had waited for: it ends, too, "
                         "with the state after step %d, and theirs is the newer one", self._step.client.status().step)

    def _meet(self, members: Members) -> None:
        """Waits a while until all are done, and gives the last step to those that are behind."""
        while not self._is_over:
            try:
                members.end()
                return
            except Broken:
                self._regroup(closes=True)
            except RuntimeError as problem:
                _log.warning("the others were not told that this member has finished: %s", problem)
                return

    @property
    def _is_over(self) -> bool:
        return self._loader is not None and self._loader.is_over
