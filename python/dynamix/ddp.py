# No postponed annotations: DistributedDataParallel compares a hook's with its own types.
"""The communication hook of DistributedDataParallel: it sums gradients weighted by each worker's part of the joined batch.

    bucket ready -> times own/total, in place -> all-reduce is under way
    last bucket  -> waits for all of them -> DDP copies the mean gradients to the parameters

No code of ours runs on a thread of the process group's: such a thread would need the interpreter, and one that needs it
while the script ends aborts the process.
"""
import functools
import sys
import weakref
from typing import Any, Dict, List, NamedTuple, Optional

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from .kernels import as_real, numbers_of
from .peers import Broken, Peers
from .step import Step

_distributed: Any = torch.distributed
_hooks: "weakref.WeakKeyDictionary[DistributedDataParallel, Hook]" = weakref.WeakKeyDictionary()  # a model can have one
_Future = torch.futures.Future


def _time_broadcasts() -> None:
    """A model's broadcast of its buffers waits for member 0 in each forward pass, as sums of gradients wait for all. The class is
    changed, since a copy of the model would have an attribute of its own."""
    known: Any = getattr(DistributedDataParallel, "_sync_buffers", None)
    if known is None or getattr(known, "is_timed", False):
        return

    @functools.wraps(known)
    def timed(model: DistributedDataParallel) -> None:
        hook = _hooks.get(model)
        step = hook.step if hook is not None else None
        since = step.mark() if step is not None else None
        known(model)
        if step is not None:
            step.waited(since)

    wrapped: Any = DistributedDataParallel
    compiler: Any = torch.compiler
    uncompiled: Any = compiler.disable(timed) if "torch._dynamo" in sys.modules else timed  # which would trace the clock
    uncompiled.is_timed = True
    wrapped._sync_buffers = uncompiled


class _Pending(NamedTuple):
    """A bucket that is being summed."""

    values: torch.Tensor         # real
    given: torch.Tensor          # to DDP: the same memory, complex where the parameters are
    sent: torch.Tensor           # the same, or with the members' rows behind them
    counts: Optional[List[int]]  # of numbers whose squares are wanted: of each parameter, or of all
    work: Any
    future: Any  # that DDP waits for


class _Registered(List[Any]):
    """What a model remembers of its hooks; a copy, or one that is read from a file, has none and needs no dynamix."""

    def __reduce__(self) -> Any:
        return list, ()


class Hook:
    """What the hook of one model knows. Without a step it gives the plain mean, as DDP does by itself."""

    def __init__(self, peers: Peers) -> None:
        self.serve(peers)

    def serve(self, peers: Peers) -> None:
        """A run among these peers begins."""
        self.peers = peers
        self.step: Optional[Step] = None
        self.plain_share = 1 / peers.size
        self.layout: List[int] = []  # of the buckets, as the newest rehearsal found it: sizes, -1 before each
        self._pending: List[_Pending] = []  # of the pass under way
        self._is_within_pass = False        # its last bucket has not come
        self.is_free = False  # its run is closed

    def __reduce__(self) -> Any:
        return dict, ()  # a model that is saved whole, or copied, has joined nothing

    def release(self) -> None:
        """Its run is closed; another one may take it."""
        self.step, self.is_free = None, True

    def reduce(self, bucket: Any) -> Any:
        """One bucket: returns the future of the mean gradient."""
        if bucket.index() == 0:
            self._pending = []
        self._is_within_pass = not bucket.is_last()
        values = bucket.buffer()
        if values.layout is not torch.strided:
            raise NotImplementedError("sparse gradients cannot be weighted; build the embedding with sparse=False")
        if self.peers.broken or (self.step is None and self.peers.elastic):
            future = self._leave(bucket)
        else:
            try:
                future = self._sum(bucket, values)
            except Broken:
                future = self._leave(bucket)
        if bucket.is_last():
            self._finish()
        return future

    def _sum(self, bucket: Any, buffer: torch.Tensor) -> Any:
        values = as_real(buffer)
        step, counts, sent = self.step, None, values
        if step is None:
            values.mul_(self.plain_share)
        else:
            if bucket.index() == 0:
                step.open()
            if step.measures:
                counts = [numbers_of(parameter) for parameter in bucket.parameters()]
            elif step.wants_squares:
                counts = [values.numel()]
            loaded = step.load_row(values, counts) if bucket.is_last() and values is buffer else None
            if loaded is None:
                step.scale(values, counts)
            else:
                sent, values = loaded
                buffer = values
        on_device: Any = [values.device] if values.device.type != "cpu" else None
        future: Any = torch.futures.Future(devices=on_device)
        self._pending.append(_Pending(values, buffer, sent, counts, self.peers.all_reduce(sent), future))
        if step is not None and bucket.is_last():
            step.launch()
        return future

    def check_pass(self, model: DistributedDataParallel) -> None:
        """Raises DDP's own error, with its advice, where the backward pass has not reached all parameters: it comes with the next
        forward pass, and before that others wait for this member."""
        if self.step is not None and self.step.opened and not self._is_within_pass:
            return
        ask: Any = getattr(getattr(model, "reducer", None), "_rebuild_buckets", None)
        if ask is not None:
            ask()

    def _finish(self) -> None:
        """All of this worker's gradients are there. Waits for the others' (on a GPU its stream does), as DDP would do next."""
        step = self.step
        self.peers.held = [pending.work for pending in self._pending]
        for pending in self._pending:
            try:
                if not self.peers.broken:
                    self._wait(pending, step)
            except Broken:  # the step is dropped
                pass
            pending.future.set_result(pending.given)

    @staticmethod
    def _wait(pending: _Pending, step: Optional[Step]) -> None:
        if step is None:
            pending.work.wait()
            return
        step.wait(pending.work)
        if pending.sent is not pending.values:
            step.unload_rows()
        if pending.counts is not None:
            step.summed(pending.values, pending.counts)

    def _leave(self, bucket: Any) -> Any:
        """As it is: a rehearsal, of which the layout is noted, or a step that is dropped."""
        if self.step is None:
            self.layout = [] if bucket.index() == 0 else self.layout
            self.layout += [-1, *(parameter.numel() for parameter in bucket.parameters())]
        left: Any = torch.futures.Future()
        left.set_result(bucket.buffer())
        return left


def is_served(model: DistributedDataParallel) -> bool:
    """It has joined a run that is open."""
    hook = _hooks.get(model)
    return hook is not None and not hook.is_free


def _hook(state: Hook, bucket: _distributed.GradBucket) -> _Future[torch.Tensor]:
    future: _Future[torch.Tensor] = state.reduce(bucket)
    return future


def register(model: DistributedDataParallel, peers: Peers) -> Hook:
    """Registers the hook, and settles the layout of the buckets.

    Raises RuntimeError where the model has a hook already.
    """
    if any(getattr(module, "sparse", False) is True for module in model.modules()):
        raise NotImplementedError("sparse gradients cannot be weighted; build the embedding with sparse=False")
    if getattr(model, "_delay_all_reduce_params", None):
        raise NotImplementedError("delay_all_reduce_named_params: DistributedDataParallel sums these gradients by itself, as a plain mean; "
                                  "leave it out")
    if peers.elastic and model.find_unused_parameters:
        # It looks for them in its own group, which is this member alone, and drops what the others' branches gave.
        raise NotImplementedError("elastic=... and find_unused_parameters: DistributedDataParallel would leave out the "
                                  "gradients of what only other members used; give dynamix.join the model itself, and "
                                  "call run.average_gradients() between backward and the optimiser's step")
    if peers.elastic and not can_rehearse(model):
        raise NotImplementedError("elastic=... needs DistributedDataParallel without static_graph, no complex parameters "
                                  "and no gradients yet: members lay out their buckets alone")
    _time_broadcasts()
    wrapped: Any = model
    hook, before = Hook(peers), _hooks.get(model)
    if before is not None and before.is_free:
        hook = before
        hook.serve(peers)
    elif before is not None:
        raise RuntimeError("this model has joined already: call run.close(again=True) before it joins once more")
    else:
        try:
            wrapped.register_comm_hook(hook, _hook)
        except RuntimeError as problem:
            raise RuntimeError(f"this model's communication hook is taken, and dynamix needs it: {problem}") from problem
        wrapped._comm_hooks = _Registered(getattr(wrapped, "_comm_hooks", ()))
        _hooks[model] = hook
    if can_rehearse(model):
        sum_accumulated(model)
        if peers.elastic:
            sum_accumulated(model)  # the layout of the first pass is not that of the others
        for parameter in model.parameters():
            parameter.grad = None
    return hook


class _Rehearsal(torch.nn.Module):
    """Stands in for the user's model: its backward reaches each parameter, and gives each a gradient of zeros."""

    def __init__(self, parameters: List[torch.nn.Parameter]) -> None:
        super().__init__()
        self._all = tuple(parameters)  # in a tuple, so that they do not become parameters of this module, too

    def forward(self) -> torch.Tensor:
        # The engine takes the newest node first, so gradients come from the last parameter to the first.
        zeros = [parameter.sum().float() * 0 for parameter in self._all]
        return torch.stack([zero.to(zeros[0].device) for zero in zeros]).sum()


def can_sum_later(model: DistributedDataParallel) -> bool:
    """Whether `sum_accumulated` works for this model."""
    return not (getattr(model, "static_graph", False) or model.find_unused_parameters or
                any(parameter.is_complex() for parameter in model.parameters() if parameter.requires_grad))


def can_rehearse(model: DistributedDataParallel) -> bool:
    """Whether DDP lays its buckets out anew behind the first backward pass, and a pass of ours may be that one.

    It rebuilds them in the order of that pass. Where this happens before training, it happens the same way on all members
    and on each resume, which is why resumed training gives the same bits.
    """
    return can_sum_later(model) and all(parameter.grad is None for parameter in model.parameters())


def sum_accumulated(model: DistributedDataParallel) -> None:
    """Runs one backward pass over zeros through DDP, which sums the gradients that parameters hold already."""
    module = model.module
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    modules: Dict[str, Any] = model._modules
    wrapped: Any = model
    modules["module"] = _Rehearsal(parameters)
    wrapped.require_forward_param_sync = False  # the stand-in has no buffers to broadcast
    try:
        with torch.enable_grad():
            wrapped().backward()
    finally:
        modules["module"] = module
        wrapped.require_forward_param_sync = True
