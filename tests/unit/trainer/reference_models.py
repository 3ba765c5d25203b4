"""Compares outputs and gradients of built-in models with torchvision's and PyTorch's, and those that neither has restated.

    reference_models.py FILE...

Each file is a safetensors file of reference_test.cpp: weights, inputs, logits and gradients of one model. Convolutional
models are compared where torchvision is installed. Exit code 1 where anything differs by more than 1e-5 of its scale.
"""
import json
import math
import struct
import sys

import numpy
import torch

try:
    import torchvision
except ImportError:
    torchvision = None

TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "U8": numpy.uint8}


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    body = data[8 + size:]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            values = numpy.frombuffer(body[first:last], TYPES[entry["dtype"]]).reshape(entry["shape"])
            tensors[name] = torch.from_numpy(values.copy())
    return header["__metadata__"], tensors


def group_norm(channels):
    return torch.nn.GroupNorm(math.gcd(channels, 8), channels)


def lenet():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.ReLU(True), torch.nn.MaxPool2d(2), torch.nn.Conv2d(6, 16, 5),
        torch.nn.ReLU(True), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(400, 120), torch.nn.ReLU(True),
        torch.nn.Linear(120, 84), torch.nn.ReLU(True), torch.nn.Linear(84, 10))


def vgg(kind, width, tensors):
    """torchvision's features, scaled, with the norm in the place of its batch norm, and one linear layer."""
    plan = torchvision.models.vgg.cfgs[{"vgg11": "A", "vgg13": "B", "vgg16": "D", "vgg19": "E"}[kind]]
    plan = [each if each == "M" else round(each * width) for each in plan]
    normed = any(name.startswith("1.") for name in tensors)
    features = torchvision.models.vgg.make_layers(plan, batch_norm=normed)
    layers = [group_norm(each.num_features) if isinstance(each, torch.nn.BatchNorm2d) else each for each in features]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               torch.nn.Linear(plan[-2], 10)), lambda name: name


def resnet(kind, width, _):
    """torchvision's ResNet with our norm, its first convolution for small images, and scaled channels."""
    models = torchvision.models.resnet
    block, counts = {"resnet18": (models.BasicBlock, [2, 2, 2, 2]), "resnet34": (models.BasicBlock, [3, 4, 6, 3]),
                     "resnet50": (models.Bottleneck, [3, 4, 6, 3])}[kind]
    model = models.ResNet(block, counts, num_classes=10, norm_layer=group_norm)
    model.inplanes = round(64 * width)
    model.conv1 = torch.nn.Conv2d(3, model.inplanes, 3, padding=1, bias=False)
    model.bn1 = group_norm(model.inplanes)
    model.maxpool = torch.nn.Identity()
    for stage, count in enumerate(counts):
        planes = round(64 * 2 ** stage * width)
        setattr(model, f"layer{stage + 1}", model._make_layer(block, planes, count, stride=1 if stage == 0 else 2))
    model.fc = torch.nn.Linear(model.inplanes, 10)
    return model, lambda name: name[2:].replace("norm", "bn")


def transformer(heads, tensors):
    """The decoder in plain functions of its weights."""
    parameters = {name[2:]: tensor.clone().requires_grad_() for name, tensor in tensors.items() if name.startswith("0.")}

    def linear(name, values):
        return torch.nn.functional.linear(values, parameters[name + ".weight"], parameters.get(name + ".bias"))

    def norm(name, values):
        weight = parameters[name + ".weight"]
        return torch.nn.functional.layer_norm(values, weight.shape, weight, parameters[name + ".bias"])

    def forward(tokens):
        output = parameters["tokens.weight"][tokens] + parameters["positions.weight"][:tokens.shape[1]]
        layer = 0
        while f"block{layer}.attention_in.weight" in parameters:
            block = f"block{layer}."
            batch, context, units = output.shape
            query, key, value = linear(block + "attention_in", norm(block + "attention_norm", output)).split(units, 2)
            results = []
            for head in range(heads):
                part = slice(head * units // heads, (head + 1) * units // heads)
                scores = query[:, :, part] @ key[:, :, part].transpose(1, 2) / math.sqrt(units // heads)
                allowed = torch.tril(torch.ones(context, context, dtype=torch.bool))
                results.append(scores.masked_fill(~allowed, -math.inf).softmax(2) @ value[:, :, part])
            output = output + linear(block + "attention_out", torch.cat(results, 2))
            hidden = torch.nn.functional.gelu(linear(block + "perceptron_in", norm(block + "perceptron_norm", output)))
            output = output + linear(block + "perceptron_out", hidden)
            layer += 1
        return linear("logits", norm("norm", output))

    return forward, parameters


class Lstm(torch.nn.Module):
    """PyTorch's LSTM between an embedding of tokens and one of answers."""

    def __init__(self, vocabulary, units, layers):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, units)
        self.recurrent = torch.nn.LSTM(units, units, layers, batch_first=True)
        self.answers = torch.nn.Embedding(vocabulary, units)

    def forward(self, tokens):
        return self.recurrent(self.tokens(tokens))[0] @ self.answers.weight.T


class Ncf(torch.nn.Module):
    """Neural collaborative filtering: a product of factors beside a perceptron, joined by one layer."""

    def __init__(self, users, items):
        super().__init__()
        self.factor_user, self.factor_item = torch.nn.Embedding(users, 32), torch.nn.Embedding(items, 32)
        self.user, self.item = torch.nn.Embedding(users, 32), torch.nn.Embedding(items, 32)
        self.perceptron = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16),
                                              torch.nn.ReLU(), torch.nn.Linear(16, 8), torch.nn.ReLU())
        self.score = torch.nn.Linear(40, 1)

    def forward(self, samples):
        users, items = samples[:, :1], samples[:, 1:]
        factors = self.factor_user(users) * self.factor_item(items)
        both = torch.cat([self.user(users).expand(-1, items.shape[1], -1), self.item(items)], 2)
        return self.score(torch.cat([factors, self.perceptron(both)], 2)).squeeze(2)


def largest_difference(ours, theirs):
    return ((ours - theirs).abs().max() / max(1.0, theirs.abs().max())).item()


def compare(path):
    metadata, tensors = read(path)
    kind, width = metadata["model"], float(metadata["width"])
    weights = {name: tensor for name, tensor in tensors.items()
               if name not in ("inputs", "logits") and not name.startswith("gradient of ")}
    if kind == "transformer":
        model, parameters = transformer(int(metadata["heads"]), weights)
        named = {"0." + name: parameter for name, parameter in parameters.items()}
    elif kind == "lenet":
        model = lenet()
        model.load_state_dict(weights)
        named = dict(model.named_parameters())
    elif kind in ("lstm", "ncf"):
        model = (Lstm(*weights["0.tokens.weight"].shape, int(metadata["layers"])) if kind == "lstm" else
                 Ncf(len(weights["0.user.weight"]), len(weights["0.item.weight"])))
        model.load_state_dict({name.removeprefix("0."): tensor for name, tensor in weights.items()})
        named = {"0." + name: parameter for name, parameter in model.named_parameters()}
    elif torchvision is None:
        print(f"{kind}: not compared, there is no torchvision (apt-get install python3-torchvision)")
        return True
    else:
        model, rename = (vgg if kind.startswith("vgg") else resnet)(kind, width, weights)
        model.load_state_dict({rename(name): tensor for name, tensor in weights.items()})
        theirs = dict(model.named_parameters())
        named = {name: theirs[rename(name)] for name in weights}
    logits = model(tensors["inputs"])
    logits.square().mean().backward()
    outputs = largest_difference(tensors["logits"], logits.detach())
    gradients = max(largest_difference(tensors["gradient of " + name], parameter.grad)
                    for name, parameter in named.items())
    print(f"{kind} of width {width:g}: outputs differ by {outputs:.1e}, gradients by {gradients:.1e}")
    return outputs <= 1e-5 and gradients <= 1e-5


def main():
    torch.set_num_threads(1)
    results = [compare(path) for path in sys.argv[1:]]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
