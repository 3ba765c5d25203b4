"""Models in FullyShardedDataParallel (FSDP1), whose shards are parts of flat parameters: weighted and timed as `sharded` does it.

    parameters of a module are wanted -> the handle's all-gather                                     waits, timed
    gradients of a module are there   -> communication hook: times own/total -> reduce-scatter       waits, timed
                                                              (NO_SHARD)     -> all-reduce           waits, timed

The hook is torch's own way to sum otherwise (`register_comm_hook`). For the all-gather there is none: each handle is given an
attribute of its method's name, which calls the method.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional

import torch
import torch.distributed

from .peers import Peers
from .sharded import BY_LOSS, Collectives, Shards, parts_of, reduce_scatter

_distributed: Any = torch.distributed
_GATHER = "_all_gather_flat_param"


def flat_parts_of(model: torch.nn.Module) -> List[Any]:
    """The modules in torch's FullyShardedDataParallel; none where there is no such."""
    return [module for module in model.modules()
            if any(base.__name__ == "FullyShardedDataParallel" and base.__module__.startswith("torch.distributed.fsdp")
                   for base in type(module).__mro__)]


def is_sharded(model: torch.nn.Module) -> bool:
    """By either."""
    return bool(parts_of(model) or flat_parts_of(model))


def collectives_of(model: torch.nn.Module, peers: Peers) -> Collectives:
    """Of a model that is sharded, for this run. Raises NotImplementedError."""
    return Shards(model, peers) if parts_of(model) else FlatShards(model, peers)


def _strategies(parts: List[Any]) -> List[str]:
    return sorted({part.sharding_strategy.name for part in parts})


def flat_problem(model: torch.nn.Module) -> str:
    """Why gradients of this model, which says that FSDP sums them, cannot be weighted there; empty where they can."""
    parts = flat_parts_of(model)
    if not parts:
        return f"this FSDP is not torch's, and sums gradients where nobody can weight them: use fully_shard, or {BY_LOSS}"
    strategies = _strategies(parts)
    if len(strategies) > 1 or "HYBRID" in strategies[0]:
        return f"FSDP takes no communication hook for {' and '.join(strategies)}: use fully_shard, or {BY_LOSS}"
    if any(part._comm_hook is not None for part in parts):
        return f"this FSDP has a communication hook already: {BY_LOSS}"
    if any(part._handle is not None and not hasattr(part._handle, _GATHER) for part in parts):
        return f"the FSDP of torch {torch.__version__} does not show how long it waits for others: use fully_shard, or {BY_LOSS}"
    if any(part.cpu_offload.offload_params for part in parts):
        return f"FSDP moves this model's parameters to the host, where no clock of the device's is read: {BY_LOSS}"
    sharded = {id(parameter) for part in parts for parameter in part.parameters()}
    ignored = {id(parameter) for part in parts for parameter in part._ignored_params}
    if any(parameter.requires_grad and id(parameter) in ignored | ({id(parameter)} - sharded) for parameter in model.parameters()):
        return "FSDP leaves out parameters of this model that are trained, so nobody sums their gradients: wrap the model as a whole, " \
               "or set their requires_grad to False"
    return ""


def flat_group_of(model: torch.nn.Module) -> Optional[Any]:
    """The process group that it is sharded over; None where it is not, or over all processes."""
    group = next((part.process_group for part in flat_parts_of(model)), None)
    return group if group is not None and group.size() < _distributed.get_world_size() else None


class FlatShards(Collectives):
    """The collectives of one model. A run that closes gives torch's own back."""

    def __init__(self, model: torch.nn.Module, peers: Peers) -> None:
        """Raises NotImplementedError where the shards' members are not those of the run."""
        self._parts = flat_parts_of(model)
        others = {part.process_group.size() for part in self._parts} - {peers.size}
        if others:
            raise NotImplementedError(f"parts of the model are sharded over {others.pop()} processes, and {peers.size} train together: "
                                      "give them one process group")
        super().__init__(peers, 0 if _strategies(self._parts) == ["NO_SHARD"] else 1)
        self._handles = [part._handle for part in self._parts if part._handle is not None]
        for part in self._parts:
            part._comm_hook, part._comm_hook_state = self._reduce, None
        for handle in self._handles:
            setattr(handle, _GATHER, self._timed(getattr(handle, _GATHER)))

    def release(self) -> None:
        super().release()
        for part in self._parts:
            part._comm_hook = None
        for handle in self._handles:
            delattr(handle, _GATHER)

    def _timed(self, gather: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        def gather_and_time(parameters: torch.Tensor) -> Any:
            step = self.step
            if step is None:
                return gather(parameters)
            since = step.mark()
            gathered = gather(parameters)
            step.waited(since)
            return gathered
        return gather_and_time

    def _reduce(self, _: Any, gradients: torch.Tensor, shard: Optional[torch.Tensor] = None) -> None:
        """What FSDP calls with a part's gradients, and room for this member's shard of their sum; without it, in their place."""
        self.scale(gradients)
        summed = gradients if shard is None else shard
        add, group = _distributed.ReduceOp.SUM, self._parts[0].process_group

        def start(later: bool) -> Any:
            if shard is None:
                return _distributed.all_reduce(gradients, op=add, group=group, async_op=later)
            return reduce_scatter(shard, gradients, op=add, group=group, async_op=later)

        self.collect(1, start, gradients, False)
        self.summed(summed)
