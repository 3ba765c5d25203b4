"""Batches of any size, of what the workers of a DataLoader have fetched and collated ahead.

A worker collates what a batch has when it is fetched: a piece. As long as batch sizes stay, pieces are the batches, and are
handed on as they are. Where a batch size has changed, batches are cut out of pieces: a part of one is a view, and what has to be
joined is copied once, until the pieces are batches again.
"""
from __future__ import annotations

import collections
from typing import Any, Callable, Deque, List, Mapping, Sequence, Tuple

import torch

from .batch import INSIDE, walked

_ADVICE = "whose samples dynamix cannot tell apart: pass run.loader() a collate_fn of your own, whose batches are used as they are"

#: Makes one value of those that lie at the same place in several pieces: tensors whose rows are samples, or lists of texts.
Leaf = Callable[[Sequence[Any]], Any]


def _walked(values: Sequence[Any], made_of: Leaf) -> Any:
    """Of what torch's default_collate gives, in its order of cases."""

    def leaf(places: Sequence[Any]) -> Any:
        first = places[0]
        if isinstance(first, torch.Tensor):
            return made_of(places)
        if isinstance(first, Mapping):
            return INSIDE
        if not isinstance(first, Sequence):
            raise TypeError(f"a batch has a {type(first).__name__}, {_ADVICE}")
        return made_of(places) if first and isinstance(first[0], (str, bytes)) else INSIDE  # collated fields are no texts

    return walked(values, leaf)


def part_of(piece: Any, first: int, last: int) -> Any:
    """Samples first to last - 1, which share the piece's memory."""
    return _walked([piece], lambda values: values[0][first:last])


def joined(parts: Sequence[Any]) -> Any:
    """The samples of all parts, in memory that is pinned where theirs is."""
    return _walked(parts, _joined)


def _joined(values: Sequence[Any]) -> Any:
    first = values[0]
    if not isinstance(first, torch.Tensor):
        return type(first)(text for value in values for text in value)
    if any(value.shape[1:] != first.shape[1:] for value in values):
        raise RuntimeError(f"batches of samples of {tuple(first.shape[1:])} and of another shape cannot be joined, as a change of batch sizes "
                           "needs it: pass run.loader() a collate_fn of your own, whose batches are used as they are")
    if not first.is_pinned():
        return torch.cat(list(values))
    rows = sum(len(value) for value in values)
    return torch.cat(list(values), out=torch.empty((rows, *first.shape[1:]), dtype=first.dtype, pin_memory=True))


class Pieces:
    """What was fetched and is not used, in the order of use."""

    def __init__(self) -> None:
        self._pieces: Deque[Tuple[Any, int, int]] = collections.deque()  # (piece, first unused sample, samples)
        self.samples = 0

    def add(self, piece: Any, samples: int) -> None:
        """Raises TypeError for what cannot be cut, and ValueError where the data set gave more or fewer samples."""
        counts: List[int] = []
        _walked([piece], lambda values: counts.append(len(values[0])))
        wrong = next((count for count in counts if count != samples), None)
        if wrong is not None:
            raise ValueError(f"the data set was asked for {samples} samples and gave {wrong}: run.loader() needs one for each number")
        self._pieces.append((piece, 0, samples))
        self.samples += samples

    def take(self, samples: int) -> Any:
        """The batch of the next `samples` of them, at least one."""
        self.samples -= samples
        parts: List[Any] = []
        while samples:
            piece, first, last = self._pieces.popleft()
            end = min(last, first + samples)
            samples -= end - first
            if end < last:
                self._pieces.appendleft((piece, end, last))
            parts.append(piece if end - first == last and first == 0 else part_of(piece, first, end))
        return parts[0] if len(parts) == 1 else joined(parts)
