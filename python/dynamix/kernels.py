"""Arithmetic on gradient buffers: squares in one pass in the C library for contiguous float32 and float64 on the CPU, Torch's
own operations for the rest."""
from __future__ import annotations

from typing import Any, Optional, Union

import torch

from .library import load

_KERNELS = {torch.float32: "f32", torch.float64: "f64"}

#: A number, or a tensor of one number on a device that nobody has waited for yet.
Number = Union[float, torch.Tensor]


def _kernel(name: str, values: torch.Tensor) -> Optional[Any]:
    suffix = _KERNELS.get(values.dtype)
    if suffix is None or values.device.type != "cpu" or not values.is_contiguous():
        return None
    return getattr(load(), f"dynamix_{name}_{suffix}")


def squares(values: torch.Tensor) -> Number:
    """The sum of the squares of all numbers."""
    kernel = _kernel("squares", values)
    if kernel is not None:
        return float(kernel(values.data_ptr(), values.numel()))
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    norm: torch.Tensor = torch.linalg.vector_norm(values, dtype=wide)
    return norm.double().square()


def multiply(values: torch.Tensor, factor: float) -> None:
    """values *= factor in place. A factor of 0 writes zeros whatever the values are: the loss over no samples is NaN."""
    if factor == 0:
        values.zero_()
    elif factor != 1:
        values.mul_(factor)


def multiply_and_square(values: torch.Tensor, factor: float) -> Number:
    """As `multiply`. Returns the sum of the squares before, 0 where `factor` is 0."""
    kernel = _kernel("scale", values)
    if kernel is not None:
        return float(kernel(values.data_ptr(), values.numel(), factor))
    before = squares(values) if factor else 0.0
    multiply(values, factor)
    return before
