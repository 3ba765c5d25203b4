"""What a DataLoader that a framework was given says about the data, for `run.loader`; and which models are not joined through one."""
from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

import torch
from torch.utils.data import IterableDataset, RandomSampler, SequentialSampler

from ..flat_shards import is_sharded
from ..loader import Loader
from ..run import Run
from ..stream import Stream

#: Of a DataLoader's attributes, those that are its arguments, too.
_OPTIONS = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
            "prefetch_factor", "persistent_workers", "in_order")

_SAMPLERS_OF = ("torch", "torchdata", "accelerate")


class Source(NamedTuple):
    """The arguments of `run.loader`."""

    dataset: Any
    batch_size: int
    shuffle: bool
    drop_last: bool
    seed: int
    options: Dict[str, Any]

    def loader(self, run: Run, fetch_ahead: Optional[int] = None) -> Loader[Any]:
        """The training loader of `run` over this data."""
        return run.loader(self.dataset, self.batch_size, self.shuffle, seed=self.seed, drop_last=self.drop_last,
                          fetch_ahead=fetch_ahead, **self.options)


def refuse_sharded(model: torch.nn.Module) -> None:
    """Raises NotImplementedError for a model that the framework has sharded, of which nobody has shown that its steps are weighted."""
    if is_sharded(model):
        raise NotImplementedError("a model that the framework has sharded (FSDP): shard it in a loop of your own, which "
                                  "dynamix.join takes, or let the framework use DistributedDataParallel")


def batches_problem(loader: Any) -> str:
    """Why the batches of this DataLoader cannot be dealt by a run, and what to do; empty where they can."""
    dataset, batches = loader.dataset, _innermost(loader.batch_sampler)
    if hasattr(loader, "state_dict") and hasattr(dataset, "state_dict"):
        return ("the data set of this StatefulDataLoader keeps a state of its own, which would not be that of the samples that "
                "the run deals: give one without state_dict, the run's state has the place in the data")
    if isinstance(dataset, IterableDataset):  # run.loader says what it thinks of it
        return ""
    if batches is None or getattr(batches, "batch_size", None) is None:
        return "the run decides the batches: give the DataLoader a batch_size, and no batch_sampler"
    if not _is_known(batches):
        return f"the run decides the batches, and {type(batches).__name__} would: give the DataLoader a batch_size, and no batch_sampler"
    sampler = batches.sampler
    if isinstance(sampler, RandomSampler) and (sampler.replacement or sampler.num_samples != len(dataset)):
        return "the run deals each sample once an epoch: leave replacement and num_samples out of the RandomSampler"
    if not isinstance(sampler, (RandomSampler, SequentialSampler)) or not _is_known(sampler):
        return f"the run deals the samples, and {type(sampler).__name__} would: leave the sampler out, shuffle=True or False stays"
    return ""


def _is_known(sampler: Any) -> bool:
    """It is no class of the script's own, whose order or batches would be lost."""
    return type(sampler).__module__.partition(".")[0] in _SAMPLERS_OF


def source_of(loader: Any) -> Source:
    """Reads a DataLoader, also one that accelerate has prepared.

    Raises NotImplementedError for batches that a run cannot deal.
    """
    given = getattr(loader, "base_dataloader", loader)  # accelerate's holds torch's
    problem = batches_problem(given)
    if problem:
        raise NotImplementedError(problem)
    batches, dataset = _innermost(given.batch_sampler), given.dataset
    values = {name: getattr(given, name, None) for name in _OPTIONS}
    options = {name: value for name, value in values.items() if value is not None}
    if batches is None or isinstance(dataset, IterableDataset):
        return Source(dataset, given.batch_size or 1, isinstance(dataset, Stream), bool(given.drop_last), 0, options)
    return Source(dataset, batches.batch_size, isinstance(batches.sampler, RandomSampler), bool(batches.drop_last),
                  _seed_of(batches.sampler), options)


def _innermost(batches: Any) -> Any:
    """The batch sampler itself: accelerate's deal one out to processes."""
    while hasattr(batches, "batch_sampler"):
        batches = batches.batch_sampler
    return batches


def _seed_of(sampler: Any) -> int:
    """As the script has seeded its permutations, so that runs with the same seed are the same."""
    generator = getattr(sampler, "generator", None)
    seed = getattr(sampler, "initial_seed", None)  # of accelerate's SeedableRandomSampler
    if generator is not None:
        seed = generator.initial_seed()
    return (int(seed) if seed is not None else torch.initial_seed()) % 2**63
