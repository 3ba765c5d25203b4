"""What a batch consists of: tensors whose rows are samples, in lists, tuples and mappings."""
from __future__ import annotations

import collections
import copy
from typing import Any, Callable, List, Mapping, MutableMapping, Sequence, Set

import torch

_LISTS = (list, tuple, collections.UserList, collections.deque)

#: Stands for a value that is made of what is inside of it.
INSIDE: Any = object()


def walked(values: Sequence[Any], leaf: Callable[[Sequence[Any]], Any]) -> Any:
    """One batch of several that are built alike, of their types: `leaf` makes what lies at the same place in all of them, or says
    INSIDE of mappings and sequences."""
    made = leaf(values)
    if made is not INSIDE:
        return made
    first = values[0]
    if isinstance(first, Mapping):
        named = {key: walked([value[key] for value in values], leaf) for key in first}
        if not isinstance(first, MutableMapping):
            return named
        mapping = copy.copy(first)
        mapping.update(named)
        return mapping
    items = [walked(fields, leaf) for fields in zip(*values)]
    if hasattr(first, "_fields"):
        return type(first)(*items)
    if isinstance(first, tuple):
        return type(first)(items)
    changed = copy.copy(first)
    for place, item in enumerate(items):
        changed[place] = item
    return changed


def tensors_of(value: Any) -> List[torch.Tensor]:
    """All tensors of a batch, in their order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [found for item in value for found in tensors_of(item)] if isinstance(value, _LISTS) else []


def lengths_of(value: Any) -> Set[int]:
    """Of the lists and tuples that a batch consists of."""
    if isinstance(value, Mapping):
        return {length for item in value.values() for length in lengths_of(item)}
    return {len(value)}.union(*map(lengths_of, value)) if isinstance(value, _LISTS) else set()


def rows_of(batch: Sequence[Any]) -> int:
    """Samples of a batch: the rows of its first tensor.

    Raises TypeError where it has none.
    """
    for tensor in tensors_of(batch):
        if tensor.dim() > 0:
            return len(tensor)
    raise TypeError("run.backward() splits a batch by the rows of its tensors, and this one has no tensor with rows")


def part_of(value: Any, rows: int, first: int, last: int) -> Any:
    """Samples first to last - 1 of what a batch of so many rows consists of. What has no such rows stays whole."""
    return _mapped(value, rows, lambda tensor: tensor[first:last], range(first, last))


def resized(value: Any, rows: int, wanted: int) -> Any:
    """The same of so many samples, the first ones or all of them again and again."""
    places = [number % rows for number in range(wanted)]
    return _mapped(value, rows, lambda tensor: tensor[torch.tensor(places, device=tensor.device)], places)


def _are_fields(value: Sequence[Any], rows: int) -> bool:
    """As torch collates samples that have as many texts each as there are samples: lists of texts, whose rows are the samples."""
    return all(isinstance(item, _LISTS) and len(item) == rows for item in value)


def _mapped(batch: Any, rows: int, of_tensor: Callable[[torch.Tensor], Any], places: Sequence[int]) -> Any:
    def leaf(values: Sequence[Any]) -> Any:
        value = values[0]
        if isinstance(value, torch.Tensor):
            return of_tensor(value) if value.dim() > 0 and len(value) == rows else value
        if isinstance(value, _LISTS) and len(value) == rows and not tensors_of(value) and not _are_fields(value, rows):
            samples = (value[place] for place in places)
            return tuple(samples) if isinstance(value, tuple) else type(value)(samples)  # of a named one, other fields
        return INSIDE if isinstance(value, (Mapping, *_LISTS)) else value

    return walked([batch], leaf)
