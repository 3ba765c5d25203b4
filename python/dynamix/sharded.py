"""Models that `fully_shard` has sharded (FSDP2, HSDP): gradients weighted by each worker's part of the joined batch, and the time
that this worker waits for others, which passes inside of its forward and backward passes.

    parameters of a module are wanted -> all-gather                                         waits, timed
    gradients of a module are there   -> times own/total, in place -> reduce-scatter        waits, timed
                                                          (HSDP)   -> all-reduce, torch's   waits, timed by the hook behind it
    the backward pass ends            -> the row is under way, and the square of this member's shards of the mean gradient

All of it goes through what torch offers for the purpose: a custom all-gather and reduce-scatter, a divisor of 1 and a hook behind
the all-reduce. On the CPU a collective blocks, so its wall time is what this worker waited. On a GPU it runs on a stream of its
own, and events around it say how long it took, its overlap with computing included.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional

import torch
import torch.distributed

from .leaving import Watched
from .peers import Peers
from .step import Step

_distributed: Any = torch.distributed
# Torch has renamed them.
_all_gather: Any = getattr(_distributed, "all_gather_single", getattr(_distributed, "all_gather_into_tensor", None))
reduce_scatter: Any = getattr(_distributed, "reduce_scatter_single", getattr(_distributed, "reduce_scatter_tensor", None))
_SETTERS = ("set_custom_all_gather", "set_custom_reduce_scatter", "set_gradient_divide_factor", "set_all_reduce_hook")
BY_LOSS = "join with weighting=\"loss\", and call run.scale(loss).backward() in each step"


def parts_of(model: torch.nn.Module) -> List[Any]:
    """The modules that `fully_shard` was called on; none where it was not."""
    return [module for module in model.modules() if any(base.__name__ == "FSDPModule" for base in type(module).__mro__)]


def _groups(part: Any) -> List[Any]:
    """Torch's groups of the parameters of a part; none where this torch keeps them elsewhere."""
    state = part._get_fsdp_state() if hasattr(part, "_get_fsdp_state") else None
    found = getattr(state, "_fsdp_param_groups", None)
    return list(found) if found is not None else [each for each in [getattr(state, "_fsdp_param_group", None)] if each]


def _names(placements: Any) -> List[str]:
    return [type(placement).__name__ for placement in placements]


def sharding_problem(model: torch.nn.Module) -> str:
    """Why gradients of this model, which holds DTensors, cannot be weighted where they are summed; empty where they can."""
    parts = parts_of(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    layouts: List[Any] = [getattr(parameter, "placements", None) for parameter in trained]
    if any(layout is not None and _names(layout) not in (["Shard"], ["Replicate", "Shard"]) for layout in layouts):
        return ("tensor parallelism splits parameters of this model over processes that train on the same samples, and dynamix "
                "weights the members of data parallelism only: leave parallelize_module out, or join a DistributedDataParallel")
    if not parts:
        return ("this model's parameters are DTensors that fully_shard has not made (by tensor parallelism, say): nobody can weight "
                "what sums their gradients")
    if None in layouts:
        return ("fully_shard leaves out parameters of this model that are trained, so nobody sums their gradients: call it on the "
                "model as a whole, too, or set their requires_grad to False")
    missing = [name for name in _SETTERS if not hasattr(parts[0], name)]
    if missing:
        return f"the fully_shard of torch {torch.__version__} has no {missing[0]}, so its sums cannot be weighted: {BY_LOSS}"
    for part in parts:
        for group in _groups(part):
            if not _is_untouched(group):
                return f"this model's reduce-scatter, its divisor or its all-reduce hook are the script's own: {BY_LOSS}"
    return ""


def _is_untouched(group: Any) -> bool:
    """A part's collectives are torch's own, or those of a run that is closed."""
    ours = getattr(group, "_reduce_scatter_comm", None)
    if isinstance(ours, _ReduceScatter):
        return ours.shards.is_free
    names = {type(getattr(group, name, None)).__name__ for name in ("_reduce_scatter_comm", "_all_gather_comm")}
    return (names <= {"DefaultReduceScatter", "DefaultAllGather", "NoneType"} and
            getattr(group, "gradient_divide_factor", None) is None and getattr(group, "_all_reduce_hook", None) is None)


def mesh_of(model: torch.nn.Module) -> Any:
    """The device mesh that its parameters are sharded over; None where they are not."""
    return next((mesh for mesh in (getattr(parameter, "device_mesh", None) for parameter in model.parameters())
                 if mesh is not None), None)


class Collectives:
    """Those of one sharded model. Without a step they give the plain mean, as torch's own do."""

    def __init__(self, peers: Peers, replicas: int) -> None:
        """`replicas`: of each shard; 0: every member has all of them."""
        self.peers = peers
        self.replicas = replicas
        self.step: Optional[Step] = None
        self.is_free = False   # its run is closed
        self._is_within_pass = False
        self._waits_since: Any = None  # for torch's own all-reduce
        self._held: List[Any] = [None, None]

    def release(self) -> None:
        """Its run is closed; another one may take the model."""
        self.step, self.is_free = None, True

    def collect(self, place: int, start: Callable[[bool], Any], values: torch.Tensor, is_async: bool) -> Any:
        """Runs a collective, and counts how long this member waits for it. `place`: of its newest one, which is kept."""
        step = self.step
        if values.device.type == "cpu":
            work = start(True)
            self._held[place] = work
            self.peers.held = self._held
            watched = Watched(work, self.peers.notes)
            if step is None:
                watched.wait()
            else:
                step.wait(watched)
            return None
        since = step.mark() if step is not None else None
        work = start(is_async)
        if step is not None:
            step.waited(since)
        return work

    def scale(self, values: torch.Tensor) -> None:
        """This member's gradients of one part of the model, before they are summed."""
        step = self.step
        if step is None:
            values.mul_(1 / self.peers.size)
            return
        if not (self._is_within_pass and step.opened):
            engine: Any = torch.autograd.Variable
            engine._execution_engine.queue_callback(self._end_pass)
            self._is_within_pass = True
            step.open()
            if not step.measures:
                step.launch()
        step.scale(values, [values.numel()])

    def summed(self, values: torch.Tensor) -> None:
        """This member's shard of a sum. With replicas it is that of their own, and the all-reduce comes next."""
        if self.replicas > 1:
            self._waits_since = self.step.mark() if self.step is not None else None
        elif self.step is not None:
            self.step.summed(values, [values.numel()])

    def _end_pass(self) -> None:
        self._is_within_pass = False
        if self.step is not None:
            self.step.launch()


class Shards(Collectives):
    """Of `fully_shard`."""

    def __init__(self, model: torch.nn.Module, peers: Peers) -> None:
        """Raises NotImplementedError where the shards' members are not those of the run."""
        mesh = mesh_of(model)
        super().__init__(peers, int(mesh.size(0)) if mesh.ndim == 2 else 1)
        if mesh.size() != peers.size:
            raise NotImplementedError(f"the model is sharded over {mesh.size()} processes, and {peers.size} train together: give "
                                      "dynamix.join their process_group, and leave other kinds of parallelism out")
        if self.replicas == peers.size > 1:
            raise NotImplementedError("each shard of this model is a whole one: use DistributedDataParallel, which does the same")
        for part in parts_of(model):
            part.set_custom_all_gather(_AllGather(self))
            part.set_custom_reduce_scatter(_ReduceScatter(self))
            part.set_gradient_divide_factor(1.0)
            if self.replicas > 1 or peers.size == 1:
                part.set_all_reduce_hook(self._reduced)

    def _reduced(self, values: torch.Tensor) -> None:
        """Torch's all-reduce has ended; of a member that is alone, no sum has gone before it."""
        if self.peers.size == 1:
            self.scale(values)
        step, since, self._waits_since = self.step, self._waits_since, None
        if step is not None:
            if since is not None:
                step.waited(since)
            step.summed(values, [values.numel()])


class _Collective:
    """What `fully_shard` calls."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class _AllGather(_Collective):
    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False) -> Any:
        return self.shards.collect(0, lambda later: _all_gather(
            output_tensor, input_tensor, group=group, async_op=later), output_tensor, async_op)


class _ReduceScatter(_Collective):
    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False) -> Any:
        # `op` would be torch's mean, or its product with the divisor, which is 1.
        self.shards.scale(input_tensor)
        work = self.shards.collect(1, lambda later: reduce_scatter(
            output_tensor, input_tensor, group=group, op=_distributed.ReduceOp.SUM, async_op=later), input_tensor, async_op)
        self.shards.summed(output_tensor)
        return work
