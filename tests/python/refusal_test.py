"""What cannot be done right is refused, with a message that says what to do."""
import os
import subprocess
import sys
import unittest
import unittest.mock

import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix
from dynamix.world import torch_problem, world_problem


def data(count=16):
    return torch.utils.data.TensorDataset(torch.randn(count, 3))


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(4))


class FullyShardedDataParallel(nn.Linear):
    """By its name only: the real one needs a process group."""


def a_run(**options):
    model = nn.Linear(3, 1)
    return dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), **{"agent": "off", **options}), model


def join_around_ddp(rank, world):
    """Why a model is refused that holds a DistributedDataParallel."""
    around = nn.Sequential(DistributedDataParallel(nn.Linear(3, 1)))
    try:
        dynamix.join(around, torch.optim.SGD(around.parameters(), lr=0.1), agent="off")
    except NotImplementedError as problem:
        return str(problem)


class Refusals(unittest.TestCase):
    def refused(self, kind, text, call, *arguments, **options):
        with self.assertRaisesRegex(kind, text):
            call(*arguments, **options)

    def test_a_second_training_loader(self):
        run, _ = a_run()
        run.loader(data(), batch_size=4)
        self.refused(RuntimeError, "plain DataLoader for other data", run.loader, data(), batch_size=4)
        run.close()

    def test_samplers_streams_and_batch_sizes_that_make_no_sense(self):
        run, _ = a_run()
        self.refused(ValueError, "leave the sampler", run.loader, data(), batch_size=4, sampler=[1, 2])
        self.refused(ValueError, "give batch_size", run.loader, data(), batch_sampler=[[1], [2]])
        self.refused(NotImplementedError, r"dynamix.Stream\(files, read\)", run.loader, Stream(), batch_size=4)
        self.refused(TypeError, "__getitem__", run.loader, iter([1]), batch_size=4)
        self.refused(TypeError, "give the data set", run.loader, torch.utils.data.DataLoader(data(), batch_size=4))
        self.refused(ValueError, "the data set is empty", run.loader, [], batch_size=4)
        self.refused(ValueError, "16.0 is not a whole number", run.loader, data(), batch_size=16.0)
        for size in (0, -1, 2.5, None, True):
            self.refused(ValueError, "batch_size", run.loader, data(), batch_size=size)
        self.refused(dynamix.DynamixError, "", run.loader, data(), batch_size=2**21)
        run.close()

    def test_an_optimiser_of_a_run_that_is_open(self):
        """As where a notebook's cell is run again."""
        run, model = a_run()
        optimizer = run._optimizers[0]
        self.refused(RuntimeError, r"this SGD has joined already: call run.close\(again=True\)", dynamix.join, model, optimizer, agent="off")
        next(iter(run.loader(data(), batch_size=4)))
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        self.assertEqual(run.status.step, 1)
        run.close(again=True)
        dynamix.join(model, optimizer, agent="off").close()

    def test_a_state_that_is_another_one(self):
        run, _ = a_run()
        for state in ({}, nn.Linear(3, 1).state_dict(), {"model": {}, "dynamix": {}}):
            self.refused(ValueError, "not what run.state_dict", run.load_state_dict, state)
        run.close()

    def test_models_and_optimisers_that_cannot_be_weighted(self):
        plain = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
        sharded = FullyShardedDataParallel(3, 1)
        self.refused(NotImplementedError, "FSDP.*weighting=\"loss\"", dynamix.join, sharded, optimizer, agent="off")
        lbfgs = torch.optim.LBFGS(plain.parameters())
        self.refused(NotImplementedError, "LBFGS", dynamix.join, plain, lbfgs, agent="off")
        for kind in (torch.optim.ASGD, torch.optim.Rprop):
            other = kind(plain.parameters())
            self.refused(NotImplementedError, f"{kind.__name__}.*rule=\"constant\"", dynamix.join, plain, other, agent="off")
            dynamix.join(plain, other, agent="off", rule="constant").close()
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        self.refused(TypeError, "once a batch", dynamix.join, plain, optimizer, scheduler=plateau, agent="off")
        self.refused(TypeError, r"a class; give .*StepLR\(optimizer, ...\)", dynamix.join, plain, optimizer,
                     scheduler=torch.optim.lr_scheduler.StepLR, agent="off")
        self.refused(ValueError, "adascale", dynamix.join, plain, optimizer, rule="quadratic", agent="off")
        self.refused(TypeError, "give the module", dynamix.join, plain.parameters(), optimizer)

    def test_a_torch_that_is_too_old(self):
        for version in ("2.6.0", "2.13.0+cpu", "2.15.0.dev20261101", "3.0"):
            self.assertEqual(torch_problem(version), "")
        with unittest.mock.patch("torch.__version__", "2.5.1+cu124"):
            self.refused(RuntimeError, "this is torch 2.5.1\\+cu124, and dynamix needs 2.6 or later.*pip install 'torch>=2.6'",
                         a_run)
        said = subprocess.run([sys.executable, "-c", "import torch; torch.__version__ = '2.5.1'; import dynamix"], capture_output=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, text=True, timeout=ranks.SECONDS, check=False)
        self.assertIn("ImportError: this is torch 2.5.1, and dynamix needs 2.6 or later", said.stderr.splitlines()[-1])

    def test_a_world_of_one_where_more_was_promised(self):
        with unittest.mock.patch.dict(os.environ, WORLD_SIZE="2"):
            self.refused(RuntimeError, r"\$WORLD_SIZE is 2.*init_process_group\(\"gloo\"\) before dynamix.join", a_run)
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
            try:
                self.refused(RuntimeError, "in a process group .gloo. of one: leave rank and world_size out", a_run)
                a_run(process_group=torch.distributed.group.WORLD)[0].close()
            finally:
                torch.distributed.destroy_process_group()
        self.assertIn("built with MPI", world_problem("2", 1, "mpi"))
        self.assertIn('write torch.distributed.init_process_group("gloo")', world_problem("2", 1, "mpi"))
        for promised, size in (("", 1), ("1", 1), ("2", 2), ("some", 1)):
            self.assertEqual(world_problem(promised, size, "mpi"), "")

    def test_a_model_around_the_one_that_sums_gradients(self):
        for problem in ranks.run(join_around_ddp, 2):
            self.assertRegex(problem, "Sequential holds a DistributedDataParallel.*give dynamix.join that one")

    def test_a_loader_that_is_forgotten_is_told_once(self):
        run, model = a_run()
        with self.assertLogs("dynamix", "WARNING") as logged:
            for _ in range(2):
                model(torch.randn(2, 3)).sum().backward()
                run._optimizers[0].step()
        self.assertEqual(len(logged.output), 1)
        self.assertIn("run.loader() was never called", logged.output[0])
        run.close()

    def test_losses_that_are_not_scaled_and_those_that_need_not_be(self):
        run, model = a_run(weighting="loss")
        batches = iter(run.loader(data(), batch_size=4))
        loss = model(next(batches)[0]).sum()
        loss.backward()
        self.refused(RuntimeError, r"run.scale\(loss\)", run._optimizers[0].step)
        self.refused(RuntimeError, "averaged already", run.average_gradients)
        self.refused(NotImplementedError, "weighting=\"loss\"", run.backward, model, torch.randn(2, 3))
        self.assertEqual(run.scale(loss).item(), loss.item())  # alone
        next(batches)
        self.refused(RuntimeError, "2 batches were taken", run.scale, loss)
        run.close()
        run, model = a_run()
        self.refused(RuntimeError, "gradients are weighted already", run.scale, loss)
        run.close()
        sharded = FullyShardedDataParallel(3, 1)
        optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
        dynamix.join(sharded, optimizer, agent="off", weighting="loss").close()
        self.refused(NotImplementedError, "AdaScale", dynamix.join, sharded, optimizer, weighting="loss", rule="adascale")
        self.refused(ValueError, "weighting='both'", dynamix.join, sharded, optimizer, weighting="both")

    def test_what_comes_too_early(self):
        run, _ = a_run()
        self.refused(RuntimeError, "run.loader", lambda: run.status)
        self.refused(RuntimeError, "run.loader", run.weight, 3)
        run.close()
        self.refused(RuntimeError, "closed", run.loader, data())

    def test_gradients_without_a_batch(self):
        run, model = a_run()
        run.loader(data(), batch_size=4)
        model(torch.randn(2, 3)).sum().backward()
        self.refused(RuntimeError, "takes one batch of run.loader", run.average_gradients)
        run.close()

    def test_two_weights_in_one_step_and_weights_that_are_none(self):
        run, _ = a_run()
        next(iter(run.loader(data(), batch_size=4)))
        for weight in (-1, float("nan"), float("inf")):
            self.refused(ValueError, "finite", run.weight, weight)
        run.weight(3)
        self.refused(RuntimeError, "twice", run.weight, 3)
        run.close()

    def test_an_agent_that_is_not_there(self):
        self.refused(dynamix.DynamixError, "member 0: .*nobody", a_run, agent="/nobody.sock")

    def test_a_missing_agent_is_told_once(self):
        os.environ.pop("DYNAMIX_AGENT", None)
        with self.assertLogs("dynamix", "WARNING") as logged:
            run, _ = a_run(agent="auto")
        self.assertEqual(len(logged.output), 1)
        self.assertIn("dynamix-node exec", logged.output[0])
        run.close()

    def test_a_forked_child(self):
        run, _ = a_run()
        run.loader(data(), batch_size=4)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                run.status
                text = "nothing"
            except dynamix.DynamixError as problem:
                text = str(problem)
            os.write(write, text.encode())
            os._exit(0)
        os.waitpid(child, 0)
        self.assertIn("a forked process cannot use it", os.read(read, 1000).decode())
        self.assertEqual(run.status.step, 0)
        run.close()


def step_without_average(rank, world):
    run, model = a_run()
    next(iter(run.loader(data(), batch_size=4)))
    model(torch.randn(2, 3)).sum().backward()
    try:
        run._optimizers[0].step()
    except RuntimeError as problem:
        return str(problem)


def other_data(rank, world):
    run, _ = a_run()
    try:
        run.loader(data(16 + rank), batch_size=4)
    except dynamix.DynamixError as problem:
        return str(problem)


def drop_everything(rank, world):
    run, _ = a_run()
    try:
        run.loader(data(15), batch_size=8, drop_last=True)
    except dynamix.DynamixError as problem:
        return str(problem)


def own_hook(rank, world):
    model = DistributedDataParallel(nn.Linear(3, 1))
    model.register_comm_hook(None, lambda state, bucket: None)
    try:
        dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
    except RuntimeError as problem:
        return str(problem)


def joined_twice(rank, world):
    model = DistributedDataParallel(nn.Linear(3, 1))
    first = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
    try:
        dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
    except RuntimeError as problem:
        return str(problem)
    finally:
        first.close()


def sparse(rank, world):
    model = DistributedDataParallel(nn.Embedding(8, 2, sparse=True))
    try:
        dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
    except NotImplementedError as problem:
        return str(problem)


def join_behind_a_refusal(rank, world):
    """Whether the optimiser is as it was behind a join that was refused, and the steps of one that was not."""
    model = DistributedDataParallel(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        dynamix.join(model, optimizer, agent="off", scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    except TypeError:
        is_as_before = type(optimizer) is torch.optim.SGD
    run = dynamix.join(model, optimizer, agent="off")
    for values, in run.loader(data(), batch_size=4):
        optimizer.zero_grad()
        model(values).sum().backward()
        optimizer.step()
    return is_as_before, run.status.step


class Branch(nn.Module):
    """Of which a member may leave out the last or the first layer in the backward pass."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 64), nn.Linear(3, 64), nn.Linear(3, 64)

    def forward(self, values, left_out):
        layers = {"first": self.first, "second": self.second, "third": self.third}
        return sum(layer(values).sum() for name, layer in layers.items() if name != left_out)


def leave_out_a_branch(rank, world, name, size):
    """The error of a member that does not use a layer in the third step, or of one that does."""
    model = DistributedDataParallel(Branch(), bucket_cap_mb=size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = dynamix.join(model, optimizer, agent="off")
    try:
        for number, (values,) in enumerate(run.loader(data(64), batch_size=4)):
            optimizer.zero_grad()
            model(values, name if (rank, number) == (1, 2) else "").backward()
            optimizer.step()
    except RuntimeError as problem:
        run.close(str(problem), succeeded=False)
        return str(problem)


class RefusalsOfGroups(unittest.TestCase):
    def check(self, function, text):
        for message in ranks.run(function, 2):
            self.assertIn(text, message or "nothing was refused")

    def test_steps_whose_gradients_are_not_averaged(self):
        self.check(step_without_average, "run.average_gradients()")

    def test_members_with_other_data(self):
        self.check(other_data, "samples")

    def test_drop_last_that_would_leave_no_step(self):
        self.check(drop_everything, "drop_last leaves no step of an epoch of 15 samples, fewer than the 16 of all members' batches")

    def test_branches_that_one_member_does_not_use_with_the_advice_of_torch(self):
        for name, size in (("first", 25), ("first", 0.0005), ("third", 0.0005)):
            with ranks.Group(leave_out_a_branch, 2, name, size) as group:
                texts = [group.result(rank)[1] for rank in range(2)]
                for process in group.processes:  # whose group's threads still wait
                    process.kill()
            for text in texts:
                self.assertIn("find_unused_parameters=True", text)
            self.assertIn("member 1 has left after 2 steps", texts[0])

    def test_models_whose_hook_is_taken(self):
        self.check(own_hook, "hook is taken")

    def test_models_that_have_joined_already(self):
        self.check(joined_twice, "run.close(again=True)")

    def test_joins_leave_everything_as_it_was(self):
        self.assertEqual(ranks.run(join_behind_a_refusal, 2), [(True, 2)] * 2)

    def test_sparse_gradients(self):
        self.check(sparse, "sparse=False")


if __name__ == "__main__":
    unittest.main()
