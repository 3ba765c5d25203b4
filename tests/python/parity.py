"""The Python side of the C++ test `parity_test`, which also plays the agents: trains with two ranks.

    parity.py FOLDER EPOCHS BATCH LEARNING_RATE MOMENTUM SEED WINDOW_STEPS
"""
import os
import sys
import time

import numpy
import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix


def numbers(folder, name, kind):
    return torch.from_numpy(numpy.fromfile(os.path.join(folder, name), kind))


def wait_for_decision(folder, rank, window):
    """Lets a decision arrive before the next step, however slow the agent is."""
    limit = time.monotonic() + 20
    while not os.path.exists(os.path.join(folder, f"decided-{rank}-{window}")) and time.monotonic() < limit:
        time.sleep(0.001)


def train(rank, world, folder, epochs, batch_size, learning_rate, momentum, seed, window_steps):
    labels = numbers(folder, "labels", numpy.int64)
    images = numbers(folder, "images", numpy.float32).reshape(len(labels), -1)
    net = nn.Sequential(nn.Linear(images.shape[1], 24), nn.ReLU(), nn.Linear(24, 3))
    nn.utils.vector_to_parameters(numbers(folder, "parameters", numpy.float32), net.parameters())
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=momentum)
    run = dynamix.join(model, optimizer, agent=folder, noise_interval=1)
    loader = run.loader(torch.utils.data.TensorDataset(images, labels), batch_size=batch_size, seed=seed)
    steps = 0
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = nn.functional.cross_entropy(outputs, targets)
            loss.backward()
            run.report(loss=loss.detach(), correct=int((outputs.argmax(1) == targets)[:run.counted].sum()))
            optimizer.step()
            steps += 1
            if steps % window_steps == 0:
                wait_for_decision(folder, rank, steps // window_steps)
    run.close()
    nn.utils.parameters_to_vector(net.parameters()).detach().numpy().tofile(os.path.join(folder, f"trained-{rank}"))


if __name__ == "__main__":
    place, epochs, batch_size, learning_rate, momentum, seed, window_steps = sys.argv[1:]
    ranks.run(train, 2, place, int(epochs), int(batch_size), float(learning_rate), float(momentum), int(seed),
              int(window_steps))
