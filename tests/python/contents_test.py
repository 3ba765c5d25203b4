"""Data sets that members have divided by themselves, so that their numbers mean other samples on each: told of where that is seen for sure."""
import io
import logging
import unittest

import numpy
import ranks
import torch
from torch import nn
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

import dynamix
from dynamix.contents import other_contents

SAMPLES = 40


class Files(Dataset):
    """Of names, in a folder of its own on each member; reading one draws random numbers, and nobody may do that before training."""

    def __init__(self, names, rank):
        self.samples = [(f"/data/{rank}/{name}", 0) for name in names]
        self.draws = torch.randn(len(names), generator=torch.Generator().manual_seed(rank))
        self.weights = numpy.random.default_rng(rank).random(len(names))
        self.order = torch.randperm(len(names), generator=torch.Generator().manual_seed(rank)).tolist()
        self.cache = [None] * len(names)
        self.rank = rank
        self.reads = 0

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, number):
        self.reads += 1
        return torch.randn(4)


class Drawn(Dataset):
    """Of a file, with what each member draws: whoever sees it alone cannot know that it is not the samples."""

    def __init__(self, rank):
        source = numpy.random.default_rng(rank)
        self.noise, self.order = source.random((SAMPLES, 4)), source.permutation(SAMPLES).tolist()
        self.names = source.permutation(NAMES)[:SAMPLES]
        self.backgrounds, self.noises = TensorDataset(part(VALUES, rank)), TensorDataset(part(VALUES, rank))
        self.pairs = [(name, each) for name, each in zip(NAMES, self.order)]

    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        return self.noise[number]


class Around(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, number):
        return self.data[number]


class Rows:
    """As the package datasets has them."""

    def __init__(self, rows, formatted=False):
        self.rows, self.formatted = rows, formatted

    def __len__(self):
        return len(self.rows)

    def with_format(self, kind):
        return Rows(self.rows, kind == "arrow")

    def __getitem__(self, number):
        assert self.formatted, "a row was read through the script's own transform"
        return self

    def to_pylist(self):
        return self.rows[:1]


Rows.__module__ = "datasets.arrow_dataset"
VALUES = torch.randn(2 * SAMPLES, 4, generator=torch.Generator().manual_seed(3))
NAMES = [f"{number}.png" for number in range(2 * SAMPLES)]


def part(of, rank):
    return of[rank * SAMPLES:(rank + 1) * SAMPLES]


DIVIDED = {
    "samples": lambda rank: Files(part(NAMES, rank), rank),
    "data.samples": lambda rank: Around(Files(part(NAMES, rank), rank)),
    "data.indices": lambda rank: Around(Subset(TensorDataset(VALUES), range(rank, 2 * SAMPLES, 2))),
    "data.data.indices": lambda rank: Around(Around(Subset(TensorDataset(VALUES), numpy.arange(rank, 2 * SAMPLES, 2)))),
    "data.tensors[0]": lambda rank: Around(Subset(TensorDataset(part(VALUES, rank)), numpy.arange(SAMPLES))),
    "tensors[1]": lambda rank: TensorDataset(torch.zeros(SAMPLES), part(VALUES, rank)),
    "tensors[0]": lambda rank: TensorDataset(part(torch.arange(2 * SAMPLES), rank)),
    "datasets[1].tensors[0]": lambda rank: ConcatDataset([TensorDataset(VALUES), TensorDataset(part(VALUES, rank))]),
    "items": lambda rank: part(list(enumerate(VALUES)), rank),
    "rows": lambda rank: Rows([{"text": text, "score": 0.5} for text in part(NAMES, rank)]),
}
WHOLE = {
    "names in folders": lambda rank: Files(NAMES, rank),
    "draws": Drawn,
    "draws within": lambda rank: Around(Drawn(rank)),
    "rounded": lambda rank: TensorDataset(VALUES * (1 + 1e-6 * rank)),
    "not finite": lambda rank: TensorDataset(VALUES / (VALUES * 0)),
    "subsets": lambda rank: Subset(Files(NAMES, rank), range(SAMPLES)),
    "items": lambda rank: list(enumerate(VALUES)),
    "rows": lambda rank: Rows([{"text": text, "score": 0.5 + 1e-7 * rank} for text in NAMES]),
    "other kinds": lambda rank: Around(Files(NAMES, rank)) if rank else TensorDataset(VALUES),
}


def load(rank, _, sets):
    """What members are told of each."""
    found = {}
    for name, make in sets.items():
        model, data = nn.Linear(4, 1), make(rank)
        told = io.StringIO()
        logging.getLogger("dynamix").handlers = [logging.StreamHandler(told)]
        with dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent="off") as run:
            run.loader(data, batch_size=4)
        found[name] = told.getvalue()
        assert getattr(data, "reads", 0) == 0
    return found


def load_parts(rank, _):
    model = nn.Linear(4, 1)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.01), agent="off")
    try:
        run.loader(Subset(TensorDataset(VALUES), range(rank, 2 * SAMPLES, 2)), batch_size=4)
    except dynamix.DynamixError as problem:
        return str(problem)
    return ""


class Contents(unittest.TestCase):
    def test_that_members_have_divided_are_told_of(self):
        first, second = ranks.run(load, 2, DIVIDED)
        for name, told in first.items():
            self.assertRegex(told, r"^member 1's data set holds other samples than member 0's \(its .*give run.loader the whole data set on all "
                             r"members, .*do not divide it by rank.*\n$", name)
            self.assertIn(f"(its {name})", told)
        self.assertEqual(set(second.values()), {""})

    def test_that_are_the_same_are_not(self):
        for found in ranks.run(load, 2, WHOLE):
            self.assertEqual(found, dict.fromkeys(WHOLE, ""))

    def test_by_subsets_of_each_member_are_refused(self):
        for text in ranks.run(load_parts, 2):
            self.assertRegex(text, "the members' subsets have other samples: .*give run.loader the whole data set on all members")

    def test_that_a_member_cannot_describe_are_compared_as_far_as_it_does(self):
        self.assertEqual(other_contents([[["a", 1, []], ["b", 2, []]], [["a", 1, []]], [["c", 7, []]]]), "")


if __name__ == "__main__":
    unittest.main()
