"""The package has the habits of Torch's: help, no state of the process's, threads, cells of a notebook."""
import code
import contextlib
import inspect
import io
import math
import os
import pydoc
import subprocess
import sys
import threading
import unittest
import warnings

import numpy
import ranks
import torch
from torch import nn

import dynamix

CELLS = """
import torch, dynamix
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
---
run = dynamix.join(model, optimizer, agent="off")
loader = run.loader(torch.utils.data.TensorDataset(torch.arange(20), torch.randn(20, 3)), batch_size=4)
---
taken = []
for numbers, values in loader:
    optimizer.zero_grad()
    model(values).square().mean().backward()
    optimizer.step()
    taken += numbers.tolist()
---
run.close()
"""


def train(seed, barrier=None):
    """Two epochs of a run of its own: the samples of each, and the parameters. All threads go on step by step."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(3, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = dynamix.join(model, optimizer, agent="off", rule="linear")
    data = torch.utils.data.TensorDataset(torch.arange(40), torch.randn(40, 3, generator=generator))
    loader = run.loader(data, batch_size=3, seed=seed)
    epochs = []
    for _ in range(2):
        epochs.append([])
        for numbers, values in loader:
            if barrier is not None:
                barrier.wait(ranks.SECONDS)
            optimizer.zero_grad()
            model(values).square().mean().backward()
            optimizer.step()
            epochs[-1] += numbers.tolist()
    run.close()
    return epochs, [parameter.tolist() for parameter in model.parameters()]


def train_in_threads(rank, world, seeds):
    barrier, results = threading.Barrier(len(seeds)), {}
    threads = [threading.Thread(target=lambda seed=seed: results.__setitem__(seed, train(seed, barrier)))
               for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results.get(seed) for seed in seeds]


class Help(unittest.TestCase):
    def test_explains_each_public_name(self):
        shown = pydoc.plain(pydoc.render_doc(dynamix))
        for name in dynamix.__all__:
            self.assertIn(name, shown)
            self.assertTrue(inspect.getdoc(getattr(dynamix, name)), name)
        for name, member in vars(dynamix.Run).items():
            if not name.startswith("_") and name not in ("before_step", "after_step", "leave_out_step", "close_now", "note_loss"):
                self.assertTrue(inspect.getdoc(member), f"Run.{name}")
        for words in ("samples of this worker a step", "Raises", "once an epoch"):
            self.assertIn(words, pydoc.plain(pydoc.render_doc(dynamix.Run.loader)))

    def test_has_the_types_of_all_arguments(self):
        for function in (dynamix.join, dynamix.save, dynamix.Run.loader, dynamix.Run.backward):
            for name, parameter in inspect.signature(function).parameters.items():
                self.assertTrue(name == "self" or parameter.annotation is not parameter.empty,
                                f"{function.__name__}({name})")


class Threads(unittest.TestCase):
    def test_train_runs_of_their_own_side_by_side(self):
        seeds = [1, 2, 3]
        together = ranks.run(train_in_threads, 1, seeds)[0]
        for seed, (epochs, parameters) in zip(seeds, together):
            for epoch in epochs:
                self.assertEqual(sorted(epoch), list(range(40)))
            self.assertEqual((epochs, parameters), train(seed))


def join_again(rank, world):
    """The descriptors and threads that this process has behind each of some runs."""
    counts = []
    for _ in range(4):
        train_one()
        torch.distributed.barrier()
        counts.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
    return counts


def train_one():
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with dynamix.join(model, optimizer, agent="off") as run:
        for values, in run.loader(torch.utils.data.TensorDataset(torch.randn(16, 3)), batch_size=4):
            optimizer.zero_grad()
            model(values).square().mean().backward()
            optimizer.step()


class Again(unittest.TestCase):
    def test_a_process_may_join_and_have_no_more_descriptors_and_threads(self):
        for counts in ranks.run(join_again, 2):
            self.assertEqual(counts[-1], counts[1], counts)


class Notebook(unittest.TestCase):
    def test_cells_may_be_run_again(self):
        """As IPython runs them: one by one, in one namespace, where an error ends the cell and not the process."""
        cells = [cell.strip() + "\n" for cell in CELLS.split("---")]
        console, error = code.InteractiveInterpreter(), io.StringIO()

        def run(*numbers):
            with contextlib.redirect_stderr(error):
                for number in numbers:
                    console.runcode(compile(cells[number], "<cell>", "exec"))
            return error.getvalue()

        self.assertEqual(run(0, 1, 2, 2, 2), "")
        self.assertEqual(sorted(console.locals["taken"]), list(range(20)))
        self.assertEqual(run(3, 3, 1, 2, 3), "")  # closed, joined anew
        self.assertEqual(sorted(console.locals["taken"]), list(range(20)))
        self.assertIs(type(console.locals["optimizer"]), torch.optim.SGD)
        self.assertIn("this run is closed", run(2))


class Loaders(unittest.TestCase):
    def make(self, batch_size, **options):
        model = nn.Linear(3, 1)
        run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
        return run, run.loader(torch.utils.data.TensorDataset(torch.randn(20, 3)), batch_size=batch_size, **options)

    def test_take_what_scripts_say_to_a_distributed_sampler(self):
        run, loader = self.make(4)
        for epoch in range(2):
            for place in (loader, loader.sampler, loader.batch_sampler.sampler):
                place.set_epoch(epoch)
        self.assertEqual((len(loader.sampler), len(loader)), (20, 5))
        self.assertEqual(len(list(loader)), 5)
        self.assertRaisesRegex(RuntimeError, "iterate over the loader", list, loader.sampler)
        run.close()

    def test_say_their_batch_size(self):
        run, loader = self.make(4, num_workers=1)
        self.assertEqual(loader.batch_size, 4)
        with self.assertRaisesRegex(ValueError, "batch_size"):
            loader.batch_size = 8
        run.close()
        self.assertEqual(loader.batch_size, 4)

    def test_take_whole_numbers_of_numpy(self):
        run, loader = self.make(numpy.int64(8), lowest_batch=numpy.int32(2), highest_batch=numpy.uint8(16), seed=numpy.int64(3))
        self.assertEqual(run.status.batch, 8)
        run.limit_batch(numpy.int64(9))
        run.close()
        for wrong in (numpy.float64(8), numpy.int64(0), True, "8"):
            with self.assertRaisesRegex(ValueError, "batch_size"):
                self.make(wrong)


class Losses(unittest.TestCase):
    """That nobody reports are told where they pass by."""

    def test_of_a_closure_a_guarded_batch_and_a_scaled_loss_are_known(self):
        for way in ("closure", "backward", "scale", "report", "nothing"):
            model, told = nn.Linear(3, 1), []
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            run = dynamix.join(model, optimizer, agent="off", weighting="loss" if way == "scale" else "gradients")
            loader = run.loader(torch.utils.data.TensorDataset(torch.randn(8, 3)), batch_size=4)
            complete = run._client.complete
            run._client.complete = lambda step: (told.append(step.loss), complete(step))

            def loss_of(values):
                return model(values).square().mean()

            losses = []
            for values, in loader:
                optimizer.zero_grad()
                loss = loss_of(values)
                losses.append(loss.item())
                if way == "closure":
                    optimizer.step(lambda: (loss.backward(), loss)[1])
                    continue
                if way == "backward":
                    run.backward(loss_of, values)
                else:
                    (run.scale(loss) if way == "scale" else loss).backward()
                if way == "report":
                    run.report(loss=3.0)
                optimizer.step()
            run.close()
            expected = {"report": [3.0, 3.0], "nothing": [math.nan] * 2}.get(way, losses)
            numpy.testing.assert_allclose(told, expected, rtol=1e-6, err_msg=way)


class Scaling(torch.optim.SGD):
    """Unscales by the GradScaler that it is given, as fused optimisers do."""

    _step_supports_amp_scaling = True

    def step(self, closure=None, *, grad_scaler=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if grad_scaler is not None and parameter.grad is not None:
                    parameter.grad.div_(grad_scaler.get_scale())
        if grad_scaler is not None:
            grad_scaler._check_inf_per_device(self)
        return super().step(closure)


class Steps(unittest.TestCase):
    """Of an optimiser, in the forms that scripts call them."""

    def train(self, make=torch.optim.SGD, scaler=None, compiles=False, joins=True):
        """The weights behind five steps, and the run's own count of them."""
        torch.manual_seed(1)
        model, data = nn.Linear(3, 1), torch.utils.data.TensorDataset(torch.randn(20, 3))
        optimizer = make(model.parameters(), lr=0.01)
        run = dynamix.join(model, optimizer, agent="off", scaler=scaler) if joins else None
        loader = run.loader(data, batch_size=4, shuffle=False) if joins else torch.utils.data.DataLoader(data, 4)

        def move():
            optimizer.step()
            optimizer.zero_grad()

        if compiles:
            move = torch.compile(move, backend="eager")
        for values, in loader:
            loss = model(values).square().mean()
            if scaler is None:
                loss.backward()
                move()
            else:
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FutureWarning)
                    scaler.step(optimizer)
                scaler.update()
        steps = run.status.step if joins else 5
        if joins:
            run.close(again=True)
        return steps, model.weight.tolist()

    def test_that_take_the_grad_scaler(self):
        def scaler():
            return torch.amp.GradScaler("cpu", init_scale=64.0)

        self.assertEqual(self.train(Scaling, scaler()), self.train(Scaling, scaler(), joins=False))

    def test_that_are_compiled(self):
        self.assertEqual(self.train(compiles=True), self.train())


class CommandLine(unittest.TestCase):
    def test_ends_quietly_on_a_closed_pipe(self):
        for command in ("--help", "report"):
            read, write = os.pipe()
            os.close(read)
            done = subprocess.run([sys.executable, "-m", "dynamix", command, *(["--help"] if command == "report" else [])], stdout=write,
                                  stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ranks.PACKAGE}, timeout=ranks.SECONDS)
            os.close(write)
            self.assertEqual(done.stderr, b"")


if __name__ == "__main__":
    unittest.main()
