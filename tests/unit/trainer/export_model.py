"""Writes small models of a user's own as TorchScript, FOLDER/KIND.pt: export_model.py FOLDER KIND..."""
import sys

import torch


class Residual(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = torch.nn.GroupNorm(4, channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + torch.relu(self.norm(self.first(images)))


class Sdpa(torch.nn.Module):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(rows, rows, rows)


class Multihead(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(28, 2, batch_first=True)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.attention(rows, rows, rows)[0]


class OfRows(torch.nn.Module):
    """An image's rows through `inner`, and what comes of them through a layer."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.last = torch.nn.Linear(28 * 28, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(images.flatten(0, 1)).flatten(1))


def model_of(kind: str) -> torch.nn.Module:
    if kind == "sdpa":
        return OfRows(Sdpa())
    if kind == "multihead":
        return OfRows(Multihead())
    if kind == "encoder":
        return OfRows(torch.nn.TransformerEncoderLayer(28, 2, 32, batch_first=True))
    if kind == "rms_norm":
        return OfRows(torch.nn.RMSNorm(28))
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), Residual(8), torch.nn.Dropout(0.1), torch.nn.Flatten(),
        torch.nn.Linear(8 * 14 * 14, 10))


def main(folder: str, *kinds: str) -> None:
    for kind in kinds:
        torch.manual_seed(1)
        torch.jit.script(model_of(kind)).save(f"{folder}/{kind}.pt")


main(*sys.argv[1:])
