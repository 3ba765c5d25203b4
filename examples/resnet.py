"""torchvision's ResNet18 or VGG11, as in torchvision's reference training: per-batch OneCycle schedule, clipped gradients.
On Fashion-MNIST in three channels and 32 by 32, since Debian has no ImageNet; VGG11's classifier is one layer. What
Dynamix adds is marked.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/resnet.py --model resnet18
    torchrun --nproc_per_node 2 examples/resnet.py --model resnet18 --plain
"""
import argparse
import contextlib
import time

import torch
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import common
import dynamix                                                                    # dynamix


class ThreeChannels(nn.Module):
    """Images of 28 by 28 in the shape that torchvision's models take."""

    def forward(self, images):
        return nn.functional.pad(images, (2, 2, 2, 2)).expand(-1, 3, -1, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18", choices=("resnet18", "vgg11_bn"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--samples", type=int, default=2000, help="train on so many, the first ones")
    parser.add_argument("--agent", default="auto", help="auto, off, or the path of a socket")
    parser.add_argument("--plain", action="store_true", help="without Dynamix")
    parser.add_argument("--slow", default="", help="emulate slow hosts: factors by rank, such as 1,1,3,3")
    parser.add_argument("--evaluate", type=int, default=0, help="test on so many images after each epoch")
    parser.add_argument("--target", type=float, default=1.0, help="stop at this test accuracy")
    options = parser.parse_args()
    rank, world = common.set_up()
    torch.manual_seed(1)
    dataset = common.FashionMNIST(most=options.samples)
    net = getattr(torchvision.models, options.model)(num_classes=10)
    if options.model == "vgg11_bn":
        net.avgpool, net.classifier = nn.AdaptiveAvgPool2d(1), nn.Linear(512, 10)
    net = nn.Sequential(ThreeChannels(), net)
    common.slow_down(net, [float(factor) for factor in options.slow.split(",")][rank] if options.slow else 1)
    test = common.FashionMNIST("t10k", most=options.evaluate)
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    steps = options.epochs * (len(dataset) // (options.batch * world))
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps + 1)

    if options.plain:
        sampler = DistributedSampler(dataset, world, rank)
        loader = DataLoader(dataset, options.batch, sampler=sampler, drop_last=True)
        first, run = 0, None
    else:
        run = dynamix.join(model, optimizer, scheduler=scheduler, rule="adascale",
                           agent=options.agent)                                   # dynamix
        # Batch norm takes no batch of one sample, which the rest of an epoch may leave a worker.
        loader = run.loader(dataset, options.batch, drop_last=True)               # dynamix, instead of the sampler
        first = run.epoch                                                         # dynamix
    began, evaluating, reached = time.perf_counter(), 0.0, 0.0
    with run or contextlib.nullcontext():
        # The schedule goes by progress: behind larger batches its end is as many samples further on.
        most = options.epochs if options.plain else 4 * options.epochs            # dynamix
        for epoch in range(first, most):
            if options.plain:
                sampler.set_epoch(epoch)
            for images, labels in loader:
                optimizer.zero_grad()
                outputs = model(images)
                loss = nn.functional.cross_entropy(outputs, labels, label_smoothing=0.1)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                if run:                                                           # dynamix: for reports, if wanted
                    run.report(loss=loss.detach(), correct=int((outputs.argmax(1) == labels)[:run.counted].sum()))
                optimizer.step()
                scheduler.step()
            if options.evaluate:
                paused = time.perf_counter()
                found = torch.tensor(common.accuracy(net, test))  # each worker's own: batch norm's buffers differ
                if world > 1:
                    torch.distributed.broadcast(found, 0)
                reached = float(found)
                evaluating += time.perf_counter() - paused
                if run:
                    run.evaluated(accuracy=reached)                               # dynamix: for reports, if wanted
            if rank == 0:
                sizes = (f", batch sizes {run.status.batches}, progress {run.progress:.1f} of {steps} steps" if run
                         else f", rate {scheduler.get_last_lr()[0]:.4f} after {steps} steps in all")
                shown = (f", accuracy {reached:.4f} after {time.perf_counter() - began - evaluating:.1f} s of training"
                         if options.evaluate else "")
                print(f"epoch {epoch}: loss {loss.item():.3f}{shown}{sizes}", flush=True)
            if reached >= options.target or (run and (run.status.stop or run.progress > steps - 1)):
                break
    # Dynamix does as much itself: a thread of the group that is late would abort the process.
    if options.plain and world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
