#!/usr/bin/python3
"""What decisions cost a script's own training: two ranks with agents, one of which is now twice slower and now is not.

    benchmarks/sdk_decisions.py                  # some two minutes; prints the table

- agreement: what the training thread spends on the exchange of a row, in steps that have one, and of what that consists:
  loading (it is written behind a bucket), unloading, sending (where it travels by itself) and reading (waiting for the others'
  rows, and agreeing); not scaling that bucket, and squaring it where the noise is due, which other steps do, too;
- report to decision: the step of a window from which the decision on the window before is in force, counted from 1, and the
  milliseconds from that window's end to the end of the step in which all members have agreed on it;
- a change of batch sizes: the first step with new sizes against the median of the five behind it, beside the same for steps
  without a change, which is the noise.
"""
import argparse
import collections
import os
import pathlib
import statistics
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix
from sdk_overhead import lenet

WINDOW_STEPS = 10
PHASE_STEPS = 150        # between two changes of speed
BEHIND = 5               # steps that a change is compared with
SAMPLE_SECONDS = 0.0001  # that a host without a slow-down takes beside its computing


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


ROW_CALLS = {"load_row": "loading", "unload_rows": "unloading", "_write_row": "sending", "read_rows": "reading"}
SCALING = "_scale_aside"  # within load_row


def time_rows(step):
    """Lets the run's step say how long its rows take: the seconds of each call, by its name, of each exchange."""
    exchanges, spent = [], {}

    def time_calls(name):
        inner = getattr(step, name)

        def timed(*arguments):
            exchanged, began = step._rows is not None, time.perf_counter()
            result = inner(*arguments)
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - began
            if name == "read_rows":
                if exchanged:
                    spent["load_row"] = spent.get("load_row", 0.0) - spent.get(SCALING, 0.0)
                    exchanges.append(dict(spent))
                spent.clear()
            return result

        setattr(step, name, timed)

    for name in (*ROW_CALLS, SCALING):
        time_calls(name)
    return exchanges


def train(rank, world, folder, steps):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.chdir(folder)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    model = DistributedDataParallel(lenet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = dynamix.join(model, optimizer, agent=None)
    data = torch.utils.data.TensorDataset(torch.randn(8192, 1, 28, 28), torch.randint(10, (8192,)))
    loader = run.loader(data, 64)
    rows = time_rows(run._step)
    taken, sizes, offsets, waits = [], [], [], []
    decisions, ended = 0, time.perf_counter()
    closed = ended
    while len(taken) < steps:
        for images, labels in loader:
            slow = 2 if rank == 1 and len(taken) // PHASE_STEPS % 2 else 1
            time.sleep(SAMPLE_SECONDS * slow * run.counted)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            now = time.perf_counter()
            status = run.status
            sizes.append(tuple(status.batches))  # of the next step
            taken.append(now - ended)
            if status.decisions > decisions:  # this step was the first under it; agreed in the one before
                offsets.append((status.step - 1) % WINDOW_STEPS + 1)
                waits.append(ended - closed)
                decisions = status.decisions
            if status.step % WINDOW_STEPS == 0:
                closed = now
            ended = now
            if len(taken) == steps:
                break
    if rank == 0:
        show(taken, sizes, offsets, waits, rows)
    run.close()


def show(taken, sizes, offsets, waits, rows):
    changed, calm = [], []
    for step in range(WINDOW_STEPS, len(taken) - BEHIND - 1):
        behind = sizes[step - 1:step + BEHIND]
        if len(set(behind)) == 1:  # the same sizes in this step and in those behind it
            ratio = taken[step] / statistics.median(taken[step + 1:step + 1 + BEHIND])
            (changed if sizes[step - 2] != sizes[step - 1] else calm).append(ratio)
    print("| | median | p99 | most | of |\n|---|---|---|---|---|")
    parts = [(f"- {said}, ms", [each.get(name, 0.0) for each in rows], 1000) for name, said in ROW_CALLS.items()]
    agreements = [sum(each.get(name, 0.0) for name in ROW_CALLS) for each in rows]
    scalings = [each[SCALING] for each in rows if SCALING in each]
    for name, values, unit in (("agreement, ms", agreements, 1000), *parts, ("scaling and squaring beside it, ms", scalings, 1000),
                               ("report to decision agreed, ms", waits, 1000),
                               ("first step with new batch sizes, medians", changed, 1),
                               ("a step without a change, medians", calm, 1)):
        print(f"| {name} | " + " | ".join(f"{quantile(values, share) * unit:.3f}" for share in (0.5, 0.99, 1)) +
              f" | {len(values)} |")
    windows = len(taken) // WINDOW_STEPS
    print(f"{len(offsets)} decisions in {windows} windows; in force from the n-th step of the window behind: "
          f"{dict(sorted(collections.Counter(offsets).items()))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (2, folder, options.steps), nprocs=2)


if __name__ == "__main__":
    main()
