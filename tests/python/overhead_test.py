"""What joining adds to a step, counted and not timed: operations on tensors, collectives, calls into the C library and of Python."""
import collections
import os
import sys
import unittest

import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

import dynamix
from dynamix import kernels

BATCH, STEPS, INTERVAL = 4, 40, 10
ORDINARY, MEASURED = range(22, 30), (21, 31)  # steps, behind the first 16, each of which is measured
SMALL, LARGE = 50, 5000  # units: a bucket of 25 KB, or two of 1.2 MB each


class Operations(TorchDispatchMode):
    """Counts the operations on tensors: those of collectives, and all others."""

    def __init__(self):
        super().__init__()
        self.collectives = self.others = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if str(function).startswith("c10d"):
            self.collectives += 1
        else:
            self.others += 1
        return function(*arguments, **(options or {}))


class Library:
    """The C library, whose calls are counted by name."""

    def __init__(self, library):
        self.library, self.calls = library, collections.Counter()

    def __getattr__(self, name):
        def call(*arguments):
            self.calls[name.replace("dynamix_", "")] += 1
            return getattr(self.library, name)(*arguments)
        return call


class Calls:
    """Counts calls of the package's own functions."""

    def __init__(self):
        self.count, self._folder = 0, os.path.dirname(dynamix.__file__)

    def __call__(self, frame, event, _):
        self.count += event == "call" and frame.f_code.co_filename.startswith(self._folder)


def train(rank, world, units, options, looks):
    """Of each step: operations, collectives, calls into the library, calls of Python. `options`: of dynamix.join; None: plain."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(60, units), nn.Tanh(), nn.Linear(units, 60), nn.Tanh(), nn.Linear(60, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * BATCH * world, 60), torch.randn(STEPS * BATCH * world, 2))
    library, calls, found = Library(None), Calls(), []
    if options is None:
        batches = torch.utils.data.DataLoader(data, BATCH, sampler=torch.utils.data.DistributedSampler(data))
    else:
        run = dynamix.join(model, optimizer, agent="off", noise_interval=INTERVAL, **options)
        batches = run.loader(data, BATCH, lowest_batch=BATCH, highest_batch=BATCH)
        library.library = run._client._library
        run._client._library = library
        kernels.load = lambda: library
    iterator = iter(batches)
    for _ in range(STEPS):
        library.calls.clear()
        calls.count = 0
        sys.setprofile(calls if looks else None)
        inputs, targets = next(iterator)
        operations = Operations()
        with operations:
            optimizer.zero_grad()
            (model(inputs) - targets).square().mean().backward()
            optimizer.step()
        sys.setprofile(None)
        found.append((operations.others, operations.collectives, dict(library.calls), calls.count))
    if options is not None:
        run.close()
    return found


class AStep(unittest.TestCase):
    def measure(self, units=SMALL, looks=False, **options):
        """What a joined step has more than a plain one, and its calls."""
        plain, joined = ranks.run(train, 2, units, None, False)[0], ranks.run(train, 2, units, options, looks)[0]
        return [(own[0] - other[0], own[1] - other[1], *own[2:]) for own, other in zip(joined, plain)]

    def test_has_one_operation_more_and_no_collective(self):
        steps = self.measure()
        for number in ORDINARY:
            operations, collectives, calls, _ = steps[number]
            self.assertEqual((operations, collectives), (1, 0), "gradients times the own share")
            self.assertLessEqual(sum(calls.values()), 8, calls)

    def test_has_few_operations_more_where_rows_travel_behind_gradients(self):
        steps = self.measure(balance=True)
        for number in ORDINARY:
            operations, collectives, calls, _ = steps[number]
            self.assertLessEqual(operations, 3)
            self.assertEqual(collectives, 0)
            self.assertLessEqual(sum(calls.values()), 10, calls)

    def test_has_one_collective_more_where_rows_travel_by_themselves(self):
        steps = self.measure(units=LARGE, balance=True)
        for number in ORDINARY:
            self.assertEqual(steps[number][:2], (2, 1), "each bucket times the own share, and the rows")

    def test_takes_squares_of_each_parameter_where_the_noise_is_measured(self):
        steps = self.measure(units=LARGE)
        for number in MEASURED:
            calls = steps[number][2]
            self.assertEqual((calls["scale_f32"], calls["squares_f32"]), (6, 6))

    def test_takes_squares_of_each_bucket_where_gradients_have_to_be_finite(self):
        steps = self.measure(nan="drop")
        for number in ORDINARY:
            operations, collectives, calls, _ = steps[number]
            self.assertEqual((operations, collectives), (0, 0))
            self.assertEqual((calls["scale_f32"], calls["squares_f32"]), (1, 1))

    def test_calls_few_functions_of_the_package(self):
        steps = self.measure(looks=True)
        self.assertLess(max(steps[number][3] for number in ORDINARY), 130)  # it was 103


if __name__ == "__main__":
    unittest.main()
