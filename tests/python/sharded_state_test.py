"""Checkpoints of sharded models: a run that goes on in mid-epoch has the bits of one that was never interrupted, by each of torch's
ways to write them; another number of members uses the rest of the epoch once."""
import contextlib
import os
import tempfile
import unittest

import ranks
import torch
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint import state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

with contextlib.suppress(ImportError):  # or each member would load it for its first checkpoint
    import torch.distributed.checkpoint._fsspec_filesystem  # noqa: F401

import dynamix
from sharded_test import CAN_WEIGHT, Layers, flat, numbers, sharded, whole

SAMPLES, SAVED, LAST = 330, 28, 45
FULL = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True, broadcast_from_rank0=True)


def mesh_of(world):
    return init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))


def model_of(kind, world):
    torch.manual_seed(0)
    if kind == "fully_shard":
        return sharded(Layers())
    if kind == "replicas":
        return sharded(Layers(), mesh=mesh_of(world))
    if kind == "HYBRID_SHARD":
        return FullyShardedDataParallel(Layers(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh_of(world),
                                        device_id=torch.device("cpu"), use_orig_params=True)
    return flat(Layers(), kind)


class Training:
    """One of a rank, and its checkpoint in one of torch's ways."""

    def __init__(self, rank, world, kind, way, optimizer):
        self.way, self.by_loss = way, kind == "HYBRID_SHARD"
        self.model = model_of(kind, world)
        self.optimizer = optimizer(self.model.parameters(), lr=0.01)
        # Of DTensors each step with another beta is worked out anew, which takes more computing than all the rest.
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.02, total_steps=300,
                                                             cycle_momentum=isinstance(self.model, FullyShardedDataParallel))
        self.run = dynamix.join(self.model, self.optimizer, scheduler=self.scheduler, agent="off", rule="linear" if self.by_loss else "adascale",
                                weighting="loss" if self.by_loss else "gradients")
        self.loader = self.run.loader(numbers(SAMPLES, torch.float32), batch_size=(8, 5, 3, 6)[rank], seed=3)

    def state(self):
        models, optimizers = state_dict.get_state_dict(self.model, self.optimizer, options=FULL if self.way == "by one" else None)
        if self.way == "stateful":  # torch calls their state_dict and load_state_dict
            return {"model": models, "optimizer": optimizers, "scheduler": self.scheduler, "dynamix": self.run}
        return {"model": models, "optimizer": optimizers, "scheduler": self.scheduler.state_dict(), "dynamix": self.run.state_dict()}

    def save(self, folder):
        if self.way == "by one":
            state = self.state()
            if torch.distributed.get_rank() == 0:
                dynamix.save(state, folder)
            torch.distributed.barrier()
        elif self.way == "later":
            checkpoint.async_save(self.state(), checkpoint_id=folder).result()
        else:
            checkpoint.save(self.state(), checkpoint_id=folder)

    def load(self, folder):
        if self.way == "by one":
            state = torch.load(folder, weights_only=True)
        else:
            state = self.state()
            checkpoint.load(state, checkpoint_id=folder)
        state_dict.set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"],
                                  options=FULL if self.way == "by one" else None)
        if self.way != "stateful":
            self.scheduler.load_state_dict(state["scheduler"])
            self.run.load_state_dict(state["dynamix"])

    def step(self, inputs, labels):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(inputs), labels)
        (self.run.scale(loss) if self.by_loss else loss).backward()
        self.optimizer.step()
        self.scheduler.step()


def train(rank, world, folder, kind, saves, resumes, way="", optimizer=torch.optim.AdamW, last=LAST):
    """Trains to step `last`, and `saves` at step SAVED, or `resumes` from there. Returns samples by epoch and step, parameters where it
    was saved or resumed, and at the end with the rate."""
    training = Training(rank, world, kind, way, optimizer)
    run, taken, then = training.run, [], None
    if resumes:
        training.load(folder)
        then = parameters_of(training)
    while run.status.step < last:
        for chosen, inputs, labels in training.loader:
            taken.append((run.epoch, run.status.step, chosen.tolist()[:run.counted]))
            training.step(inputs, labels)
            if saves and run.status.step == SAVED:
                assert run.status.cursor > 0, "this is no mid-epoch"
                training.save(folder)
                then = parameters_of(training)
            if run.status.step == last:
                break
    result = taken, then, parameters_of(training), training.optimizer.param_groups[0]["lr"]
    run.close()
    return result


def parameters_of(training):
    with contextlib.ExitStack() as stack:
        if isinstance(training.model, FullyShardedDataParallel):
            stack.enter_context(FullyShardedDataParallel.summon_full_params(training.model, writeback=False))
        return [whole(each).tolist() for each in training.model.parameters()]


class Resumed(unittest.TestCase):
    def check(self, world, kind, **use):
        with self.subTest(world=world, kind=kind, **use), tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            first = ranks.run(train, world, path, kind, True, False, *use.values())
            second = ranks.run(train, world, path, kind, False, True, *use.values())
            for (taken, then, *end), (rest, there, *resumed) in zip(first, second):
                self.assertEqual(rest, [each for each in taken if each[1] >= SAVED])
                self.assertEqual(there, then)
                self.assertEqual(resumed, end)
            return first


class FlatRuns(Resumed):
    def test_of_fsdp1_go_on_with_the_same_bits(self):
        self.check(2, "FULL_SHARD")
        self.check(3, "SHARD_GRAD_OP", way="stateful")
        self.check(2, "NO_SHARD", way="", optimizer=torch.optim.SGD)

    def test_of_its_hybrid_strategies_go_on_with_the_same_bits(self):
        self.check(4, "HYBRID_SHARD")


@unittest.skipUnless(CAN_WEIGHT, "this torch's fully_shard takes no reduce-scatter")
class Runs(Resumed):
    def test_go_on_with_the_same_bits(self):
        saved = self.check(2, "fully_shard")
        with tempfile.TemporaryDirectory() as folder:
            never_saved = ranks.run(train, 2, folder, "fully_shard", False, False)
        self.assertEqual([each[2:] for each in never_saved], [each[2:] for each in saved], "writing a checkpoint has changed the training")
        self.check(3, "fully_shard", way="stateful")
        self.check(2, "fully_shard", way="", optimizer=torch.optim.SGD)

    def test_of_replicas_go_on_with_the_same_bits(self):
        self.check(4, "replicas")

    def test_whose_checkpoint_one_member_writes_go_on_with_the_same_bits(self):
        self.check(2, "fully_shard", way="by one")

    def test_whose_checkpoint_is_written_while_they_train_go_on_with_the_same_bits(self):
        self.check(2, "fully_shard", way="later")


class OtherMembers(unittest.TestCase):
    def check(self, before, kind, after, kind_after, way=""):
        with self.subTest(before=before, kind=kind, after=after, way=way), tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoint")
            first = ranks.run(train, before, path, kind, True, False, way, torch.optim.AdamW, SAVED)
            second = ranks.run(train, after, path, kind_after, False, True, way, torch.optim.AdamW, SAVED + 40)
            self.assertEqual([then for _, then, *_ in second], [first[0][1]] * after)
            epoch = first[0][0][-1][0]
            used = [number for taken, *_ in (*first, *second) for now, _, chosen in taken if now == epoch for number in chosen]
            self.assertEqual(sorted(used), list(range(SAMPLES)))
            self.assertGreater(second[0][0][-1][0], epoch, "the epoch was not trained to its end")

    def test_of_fsdp1_use_the_rest_of_the_epoch_once(self):
        self.check(3, "FULL_SHARD", 2, "FULL_SHARD")

    @unittest.skipUnless(CAN_WEIGHT, "this torch's fully_shard takes no reduce-scatter")
    def test_use_the_rest_of_the_epoch_once(self):
        self.check(3, "fully_shard", 2, "fully_shard")
        self.check(2, "fully_shard", 3, "fully_shard", "by one")
        self.check(4, "replicas", 3, "fully_shard", "stateful")


if __name__ == "__main__":
    unittest.main()
