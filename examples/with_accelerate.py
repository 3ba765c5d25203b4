"""A loop of accelerate's form. Its import is the line that Dynamix changes.

    ACCELERATE_USE_CPU=1 dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/with_accelerate.py
"""
import torch
from torch import nn

import common
from dynamix.integrations.accelerate import Accelerator  # in place of: from accelerate import Accelerator
from fashion_mnist import build_lenet


def main():
    torch.manual_seed(1)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    net = build_lenet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    loader = torch.utils.data.DataLoader(common.FashionMNIST(most=12000), batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for epoch in range(2):
        for images, labels in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}, batch sizes {accelerator.dynamix_run.status.batches}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
