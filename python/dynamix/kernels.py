"""Arithmetic on gradient buffers: in one pass in the C library for contiguous float32 and float64 on the CPU, by Torch's own
operations for the rest.

A buffer consists of parts of so many numbers, `counts`, that lie one behind the other. On the CPU squares are taken part by
part, of a large part by a sample: reading all of it once more, which caches do not hold, would cost what scaling it does. On
a device, where each call is a launch, they are taken of the buffer as a whole.
"""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

import torch

from .library import load

_KERNELS = {torch.float32: "f32", torch.float64: "f64"}
_LARGE = 2**16  # numbers of a part from which on its squares are estimated
_BLOCK = 64     # numbers, which lie in lines of memory of their own
_EVERY = 11     # blocks; a prime, so that the width of a matrix, hardly its multiple, does not single out columns

#: A number, or a tensor of one number on a device that nobody has waited for yet.
Number = Union[float, torch.Tensor]


def _kernel(name: str, values: torch.Tensor) -> Optional[Any]:
    suffix = _KERNELS.get(values.dtype)
    if suffix is None or values.device.type != "cpu" or not values.is_contiguous():
        return None
    return getattr(load(), f"dynamix_{name}_{suffix}")


def _square(values: torch.Tensor) -> Number:
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=wide)
    return norm.double().square()


def _whole(values: torch.Tensor) -> Number:
    kernel = _kernel("squares", values)
    return kernel(values.data_ptr(), values.numel()) if kernel is not None else _square(values)


def _estimate(part: torch.Tensor, step: int) -> Number:
    """The squares of every eleventh block, times eleven, and those of the numbers behind the last eleven blocks."""
    first = ((step * 0x9E3779B97F4A7C15) % 2**64 >> 32) % _EVERY * _BLOCK
    most = part.numel() // (_BLOCK * _EVERY) * (_BLOCK * _EVERY)
    chosen = part[:most].view(-1, _BLOCK * _EVERY)[:, first:first + _BLOCK]
    return _EVERY * _whole(chosen.contiguous()) + _whole(part[most:])


def _of_parts(kernel: Any, values: torch.Tensor, counts: Sequence[int], step: int, *factor: float) -> List[Number]:
    sums: List[Number] = []
    address, size, first = values.data_ptr(), values.element_size(), 0
    for count in counts:
        if count < _LARGE:
            sums.append(kernel(address + first * size, count, *factor))
        else:
            part = values[first:first + count]
            sums.append(_estimate(part, step) if not factor or factor[0] else 0.0)
            if factor:
                multiply(part, factor[0])
        first += count
    return sums


def squares(values: torch.Tensor, counts: Sequence[int], step: int) -> List[Number]:
    """The sums of the squares of the parts. On the CPU, where a part has 65,536 numbers or more, an estimate by a sample of
    them, which `step` chooses; its mean over all choices is the sum. The same step chooses the same on all members."""
    kernel = _kernel("squares", values)
    if kernel is not None:
        return _of_parts(kernel, values, counts, step)
    if values.device.type != "cpu":
        return [_square(values)]
    return [_estimate(part, step) if part.numel() >= _LARGE else _square(part) for part in torch.split(values, list(counts))]


def multiply(values: torch.Tensor, factor: float) -> None:
    """values *= factor in place. A factor of 0 writes zeros whatever the values are: the loss over no samples is NaN."""
    if factor == 0:
        values.zero_()
    elif factor != 1:
        values.mul_(factor)


def multiply_and_square(values: torch.Tensor, factor: float, counts: Sequence[int], step: int) -> List[Number]:
    """As `multiply`. Returns the sums of the squares before, as `squares` does, and 0 where `factor` is 0."""
    kernel = _kernel("scale", values)
    if kernel is not None:
        return _of_parts(kernel, values, counts, step, factor)
    before = squares(values, counts, step) if factor else [0.0]
    multiply(values, factor)
    return before
