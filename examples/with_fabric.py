"""A loop of Lightning Fabric's form. Fabric keeps its DistributedDataParallel to itself, so gradients are left as they are in
backward, and averaged behind it.

    dynamix-node exec --workers 2 -- fabric run --accelerator cpu --devices 2 --strategy ddp examples/with_fabric.py

Written against Lightning's documentation and not run yet: Debian has no package of it.
`examples_test` runs it where it is installed.
"""
import lightning
import torch
import torchvision
from torch import nn

import common
import dynamix


def main():
    fabric = lightning.Fabric()
    fabric.launch()
    dataset = common.FashionMNIST(most=2000)
    net = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    model, wrapped = fabric.setup(net, optimizer)
    run = dynamix.join(net, optimizer)            # the model and the optimiser themselves
    loader = run.loader(dataset, batch_size=32)   # not through setup_dataloaders
    for epoch in range(run.epoch, 2):
        for batch in loader:
            images, labels = fabric.to_device(batch)
            wrapped.zero_grad()
            with fabric.no_backward_sync(model):
                loss = nn.functional.cross_entropy(model(images.expand(-1, 3, -1, -1)), labels)
                fabric.backward(loss)
            run.average_gradients()
            wrapped.step()
        fabric.print(f"epoch {epoch}: loss {loss.item():.3f}, batch sizes {run.status.batches}")
    run.close()


if __name__ == "__main__":
    main()
