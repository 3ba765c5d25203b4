#!/usr/bin/env python3
"""After how many steps do the shares of a script with balance=True follow a member that has become slow, although the workers
of its DataLoader have fetched batches ahead? One member of a DistributedDataParallel script computes four times as long from
a random step on; counted are the steps from the first slow one until no other member waits for a fifth of a step or more.
Computing is sleeping, so that a machine needs no core a member, and what counts are steps and samples, no times.

    benchmarks/script_reaction.py                       # 20 runs of two members, num_workers=4, prefetch_factor=2
    benchmarks/script_reaction.py --members 4 --runs 5 --workers 0
    benchmarks/script_reaction.py --collate             # with a collate_fn of the script's own, whose batches cannot be cut
"""
import argparse
import logging
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "python"))

import torch
from torch.nn.parallel import DistributedDataParallel

import dynamix


def collate(samples):
    return torch.utils.data.default_collate(samples)


def train(rank, options, folder, slow_from, results):
    logging.getLogger("dynamix").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=options.members)
    steps = slow_from + options.steps
    data = torch.utils.data.TensorDataset(torch.randn(options.members * options.batch * steps, 8))
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", balance=not options.plain)
    workers = {"num_workers": options.workers, "prefetch_factor": options.prefetch} if options.workers else {}
    loader = run.loader(data, batch_size=options.batch, collate_fn=collate if options.collate else None, **workers)
    batches = []
    for number, (values,) in zip(range(steps), loader):
        batches.append(len(values))
        slowdown = options.slowdown if rank == 0 and number >= slow_from else 1
        time.sleep(options.milliseconds / 1000 * slowdown * len(values) / options.batch)
        optimizer.zero_grad()
        model(values).square().mean().backward()
        optimizer.step()
    results.put((rank, batches))
    torch.distributed.barrier()
    run.close(succeeded=False)
    os._exit(0)  # workers that have fetched ahead need no farewell


def one_run(options, number):
    """Steps until the shares have followed; None: they have not."""
    context = torch.multiprocessing.get_context("fork")
    slow_from = random.Random(number).randint(20, 60)
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        members = [context.Process(target=train, args=(rank, options, folder, slow_from, results))
                   for rank in range(options.members)]
        for member in members:
            member.start()
        by_rank = dict(results.get(timeout=options.seconds) for _ in members)
        for member in members:
            member.join()
    for step in range(options.steps):
        times = [by_rank[rank][slow_from + step] * (options.slowdown if rank == 0 else 1) for rank in range(options.members)]
        if min(times) > 0.8 * max(times):
            return step, by_rank[0][slow_from - 1:slow_from + 12]
    return None, by_rank[0][slow_from - 1:slow_from + 12]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=4, help="num_workers")
    parser.add_argument("--prefetch", type=int, default=2, help="prefetch_factor")
    parser.add_argument("--batch", type=int, default=64, help="of each member at the start")
    parser.add_argument("--steps", type=int, default=40, help="behind the first slow one")
    parser.add_argument("--slowdown", type=float, default=4)
    parser.add_argument("--milliseconds", type=float, default=60, help="that a member computes in a step before")
    parser.add_argument("--seconds", type=float, default=300, help="that a run may take")
    parser.add_argument("--collate", action="store_true", help="with a collate_fn of the script's own")
    parser.add_argument("--plain", action="store_true", help="without balance")
    options = parser.parse_args()
    found = []
    for number in range(options.runs):
        steps, batches = one_run(options, number)
        found.append(steps)
        print(f"run {number + 1}: {'not within ' + str(options.steps) if steps is None else steps} steps; batches of the slow "
              f"member: {batches}", flush=True)
    numbers = [options.steps if steps is None else steps for steps in found]
    print(f"median {statistics.median(numbers)}, at most {max(numbers)} steps in {len(numbers)} runs; {found.count(None)} did not "
          "follow")


if __name__ == "__main__":
    main()
