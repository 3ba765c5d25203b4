"""Whether the members' data sets hold the same samples, as far as that is seen without reading one: to read one may draw random numbers, or
open files that forked loader workers must not share."""
from __future__ import annotations

import logging
import math
import os
import re
import zlib
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from .client import DynamixError
from .peers import Peers

_log = logging.getLogger("dynamix")
_LOOKED = 64        # items of a list that are looked at, and numbers of a tensor
_PARTS = 32         # of a data set, at most
_DEPTH = 4          # of data sets within others
_TOLERANCE = 1e-3   # of the largest number: processors round differently
_Held = Tuple[str, int, List[float]]  # see `other_contents`
_ADVICE = ("give run.loader the whole data set on all members, in the same order, and do not divide it by rank: each member is dealt samples "
           "of its own")


def check_contents(dataset: Any, peers: Peers) -> None:
    """Raises DynamixError where members have drawn other samples (random_split) of the data set, or have divided it. Warns where they are seen to
    hold others. Those of an elastic run come one by one, and nobody looks."""
    if peers.elastic or peers.size == 1:
        return
    subsets, held = zip(*peers.gather_objects((_digest_of_subsets(dataset), _held_by(dataset))))
    if len(set(subsets)) > 1:
        raise DynamixError("the members' subsets have other samples: draw them alike, random_split(data, parts, "
                           f"torch.Generator().manual_seed(0)); or {_ADVICE}")
    found = other_contents(held)
    if found and peers.position == 0:
        _log.warning("%s. Samples are dealt by their numbers in one data set, so an epoch leaves some out, and may use others twice: %s",
                     found, _ADVICE)


def _digest_of_subsets(dataset: Any) -> int:
    numbers = 0
    while isinstance(dataset, Subset):
        try:
            indices = torch.as_tensor(dataset.indices, device="cpu")
            numbers = zlib.crc32(indices.to(torch.int64).numpy().tobytes(), numbers)
        except (TypeError, ValueError, RuntimeError):  # keys, or whatever else the data set takes
            pass
        dataset = dataset.dataset
    return numbers


def other_contents(held: Any) -> str:
    """What differs, of what each member's data set holds: (its part, a digest of what is equal in equal data sets, numbers that are about
    equal there). Empty where nothing is seen to.

    >>> other_contents([[["files", 1, []]], [["files", 2, []]]])
    "member 1's data set holds other samples than member 0's (its files)"
    """
    known = {part: (digest, numbers) for part, digest, numbers in held[0]}
    for member, other in enumerate(held):
        for part, digest, numbers in other:
            before = known.get(part, (digest, numbers))
            if digest != before[0] or not _are_close(numbers, before[1]):
                return f"member {member}'s data set holds other samples than member 0's (its {part})"
    return ""


def _are_close(one: List[float], other: List[float]) -> bool:
    bound = _TOLERANCE * max((abs(value) for value in one if math.isfinite(value)), default=0.0)
    return len(one) == len(other) and all(a == b or a != a and b != b or abs(a - b) <= bound for a, b in zip(one, other))


def _held_by(dataset: Any) -> List[_Held]:
    found: List[_Held] = []
    try:
        for each in _walk(dataset, "", _DEPTH):
            found.append(each)
            if len(found) == _PARTS:
                break
    except Exception as problem:  # of the script's own classes; nobody compares what follows
        _log.debug("the data set was not looked at to its end: %s", problem)
    return found


def _walk(dataset: Any, name: str, depth: int) -> Iterator[_Held]:
    within = f"{name}." if name else ""
    if depth == 0:
        return
    if isinstance(dataset, Subset):
        yield from _walk(dataset.indices, f"{within}indices", depth)
        yield from _walk(dataset.dataset, name, depth - 1)
    elif isinstance(dataset, ConcatDataset):
        for number, part in enumerate(dataset.datasets):
            yield from _walk(part, f"{within}datasets[{number}]", depth - 1)
    elif isinstance(dataset, TensorDataset):
        for number, tensor in enumerate(dataset.tensors):
            yield from _seen(f"{within}tensors[{number}]", tensor)
    elif isinstance(dataset, (list, tuple, range)) or _is_array(dataset):
        yield from _seen(name or "items", dataset)
    elif _is_hugging_face(dataset):
        rows = dataset.with_format("arrow")  # as they are stored, and nobody's transform
        yield _digested(f"{within}rows", [_exact(rows[place].to_pylist()) for place in _spread(len(dataset), 3)])
    else:
        yield from _walk_own(dataset, within, depth)


def _walk_own(dataset: Any, within: str, depth: int) -> Iterator[_Held]:
    """Of a script's own class: names, and the only data set within it. What else it holds may be drawn by each member: noise, an order, seeds."""
    holds = sorted(getattr(dataset, "__dict__", {}).items())
    inner = [(key, value) for key, value in holds if isinstance(value, Dataset) or _is_hugging_face(value)]
    if len(inner) == 1 and len(inner[0][1]) == len(dataset):
        yield from _walk(inner[0][1], f"{within}{inner[0][0]}", depth - 1)
    for key, value in holds:
        if isinstance(value, (list, tuple)) and len(value) == len(dataset):
            names = [_name_of(value[place]) for place in _spread(len(value), _LOOKED)]
            if None not in names:
                yield from _seen(f"{within}{key}", names)


def _is_hugging_face(dataset: Any) -> bool:
    return type(dataset).__module__.partition(".")[0] == "datasets" and hasattr(dataset, "with_format") and hasattr(dataset, "__len__")


def _is_array(value: Any) -> bool:
    """Of torch or numpy, with numbers or texts in rows."""
    of_numpy = type(value).__module__.partition(".")[0] == "numpy" and getattr(getattr(value, "dtype", None), "kind", "O") != "O"
    return (of_numpy or isinstance(value, torch.Tensor)) and value.ndim > 0


def _name_of(item: Any) -> Optional[str]:
    """Of a file, or a text, which it is or has in front. None where it has none."""
    if isinstance(item, (list, tuple)) and len(item) > 0:
        return _name_of(item[0])
    return os.fspath(item) if isinstance(item, (str, os.PathLike)) else None


def _spread(count: int, most: int) -> List[int]:
    """So many places among `count`, the first and the last ones too."""
    return sorted({place * (count - 1) // max(1, most - 1) for place in range(most)}) if count > 0 else []


def _exact(item: Any) -> Any:
    """What of it is the same wherever a copy of the data lies, and by whichever processor it was made."""
    if isinstance(item, (str, os.PathLike)):
        return re.split(r"[/\\]", os.fspath(item))[-1]
    if isinstance(item, bytes):
        return zlib.crc32(item)
    if isinstance(item, int) or item is None:
        return item
    if isinstance(item, dict):
        return [(key, _exact(value)) for key, value in item.items()]
    if isinstance(item, (list, tuple)):
        return [_exact(item[place]) for place in _spread(len(item), 8)]
    return type(item).__name__


def _digested(part: str, items: List[Any], numbers: Sequence[float] = ()) -> _Held:
    return part, zlib.crc32(repr(items).encode()), list(numbers)


def _seen(part: str, items: Any) -> Iterator[_Held]:
    """Of a list, a tensor or an array; nothing where all that is looked at is the same (a cache that is empty yet), and so tells no samples apart."""
    found = [items[place] for place in _spread(len(items), _LOOKED)]
    if _is_array(items):
        rows = [row.reshape(-1) for row in found]
        found = [number for row in rows for number in row[_spread(len(row), 4)].tolist()]
    are_numbers = all(isinstance(each, float) for each in found)
    exact = [_exact(each) for each in found]
    if len(set(map(repr, found if are_numbers else exact))) > 1:
        yield _digested(part, exact, found if are_numbers else ())
