"""What a batch consists of: tensors whose rows are samples, in lists, tuples and mappings."""
from __future__ import annotations

from typing import Any, Callable, List, Mapping, Sequence, Set

import torch


def tensors_of(value: Any) -> List[torch.Tensor]:
    """All tensors of a batch, in their order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [found for item in value for found in tensors_of(item)] if isinstance(value, (list, tuple)) else []


def lengths_of(value: Any) -> Set[int]:
    """Of the lists and tuples that a batch consists of."""
    if isinstance(value, Mapping):
        return {length for item in value.values() for length in lengths_of(item)}
    return {len(value)}.union(*map(lengths_of, value)) if isinstance(value, (list, tuple)) else set()


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
    return _mapped(value, rows, lambda tensor: tensor[first:last], lambda items: items[first:last])


def resized(value: Any, rows: int, wanted: int) -> Any:
    """The same of so many samples, the first ones or all of them again and again."""
    places = [number % rows for number in range(wanted)]
    return _mapped(value, rows, lambda tensor: tensor[torch.tensor(places, device=tensor.device)],
                   lambda items: type(items)(items[place] for place in places))


def _are_fields(value: Sequence[Any], rows: int) -> bool:
    """As torch collates samples that have as many texts each as there are samples: lists of texts, whose rows are the samples."""
    return all(isinstance(item, (list, tuple)) and len(item) == rows for item in value)


def _mapped(value: Any, rows: int, of_tensor: Callable[[torch.Tensor], Any], of_items: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return of_tensor(value) if value.dim() > 0 and len(value) == rows else value
    if isinstance(value, Mapping):
        return {name: _mapped(item, rows, of_tensor, of_items) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) == rows and not tensors_of(value) and not _are_fields(value, rows):
            return of_items(value)
        items = [_mapped(item, rows, of_tensor, of_items) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
