#!/usr/bin/env python3
"""How training should begin: with how much of the initial global batch, for how many steps, at which learning rate.

    benchmarks/small_start.py --models mlp,lenet --batch 128

Real gradients in one process on a virtual clock: a step of b samples takes b + --fixed, whoever computes them. Each course is trained
from --seeds starts in --orders orders of the samples, and judged at the times in which the initial batch throughout has had 3,000,
6,000 and 12,000 samples. A row has the mean held-out losses there, their standard deviations, and the worst last loss."""
import argparse
import pathlib
import statistics
import sys

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peer_scripts"))
import bench  # noqa: E402

SAMPLES, HELD_OUT, LENGTH = 8000, 1000, 32
AT = (3000, 6000, 12000)  # samples of the initial batch's course
GROWS_EVERY = 10          # steps, to twice as many, once it is not small any more


def vgg():
    layers = []
    for channels, width in ((1, 8), (8, 16), (16, 32)):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(288, 64), nn.ReLU(), nn.Linear(64, 10))


class Residual(nn.Module):
    """With batch norm."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.block(1, 8, 2), self.block(8, 8, 1), self.block(8, 16, 2), self.block(16, 16, 1)])
        self.last = nn.Linear(16, 10)

    @staticmethod
    def block(channels, width, stride):
        return nn.Sequential(nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, images):
        one, two, three, four = self.layers
        hidden = one(images)
        hidden = three(hidden + two(hidden))
        return self.last((hidden + four(hidden)).mean((2, 3)))


class Transformer(nn.Module):
    """Names the next letter."""

    def __init__(self, letters, width=48):
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(LENGTH, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True) for _ in range(2))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, letters))

    def forward(self, text):
        hidden = self.letters(text) + self.places.weight
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask)
        return self.last(hidden).transpose(1, 2)


def text_windows():
    """Of the project's own documents."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(__file__).parents[1].glob("docs/*.md")))[:400_000]
    letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
    numbers = torch.tensor([letters[letter] for letter in text])
    windows = numbers[:len(numbers) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    windows = windows[torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))]
    return len(letters), (windows[:SAMPLES, :-1], windows[:SAMPLES, 1:]), (windows[-HELD_OUT:, :-1], windows[-HELD_OUT:, 1:])


def task(name):
    """What makes the model, its optimiser and learning rate, the samples to train on and those held out."""
    made, optimizer, rate = {"mlp": (bench.mlp, "sgd", 0.05), "lenet": (bench.lenet, "sgd", 0.05), "vgg": (vgg, "sgd", 0.03),
                             "residual": (Residual, "sgd", 0.1), "lenet-adam": (bench.lenet, "adam", 2e-3),
                             "transformer": (Transformer, "adam", 6e-3)}[name]
    if made is Transformer:
        letters, train, held_out = text_windows()
        return (lambda: Transformer(letters)), optimizer, rate, train, held_out
    return made, optimizer, rate, bench.images("train", SAMPLES), bench.images("t10k", HELD_OUT)


def train(given, options, small, hold, lowers, seed, order):
    """Held-out losses of a task at the times of AT. Begins with `small` samples for `hold` steps; `lowers`: the rate follows AdaScale's
    gain at a noise scale of --phi (its root for Adam), else it stays."""
    make, optimizer, rate, (inputs, targets), held_out = given
    torch.manual_seed(seed)
    model = make()
    steps = (torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9) if optimizer == "sgd" else
             torch.optim.AdamW(model.parameters(), lr=rate))
    generator = torch.Generator().manual_seed(order)
    initial, fixed = options.batch, options.fixed
    batch, left, step, time, losses = small, torch.empty(0, dtype=torch.long), 0, 0, []
    while len(losses) < len(AT):
        if step >= hold and (step - hold) % GROWS_EVERY == 0:
            batch = min(initial, 2 * batch)
        if len(left) < batch:
            left = torch.randperm(len(inputs), generator=generator)
        chosen, left = left[:batch], left[batch:]
        gain = (options.phi + initial) / (options.phi + batch) * batch / initial if lowers else 1
        for group in steps.param_groups:
            group["lr"] = rate * (gain if optimizer == "sgd" else gain ** 0.5)
        steps.zero_grad()
        functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        steps.step()
        step, time = step + 1, time + batch + fixed
        if time * initial >= AT[len(losses)] * (initial + fixed):
            model.eval()
            with torch.no_grad():
                losses.append(float(functional.cross_entropy(model(held_out[0]), held_out[1])))
            model.train()
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp,lenet,vgg,residual,lenet-adam,transformer")
    parser.add_argument("--batch", type=int, default=128, help="the initial global batch")
    parser.add_argument("--fixed", type=int, default=16, help="what a step takes beside its samples, in samples")
    parser.add_argument("--phi", type=float, default=150, help="noise scale that a lowered rate goes by")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--orders", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    quarter = options.batch // 4
    courses = [("initial batch throughout", options.batch, 0, False),
               *((f"a quarter for {steps} steps, rate lowered", quarter, steps, True) for steps in (12, 50)),
               *((f"a quarter for {steps} steps", quarter, steps, False) for steps in (12, 50, 100, 200)),
               ("an eighth for 50 steps", options.batch // 8, 50, False)]
    for name in options.models.split(","):
        given = task(name)
        print(f"{name}, initial batch {options.batch}, {options.fixed} fixed")
        for title, *course in courses:
            runs = [train(given, options, *course, seed, order)
                    for seed in range(1, options.seeds + 1) for order in range(1, options.orders + 1)]
            means, spreads = ([f"{of(losses):.3f}" for losses in zip(*runs)] for of in (statistics.mean, statistics.stdev))
            print(f"  {title:42} {' '.join(means)}   +- {' '.join(spreads)}   worst {max(losses[-1] for losses in runs):.3f}", flush=True)


if __name__ == "__main__":
    main()
