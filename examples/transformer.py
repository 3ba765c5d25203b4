"""A small Transformer that predicts the next letter of a text. Its sequences are of unequal lengths and its loss is a mean
over letters, not sequences: `run.weight` says how many.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/transformer.py
    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/transformer.py --stream docs/*.md
"""
import argparse
import pathlib

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import common
import dynamix

IGNORED = -100


class Lines:
    """The lines of texts as numbers of their letters."""

    def __init__(self, paths, longest=96):
        self.letters = sorted(set().union(*(pathlib.Path(path).read_text(encoding="utf-8") for path in paths)))
        self.number = {letter: index for index, letter in enumerate(self.letters)}
        self.longest = longest

    def read(self, path):
        with open(path, encoding="utf-8") as text:
            for line in text:
                if len(line) > 2:
                    yield torch.tensor([self.number[letter] for letter in line.rstrip("\n")[:self.longest]])


def collate(lines):
    """Letters, and the letter that follows each; IGNORED after the end of a line."""
    inputs = nn.utils.rnn.pad_sequence([line[:-1] for line in lines], batch_first=True)
    targets = nn.utils.rnn.pad_sequence([line[1:] for line in lines], batch_first=True, padding_value=IGNORED)
    return inputs, targets


class Predictor(nn.Module):
    def __init__(self, letters, width=64, longest=96):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.last = nn.Linear(width, letters)

    def forward(self, inputs):
        length = inputs.shape[1]
        future = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        values = self.letter(inputs) + self.place(torch.arange(length))
        return self.last(self.layers(values, mask=future))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--text", default=str(pathlib.Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"))
    parser.add_argument("--stream", nargs="+", metavar="FILE", help="read these texts line by line while training")
    parser.add_argument("--workers", type=int, default=0, help="processes of the data loader")
    parser.add_argument("--agent", default="auto", help="auto, off, or the path of a socket")
    options = parser.parse_args()
    rank, world = common.set_up()
    torch.manual_seed(1)
    lines = Lines(options.stream or [options.text])
    # One item of a list can be had as well as another; a file is read from its beginning on.
    dataset = dynamix.Stream(sorted(options.stream), lines.read) if options.stream else list(lines.read(options.text))
    net = Predictor(len(lines.letters))
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    run = dynamix.join(model, optimizer, rule="square-root", agent=options.agent)
    loader = run.loader(dataset, options.batch, collate_fn=collate, num_workers=options.workers)
    with run:
        for epoch in range(run.epoch, options.epochs):
            losses, letters = 0.0, 0
            for inputs, targets in loader:
                count = int((targets != IGNORED).sum())
                run.weight(count)
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
                loss.backward()
                run.report(loss=loss.detach())
                optimizer.step()
                losses, letters = losses + loss.item() * count, letters + count
            if run.status.stop:
                break
            if rank == 0:
                print(f"epoch {epoch}: loss {losses / letters:.3f}, batch sizes {run.status.batches}", flush=True)


if __name__ == "__main__":
    main()
