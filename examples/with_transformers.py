"""The Hugging Face Trainer. Its import is the line that Dynamix changes.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/with_transformers.py
"""
import torch
import transformers
from torch import nn

import common
from dynamix.integrations.transformers import Trainer  # in place of: from transformers import Trainer
from fashion_mnist import build_lenet


class Net(nn.Module):
    """In the Trainer's form: gives the loss."""

    def __init__(self):
        super().__init__()
        self.net = build_lenet()

    def forward(self, images, labels):
        outputs = self.net(images)
        return {"loss": nn.functional.cross_entropy(outputs, labels), "logits": outputs}


def collate(samples):
    images, labels = zip(*samples)
    return {"images": torch.stack(images), "labels": torch.stack(labels)}


class Print(transformers.TrainerCallback):
    def on_epoch_end(self, args, state, control, **options):
        if state.is_world_process_zero:
            print(f"epoch {round(state.epoch) - 1}: batch sizes {trainer.dynamix_run.status.batches}", flush=True)


if __name__ == "__main__":
    options = transformers.TrainingArguments("trained", num_train_epochs=2, per_device_train_batch_size=32, optim="sgd",
                                             learning_rate=0.1, lr_scheduler_type="constant", use_cpu=True, report_to="none",
                                             save_strategy="no", logging_steps=50, disable_tqdm=True, remove_unused_columns=False,
                                             ddp_find_unused_parameters=False)
    trainer = Trainer(Net(), options, data_collator=collate, train_dataset=common.FashionMNIST(most=12000), callbacks=[Print()])
    trainer.train()
