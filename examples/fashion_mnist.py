"""Plain DistributedDataParallel, in the form of PyTorch's DDP tutorial, on Fashion-MNIST. What Dynamix adds is marked.

    dynamix-node exec --workers 4 -- torchrun --nproc_per_node 4 examples/fashion_mnist.py
    torchrun --nproc_per_node 4 examples/fashion_mnist.py --plain
"""
import argparse
import contextlib
import os
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import common
import dynamix                                                                    # dynamix


def build_lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="samples per worker and step, at the start")
    parser.add_argument("--samples", type=int, help="train on so many, the first ones")
    parser.add_argument("--workers", type=int, default=0, help="processes of the data loader")
    parser.add_argument("--checkpoint", help="file to write after each epoch, and to resume from")
    parser.add_argument("--agent", default="auto", help="auto, off, host (rank 0 starts them), or the path of a socket")
    parser.add_argument("--plain", action="store_true", help="without Dynamix")
    parser.add_argument("--slow", default="", help="emulate slow hosts: factors by rank, such as 1,1,3,3")
    parser.add_argument("--target", type=float, default=1.0, help="stop at this test accuracy")
    return parser.parse_args()


def main():
    options = parse()
    rank, world = common.set_up()
    torch.manual_seed(1)
    dataset, test = common.FashionMNIST(most=options.samples), common.FashionMNIST("t10k")
    net = build_lenet()
    common.slow_down(net, [float(factor) for factor in options.slow.split(",")][rank] if options.slow else 1)
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()

    if options.plain:
        sampler = DistributedSampler(dataset, world, rank)
        loader = DataLoader(dataset, options.batch, sampler=sampler, num_workers=options.workers)
        first, run = 0, None
    else:
        agent = None if options.agent == "host" else options.agent
        run = dynamix.join(model, optimizer, agent=agent)                         # dynamix
        loader = run.loader(dataset, options.batch, num_workers=options.workers)  # dynamix, instead of the sampler
        if options.checkpoint and os.path.exists(options.checkpoint):
            state = torch.load(options.checkpoint)
            net.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            run.load_state_dict(state["dynamix"])                                 # dynamix
        first = run.epoch                                                         # dynamix

    began, evaluating = time.perf_counter(), 0.0
    with run or contextlib.nullcontext():
        for epoch in range(first, options.epochs):
            if options.plain:
                sampler.set_epoch(epoch)
            for images, labels in loader:
                optimizer.zero_grad()
                loss = loss_fn(model(images), labels)
                loss.backward()
                optimizer.step()
            paused = time.perf_counter()
            reached = common.accuracy(net, test)
            evaluating += time.perf_counter() - paused
            if run:
                run.evaluated(accuracy=reached)                                   # dynamix: for reports, if wanted
                if options.checkpoint and rank == 0:
                    dynamix.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(),
                                  "dynamix": run.state_dict()}, options.checkpoint)
            if rank == 0:
                sizes = f", batch sizes {run.status.batches}" if run else ""
                print(f"epoch {epoch}: accuracy {reached:.4f} after {time.perf_counter() - began - evaluating:.1f} s"
                      f" of training{sizes}", flush=True)
            if reached >= options.target or (run and run.status.stop):
                break
    # Dynamix does as much itself: a thread of the group that is late would abort the process.
    if options.plain and world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
