"""An LSTM that predicts the next word of a text. All samples have equally many words, so the loss is a mean over samples.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/lstm.py
    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/lstm.py --text kjv.txt --width 128
"""
import argparse
import collections
import pathlib
import re

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import common
import dynamix


def read_words(path, vocabulary, context):
    """Stretches of `context` words as numbers, and the words that follow each; 0 is all but the most frequent ones."""
    words = re.findall(r"\w+|[^\w\s]", pathlib.Path(path).read_text(encoding="utf-8"))
    known = [word for word, _ in collections.Counter(words).most_common(vocabulary - 1)]
    number = {word: index for index, word in enumerate(known, 1)}
    numbers = torch.tensor([number.get(word, 0) for word in words])
    count = (len(numbers) - 1) // context
    inputs, targets = (numbers[first:first + count * context].view(count, context) for first in (0, 1))
    return torch.utils.data.TensorDataset(inputs, targets)


class Predictor(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.word = nn.Embedding(vocabulary, width)   # not sparse: DistributedDataParallel sums it with all else
        self.recurrent = nn.LSTM(width, width, batch_first=True)
        self.answer = nn.Linear(width, vocabulary)

    def forward(self, inputs):
        return self.answer(self.recurrent(self.word(inputs))[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=64, help="units of a layer")
    parser.add_argument("--context", type=int, default=16, help="words per sample")
    parser.add_argument("--vocabulary", type=int, default=1000, help="words that have a number of their own")
    parser.add_argument("--text", default=str(pathlib.Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"))
    parser.add_argument("--agent", default="auto", help="auto, off, or the path of a socket")
    options = parser.parse_args()
    rank, world = common.set_up()
    torch.manual_seed(1)
    dataset = read_words(options.text, options.vocabulary, options.context)
    net = Predictor(options.vocabulary, options.width)
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    run = dynamix.join(model, optimizer, rule="square-root", agent=options.agent)
    loader = run.loader(dataset, options.batch)
    with run:
        for epoch in range(run.epoch, options.epochs):
            losses = []
            for inputs, targets in loader:
                optimizer.zero_grad()
                answers = model(inputs)
                loss = nn.functional.cross_entropy(answers.flatten(0, 1), targets.flatten())
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                run.report(loss=loss.detach())
                optimizer.step()
                losses.append(loss.item())
            if run.status.stop:
                break
            if rank == 0:
                print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, batch sizes {run.status.batches}", flush=True)


if __name__ == "__main__":
    main()
