#!/usr/bin/env python3
"""What dealing by cost gains on a production trace of unequal sequence lengths.

    PYTHONPATH=python benchmarks/length_trace.py trace-SE.parquet

The trace is `data/trace-SE.parquet` of ByteDance-Seed/StragglerAnalysis (Apache-2.0), an operation a row: 32 data-parallel ranks of two
stages, 8 micro-batches a rank and step. A rank's work in a step is that of its busier stage; a step takes what its slowest rank works
and, as measured, the rest. Each row of the table deals the same micro-batches to equal ranks in another way. Needs pyarrow and torch;
trains nothing and measures no time.
"""
import argparse
import collections
import heapq
import os
import statistics

os.environ.setdefault("OMP_NUM_THREADS", "1")
import pyarrow.parquet
import torch

from dynamix.cost import Costs
from dynamix.structures import Deal


def read(path):
    """By step: (seconds of the step, {rank: [(seconds in each stage) of a micro-batch]})."""
    table = pyarrow.parquet.read_table(path, columns=["step", "dp_rank", "stage", "mb_id", "optype", "start_ts", "duration"])
    begin, end = {}, collections.Counter()
    work = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(lambda: [0.0, 0.0])))
    for row in table.to_pylist():
        step = row["step"]
        begin[step] = min(begin.get(step, row["start_ts"]), row["start_ts"])
        end[step] = max(end[step], row["start_ts"] + row["duration"])
        if row["optype"] in ("forward-compute", "backward-compute"):
            work[step][row["dp_rank"]][row["mb_id"]][row["stage"]] += row["duration"]
    return [(end[step] - begin[step], {rank: list(batches.values()) for rank, batches in sorted(work[step].items())})
            for step in sorted(work)]


def load(batches):
    """Seconds that these micro-batches keep a rank busy: those of its busier stage."""
    return max((sum(each) for each in zip(*batches)), default=0.0)


def spread(batches, ranks):
    """Whole micro-batches of one step, the longest first, each to whoever has least: the slowest rank's seconds."""
    heap = [(0.0, rank) for rank in range(ranks)]
    parts = [[] for _ in range(ranks)]
    for batch in sorted(batches, key=max, reverse=True):
        _, rank = heapq.heappop(heap)
        parts[rank].append(batch)
        heapq.heappush(heap, (load(parts[rank]), rank))
    return max(map(load, parts))


def deal(batches, ranks, steps, shuffle, grouped=False):
    """The same micro-batches over an epoch as `run.loader(budget=, cost=)` deals them: seconds of the slowest rank by step."""
    costs = torch.tensor([max(batch) for batch in batches], dtype=torch.float64) * 1e6
    budget = int(float(costs.sum()) / ranks / steps) + 1
    dealer = Costs(costs, len(batches), budget, 0, shuffle, grouped, ranks)
    shares, slowest, dealt, first = [dealer.batch] * ranks, [], 0, 0
    while first < dealer.units:
        left = dealer.units - first
        own = shares if left >= sum(shares) else [left // ranks + (rank < left % ranks) for rank in range(ranks)]
        parts, place = [], first
        for rank in range(ranks):
            numbers = dealer.samples_of(Deal(own=own[rank], step=len(slowest), epoch=0, first=place), own, rank)
            count = dealer.deliver(Deal(step=len(slowest))).samples
            parts.append([batches[number] for number in numbers[:count]])
            dealt, place = dealt + count, place + own[rank]
        slowest.append(max(map(load, parts)))
        first += sum(own)
    assert dealt == len(batches), (dealt, len(batches))
    return slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    steps = read(parser.parse_args().trace)
    ranks = len(steps[0][1])
    slowest = [max(map(load, work.values())) for _, work in steps]
    rest = statistics.fmean(seconds - slow for (seconds, _), slow in zip(steps, slowest))
    whole = [[batch for batches in work.values() for batch in batches] for _, work in steps]
    pool = [batch for batches in whole for batch in batches]
    rows = [("as it was", slowest), ("the best split in each step, of any size", [load(batches) / ranks for batches in whole]),
            ("the best split in each step, whole micro-batches", [spread(batches, ranks) for batches in whole]),
            ("run.loader(budget=, cost=, shuffle=False)", deal(pool, ranks, len(steps), False)),
            ("run.loader(budget=, cost=, grouped=False)", deal(pool, ranks, len(steps), True)),
            ("run.loader(budget=, cost=), grouped for padding", deal(pool, ranks, len(steps), True, True))]
    before = len(steps) * rest + sum(slowest)
    best = before / (len(steps) * rest + sum(rows[1][1]))
    print(f"{len(steps)} steps of {ranks} ranks, {len(pool)} micro-batches; {before / len(steps):.2f} s a step, {rest:.2f} s of it beside "
          "the slowest rank's work")
    print(f"{'dealt':<52} steps  s a step  times as fast  of the best gain")
    for name, seconds in rows:
        total = len(seconds) * rest + sum(seconds)
        print(f"{name:<52} {len(seconds):5}  {total / len(steps):8.2f}  {before / total:13.3f}  {(before / total - 1) / (best - 1):16.2f}")


if __name__ == "__main__":
    main()
