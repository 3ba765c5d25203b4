"""Arithmetic on gradient buffers: in one pass in the C library for contiguous float32 and float64 on the CPU, by Torch's own
operations for the rest.

A buffer consists of parts of so many numbers, `counts`, that lie one behind the other. On the CPU squares are taken part by
part; on a device, where each call is a launch, of the buffer as a whole.
"""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

import torch

from .library import load

_NARROW = ("mps", "xpu")  # devices, some of which have no float64
_KERNELS = {torch.float32: "f32", torch.float64: "f64"}

#: A number, or a tensor of one number on a device that nobody has waited for yet.
Number = Union[float, torch.Tensor]


def as_real(values: torch.Tensor) -> torch.Tensor:
    """Complex numbers as twice as many real ones, in one dimension and the same memory; others as they are."""
    return torch.view_as_real(values).reshape(-1) if values.is_complex() else values


def numbers_of(values: torch.Tensor) -> int:
    """Real ones."""
    return values.numel() * (2 if values.is_complex() else 1)


def _kernel(name: str, values: torch.Tensor) -> Optional[Any]:
    suffix = _KERNELS.get(values.dtype)
    if suffix is None or values.device.type != "cpu" or not values.is_contiguous():
        return None
    return getattr(load(), f"dynamix_{name}_{suffix}")


def _square(values: torch.Tensor) -> Number:
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=wide)
    return (norm.cpu() if norm.device.type in _NARROW else norm).double().square()


def _of_parts(kernel: Any, values: torch.Tensor, counts: Sequence[int], *factor: float) -> List[Number]:
    sums: List[Number] = []
    address, size = values.data_ptr(), values.element_size()
    for count in counts:
        sums.append(kernel(address, count, *factor))
        address += count * size
    return sums


def squares(values: torch.Tensor, counts: Sequence[int]) -> List[Number]:
    """The sums of the squares of the parts."""
    kernel = _kernel("squares", values)
    if kernel is not None:
        return _of_parts(kernel, values, counts)
    return [_square(part) for part in (torch.split(values, list(counts)) if values.device.type == "cpu" else [values])]


def multiply(values: torch.Tensor, factor: float, out: Optional[torch.Tensor] = None) -> None:
    """values *= factor in place, or into `out`. A factor of 0 writes zeros whatever the values are: the loss over no samples is NaN."""
    if factor == 0:
        (values if out is None else out).zero_()
    elif out is not None:
        torch.mul(values, factor, out=out)
    elif factor != 1:
        values.mul_(factor)


def multiply_and_square(values: torch.Tensor, factor: float, counts: Sequence[int], out: Optional[torch.Tensor] = None) -> List[Number]:
    """As `multiply`. Returns the sums of the squares before, and 0 where `factor` is 0."""
    kernel = _kernel("scale", values) if out is None else None
    if kernel is not None:
        return _of_parts(kernel, values, counts, factor)
    before: List[Number] = squares(values, counts) if factor else [0.0]
    multiply(values, factor, out)
    return before
