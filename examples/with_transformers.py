"""The Hugging Face Trainer. It asks for its loader before the model is in DistributedDataParallel, and takes the first batch
behind that: the loader joins then.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/with_transformers.py

Written against the documentation of transformers and not run yet: Debian has no package of it.
`examples_test` runs it where it is installed.
"""
import torch
import transformers
from torch import nn

import common
import dynamix


class Batches:
    """Of all epochs, and without a length, by which the Trainer would end an epoch: batch sizes change. `max_steps` ends the
    training."""

    def __init__(self, trainer):
        self.trainer = trainer

    def __iter__(self):
        trainer = self.trainer
        run = dynamix.join(trainer.model_wrapped, trainer.optimizer.optimizer)  # accelerate's optimiser wraps it
        loader = run.loader(trainer.train_dataset, trainer.args.per_device_train_batch_size, collate_fn=trainer.data_collator,
                            num_workers=trainer.args.dataloader_num_workers)
        with run:
            while not run.status.stop:
                yield from loader


class Trainer(transformers.Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False  # the loss is the mean over this worker's batch, as Dynamix weighs it

    def get_train_dataloader(self):
        return Batches(self)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, images, labels):
        outputs = self.layers(images)
        return {"loss": nn.functional.cross_entropy(outputs, labels), "logits": outputs}


def collate(samples):
    images, labels = zip(*samples)
    return {"images": torch.stack(images), "labels": torch.stack(labels)}


def main():
    options = transformers.TrainingArguments("trained", max_steps=200, per_device_train_batch_size=32, optim="sgd",
                                             learning_rate=0.05, ddp_find_unused_parameters=False, use_cpu=True,
                                             report_to="none", save_strategy="no", remove_unused_columns=False)
    Trainer(Net(), options, data_collator=collate, train_dataset=common.FashionMNIST(most=6000)).train()


if __name__ == "__main__":
    main()
