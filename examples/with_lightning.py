"""Lightning's Trainer. Its hook `train_dataloader` comes when the model is in DistributedDataParallel already, and the
optimiser is there.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/with_lightning.py

Written against Lightning's documentation and not run yet: Debian has no package of it.
`examples_test` runs it where it is installed.
"""
import lightning
import torch
import torchvision
from torch import nn

import common
import dynamix


class Batches:
    """Without a length: Lightning would end an epoch by the one that it began with, and batch sizes change. It then fetches
    one batch ahead, to see which is the last."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torchvision.models.resnet18(num_classes=10)
        self.run = None
        self.state = None  # of a checkpoint

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)

    def forward(self, images):
        return self.net(images.expand(-1, 3, -1, -1))

    def training_step(self, batch, number):
        images, labels = batch
        return nn.functional.cross_entropy(self(images), labels)

    def train_dataloader(self):
        self.run = dynamix.join(self.trainer.strategy.model, self.trainer.optimizers[0])
        loader = self.run.loader(common.FashionMNIST(most=2000), batch_size=32, fetch_ahead=1)
        if self.state is not None:
            self.run.load_state_dict(self.state)
        return Batches(loader)

    def on_train_epoch_end(self):
        self.print(f"epoch {self.current_epoch}: batch sizes {self.run.status.batches}")

    def on_train_end(self):
        self.run.close()

    def on_save_checkpoint(self, checkpoint):
        checkpoint["dynamix"] = self.run.state_dict()

    def on_load_checkpoint(self, checkpoint):
        self.state = checkpoint["dynamix"]


if __name__ == "__main__":
    lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, use_distributed_sampler=False).fit(Net())
