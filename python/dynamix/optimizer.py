"""The user's optimiser, GradScaler and schedulers take part: the class of the very object is exchanged for a subclass.

Nothing enters the object's own attributes, which a scheduler's `state_dict` would save, and no `step` of it is replaced,
which schedulers do themselves.
"""
from __future__ import annotations

import copyreg
import functools
import gc
import logging
import weakref
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Set, Tuple, Type

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ChainedScheduler, ReduceLROnPlateau
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .ddp import is_served

_log = logging.getLogger("dynamix")
#: The optimisers of torch.optim. Those whose step does not grow with the gradient: their rate follows the square root of
#: AdaScale's gain.
ADAPTIVE = {"Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RAdam", "RMSprop", "SparseAdam"}
PROPORTIONAL = {"SGD"}
#: Those that take the learning rate of another step than the present one, so that no rule can multiply it.
WITHOUT_RULE = {"ASGD": "steps by the rate of the step before", "Rprop": "takes the rate of its first step alone"}
REFUSED = {"LBFGS": "evaluates its closure many times in one step; a step takes one gradient here"}

_RUSH = 8  # steps of the optimiser before a schedule's, of which a person is told at once
_JOINED = "_has_joined_dynamix"  # of an optimiser's class, while a run is open


class Steps(Protocol):
    """What of a run the optimiser drives."""

    def note_loss(self, loss: Any) -> None:
        """Of the batch at hand, where the script does not report it."""

    def before_step(self) -> Optional[float]:
        """Returns the factor on the learning rate; None where the step is dropped."""

    def after_step(self, skipped: bool) -> None: ...

    def clear_gradients(self) -> None:
        """Gradients of an optimiser have been dropped."""

    def leave_out_step(self) -> None:
        """The GradScaler is done with this step; where the optimiser did not step, the step was left out."""

    @property
    def awaits_gradients(self) -> bool:
        """No gradients have come yet for the optimiser to step by."""

    @property
    def progress(self) -> float:
        """In steps of the base batch."""

    @property
    def steps_made(self) -> int:
        """Optimisers' steps since the run began, or none made."""

    @property
    def batches_taken(self) -> int:
        """For the step under way."""


def innermost(optimizer: Optimizer) -> Optimizer:
    """The optimiser within those that wrap it, as ZeroRedundancyOptimizer, accelerate's and apex's do."""
    for name in ("optim", "optimizer"):
        inner = getattr(optimizer, name, None)
        if isinstance(inner, Optimizer) and inner is not optimizer:
            return innermost(inner)
    return optimizer


def has_joined(optimizer: Optimizer) -> bool:
    """Its steps are those of a run that is open."""
    return bool(getattr(type(optimizer), _JOINED, False))


def _kinds(optimizer: Optimizer) -> List[str]:
    """The names of its class and of those above it; of the optimiser within it where it wraps one."""
    return [base.__name__ for base in type(innermost(optimizer)).__mro__]


def is_of_torch(optimizer: Optimizer) -> bool:
    """It is one of torch.optim, and not around another one."""
    return innermost(optimizer) is optimizer and any(base.__module__.startswith("torch.optim.") and base.__name__ in ADAPTIVE | PROPORTIONAL
                                                     for base in type(optimizer).__mro__)


def is_adaptive(optimizer: Optimizer) -> Optional[bool]:
    """Whether the optimiser is of Adam's kind: by its name, or by its betas (FusedAdam, LAMB, Adam8bit). None: not known."""
    kinds = _kinds(optimizer)
    if not ADAPTIVE.isdisjoint(kinds):
        return True
    if not PROPORTIONAL.isdisjoint(kinds) or not set(WITHOUT_RULE).isdisjoint(kinds):
        return False
    return True if any("betas" in group for group in innermost(optimizer).param_groups) else None


def agreed_adaptive(optimizers: Sequence[Optimizer], rule: Optional[str]) -> Optional[bool]:
    """Of all optimisers of a run; None where it is not known. Raises ValueError where they differ and the rule needs to know."""
    kinds = {is_adaptive(optimizer) for optimizer in optimizers}
    if kinds >= {True, False} and rule in (None, "adascale"):
        names = " and ".join(dict.fromkeys(type(innermost(optimizer)).__name__ for optimizer in optimizers))
        raise ValueError(f"{names} are of two kinds: AdaScale multiplies the rate of one by its gain, and of the other by "
                         "the gain's root; join with adaptive=True or adaptive=False, which then holds for all, or with another rule")
    return True in kinds if None not in kinds else None


def warn_of_unknown_kind(optimizers: Sequence[Optimizer]) -> None:
    """Under AdaScale, where it is not known whether they are adaptive."""
    _log.warning("dynamix does not know whether the steps of %s grow with the gradient, and takes them for such as SGD's; where they "
                 "do not, as Adam's, AdaScale's gain is too large: join with adaptive=True (False: no warning)",
                 " and ".join(type(each).__name__ for each in optimizers))


def warn_of_strangers(optimizers: Sequence[Optimizer], model: torch.nn.Module) -> None:
    """Of parameters that are stepped and are not part of the model, among several members: a loss's own, say."""
    known = {id(parameter) for parameter in model.parameters()}
    count = sum(each.requires_grad and id(each) not in known
                for optimizer in optimizers for group in optimizer.param_groups for each in group["params"])
    if count:
        _log.warning("%d parameters of the optimiser are not part of the model that joined: nobody averages their gradients, which each "
                     "member makes of its own batch. Put them into the model, as a module of it", count)


def check_optimizer(optimizer: Optimizer, rule: Optional[str]) -> None:
    """Raises NotImplementedError for what takes more gradients than one, or a learning rate that is not the step's own."""
    for kind in _kinds(optimizer):
        if kind in REFUSED:
            raise NotImplementedError(f"{kind} {REFUSED[kind]}")
        if kind in WITHOUT_RULE and rule != "constant":
            raise NotImplementedError(f"{kind} {WITHOUT_RULE[kind]}, so that it cannot follow the global batch: join with "
                                      "rule=\"constant\"")
    if not all("lr" in group for group in optimizer.param_groups):
        raise TypeError(f"{type(optimizer).__name__} has no learning rate \"lr\" in its param_groups")


def _rates_are_zero(optimizer: Optimizer) -> bool:
    """Whether a step can change nothing: DCP's get_state_dict makes such a one, so that the optimiser has its state."""
    return all(float(group["lr"]) == 0 for group in optimizer.param_groups)


class Swap:
    """An object under a subclass of its class, until `undo`."""

    def __init__(self, target: Any, methods: Dict[str, Any]) -> None:
        self._target = weakref.ref(target)
        self._class: Type[Any] = type(target)
        self._hidden: Dict[str, Any] = {}
        namespace = {"__module__": self._class.__module__, "__reduce_ex__": self._reducer(), **methods}
        target.__class__ = type(self._class.__name__, (self._class,), namespace)

    def _reducer(self) -> Callable[[Any, Any], Any]:
        """Pickles and copies of the object are of its own class: some schedulers' `state_dict` holds the scheduler."""
        original = self._class

        def reduce(instance: Any, protocol: Any) -> Tuple[Any, ...]:
            state = instance.__getstate__() if hasattr(original, "__getstate__") else vars(instance)
            return copyreg._reconstructor, (original, object, None), state  # type: ignore[attr-defined]

        return reduce

    @property
    def target(self) -> Any:
        return self._target()

    def hide(self, name: str) -> Any:
        """Takes an attribute of the object itself away, which would stand before the method of its class."""
        self._hidden[name] = vars(self._target()).pop(name, None)
        return self._hidden[name]

    def undo(self) -> None:
        target = self._target()
        if target is None or type(target).__mro__[1] is not self._class:
            return
        target.__class__ = self._class
        vars(target).update({name: value for name, value in self._hidden.items() if value is not None})


def _with_factor(optimizer: Optimizer, factor: float, step: Callable[[], Any]) -> Any:
    """Steps with all learning rates times `factor`, and puts back what the schedule says."""
    if factor == 1:
        return step()
    rates = [group["lr"] for group in optimizer.param_groups]
    try:
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * factor
        return step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate


class Round:
    """The steps of a run's optimisers, of which each makes one in a step of the training: the first begins it, the last
    completes it."""

    def __init__(self, run: Steps, count: int) -> None:
        self._run = run
        self._count = count
        self._stepped: Set[int] = set()
        self._factor: Optional[float] = None
        self._is_made = False    # by any
        self._batches = 0        # that had been taken when the round began
        self.is_stepping = False  # an optimiser that joined, or one within it

    @property
    def awaits_gradients(self) -> bool:
        return self._run.awaits_gradients

    @property
    def is_begun(self) -> bool:
        """Some optimiser has stepped, and not all have."""
        return bool(self._stepped)

    def clear_gradients(self) -> None:
        self._run.clear_gradients()

    def note_loss(self, loss: Any) -> None:
        self._run.note_loss(loss)

    def before(self, number: int) -> Optional[float]:
        """Optimiser `number` is about to step. Returns the factor on its learning rate; None where the step is dropped."""
        if not self._stepped:
            self._factor, self._batches = self._run.before_step(), self._run.batches_taken
        elif number in self._stepped or self._run.batches_taken != self._batches:
            raise RuntimeError(f"{self._count} optimisers joined, and {len(self._stepped)} of them have made this step: each "
                               "makes one step for the same gradients; those that step at other times cannot join together")
        self.is_stepping = self._factor is not None
        if self._factor is None:
            self.after(number)
        return self._factor

    def after(self, number: int, is_made: bool = True) -> None:
        """`is_made`: not left out by the optimiser itself."""
        self._stepped.add(number)
        self._is_made = self._is_made or is_made
        if len(self._stepped) == self._count:
            self.end()

    def end(self) -> bool:
        """Those that have not stepped are left out. Returns whether any has."""
        any_stepped, factor, is_made = bool(self._stepped), self._factor, self._is_made
        self._stepped.clear()
        self._is_made = False
        if any_stepped and factor is not None:
            self._run.after_step(not is_made)
        return any_stepped


def _warn_of_plain_means(stepped: Set[int]) -> None:
    """Of a DistributedDataParallel whose parameters are stepped beside the run. Looks through all objects, so once an optimiser."""
    found = next((each for each in gc.get_objects() if DistributedDataParallel in type(each).__mro__  # isinstance asks a dead proxy
                  and not is_served(each) and any(id(parameter) in stepped for parameter in each.parameters())), None)
    if found is not None:
        _log.warning("a DistributedDataParallel (of a %s) is trained beside the run and has not joined: its gradients are the plain mean "
                     "over the workers, which with unequal batches is not that of the joined batch. Put both models into one module, "
                     "wrap that and join it; or keep batches equal (highest_batch and lowest_batch of run.loader)",
                     type(found.module).__name__)


def refuse_others(own: Sequence[Optimizer], model: torch.nn.Module, stepping: Round, is_training: Callable[[], bool]) -> Any:
    """Other optimisers of the model's parameters step beside the run: it would neither drop their steps nor follow their
    rates, so they raise an error. Returns a handle whose `remove` ends this."""
    ours, given = {id(innermost(optimizer)) for optimizer in own}, len(own)
    looked: "weakref.WeakKeyDictionary[Optimizer, int]" = weakref.WeakKeyDictionary()  # at others: how many parameters, all of them others
    model_of, stepping_of = weakref.ref(model), weakref.ref(stepping)  # the hook outlives a run that nobody closes

    def check(optimizer: Optimizer, _: Any, __: Any) -> None:
        model, stepping = model_of(), stepping_of()
        if model is None or stepping is None or stepping.is_stepping or not is_training():
            return
        if id(innermost(optimizer)) in ours:
            if not _rates_are_zero(optimizer):
                raise RuntimeError(f"{type(optimizer).__name__}.step was kept from before dynamix.join, and steps beside the run: call "
                                   "optimizer.step(), or keep it behind dynamix.join")
            return
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if looked.get(optimizer) == count:
            return
        trained = {id(parameter) for parameter in model.parameters()}
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if any(id(each) in trained and each.grad is not None for each in held) and not _rates_are_zero(optimizer):
            raise RuntimeError(f"{type(optimizer).__name__} steps parameters of the model that joined, and did not join: give "
                               f"all its optimisers, dynamix.join(model, [first, second]); {given} was given")
        others = {id(parameter) for parameter in held} - trained
        if optimizer not in looked:
            _warn_of_plain_means(others)
        looked[optimizer] = count if len(others) == count else -1

    return register_optimizer_step_pre_hook(check)


def swap_optimizer(optimizer: Optimizer, run: Round, number: int = 0) -> Swap:
    """The optimiser's steps are the run's from now on. `number`: of the optimiser in the round. Raises RuntimeError where they are
    those of another run that is open."""
    original: Type[Any] = type(optimizer)
    if has_joined(optimizer):
        raise RuntimeError(f"this {original.__name__} has joined already: call run.close(again=True) before it joins once more")
    patched: List[Any] = [None]  # a scheduler's wrapper around the method, which lies in the object itself

    def step(self: Any, closure: Any = None, *args: Any, **kwargs: Any) -> Any:
        loss = None
        if closure is not None:  # all but LBFGS evaluate it first, and once
            with torch.enable_grad():
                loss = closure()
            run.note_loss(loss)
        inner = patched[0] if patched[0] is not None else lambda *a, **k: original.step(self, *a, **k)
        if closure is None and run.awaits_gradients and _rates_are_zero(self):
            return inner(*args, **kwargs)
        factor = run.before(number)
        if factor is None:
            return loss
        try:
            result = _with_factor(self, factor, lambda: inner(*args, **kwargs))
        finally:
            run.is_stepping = False
        found = getattr(self, "found_inf", None)  # a GradScaler's, of an optimiser that leaves steps out itself: a fused one
        run.after(number, found is None or not bool(found))
        return loss if closure is not None else result

    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
        original.zero_grad(self, *args, **kwargs)
        run.clear_gradients()

    outer: Any = functools.wraps(original.step)(step)  # a GradScaler looks at the names of its arguments
    compiler: Any = torch.compiler
    outer, zero_grad = compiler.disable(outer), compiler.disable(zero_grad)  # what the run does is not to be traced
    outer.hooked = True  # Torch need not wrap it for its profiler: the inner one is
    swap = Swap(optimizer, {"step": outer, "zero_grad": zero_grad, _JOINED: True})
    patched[0] = swap.hide("step")
    if getattr(patched[0], "_wrapped_by_lr_sched", False):  # what a scheduler looks for
        outer._wrapped_by_lr_sched = True
    return swap


def swap_scaler(scaler: Any, run: Steps) -> Swap:
    """A step that the GradScaler leaves out because of infinite gradients is reported as such."""
    original: Type[Any] = type(scaler)

    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        run.leave_out_step()
        return original.update(self, *args, **kwargs)

    return Swap(scaler, {"update": update})


def has_ended(scheduler: Any) -> bool:
    """OneCycleLR refuses to go on behind its last step, which progress may reach within an epoch. It stays there."""
    total = getattr(scheduler, "total_steps", None)
    if isinstance(scheduler, ChainedScheduler):
        return any(map(has_ended, scheduler._schedulers))
    return isinstance(total, int) and scheduler.last_epoch >= total


class Schedule:
    """A per-batch scheduler that advances by progress: where a step of the optimiser does as much as two steps of the base
    batch, the schedule advances by two. Counts how far it is, from where the scheduler stood when it joined."""

    def __init__(self, scheduler: Any, run: Steps) -> None:
        if isinstance(scheduler, type):
            name = scheduler.__name__
            raise TypeError(f"scheduler={name} is a class; give the scheduler that is stepped, {name}(optimizer, ...)")
        if isinstance(scheduler, ReduceLROnPlateau) or not callable(getattr(scheduler, "step", None)):
            raise TypeError(f"scheduler={type(scheduler).__name__}: give only schedulers that step once a batch; others "
                            "are left as they are")
        self.steps = 0
        self._seen = self._rushes = 0  # the optimiser's steps at the newest call, and calls in a row that came behind several
        self._is_told = False
        original: Type[Any] = type(scheduler)

        def step(instance: Any, *args: Any, **kwargs: Any) -> None:
            if args or kwargs:  # to an epoch that the user names
                original.step(instance, *args, **kwargs)
                return
            self._look(run.steps_made)
            target = int(run.progress + 1e-6)
            while self.steps < target and not has_ended(instance):
                self.steps += 1
                original.step(instance)

        self._swap = Swap(scheduler, {"step": step})

    @property
    def target(self) -> Any:
        """The scheduler."""
        return self._swap.target

    def restore(self, steps: int, made: int) -> None:
        """Goes on behind so many steps of it. `made`: by the optimiser in this process, also those that are taken back."""
        self.steps, self._seen, self._rushes = steps, made, 0

    def _look(self, made: int) -> None:
        """Tells once of a scheduler that steps once an epoch."""
        behind, self._seen = made - self._seen, made
        self._rushes = self._rushes + 1 if behind > 1 else 0
        if not self._is_told and (self._rushes == 2 or behind > _RUSH):
            self._is_told = True
            _log.warning("%s.step() comes behind several steps of the optimiser, and a scheduler of dynamix.join(scheduler=...) advances with each "
                         "of them: leave one that steps once an epoch out of it. Where steps were tried and taken back (to find a learning rate), "
                         "take back the run, too: run.load_state_dict(state of before)", type(self.target).__name__)

    def undo(self) -> None:
        self._swap.undo()
