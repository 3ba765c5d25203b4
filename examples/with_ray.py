"""A loop of the form of Ray Train's torch trainer. `dynamix.join` and `run.loader` are the lines that Dynamix changes.

    dynamix-node exec --workers 2 -- python examples/with_ray.py
"""
import ray
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model
from torch import nn

import common
import dynamix
from fashion_mnist import build_lenet


def train_loop_per_worker():
    torch.manual_seed(1)
    model = prepare_model(build_lenet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run = dynamix.join(model, optimizer)
    loader = run.loader(common.FashionMNIST(most=12000), batch_size=32)  # in place of prepare_data_loader(DataLoader(..))
    for epoch in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        ray.train.report({"epoch": epoch, "loss": loss.item(), "batch sizes": str(run.status.batches)})
        if torch.distributed.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}, batch sizes {run.status.batches}")
    run.close()


def main():
    ray.init(num_cpus=3, include_dashboard=False)
    TorchTrainer(train_loop_per_worker, scaling_config=ScalingConfig(num_workers=2), torch_config=TorchConfig(backend="gloo")).fit()


if __name__ == "__main__":
    main()
