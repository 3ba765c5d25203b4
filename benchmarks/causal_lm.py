#!/usr/bin/env python3
"""Time to a loss of a causal language model that is fine-tuned on texts of unequal length by two members, one twice as fast.

    PYTHONPATH=python benchmarks/causal_lm.py --out D [--seeds 1,2,3]

The model of examples/causal_lm.py, trained on the headers of this tree, is fine-tuned on its documentation, line by line, in three ways:

    padded   DistributedSampler, as many texts on each member, padded to the longest of its batch
    grouped  the same number of texts, of like length: the order of transformers' `group_by_length`
    dynamix  run.loader(budget=, cost=), each member's budget following its pace

On average a step has the same number of tokens in all of them. Texts, gradients, losses and decisions are real, the time is virtual:
a member's step takes as long as its tokens, padding included, at 20,000 or 10,000 a second, 3 % more or less by chance, and the step
of both as long as that of the slower one. So a busy machine changes nothing but how long this takes. Each training writes a file to D;
those that are there are not run again. A time is interpolated between two evaluations of the loss over texts that are not trained on,
averaged over three of them. Needs libdynamix (DYNAMIX_LIBRARY) and torch.
"""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "examples")]

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import dynamix
from causal_lm import GPT, collate, loss_of, read, test_loss, tokens_of
from dynamix.device_clock import DeviceClock

WAYS = ("padded", "grouped", "dynamix")
SPEEDS = (20_000, 10_000)  # tokens a second
TEXTS_A_STEP = 16          # of a member
RATE = 3e-3
BASE_STEPS = 250
EVALUATE_EVERY = 5         # steps
TARGETS = (2.8, 2.75, 2.7)


class Place:
    """Of a member's virtual time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def query(self):
        return True

    def elapsed_time(self, end):
        return 1000 * (end.seconds - self.seconds)


class Member:
    """The virtual time that a member has computed, waiting left out."""

    def __init__(self, rank, seed):
        self.seconds, self.speed, self.random = 0.0, SPEEDS[rank], random.Random(1000 * seed + rank)

    def compute(self, tokens):
        """Returns how long that takes."""
        seconds = tokens / self.speed * self.random.lognormvariate(0, 0.03)
        self.seconds += seconds
        return seconds


class GroupedSampler:
    """Texts by length within random groups of 50 batches, the longest first, dealt to members in turn."""

    def __init__(self, lengths, rank, world, seed):
        self.lengths, self.rank, self.world, self.seed = lengths, rank, world, seed

    def set_epoch(self, epoch):
        order = torch.randperm(len(self.lengths), generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()
        size = 50 * TEXTS_A_STEP
        groups = [sorted(order[i:i + size], key=lambda text: -self.lengths[text]) for i in range(0, len(order), size)]
        order = [text for group in groups for text in group]
        order += order[:-len(order) % self.world]
        self.own = order[self.rank::self.world]

    def __iter__(self):
        return iter(self.own)

    def __len__(self):
        return len(self.own)


class Numbered:
    """Texts with their numbers."""

    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, number):
        return number, self.texts[number]


def numbered(items):
    return [number for number, _ in items], *collate([text for _, text in items])


def corpus(paths):
    texts = read(sorted(paths))
    return texts[::40], [text for number, text in enumerate(texts) if number % 40]


def base(path):
    """A model that knows the tree's headers: trained once."""
    if not path.exists():
        torch.manual_seed(0)
        _, texts = corpus(path for folder in ("client", "policy", "trainer", "exchange") for path in (SOURCE / folder).glob("*.hpp"))
        net, chosen = GPT(), random.Random(0)
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
        for _ in range(BASE_STEPS):
            optimizer.zero_grad()
            loss_of(net, *collate(chosen.sample(texts, 32))).backward()
            optimizer.step()
        torch.save(net.state_dict(), path)


def loader_of(way, model, optimizer, texts, rank, seed, member):
    """The loader, and the run where there is one."""
    data, lengths = Numbered(texts), tokens_of(texts)
    if way != "dynamix":
        sampler = (DistributedSampler(data, 2, rank, seed=seed) if way == "padded" else GroupedSampler(lengths, rank, 2, seed))
        return DataLoader(data, TEXTS_A_STEP, sampler=sampler, collate_fn=numbered), None
    run = dynamix.join(model, optimizer, agent="off", rule="constant", balance=True)
    budget = round(TEXTS_A_STEP * statistics.fmean(lengths))
    loader = run.loader(data, budget=budget, cost=lengths, seed=seed, collate_fn=numbered)
    run._step._clock = DeviceClock(lambda: Place(member.seconds))  # as a GPU's, whose times the host's clock does not show
    return loader, run


def check_tokens(way, dealt, texts):
    """How many texts an epoch has used twice; raises where one was left out, or where a run's loader has used one twice."""
    counts = collections.Counter(dealt)
    assert set(counts) == set(range(len(texts))), f"{way}: {len(texts) - len(counts)} texts were left out"
    again = sum(counts.values()) - len(counts)
    assert way != "dynamix" or again == 0, f"{again} texts were used twice"
    return again


def train(rank, way, seed, epochs, folder, rows):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rows}.store", rank=rank, world_size=2)
    kept, texts = corpus((SOURCE / "docs").glob("*.md"))
    net = GPT()
    net.load_state_dict(torch.load(folder / "base.pt", weights_only=True))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    member = Member(rank, seed)
    loader, run = loader_of(way, model, optimizer, texts, rank, seed, member)
    found, seconds, step, padded, used_again = [{"seconds": 0.0, "loss": test_loss(net, kept)}], 0.0, 0, 0, 0
    for epoch in range(epochs):
        if run is None:
            loader.sampler.set_epoch(epoch)
        dealt = []
        for numbers, inputs, targets in loader:
            dealt += numbers[:run.counted] if run else numbers
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            took = torch.tensor([member.compute(inputs.numel()), inputs.numel()], dtype=torch.float64)
            optimizer.step()
            both = [torch.empty_like(took), torch.empty_like(took)]
            torch.distributed.all_gather(both, took)
            times, tokens = torch.stack(both, 1).tolist()
            seconds, padded, step = seconds + max(times), padded + int(sum(tokens)), step + 1
            if rank == 0 and step % EVALUATE_EVERY == 0:
                found.append({"seconds": seconds, "loss": test_loss(net, kept)})
        parts = [None, None]
        torch.distributed.all_gather_object(parts, dealt)
        used_again += check_tokens(way, parts[0] + parts[1], texts)
    if rank == 0:
        tokens = epochs * sum(tokens_of(texts))
        said = {"way": way, "seed": seed, "steps": step, "seconds": seconds, "texts": len(texts), "tokens": tokens, "padded": padded,
                "used_again": used_again, "budgets": list(run.status.batches) if run else None, "course": found}
        rows.write_text(json.dumps(said), encoding="utf-8")
    if run:
        run.close()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def reached(course, target):
    """Seconds until the smoothed loss is at most the target; None: never."""
    smooth = [statistics.fmean(each["loss"] for each in course[max(0, i - 2):i + 1]) for i in range(len(course))]
    for i, loss in enumerate(smooth):
        if loss <= target:
            if i == 0:
                return 0.0
            part = (smooth[i - 1] - target) / (smooth[i - 1] - loss)
            return course[i - 1]["seconds"] + part * (course[i]["seconds"] - course[i - 1]["seconds"])
    return None


def page(results, seeds):
    """The table, and the ratio of dynamix to each rival at each target, the mean over seeds."""
    lines = ["| way | steps | s in all | computed / real tokens | " + " | ".join(f"s to {target:g}" for target in TARGETS) + " |",
             "|" + "---|" * (4 + len(TARGETS))]
    times = {}
    for way in WAYS:
        runs = [results[way, seed] for seed in seeds]
        times[way] = [[reached(each["course"], target) for each in runs] for target in TARGETS]
        shown = [f"{statistics.fmean(each):.1f}" if None not in each else "-" for each in times[way]]
        lines.append(f"| {way} | {statistics.fmean(each['steps'] for each in runs):.0f} | {statistics.fmean(each['seconds'] for each in runs):.1f} | "
                     f"{statistics.fmean(each['padded'] / each['tokens'] for each in runs):.2f} | " + " | ".join(shown) + " |")
    for rival in WAYS[:-1]:
        for target, ours, theirs in zip(TARGETS, times["dynamix"], times[rival]):
            if None not in ours + theirs:
                ratios = [own / other for own, other in zip(ours, theirs)]
                lines.append(f"time to {target:g}, dynamix over {rival}: {statistics.fmean(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    base(options.out / "base.pt")
    seeds, results = [int(seed) for seed in options.seeds.split(",")], {}
    for seed in seeds:
        for way in WAYS:
            rows = options.out / f"{way}-{seed}.json"
            if not rows.exists():
                pathlib.Path(f"{rows}.store").unlink(missing_ok=True)
                members = [multiprocessing.get_context("spawn").Process(target=train, args=(rank, way, seed, options.epochs, options.out, rows))
                           for rank in range(2)]
                for each in members:
                    each.start()
                for each in members:
                    each.join()
                pathlib.Path(f"{rows}.store").unlink(missing_ok=True)
                if any(each.exitcode for each in members):
                    sys.exit(f"{way}, seed {seed}: a member ended with an error")
                print(rows.name, file=sys.stderr)
            results[way, seed] = json.loads(rows.read_text(encoding="utf-8"))
    print(page(results, seeds))


if __name__ == "__main__":
    main()
