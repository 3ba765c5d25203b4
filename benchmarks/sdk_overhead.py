#!/usr/bin/python3
"""What Dynamix adds to a step of plain DistributedDataParallel: both in one run, in turns of a few steps, on equal batches.

    benchmarks/sdk_overhead.py                          # prints the table
    dynamix-node exec --workers 2 --set batch.lowest=64 --set batch.highest=64 -- \\
        benchmarks/sdk_overhead.py --agent auto --cases "lenet 64"      # agents serve one training, so one case

Each round times every form once, in an order that turns, behind a barrier; a ratio is that of a round, and the median and
the middle half over all rounds are printed. "plain again" is a second plain DDP: the floor of the noise. A case ends behind
--rounds, or --seconds. --cpu compares the processes' own CPU time, without what they wait: for machines that are not quiet.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "python"), str(pathlib.Path(__file__).resolve().parent / "peer_scripts")]

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix
from bench import lenet, mlp as small_mlp


def mlp():
    """2.1 million parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 10))


def resnet18():
    import torchvision
    return torchvision.models.resnet18(num_classes=10)


#: Model, batch of a worker, shape of a sample, steps of a turn.
CASES = {"lenet 64": (lenet, 64, (1, 28, 28), 10), "lenet 256": (lenet, 256, (1, 28, 28), 4),
         "small mlp 32": (small_mlp, 32, (1, 28, 28), 20), "mlp 64": (mlp, 64, (1, 28, 28), 10), "resnet18 16": (resnet18, 16, (3, 32, 32), 1)}


class Form:
    """One way to train: its model, and an endless stream of batches of one size."""

    def __init__(self, build, batch, shape, turns, agent):
        torch.manual_seed(1)
        self.model = DistributedDataParallel(build(), gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        world = torch.distributed.get_world_size()
        data = torch.utils.data.TensorDataset(torch.randn(16 * batch * world, *shape),
                                              torch.randint(10, (16 * batch * world,)))
        if agent is None:
            sampler = torch.utils.data.DistributedSampler(data)
            self.loader = torch.utils.data.DataLoader(data, batch, sampler=sampler)
            self.run = None
        else:
            self.run = dynamix.join(self.model, self.optimizer, agent=agent, rule="adascale")
            self.loader = self.run.loader(data, batch, lowest_batch=batch, highest_batch=batch)
        self.batches = self.endless()

    def endless(self):
        while True:
            yield from self.loader

    def steps(self, count, clock):
        """Seconds of so many steps."""
        torch.distributed.barrier()
        began = clock()
        for _ in range(count):
            images, labels = next(self.batches)
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(images), labels).backward()
            self.optimizer.step()
        return clock() - began


def measure(rank, world, store, case, rounds, seconds_most, cpu, agent):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    os.environ["LOCAL_RANK"] = str(rank)
    build, batch, shape, turns = CASES[case]
    forms = {"plain": None, "plain again": None, "dynamix": "off"}
    if agent:
        forms["dynamix, agent"] = agent
    made = {name: Form(build, batch, shape, turns, option) for name, option in forms.items()}
    seconds = {name: [] for name in made}
    names = list(made)
    clock = time.process_time if cpu else time.perf_counter
    over, began = torch.zeros(1), time.monotonic()
    for turn in range(rounds + 3):
        over[0] = len(seconds["plain"]) >= 4 and time.monotonic() > began + seconds_most
        torch.distributed.broadcast(over, 0)
        if over:
            break
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            taken = made[name].steps(turns, clock)
            if turn >= 3:
                seconds[name].append(taken / turns)
    if rank == 0:
        plain = seconds["plain"]
        print(f"| {case} | {statistics.median(plain) * 1000:.2f} |", end="")
        for name in names[1:]:
            ratios = [own / other for own, other in zip(seconds[name], plain)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f" {middle:.3f} ({low:.3f} to {high:.3f}) |", end="")
        print(f" {len(plain)} |", flush=True)
    torch.distributed.barrier()
    for form in made.values():
        if form.run:
            form.run.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60, help="of a case, at most")
    parser.add_argument("--cpu", action="store_true", help="compare CPU time")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--agent", help="measure with an agent, too: auto, or the directory of sockets")
    options = parser.parse_args()
    if options.agent and "," in options.cases:
        parser.error("agents serve one training: choose one case by --cases")
    print("| model, batch | plain DDP, ms per step | plain again | dynamix |" + (" dynamix, agent |" if options.agent else "") +
          " rounds |")
    print("|---|---|---|---|---|" + ("---|" if options.agent else ""), flush=True)
    for case in options.cases.split(","):
        rounds = options.rounds if "resnet" not in case else max(20, options.rounds // 4)
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(measure, (options.workers, os.path.join(folder, "store"), case, rounds,
                                                  options.seconds, options.cpu, options.agent), nprocs=options.workers)


if __name__ == "__main__":
    main()
