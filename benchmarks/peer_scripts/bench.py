"""What all systems of benchmarks/peers share: model, data, the speeds of their hosts, and what is written down. A script of a system
trains until it is ended from outside."""
import gzip
import json
import os
import pathlib
import time

import numpy
import torch

from systems import START_SECONDS

DATA = "/usr/share/datasets/fashion-mnist"
HELD_OUT = 2000


def read(name, dimensions):
    with gzip.open(os.path.join(DATA, name), "rb") as file:
        contents = file.read()
    shape = numpy.frombuffer(contents, ">u4", count=dimensions, offset=4)
    return torch.from_numpy(numpy.frombuffer(contents, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape).copy())


def images(prefix, count):
    values = read(f"{prefix}-images-idx3-ubyte.gz", 3)[:count].float().div_(255).unsqueeze_(1)
    return (values - 0.286) / 0.353, read(f"{prefix}-labels-idx1-ubyte.gz", 1)[:count].long()


def lenet():
    return torch.nn.Sequential(torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 16, 5),
                               torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(),
                               torch.nn.Linear(120, 84), torch.nn.ReLU(), torch.nn.Linear(84, 10))


def mlp():
    """109,000 parameters."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 10))


class Job:
    """The job of this process, as benchmarks/peers has written it into $PEERS_JOB."""

    def __init__(self):
        self.told = json.loads(os.environ["PEERS_JOB"])
        self.rank, self.world = int(os.environ["RANK"]), self.told["workers"]
        torch.set_num_threads(1)
        self.batch = self.told["batch"]               # equal ones
        self.own_batch = self.told["batches"][self.rank]  # set by hand for the speeds at the start
        self.total = self.batch * self.world
        count = self.told["samples"]
        self.data = torch.utils.data.TensorDataset(torch.arange(count), *images("train", count))
        self.held_out = images("t10k", HELD_OUT) if self.rank == self.world - 1 else None  # the fastest
        self.file = open(pathlib.Path(self.told["out"], f"rank-{self.rank}-{os.getpid()}.jsonl"), "w", buffering=1, encoding="ascii")
        self.began = self.evaluated = None
        self.write(start=True)

    def write(self, **row):
        self.file.write(json.dumps({"at": time.monotonic(), **row}) + "\n")

    def wait_for_all(self):
        """Until all members are loaded, so that no system trains, or is measured, while its members still come."""
        until = time.monotonic() + START_SECONDS
        while len({path.name.split("-")[1] for path in pathlib.Path(self.told["out"]).glob("rank-*")}) < self.world:
            if time.monotonic() > until:
                raise TimeoutError(f"not all members have been loaded within {START_SECONDS} s")
            time.sleep(0.02)

    def model(self):
        """The same at the start in all processes."""
        self.wait_for_all()
        torch.manual_seed(self.told["seed"])
        return lenet() if self.told["model"] == "lenet" else mlp()

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def compute(self, samples):
        """What this host takes longer for so many samples than the machine does."""
        rates = self.told["rates"]
        if rates is None:
            return
        now = time.monotonic()
        self.began = self.began or now
        change = self.told["change"]
        halved = change is not None and self.rank == change["rank"] and now - self.began > change["seconds"]
        time.sleep(samples / rates[self.rank] * (2 if halved else 1))

    def stepped(self, numbers, model):
        """A step of the optimiser with these samples has ended."""
        now = time.monotonic()
        self.write(samples=len(numbers), **({"numbers": numbers.tolist()} if self.told["numbers"] else {}))
        if self.held_out is not None and now - (self.evaluated or 0) > self.told["evaluate_seconds"]:
            self.evaluated = now
            inner = getattr(model, "module", model)
            with torch.no_grad():
                self.write(loss=float(torch.nn.functional.cross_entropy(inner(self.held_out[0]), self.held_out[1])))
