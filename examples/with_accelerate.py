"""A loop of accelerate's form. Dynamix's loader stands in for the one that accelerate would prepare.

    dynamix-node exec --workers 2 -- accelerate launch --num_processes 2 --cpu examples/with_accelerate.py

Written against accelerate's documentation and not run yet: Debian has no package of it.
`examples_test` runs it where it is installed.
"""
import accelerate
import torch
import torchvision
from torch import nn

import common
import dynamix


def main():
    accelerator = accelerate.Accelerator()
    dataset = common.FashionMNIST(most=2000)
    model = accelerator.prepare(torchvision.models.resnet18(num_classes=10))  # in DistributedDataParallel
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    run = dynamix.join(model, optimizer)          # the optimiser itself, before accelerate wraps it
    optimizer = accelerator.prepare(optimizer)
    loader = run.loader(dataset, batch_size=32)   # prepare() would leave it as it is; what it gives is on the host
    for epoch in range(run.epoch, 2):
        for images, labels in loader:
            images, labels = images.to(accelerator.device), labels.to(accelerator.device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.expand(-1, 3, -1, -1)), labels)
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}, batch sizes {run.status.batches}")
    run.close()


if __name__ == "__main__":
    main()
