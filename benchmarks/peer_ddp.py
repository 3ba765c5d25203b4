#!/usr/bin/python3
"""One rank of the peer: PyTorch DistributedDataParallel over Gloo, on the model, data and batch of our own step.

Nothing here is slower than it has to be: the training set lies in memory as normalised floats, a batch is one
index_select a tensor, and the options are the fastest of those tried (benchmarks/README.md).
Prints one line: the seconds of each chunk of steps, as a JSON array.
"""
import argparse
import gzip
import json
import os
import time

import numpy
import torch
import torch.distributed
import torch.nn.functional as functional
from torch.nn.parallel import DistributedDataParallel


def read_idx(path, dimensions):
    """The bytes of a gzipped IDX file, behind its magic number and its lengths, as an array of its shape."""
    with gzip.open(path, "rb") as file:
        contents = file.read()
    lengths = numpy.frombuffer(contents, ">u4", count=dimensions, offset=4)
    return numpy.frombuffer(contents, numpy.uint8, offset=4 + 4 * dimensions).reshape(lengths)


def load_training_set(folder):
    images = torch.from_numpy(read_idx(os.path.join(folder, "train-images-idx3-ubyte.gz"), 3).copy())
    labels = torch.from_numpy(read_idx(os.path.join(folder, "train-labels-idx1-ubyte.gz"), 1).copy())
    values = images.to(torch.float32).div_(255).unsqueeze_(1)
    return (values - values.mean()) / values.std(), labels.to(torch.int64)


def build_lenet():
    """The layers of trainer/model.hpp's `lenet` for one channel and ten classes."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(6, 16, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(400, 120), torch.nn.ReLU(), torch.nn.Linear(120, 84), torch.nn.ReLU(),
        torch.nn.Linear(84, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--port", type=int, required=True, help="of rank 0's store")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--warm-up", type=int, default=5, help="chunks that are not counted")
    parser.add_argument("--chunks", type=int, default=30)
    parser.add_argument("--chunk-steps", type=int, default=10)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{options.port}", rank=options.rank,
                                         world_size=options.world)
    images, labels = load_training_set(options.data)
    model = DistributedDataParallel(build_lenet(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)

    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))[options.rank::options.world]
    seconds = []
    cursor = 0
    for _ in range(options.warm_up + options.chunks):
        began = time.monotonic()
        for _ in range(options.chunk_steps):
            if cursor + options.batch > len(order):
                cursor = 0
            chosen = order[cursor:cursor + options.batch]
            cursor += options.batch
            loss = functional.cross_entropy(model(images.index_select(0, chosen)), labels.index_select(0, chosen))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds.append(time.monotonic() - began)
    if options.rank == 0:
        print(json.dumps(seconds[options.warm_up:]), flush=True)
    torch.distributed.barrier()


if __name__ == "__main__":
    main()
