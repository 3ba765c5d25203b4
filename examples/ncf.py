"""Neural collaborative filtering (NeuMF, He et al. 2017): which of five items a user has chosen. On random choices, half
of them by one of 16 tastes that users and items share, or on those of a file of MovieLens.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/ncf.py
    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/ncf.py --ratings ml-latest-small/ratings.csv
"""
import argparse

import numpy
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import common
import dynamix

CANDIDATES = 5
TASTES = 16


def draw_choices(users, items, count):
    """Pairs of a user and an item."""
    numbers = numpy.random.default_rng(1)
    chooser, liked = numbers.integers(users, size=count), numbers.integers(items, size=count)
    same_taste = liked // TASTES * TASTES + chooser % TASTES
    return chooser, numpy.where((numbers.random(count) < 0.5) & (same_taste < items), same_taste, liked)


def read_ratings(path):
    """The same of userId,movieId,rating,timestamp; users and items numbered without gaps."""
    table = numpy.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1), dtype=numpy.int64)
    return (numpy.unique(table[:, i], return_inverse=True)[1] for i in (0, 1))


def ask(chooser, chosen):
    """Questions (user, items) with the place of the chosen item among others that are drawn, and the answers."""
    numbers = numpy.random.default_rng(2)
    items = numbers.integers(chosen.max(), size=(len(chosen), CANDIDATES))
    items += items >= chosen[:, None]  # all but the chosen one
    answers = numbers.integers(CANDIDATES, size=len(chosen))
    items[numpy.arange(len(chosen)), answers] = chosen
    questions = numpy.concatenate([chooser[:, None], items], 1)
    return torch.utils.data.TensorDataset(torch.from_numpy(questions), torch.from_numpy(answers))


class NeuMF(nn.Module):
    def __init__(self, users, items, width=16):
        super().__init__()
        # Not sparse: DistributedDataParallel sums embeddings with all else. The built-in `ncf` can compress them.
        self.factor_user, self.factor_item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.perceptron = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.score = nn.Linear(width + 16, 1)

    def forward(self, questions):
        users, items = questions[:, :1], questions[:, 1:]
        factors = self.factor_user(users) * self.factor_item(items)
        both = torch.cat([self.user(users).expand(-1, items.shape[1], -1), self.item(items)], 2)
        return self.score(torch.cat([factors, self.perceptron(both)], 2)).squeeze(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--choices", type=int, default=40000, help="how many are drawn, without --ratings")
    parser.add_argument("--ratings", metavar="FILE", help="MovieLens' ratings.csv")
    parser.add_argument("--agent", default="auto", help="auto, off, or the path of a socket")
    options = parser.parse_args()
    rank, world = common.set_up()
    torch.manual_seed(1)
    chooser, chosen = read_ratings(options.ratings) if options.ratings else draw_choices(400, 320, options.choices)
    dataset = ask(chooser, chosen)
    net = NeuMF(int(chooser.max()) + 1, int(chosen.max()) + 1)
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    run = dynamix.join(model, optimizer, rule="square-root", agent=options.agent)
    loader = run.loader(dataset, options.batch)
    with run:
        for epoch in range(run.epoch, options.epochs):
            right = asked = 0
            for questions, answers in loader:
                optimizer.zero_grad()
                scores = model(questions)
                loss = nn.functional.cross_entropy(scores, answers)
                loss.backward()
                correct = int((scores.argmax(1) == answers)[:run.counted].sum())
                right, asked = right + correct, asked + run.counted
                run.report(loss=loss.detach(), correct=correct)
                optimizer.step()
            if run.status.stop:
                break
            if rank == 0:
                print(f"epoch {epoch}: {right / asked:.3f} of the choices found, batch sizes {run.status.batches}",
                      flush=True)


if __name__ == "__main__":
    main()
