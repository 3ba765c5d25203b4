"""Lightning's Trainer. The callback is the line that Dynamix adds.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/with_lightning.py
"""
import lightning
import torch
from torch import nn

import common
from dynamix.integrations.lightning import Dynamix
from fashion_mnist import build_lenet


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = build_lenet()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

    def training_step(self, batch, number):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss)
        return loss

    def on_train_epoch_end(self):
        loss = self.trainer.callback_metrics["loss"]
        self.print(f"epoch {self.current_epoch}: loss {loss:.3f}, batch sizes {self.trainer.callbacks[0].run.status.batches}")


def main():
    lightning.seed_everything(1)
    loader = torch.utils.data.DataLoader(common.FashionMNIST(most=12000), batch_size=32, shuffle=True)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, callbacks=[Dynamix()])  # the last one is what is added
    trainer.fit(Net(), loader)


if __name__ == "__main__":
    main()
