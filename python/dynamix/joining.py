"""`dynamix.join`: looks at everything that a script gives it before anything of the script's is touched."""
from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, List, Optional, Sequence, Union

import torch
import torch.distributed
from torch.optim import Optimizer

from . import agent as agents
from . import structures as raw
from .elastic import members_through
from .finite import CHOICES, Finite
from .flat_shards import flat_group_of, is_sharded
from .gradients import check_model, unwrapped
from .optimizer import agreed_adaptive, check_optimizer, warn_of_strangers
from .peers import Peers, group_of, is_initialized
from .run import Run
from .sharded import mesh_of
from .world import NO_NUMPY, torch_problem, world_problem


def _world_problem() -> str:
    """Of the default process group."""
    there = is_initialized()
    return world_problem(os.environ.get("WORLD_SIZE", ""), torch.distributed.get_world_size() if there else 1,
                         torch.distributed.get_backend() if there else None)


def _listed(optimizer: Any) -> List[Optimizer]:
    """The optimisers of a run. Raises TypeError for anything else."""
    optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    for each in optimizers:
        if not isinstance(each, Optimizer):
            raise TypeError(f"optimizer is a {type(each).__name__}; give the torch.optim optimiser that is stepped, or a list of "
                            "them")
    if not optimizers or len({id(each) for each in optimizers}) < len(optimizers):
        raise TypeError("optimizer is an empty list, or names one optimiser twice; give those that are stepped")
    return optimizers


def _drops_steps(scaler: Any) -> bool:
    """It is a GradScaler, and enabled."""
    return scaler is not None and bool(getattr(scaler, "is_enabled", lambda: True)())


def _check_arguments(model: torch.nn.Module, optimizers: List[Optimizer], rule: Optional[str], weighting: str, elastic: Any,
                     scaler: Any, nan: Optional[str]) -> None:
    """Raises TypeError, ValueError or NotImplementedError for what cannot be joined."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}; give the module that is trained")
    if rule not in raw.RULES:
        raise ValueError(f"rule={rule!r}: one of {', '.join(repr(name) for name in raw.RULES)}")
    if weighting not in ("gradients", "loss"):
        raise ValueError(f"weighting={weighting!r}: \"gradients\" or \"loss\"")
    by_loss = weighting == "loss"
    if nan not in CHOICES:
        raise ValueError(f"nan={nan!r}: one of {', '.join(map(repr, CHOICES))}")
    if nan is not None and by_loss:
        raise NotImplementedError("nan=... looks at each member's own gradient, which weighting=\"loss\" has none of")
    if nan == "stop" and _drops_steps(scaler):
        raise NotImplementedError("nan=\"stop\" and a GradScaler, which drops steps whose gradient is not finite, and then lowers its "
                                  "scale: leave nan out")
    check_model(unwrapped(model), by_loss)
    for optimizer in optimizers:
        check_optimizer(optimizer, rule)
    if by_loss and (rule == "adascale" or elastic is not None):
        raise NotImplementedError("weighting=\"loss\" goes without AdaScale, which needs each member's own gradient, and without "
                                  "elastic=...")
    if elastic is not None and is_sharded(model):
        raise NotImplementedError("elastic=... and a sharded model: a member that dies takes its shards with it. Leave elastic out, save by "
                                  "torch.distributed.checkpoint, and let torchrun restart the group")
    if elastic is not None and _drops_steps(scaler):
        raise NotImplementedError("elastic=... does not keep a GradScaler's scale equal on all members; train without it")


def join(model: torch.nn.Module, optimizer: Union[Optimizer, Sequence[Optimizer]], *, scheduler: Any = None,
         rule: Optional[str] = None, agent: agents.Agent = "auto", scaler: Any = None, process_group: Any = None, adaptive: Optional[bool] = None,
         noise_interval: int = 0, window_steps: int = 0, elastic: Any = None, elastic_seconds: float = 60,
         elastic_least: int = 0, weighting: str = "gradients", balance: Optional[bool] = None, nan: Optional[str] = None) -> Run:
    """Joins a training script to Dynamix. All members call it at the same place, after `init_process_group` (a single
    process needs none).

    From now on the gradients of unequal batches are averaged as those of the joined batch, the optimiser's learning rate
    follows the global batch, and an agent, where there is one, decides each worker's batch size.

    Args:
        model: in DistributedDataParallel, or sharded by `fully_shard` or FullyShardedDataParallel; or a plain module, with `run.average_gradients()` in each
            step. Each may be compiled.
        optimizer: any of torch.optim but LBFGS; ASGD and Rprop with rule="constant" only. Its class is exchanged for a
            subclass until `run.close()`. Several as a list, each of which makes one step for the same gradients; another one
            that steps parameters of the model is an error.
        scheduler: one or several that step once a batch; they advance by progress instead. Leave out those that step once
            an epoch.
        rule: how the learning rate follows the global batch: "constant", "linear", "square-root" or "adascale". None: as
            the agent says, and constant without one.
        agent: "auto": as $DYNAMIX_AGENT says, and without it none, with a warning; a path: of its socket, or of the
            directory of sockets; None: member 0 starts agents for all, which must be on one machine; "off": none.
        scaler: the GradScaler, if there is one: steps that it leaves out are then counted.
        process_group: of the gradients of a plain model; the default group by default.
        adaptive: the optimiser's steps do not grow with the gradient (Adam); known for those of torch.optim, and for others
            that have betas. Needed for several of both kinds under AdaScale.
        elastic: a torch.distributed store that outlives any member (TCPStore of another process, or FileStore): the run goes
            on when members die, and takes them back when they are started again (docs/sdk.md). $RANK and $WORLD_SIZE say
            which member this is; torch.distributed, where it is needed, is initialised with this process alone.
        elastic_seconds: how long members wait for each other, in collectives and when the group is formed anew.
        elastic_least: members that training begins with, in [1, $WORLD_SIZE]; 0: all. The others may come for the first time while
            it goes on, with the options of those who have; the global batch is that of $WORLD_SIZE members from the beginning.
        noise_interval: the gradient noise is measured every so many steps, and in each of the first 16; 0: twice a window.
        window_steps: steps between decisions, for a run without an agent; 0: the agent's, or 10.
        weighting: "gradients": where they are summed (DistributedDataParallel, sharded models, `run.average_gradients()`). "loss": by
            `run.scale(loss)`, for what sums gradients by itself (FSDP's hybrid strategies, a communication hook of the script's own); without the
            gradient noise, and so without AdaScale (where the agents' rule is that, the square root), and without times of steps,
            which agents' policies need to see which host is slow.
        balance: whether the members share the global batch by their own paces at every step, between decisions, too. None: as
            the cluster file says ([arbitrator] balance), and not without an agent.
        nan: what becomes of a step whose gradient is not finite on any member. None: it is made as without dynamix, and the log names
            the member, of the steps whose noise is measured. "drop": no member's optimiser makes it, and the log names the member;
            50 in a row are an error. "stop": a DynamixError on all members before it. The same on all; both pass over the gradients
            once more in each step, and on a GPU wait for it. A GradScaler drops such steps itself, and "drop" leaves it to that.

    Returns the run, of which the script uses `loader`, and `state_dict` for checkpoints.

    Raises NotImplementedError for what cannot be weighted (tensor parallelism, sparse gradients), RuntimeError for a torch older than 2.6 and
    for a process group of one where $WORLD_SIZE promises more, DynamixError where the agent cannot be reached or refuses.
    """
    observation: Any = sys.modules.get("dynamix.observation")
    if observation is not None:  # the agent is this run's
        observation.stand_aside()
    problem = torch_problem(torch.__version__) or ("" if importlib.util.find_spec("numpy") else NO_NUMPY.format(sys.executable))
    if not problem and elastic is None and process_group is None:
        problem = _world_problem()
    if problem:
        raise RuntimeError(problem)
    optimizers = _listed(optimizer)
    _check_arguments(model, optimizers, rule, weighting, elastic, scaler, nan)
    known = agreed_adaptive(optimizers, rule) if adaptive is None else adaptive
    schedulers = [] if scheduler is None else list(scheduler) if isinstance(scheduler, (list, tuple)) else [scheduler]
    options = {"adaptive": bool(known), "noise_interval": noise_interval,
               "window_steps": window_steps, "balance": raw.BALANCES[balance]}
    if process_group is None and weighting == "gradients":
        process_group = flat_group_of(model)
    if elastic_least and elastic is None:
        raise ValueError("elastic_least=... is of an elastic run: give elastic=store, too")
    peers = (Peers(group_of(unwrapped(model), process_group, mesh_of(model))) if elastic is None else
             members_through(elastic, agent, elastic_seconds, elastic_least))
    if peers.size > 1 and peers.position == 0:
        warn_of_strangers(optimizers, unwrapped(model))
    finite = Finite(nan, peers, is_sharded(model)) if nan is not None and not _drops_steps(scaler) else None
    return Run(model, optimizers, schedulers, rule, agent, scaler, peers, weighting == "loss", options, known is None, finite)
