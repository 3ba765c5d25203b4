"""Epochs that a framework cuts short, and the data that it chooses."""
import io
import logging
import os
import tempfile
import unittest

import agents
import integrations_test
import ranks
import scripts
import torch
from integrations_test import lightning_training, train, trainer_training


class Groups(torch.utils.data.BatchSampler):
    """Of a script's own."""


class Order(torch.utils.data.RandomSampler):
    """Of a script's own."""


def accelerate_loop(rank, world, way):
    """Batches trained on, steps made by the run, what was told; or why nothing was."""
    integrations_test.as_torchrun(rank, world)
    from dynamix.integrations.accelerate import Accelerator

    told = io.StringIO()
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    data = torch.utils.data.TensorDataset(torch.arange(16), torch.randn(16, 3))
    options = {"none": {"batch_size": 2, "shuffle": True, "collate_fn": lambda items: None if any(int(item[0]) == 5 for item in items) else items},
               "groups": {"batch_sampler": Groups(torch.utils.data.RandomSampler(data), 4, False)},
               "order": {"batch_size": 4, "sampler": Order(data)}, "apart": {"batch_size": 4}}[way]
    loader = torch.utils.data.DataLoader(data, **options)
    accelerator, model = Accelerator(dynamix={"agent": "off"}), torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        if way == "apart":
            model, optimizer = accelerator.prepare(model, optimizer)
            loader = accelerator.prepare(loader)
        else:
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    except NotImplementedError as problem:
        return str(problem)
    trained = 0
    for batch in loader:
        if batch is None:
            continue
        values = batch[1] if way == "apart" else torch.stack([item[1] for item in batch])
        accelerator.backward(model(values).mean())
        optimizer.step()
        optimizer.zero_grad()
        trained += 1
    joined = accelerator.dynamix_run
    return trained, joined.epoch if joined is not None else -1, told.getvalue()


@integrations_test.needs("accelerate")
class Accelerate(integrations_test.Framework):
    def test_goes_on_behind_a_batch_that_is_none(self):
        self.assertEqual(train(accelerate_loop, 1, way="none"), [(7, 1, "")])

    def test_refuses_samplers_of_the_script_s_own(self):
        for way, name in (("groups", "Groups"), ("order", "Order")):
            self.assertIn(f"{name} would:", train(accelerate_loop, 1, way=way)[0])

    def test_warns_where_it_never_joins(self):
        trained, _, told = train(accelerate_loop, 1, way="apart")[0]
        self.assertEqual(trained, 4)
        self.assertRegex(told, r"^accelerator.backward\(\) comes before dynamix has joined: .*\n$")


@integrations_test.needs("lightning")
class Lightning(integrations_test.Framework):
    def test_resumes_in_the_middle_of_an_epoch_of_some_batches_or_a_part_of_them(self):
        for limit in (6, 0.75):
            with tempfile.TemporaryDirectory() as folder:
                whole = train(lightning_training, 2, folder=folder, save_at=8, limit=limit)
                self.assertEqual(whole[0]["step"], 12)
                self.check_resumed(whole, train(lightning_training, 2, folder=folder, resume=True, limit=limit))

    def test_overfits_to_the_same_batches(self):
        trained = train(lightning_training, 2, overfit_batches=2)[0]["trained"]
        self.assertEqual(sorted(trained), sorted(2 * list(range(22))))

    def test_refuses_loaders_that_are_made_anew(self):
        with self.assertRaisesRegex(RuntimeError, "NotImplementedError: reload_dataloaders_every_n_epochs: .* of one data set"):
            train(lightning_training, 1, reload_dataloaders_every_n_epochs=1)


def own_loader(rank, world):
    import transformers

    from dynamix.integrations.transformers import Trainer

    class Own(Trainer):
        def get_train_dataloader(self):
            return torch.utils.data.DataLoader(self.train_dataset, batch_size=4)

    integrations_test.as_torchrun(rank, world)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True)
        trainer = Own(torch.nn.Linear(3, 1), arguments, train_dataset=[{"x": torch.ones(3)}] * 8, dynamix={"agent": "off"})
        try:
            trainer.train()
        except NotImplementedError as problem:
            return str(problem)
    return ""


@integrations_test.needs("transformers", "accelerate")
class TransformersTrainer(integrations_test.Framework):
    def test_says_where_a_loader_of_a_subclass_s_own_is_in_front(self):
        self.assertIn("class MyTrainer(Joins, YourTrainer)", train(own_loader, 1)[0])

    def test_goes_on_behind_an_epoch_whose_rest_was_dropped(self):
        with tempfile.TemporaryDirectory() as folder:
            options = {"watch": False, "dataloader_drop_last": True, "folder": folder}
            whole = train(trainer_training, 2, save_strategy="epoch", **options)
            again = train(trainer_training, 2, resume=os.path.join(folder, "checkpoint-7"), **options)
        self.assertEqual((whole[0]["step"], whole[0]["epoch"]), (14, 2.0))
        self.check_resumed(whole, again)


def fit_twice(rank, world, sockets, folder):
    """The steps of two fits, of a Trainer each, and why there is no further one."""
    import lightning

    from dynamix.integrations.lightning import Dynamix

    steps = []
    for _ in range(2):
        adopted = Dynamix(agent=sockets)
        trainer = lightning.Trainer(accelerator="cpu", devices=world, strategy="ddp", max_epochs=1, callbacks=[adopted], enable_progress_bar=False,
                                    logger=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder)
        module = integrations_test.lightning_module(integrations_test.build_net(), [], [], False)
        module.training_step = lambda batch, batch_idx: torch.nn.functional.mse_loss(module.net(batch[0]), batch[1])
        trainer.fit(module, torch.utils.data.DataLoader(integrations_test.Numbers(), 8, shuffle=True))
        steps.append(trainer.global_step)
    return steps


def train_twice(rank, world, sockets, folder):
    """By one Trainer."""
    import transformers

    from dynamix.integrations.transformers import Trainer

    arguments = transformers.TrainingArguments(folder, per_device_train_batch_size=8, use_cpu=True, report_to="none", save_strategy="no",
                                               num_train_epochs=1, disable_tqdm=True, ddp_find_unused_parameters=False)
    trainer = Trainer(integrations_test.WithLoss(integrations_test.build_net()), arguments, train_dataset=integrations_test.Columns(),
                      dynamix={"agent": sockets})
    return [trainer.train().global_step for _ in range(2)]


SCRIPT = """
import sys
sys.path[:0] = sys.argv[1:3]
import torch
import epochs_test
torch.set_num_threads(1)
way, folder, sockets, rank = sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6])
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
epochs_test.integrations_test.as_torchrun(rank, 2)
print("steps", getattr(epochs_test, way)(rank, 2, sockets, folder))
"""


@unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
class Twice(unittest.TestCase):
    """In one process, with agents."""

    def train(self, way):
        with tempfile.TemporaryDirectory() as folder, agents.started(2, arbitrator__window_steps=4) as started:
            members = [scripts.Script(SCRIPT, ranks.PACKAGE, os.path.dirname(os.path.abspath(__file__)), way, folder, started.sockets, str(rank))
                       for rank in range(2)]
            for member in members:
                ended = member.end()
                self.assertEqual(ended.status, 0, ended.said)
                self.assertRegex(ended.printed, r"steps \[[1-9]\d*, [1-9]\d*\]")
        self.assertEqual(started.status, 0, started.said)

    @integrations_test.needs("transformers", "accelerate")
    def test_trains_the_trainer_of_transformers(self):
        self.train("train_twice")

    @integrations_test.needs("lightning")
    def test_fits_lightning(self):
        self.train("fit_twice")


if __name__ == "__main__":
    unittest.main()
