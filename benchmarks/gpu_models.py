"""The models of gpu_check in plain torch, at the sizes of its two scales, and data for them.

SIZES is what `--scale` chooses by: on a GPU "full", on the CPU "small", which shrinks the models that would not end there.
"""
import torch
from torch import nn

SIZES = {
    "full": {
        "lenet": {"batch": 256},
        "resnet50": {"batch": 64, "width": 64, "pixels": 224, "answers": 1000},
        "transformer-124m": {"batch": 8, "width": 768, "layers": 12, "heads": 12, "vocabulary": 50257, "context": 256},
        "wide": {"batch": 4096, "more_bytes": 2**31},
        # model, width and batch of the built-in trainer
        "built-in": (("lenet", 1, 256), ("transformer", 1, 64), ("vgg11", 1, 128), ("resnet50", 1, 128)),
        "steps": {"lenet": 200, "resnet50": 30, "transformer-124m": 30}, "rounds": 3, "highest": 2**20},
    "small": {
        "lenet": {"batch": 64},
        "resnet50": {"batch": 4, "width": 8, "pixels": 32, "answers": 10},
        "transformer-124m": {"batch": 4, "width": 64, "layers": 2, "heads": 2, "vocabulary": 1000, "context": 32},
        "wide": {"batch": 96, "more_bytes": 80 * 2**20},
        "built-in": (("lenet", 1, 64), ("transformer", 0.25, 32), ("vgg11", 0.25, 32), ("resnet50", 0.125, 32)),
        "steps": {"lenet": 20, "resnet50": 10, "transformer-124m": 10}, "rounds": 2, "highest": 64},
}
NUMBERS_A_ROW = 2**18  # of Wide's activations: 1 MiB


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes, stride):
        super().__init__()
        layers = []
        for last, (taken, given, size, step) in enumerate(((inputs, planes, 1, 1), (planes, planes, 3, stride), (planes, 4 * planes, 1, 1))):
            layers += [nn.Conv2d(taken, given, size, step, size // 2, bias=False), nn.BatchNorm2d(given)] + [nn.ReLU()] * (last < 2)
        self.layers, self.short = nn.Sequential(*layers), nn.Identity()
        if stride != 1 or inputs != 4 * planes:
            self.short = nn.Sequential(nn.Conv2d(inputs, 4 * planes, 1, stride, bias=False), nn.BatchNorm2d(4 * planes))

    def forward(self, values):
        return torch.relu(self.layers(values) + self.short(values))


def resnet50(width, answers):
    """torchvision's, which has 25,557,032 parameters at a width of 64 and 1,000 answers."""
    parts, inputs = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for stage, count in enumerate((3, 4, 6, 3)):
        planes = width << stage
        for number in range(count):
            parts.append(Bottleneck(inputs, planes, 2 if number == 0 and stage > 0 else 1))
            inputs = 4 * planes
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, answers))


class Transformer(nn.Module):
    """A decoder of GPT-2's form and, at full size, its 124 M parameters; without dropout, so that gradients can be compared."""

    def __init__(self, width, layers, heads, vocabulary, context):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
                                    for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)
        self.register_buffer("past", torch.full((context, context), -float("inf")).triu(1), persistent=False)

    def forward(self, tokens):
        output = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        for layer in self.layers:
            output = layer(output, self.past, is_causal=True)
        return self.norm(output) @ self.tokens.weight.T


class Wide(nn.Module):
    """A few parameters, and a mebibyte of activations for each row and operation."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 64), nn.Linear(64, 10)

    def forward(self, inputs):
        values = self.first(inputs).unsqueeze(2).expand(-1, -1, NUMBERS_A_ROW // 64)
        return self.last(torch.tanh(values * 0.5).mean(2))


def model_of(name, scale):
    """With the same parameters each time."""
    torch.manual_seed(0)
    size = SIZES[scale][name]
    if name == "lenet":
        return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    if name == "resnet50":
        return resnet50(size["width"], size["answers"])
    if name == "wide":
        return Wide()
    return Transformer(*(size[part] for part in ("width", "layers", "heads", "vocabulary", "context")))


def loss_of(outputs, labels):
    return nn.functional.cross_entropy(outputs.float().flatten(0, -2), labels.flatten())


class Data(torch.utils.data.Dataset):
    """So many samples, (its number, its input, its label), that repeat a few which are drawn. A batch is read at once, so that no
    step waits for its data."""

    DRAWN = 256

    def __init__(self, name, count, scale):
        generator, size = torch.Generator().manual_seed(1), SIZES[scale][name]
        self._count, drawn = count, min(count, self.DRAWN)
        if name == "transformer-124m":
            self.inputs, self.labels = (torch.randint(size["vocabulary"], (drawn, size["context"]), generator=generator) for _ in range(2))
            return
        shape = {"lenet": (1, 28, 28), "wide": (8,)}.get(name) or (3, size["pixels"], size["pixels"])
        self.inputs = torch.randn(drawn, *shape, generator=generator)
        self.labels = torch.randint(size.get("answers", 10), (drawn,), generator=generator)

    def __len__(self):
        return self._count

    def __getitem__(self, number):
        return self.__getitems__([number])

    def __getitems__(self, numbers):
        numbers = torch.as_tensor(numbers)
        places = numbers % len(self.inputs)
        return numbers, self.inputs[places], self.labels[places]


def together(batch):
    """Data gives whole batches."""
    return batch
