#!/usr/bin/env python3
"""`run.find_batch` on six models whose process may have so much memory and no more.

    PYTHONPATH=python benchmarks/memory_finder.py --out D [--megabytes 300] [--models lenet,vgg]

Each model is searched, then trained for some steps with the batch that was found, in a process of its own. When model, optimiser and
data are there it enters a control group in which it gets so much more, or is killed. Then more processes, each with that limit, train
with one number of rows, until the largest that runs is known to within a sixteenth. The table has the trials, the batch found, the
largest one, and how often memory ran out behind the search. A model's file in D is not made again. Needs torch, libdynamix
(DYNAMIX_LIBRARY), and root, for the control groups.
"""
import argparse
import contextlib
import itertools
import json
import logging
import logging.handlers
import multiprocessing
import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "examples")]

import torch
from torch import nn
from torch.nn import functional

import dynamix
from causal_lm import GPT

START, HIGHEST, STEPS = 4, 4096, 5  # rows of the first trial, rows that nobody wants more than, steps of training


def convolution(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.second = convolution(inputs, outputs, stride), convolution(outputs, outputs)
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, values):
        return functional.relu(self.second(functional.relu(self.first(values))) + self.short(values))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter, self.memory, self.last = nn.Embedding(256, 64), nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 256)

    def forward(self, letters):
        return self.last(self.memory(self.letter(letters))[0])


def vgg(width=16):
    """VGG11 of a quarter of the width, for images of 32 by 32."""
    layers, inputs = [], 3
    for outputs in (1, 0, 2, 0, 4, 4, 0, 8, 8, 0, 8, 8, 0):
        layers += [nn.MaxPool2d(2)] if outputs == 0 else [convolution(inputs, outputs * width), nn.ReLU()]
        inputs = outputs * width or inputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs, 10))


def resnet(width=16):
    """ResNet18 of a quarter of the width, for images of 32 by 32."""
    parts = [convolution(3, width), nn.ReLU()]
    for inputs, outputs in ((1, 1), (1, 2), (2, 4), (4, 8)):
        parts += [Residual(inputs * width, outputs * width, outputs // inputs), Residual(outputs * width, outputs * width, 1)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


#: the model, the shape of one row, and whether rows are letters
MODELS = {"lenet": (lenet, (1, 28, 28), False), "vgg": (vgg, (3, 32, 32), False), "resnet": (resnet, (3, 32, 32), False),
          "transformer": (GPT, (128,), True), "lstm": (LSTM, (128,), True), "mlp": (mlp, (784,), False)}


def prepared(name):
    """(model, optimiser, inputs and targets of START rows, loss)."""
    make, shape, letters = MODELS[name]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = make()
    if letters:
        inputs = torch.randint(256, (START, *shape))
        targets = torch.randint(256, (START, *shape))
    else:
        inputs, targets = torch.randn(START, *shape), torch.randint(10, (START,))

    def loss_of(given, wanted):
        return functional.cross_entropy(model(given).flatten(0, -2) if letters else model(given), wanted.flatten())

    return model, torch.optim.AdamW(model.parameters(), lr=1e-3), inputs, targets, loss_of


@contextlib.contextmanager
def limited_group(megabytes):
    """A control group, of whichever version limits memory here."""
    first = pathlib.Path("/sys/fs/cgroup/memory")
    root, limit = (first, "memory.limit_in_bytes") if first.is_dir() else (first.parent, "memory.max")
    group = root / f"dynamix-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(megabytes * 2**20), encoding="ascii")
        yield group
    finally:
        group.rmdir()


def enter(group):
    """What this process has got before counts for the group that it was in."""
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def search(name, group, end):
    """Sends (rows found, rows of each trial, how often memory ran out in training behind it)."""
    model, optimizer, inputs, targets, loss_of = prepared(name)
    run = dynamix.join(model, optimizer, agent="off", rule="constant")
    loader = run.loader(torch.utils.data.TensorDataset(torch.arange(START * STEPS)), batch_size=START, highest_batch=HIGHEST)
    tried, warnings = [], logging.handlers.BufferingHandler(sys.maxsize)
    warnings.setLevel(logging.WARNING)
    logging.getLogger("dynamix").addHandler(warnings)

    def counted(given, wanted):
        tried.append(len(given))
        return loss_of(given, wanted)

    loss_of(inputs, targets).backward()  # what a first pass allocates for good
    enter(group)
    found = run.find_batch(counted, inputs, targets, highest=HIGHEST)
    passes, places = len(tried), torch.arange(found) % START
    for _ in loader:  # its rows stand for larger ones
        run.backward(counted, inputs[places], targets[places])
        optimizer.step()
    run.close()
    trials = [rows for rows, _ in itertools.groupby(tried[:passes])]
    end.send((found, trials, len(warnings.buffer) + sum(rows != found for rows in tried[passes:])))


def holds(name, group, rows, end):
    """Sends something where so many rows can be trained."""
    model, optimizer, inputs, targets, loss_of = prepared(name)
    places = torch.arange(rows) % START
    loss_of(inputs, targets).backward()
    enter(group)
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(inputs[places], targets[places]).backward()
        optimizer.step()
    end.send(True)


def apart(work, name, megabytes, *given):
    """What `work` sends from a process of its own; None where that ends before."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    with limited_group(megabytes) as group:
        process = context.Process(target=work, args=(name, group, *given, theirs))
        process.start()
        theirs.close()
        try:
            return ours.recv()
        except EOFError:
            return None
        finally:
            process.join()


def measure(name, megabytes):
    said = apart(search, name, megabytes)
    if said is None:
        sys.exit(f"{name}: the search ended its process")
    found, trials, ran_out = said
    runs, fails = (found, None) if apart(holds, name, megabytes, found) else (0, found)
    while (fails is None or fails - runs > max(1, runs // 16)) and runs < HIGHEST:
        rows = runs + max(1, runs // 8) if fails is None else (runs + fails) // 2
        runs, fails = (rows, fails) if apart(holds, name, megabytes, rows) else (runs, rows)
    return {"model": name, "megabytes": megabytes, "found": found, "trials": trials, "ran_out": ran_out, "largest": runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.models.split(","):
        path = options.out / f"{name}-{options.megabytes}.json"
        if not path.exists():
            path.write_text(json.dumps(measure(name, options.megabytes)), encoding="utf-8")
            print(path.name, file=sys.stderr)
        rows.append(json.loads(path.read_text(encoding="utf-8")))
    print("| model | trials | their rows | found | largest that runs | found of it | memory ran out afterwards |\n|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['model']} | {len(row['trials'])} | {', '.join(map(str, row['trials']))} | {row['found']} | {row['largest']} | "
              f"{100 * row['found'] / max(1, row['largest']):.0f} % | {row['ran_out']} times |")


if __name__ == "__main__":
    main()
