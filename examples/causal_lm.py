"""A small causal language model, trained or fine-tuned on texts of unequal length that are dealt by their tokens: each worker has
a budget of tokens a step, batches are of texts of like length, and the mean is over tokens.

    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/causal_lm.py --save base.pt --texts client/*.hpp
    dynamix-node exec --workers 2 -- torchrun --nproc_per_node 2 examples/causal_lm.py --start base.pt
"""
import argparse
import pathlib

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import common
import dynamix

IGNORED = -100
LONGEST = 512


def read(paths):
    """The lines of texts, each as the numbers of its bytes between two zeros. All but the first are to be predicted."""
    lines = (line for path in paths for line in pathlib.Path(path).read_bytes().splitlines())
    return [torch.tensor([0, *line[:LONGEST - 1], 0]) for line in lines if line.strip()]


def tokens_of(texts):
    """That are to be predicted, of each text."""
    return [len(text) - 1 for text in texts]


def collate(texts):
    """Tokens, and the token that follows each; IGNORED behind the end of a text. Both of shape (texts, the longest one's tokens)."""
    inputs = nn.utils.rnn.pad_sequence([text[:-1] for text in texts], batch_first=True)
    targets = nn.utils.rnn.pad_sequence([text[1:] for text in texts], batch_first=True, padding_value=IGNORED)
    return inputs, targets


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.questions, self.answer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, values):
        # What lies behind a text's end is looked at by nobody before it, so padding needs no mask.
        parts = self.questions(self.before(values)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        values = values + self.answer(seen.transpose(1, 2).flatten(2))
        return values + self.wide(self.between(values))


class GPT(nn.Module):
    def __init__(self, width=64, layers=2, heads=4):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(LONGEST, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, inputs):
        places = torch.arange(inputs.shape[1], device=inputs.device)
        return self.last(self.norm(self.blocks(self.token(inputs) + self.place(places))))


def loss_of(model, inputs, targets):
    """The mean over tokens."""
    return nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


@torch.no_grad()
def test_loss(net, texts):
    """The mean over all tokens of other texts."""
    texts = sorted(texts, key=len)
    sums = [(float(loss_of(net, *collate(part))), sum(tokens_of(part))) for part in (texts[i:i + 16] for i in range(0, len(texts), 16))]
    return sum(loss * tokens for loss, tokens in sums) / sum(tokens for _, tokens in sums)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", nargs="+", metavar="FILE", help="train on these; by default on the documentation")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--budget", type=int, default=2048, help="tokens of this worker in a step, at first")
    parser.add_argument("--start", metavar="FILE", help="the parameters to begin with")
    parser.add_argument("--save", metavar="FILE", help="writes the parameters")
    parser.add_argument("--agent", default="auto")
    options = parser.parse_args()
    rank, world = common.set_up()
    torch.manual_seed(1)
    texts = read(options.texts or sorted((pathlib.Path(__file__).resolve().parents[1] / "docs").glob("*.md")))
    kept, texts = texts[::20], [text for number, text in enumerate(texts) if number % 20]
    net = GPT()
    if options.start:
        net.load_state_dict(torch.load(options.start, weights_only=True))
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    run = dynamix.join(model, optimizer, rule="square-root", agent=options.agent)
    loader = run.loader(texts, budget=options.budget, cost=tokens_of(texts), collate_fn=collate)
    with run:
        for epoch in range(run.epoch, options.epochs):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = loss_of(model, inputs, targets)
                loss.backward()
                run.report(loss=loss.detach())
                optimizer.step()
            if run.status.stop:
                break
            loss = test_loss(net, kept)
            run.evaluated(test_loss=loss)
            if rank == 0:
                print(f"epoch {epoch}: loss {loss:.3f} of other texts, batch sizes {run.status.batches} tokens", flush=True)
    if options.save and rank == 0:
        dynamix.save(net.state_dict(), options.save)


if __name__ == "__main__":
    main()
