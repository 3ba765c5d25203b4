"""A loop of the form of Lightning's Fabric. Its import is the line that Dynamix changes.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/with_fabric.py
"""
import torch
from torch import nn

import common
from dynamix.integrations.lightning import Fabric  # in place of: from lightning import Fabric
from fashion_mnist import build_lenet


def main():
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    fabric.seed_everything(1)
    net = build_lenet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    model, optimizer = fabric.setup(net, optimizer)
    loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(common.FashionMNIST(most=12000), batch_size=32, shuffle=True))
    for epoch in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            fabric.backward(loss)
            optimizer.step()
        fabric.print(f"epoch {epoch}: loss {loss.item():.3f}, batch sizes {fabric.dynamix_run.status.batches}")


if __name__ == "__main__":
    main()
