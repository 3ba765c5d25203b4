"""The package has the habits of Torch's: help, no state of the process's, threads, cells of a notebook."""
import code
import contextlib
import gc
import inspect
import io
import itertools
import logging
import math
import os
import pydoc
import subprocess
import sys
import threading
import unittest
import warnings
import weakref

import numpy
import ranks
import torch
from complaints_test import Script, data
from torch import nn
from torch.nn.parallel import DistributedDataParallel

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


class Growing(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = list(torch.randn(20, 3))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        return self.rows[number]


class Loaders(unittest.TestCase):
    def test_say_that_a_data_set_has_grown(self):
        model, data = nn.Linear(3, 1), Growing()
        with dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off") as run, self.assertLogs("dynamix") as told:
            loader = run.loader(data, batch_size=4)
            logging.getLogger("dynamix").warning("begins")
            sizes = []
            for _ in range(3):
                sizes.append((sum(map(len, loader)), len(told.output)))
                data.rows += list(torch.randn(4, 3))
        self.assertEqual(sizes, [(20, 1), (20, 2), (20, 2)])
        self.assertIn("the data set has 24 samples, and had 20 when run.loader was made", told.output[1])

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

    def train(self, make=torch.optim.SGD, scaler=None, compiles=False, joins=True, move=None):
        """The weights behind five steps, and the run's own count of them."""
        torch.manual_seed(1)
        model, data = nn.Linear(3, 1), torch.utils.data.TensorDataset(torch.randn(20, 3))
        optimizer = make(model.parameters(), lr=0.01)
        run = dynamix.join(model, optimizer, agent="off", scaler=scaler) if joins else None
        loader = run.loader(data, batch_size=4, shuffle=False) if joins else torch.utils.data.DataLoader(data, 4)

        def step():
            optimizer.step()
            optimizer.zero_grad()

        move = move or (torch.compile(step, backend="eager") if compiles else step)
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

    def test_that_are_kept_from_before_joining(self):
        kept = []

        class Kept(torch.optim.SGD):
            def __init__(self, *args, **options):
                super().__init__(*args, **options)
                kept.append(self.step)

        with self.assertRaisesRegex(RuntimeError, "Kept.step was kept from before dynamix.join"):
            self.train(lambda *args, **options: (kept.clear(), Kept(*args, **options))[1], move=lambda: kept[0]())

    def test_of_a_schedule_that_steps_once_an_epoch(self):
        for every, lines, epochs in ((1, 0, 4), (5, 1, 4), (10, 1, 2), (5, 0, 1)):  # of 5 steps
            model = nn.Linear(3, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            run = dynamix.join(model, optimizer, scheduler=schedule, agent="off")
            loader = run.loader(torch.utils.data.TensorDataset(torch.randn(20, 3)), batch_size=4)
            with self.assertLogs("dynamix") as told:
                logging.getLogger("dynamix").warning("begins")
                for number, (values, ) in enumerate(itertools.chain(*(loader for _ in range(epochs))), 1):
                    model(values).square().mean().backward()
                    optimizer.step()
                    if number % every == 0:
                        schedule.step()
            run.close(again=True)
            self.assertEqual(sum("StepLR.step() comes behind several steps" in line for line in told.output), lines)

    def test_that_were_tried_and_taken_back_are_not_told_of(self):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        run = dynamix.join(model, optimizer, scheduler=schedule, agent="off")
        loader = run.loader(torch.utils.data.TensorDataset(torch.randn(80, 3)), batch_size=4)
        before = run.state_dict()
        with self.assertNoLogs("dynamix"):
            for search in (True, False):
                for values, in loader:
                    model(values).square().mean().backward()
                    optimizer.step()
                    if not search:
                        schedule.step()
                if search:
                    run.load_state_dict(before)
        self.assertEqual(schedule.last_epoch, run.status.step)
        run.close(again=True)

    def test_of_a_schedule_that_is_chained_stay_at_its_end(self):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.ChainedScheduler([torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)])
        with dynamix.join(model, optimizer, scheduler=schedule, agent="off") as run:
            for values, in run.loader(torch.utils.data.TensorDataset(torch.randn(20, 3)), batch_size=4):
                model(values).square().mean().backward()
                optimizer.step()
                schedule.step()
            self.assertEqual(run.status.step, 5)

    def test_that_are_compiled(self):
        self.assertEqual(self.train(compiles=True), self.train())


class Damaged(torch.utils.data.Dataset):
    """Its sample 5 cannot be read; the file's name is no UTF-8."""

    def __len__(self):
        return 20

    def __getitem__(self, number):
        if number == 5:
            raise OSError(f"cannot read {os.fsdecode(bytes([255]))}")
        return torch.ones(3)


class Errors(unittest.TestCase):
    def join(self):
        model = nn.Linear(3, 1)
        run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
        return run, run.loader(Damaged(), batch_size=4, shuffle=False)

    def test_of_the_data_set_are_no_end_of_the_epoch(self):
        run, loader = self.join()
        iterator = iter(loader)
        next(iterator)
        self.assertRaises(OSError, next, iterator)
        for _ in range(2):
            self.assertRaisesRegex(RuntimeError, "ended with an error, and not with its epoch .*OSError: cannot read", next, iterator)
        run.close()

    def test_with_names_that_are_no_text_stay_themselves(self):
        run, loader = self.join()
        with self.assertRaises(OSError), run:
            list(loader)


def leave_open():
    """Whether the model of a run that nobody closes goes with it."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off")
    for values, in run.loader(torch.utils.data.TensorDataset(torch.randn(16, 3)), batch_size=4):
        model(values).square().mean().backward()
        optimizer.step()
    return weakref.ref(model)


class Memory(unittest.TestCase):
    def test_of_a_run_that_nobody_closes_is_freed(self):
        model = leave_open()
        gc.collect()
        self.assertIsNone(model())


def delay_some(rank, _):
    model = nn.Linear(4, 1)
    wrapped = DistributedDataParallel(model, delay_all_reduce_named_params=[("bias", model.bias)], param_to_hook_all_reduce=model.weight)
    try:
        dynamix.join(wrapped, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
    except NotImplementedError as problem:
        return str(problem)
    return ""


def backward_twice(rank, _, wrapped):
    """As a micro-batch each."""
    script = Script(rank, wrapped=wrapped)
    try:
        for _, values in script.loader:
            script.run.backward(lambda part: script.called(part).square().mean(), values)
    except RuntimeError as problem:
        return str(problem), script.run.taken
    return "", 0


def unfreeze(rank, _):
    """Behind DistributedDataParallel, which sums no gradients of what was frozen then."""
    script = Script(rank)
    script.run.close()
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).double()
    model[0].requires_grad_(False)
    script.called = DistributedDataParallel(model)
    script.optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    script.run = dynamix.join(script.called, script.optimizer, agent="off")
    loader = script.run.loader(data(), batch_size=4)
    for epoch in range(3):
        model[0].requires_grad_(epoch > 0)
        for batch in loader:
            script.step(batch)
    return script.told.getvalue()


def train_two(rank, _):
    """Of runs of their own."""
    scripts = [Script(rank), Script(rank)]
    for batches in zip(*(script.loader for script in scripts)):
        for script, batch in zip(scripts, batches):
            script.step(batch)
    return scripts[1].told.getvalue()


class Models(unittest.TestCase):
    """That are wrapped, on two members."""

    def test_of_sums_that_the_wrapped_model_delays(self):
        for text in ranks.run(delay_some, 2):
            self.assertIn("delay_all_reduce_named_params: DistributedDataParallel sums", text)

    def test_of_guarded_batches_that_are_meant_as_micro_batches(self):
        for wrapped in (True, False):
            for text, taken in ranks.run(backward_twice, 2, wrapped):
                self.assertIn("run.backward() was called twice in one step", text)
                self.assertEqual(taken, 2)

    def test_of_parameters_that_are_trained_later(self):
        told, _ = ranks.run(unfreeze, 2)
        self.assertRegex(told, r"^member 1 has other parameters than member 0 .*\n$")

    def test_of_two_models_that_have_joined(self):
        self.assertEqual(ranks.run(train_two, 2), ["", ""])


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
