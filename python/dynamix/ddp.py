# No postponed annotations: DistributedDataParallel compares a hook's with its own types.
"""The communication hook of DistributedDataParallel: it sums gradients weighted by each worker's part of the joined batch.

    bucket ready -> times own/total, in place -> all-reduce -> DDP copies the mean gradient to the parameters
"""
import atexit
import ctypes
import functools
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from .peers import Broken, Peers
from .step import Step

_distributed: Any = torch.distributed
_Future = torch.futures.Future

#: Callbacks that a thread of the process group's has not let go of yet.
_callbacks: "weakref.WeakSet[Callable[[Any], torch.Tensor]]" = weakref.WeakSet()
_RELEASE_SECONDS = 10.0  # a collective whose peers are gone keeps its callback
_SETTLE_SECONDS = 0.1    # what else a thread lets go of behind its callback, which nothing here can see
_hooks: "weakref.WeakSet[Hook]" = weakref.WeakSet()


class Hook:
    """What the hook of one model knows. Without a step it gives the plain mean, as DDP does by itself."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.step: Optional[Step] = None
        self.plain_share = 1 / peers.size
        self.layout: List[int] = []  # of the buckets, as the newest rehearsal found it: sizes, -1 before each
        self.sums: List[Any] = []  # the futures of the newest step
        self._keys: Dict[int, int] = {}  # of the parameters: the same number in every step, whatever their bucket
        _hooks.add(self)

    def _parts(self, bucket: Any) -> List[Tuple[object, torch.Tensor]]:
        keys = (self._keys.setdefault(id(parameter), len(self._keys)) for parameter in bucket.parameters())
        return list(zip(keys, bucket.gradients()))

    def reduce(self, bucket: Any) -> Any:
        """One bucket: returns the future of the mean gradient."""
        if bucket.index() == 0:
            self.sums.clear()
        values = bucket.buffer()
        if values.layout is not torch.strided:
            raise NotImplementedError("sparse gradients cannot be weighted; build the embedding with sparse=False")
        step = self.step
        if self.peers.broken or (step is None and self.peers.elastic):
            return self._leave(bucket)
        if step is None:
            values.mul_(self.plain_share)
            return self._all_reduce(values, None)
        try:
            return self._sum(step, bucket, values)
        except Broken:
            return self._leave(bucket)

    def _sum(self, step: Step, bucket: Any, values: torch.Tensor) -> Any:
        if bucket.index() == 0:
            step.open()
        parts = self._parts(bucket) if step.wants_sums else None
        step.scale(values, parts)
        future = self._all_reduce(values, functools.partial(step.summed, parts=parts) if step.wants_sums else None)
        if bucket.is_last():
            step.launch()
            _time_wait(step)
        return future

    def _leave(self, bucket: Any) -> Any:
        """As it is: a rehearsal, of which the layout is noted, or a step that is dropped."""
        if self.step is None:
            self.layout = [] if bucket.index() == 0 else self.layout
            self.layout += [-1, *(parameter.numel() for parameter in bucket.parameters())]
        left: Any = torch.futures.Future()
        left.set_result(bucket.buffer())
        return left

    def _all_reduce(self, values: torch.Tensor, then: Optional[Callable[[torch.Tensor], None]]) -> Any:
        future = self.peers.all_reduce(values).get_future()

        def take(done: Any) -> torch.Tensor:
            try:
                summed: torch.Tensor = done.value()[0]
            except RuntimeError as problem:
                if not self.peers.elastic:
                    raise
                self.peers.fail(str(problem))
            if self.peers.broken:  # the step is dropped
                return values
            if then is not None:
                then(summed)
            return summed

        _callbacks.add(take)
        reduced = future.then(take)
        self.sums.append(reduced)
        return reduced


@atexit.register
def _await_release() -> None:
    """Waits until no callback is left: the thread that lets go of one needs the interpreter for it, and would abort the
    process while that ends. The same is true of what a callback gave, which its future holds: the newest ones are kept
    for good, so that no such thread is the last to let go of one."""
    for hook in list(_hooks):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(hook.sums))
    limit = time.monotonic() + _RELEASE_SECONDS
    while _callbacks and time.monotonic() < limit:
        time.sleep(0.001)
    if _hooks:
        time.sleep(_SETTLE_SECONDS)


def _hook(state: Hook, bucket: _distributed.GradBucket) -> _Future[torch.Tensor]:
    future: _Future[torch.Tensor] = state.reduce(bucket)
    return future


def _time_wait(step: Step) -> None:
    """Counts the rest of the backward pass as waiting: all of this worker's gradients are there.

    DDP waits in a callback at the end of the pass, which it queues behind ours; one that ours queues runs behind it.
    """
    queue = torch.autograd.Variable._execution_engine.queue_callback
    began = time.perf_counter()

    def ended() -> None:
        step.exchange_seconds += time.perf_counter() - began

    queue(lambda: queue(ended))


def register(model: DistributedDataParallel, peers: Peers) -> Hook:
    """Registers the hook, and settles the layout of the buckets.

    Raises RuntimeError where the model has a hook already.
    """
    if any(getattr(module, "sparse", False) is True for module in model.modules()):
        raise NotImplementedError("sparse gradients cannot be weighted; build the embedding with sparse=False")
    wrapped: Any = model
    hook = Hook(peers)
    try:
        wrapped.register_comm_hook(hook, _hook)
    except RuntimeError as problem:
        raise RuntimeError(f"this model's communication hook is taken, and dynamix needs it: {problem}") from problem
    if peers.elastic and not can_rehearse(model):
        raise NotImplementedError("elastic=... needs DistributedDataParallel without static_graph and find_unused_parameters, "
                                  "no complex parameters and no gradients yet: members lay out their buckets alone")
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
