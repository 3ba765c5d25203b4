"""Writes a small model of a user's own as TorchScript: export_model.py FILE."""
import sys

import torch


class Residual(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = torch.nn.GroupNorm(4, channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + torch.relu(self.norm(self.first(images)))


def main() -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), Residual(8), torch.nn.Dropout(0.1), torch.nn.Flatten(),
        torch.nn.Linear(8 * 14 * 14, 10))
    torch.jit.script(model).save(sys.argv[1])


main()
