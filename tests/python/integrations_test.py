"""Frameworks, adopted in one line each, against the joined batch: CONTRIBUTING.md says how to install them."""
import copy
import functools
import importlib.util
import logging
import os
import subprocess
import tempfile
import unittest
import warnings

import agents
import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES = 83  # three 11s and less would be left of each epoch: an odd last batch, and an odd number of micro-batches
BATCHES = (8, 3)  # of the two ranks


def needs(*packages):
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)} (CONTRIBUTING.md)")


def train(function, world, **arguments):
    """What each rank returns."""
    return ranks.run(functools.partial(function, **arguments), world)


class Numbers(Dataset):
    """Samples (inputs, target, number)."""

    def __init__(self, samples=SAMPLES):
        made = torch.Generator().manual_seed(7)
        self.inputs, self.targets = torch.randn(samples, 4, generator=made), torch.randn(samples, 1, generator=made)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, number):
        return self.inputs[number], self.targets[number], number


def build_net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def as_torchrun(rank, world):
    """The process is one of torchrun's, whose group is there already."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", ACCELERATE_USE_CPU="1")


class Joined:
    """Compares each step's gradient with that of the joined batch, and keeps what was trained on.

    A loop says by `saw` which samples its micro-batches had. A batch of twice the same sample is a stand-in."""

    def __init__(self, net, optimizer, gradient_of):
        """`gradient_of(net, numbers)`: sets the gradients of the mean over these samples."""
        self.net, self.reference, self.gradient_of = net, copy.deepcopy(net), gradient_of
        self.worst, self.steps, self.epoch, self.at_hand, self.losses = 0.0, [], [], [], []
        optimizer.register_step_pre_hook(self._compare)

    def saw(self, numbers):
        numbers = [int(number) for number in numbers]
        if not (len(numbers) == 2 and numbers[0] == numbers[1]):
            self.at_hand += numbers

    def _compare(self, *_):
        parts = [None] * (dist.get_world_size() if dist.is_initialized() else 1)
        if len(parts) > 1:
            dist.all_gather_object(parts, self.at_hand)
        else:
            parts = [self.at_hand]
        numbers, self.at_hand = sum(parts, []), []
        self.steps.append([len(part) for part in parts])
        self.epoch += numbers
        self.reference.load_state_dict(self.net.state_dict())
        self.reference.zero_grad()
        self.losses.append(self.gradient_of(self.reference, numbers))
        ours, theirs = (torch.cat([each.grad.reshape(-1) for each in net.parameters()]) for net in (self.net, self.reference))
        self.worst = max(self.worst, float((ours - theirs).norm() / theirs.norm()))

    def end_epoch(self):
        """Each sample once. Returns the steps."""
        numbers, steps = sorted(self.epoch), self.steps
        self.epoch, self.steps = [], []
        assert numbers == list(range(len(numbers))), numbers
        return len(numbers), steps


def squared_error(net, numbers):
    data = Numbers()
    loss = nn.functional.mse_loss(net(data.inputs[numbers]), data.targets[numbers])
    loss.backward()
    return float(loss.detach())


def accelerate_training(rank, world, accumulation=1, epochs=2, folder="", save_at=None, load=False, schedule=False,
                        evaluate=False, compiles=False):
    as_torchrun(rank, world)
    from dynamix.integrations.accelerate import Accelerator
    accelerator = Accelerator(gradient_accumulation_steps=accumulation, dynamo_backend="eager" if compiles else None,
                              dynamix={"agent": "off", "rule": "constant"})
    net = build_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    joined = Joined(net, optimizer, squared_error)
    loader = DataLoader(Numbers(), BATCHES[rank], shuffle=True)
    held_out = DataLoader(Numbers(10), 5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99 ** step)
    model, optimizer, loader, held_out, scheduler = accelerator.prepare(net, optimizer, loader, held_out, scheduler)
    if load:
        accelerator.load_state(folder)
    rates, progress, counts, steps = [], [], [], 0
    for epoch in range(accelerator.dynamix_run.epoch, epochs):
        for inputs, targets, numbers in loader:
            joined.saw(numbers)
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                if schedule:
                    scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                steps += 1
                rates.append(scheduler.get_last_lr()[0])
                progress.append(accelerator.dynamix_run.progress)
                if steps == save_at:
                    accelerator.save_state(folder)
        if evaluate:
            with torch.no_grad():
                for inputs, targets, numbers in held_out:
                    accelerator.gather_for_metrics(model(inputs))
            scheduler.step()
        counts.append(joined.end_epoch() if not load and save_at is None else None)
    status = accelerator.dynamix_run.status
    return {"worst": joined.worst, "counts": counts, "step": status.step, "samples": status.samples, "rates": rates,
            "progress": progress, "rate": scheduler.get_last_lr()[0], "parameters": [each.detach().numpy().copy() for each in net.parameters()],
            "left": [each.grad is not None for each in net.parameters()]}


class Framework(unittest.TestCase):
    """What each is asked."""

    def check(self, found, steps, tolerance=1e-6):
        """Exact gradients, and each sample once in each of two epochs of so many steps."""
        for each in found:
            self.assertLess(each["worst"], tolerance)
            self.assertEqual([samples for samples, _ in each["counts"]], [SAMPLES] * 2)
            self.assertEqual([len(trained) for _, trained in each["counts"]], [steps] * 2)

    def check_resumed(self, whole, again):
        """The same bits."""
        for one, other in zip(whole, again):
            self.assertEqual((one["step"], one["samples"]), (other["step"], other["samples"]))
            self.assertTrue(all((a == b).all() for a, b in zip(one["parameters"], other["parameters"])))


def by_hand(rank, world):
    """Two lines, and accelerate's own Accelerator."""
    as_torchrun(rank, world)
    import accelerate
    import dynamix
    accelerator = accelerate.Accelerator(gradient_accumulation_steps=2)
    net = build_net()
    model = accelerator.prepare(net)
    run = dynamix.join(model, torch.optim.SGD(net.parameters(), lr=0.05), agent="off")
    try:
        next(iter(run.loader(Numbers(), 8)))
    except RuntimeError as problem:
        return str(problem)


def scaled_training(rank, world):
    """An optimiser with accelerate's GradScaler, which it has on a GPU only: it has kept the optimiser's step of before."""
    as_torchrun(rank, world)
    import accelerate
    from dynamix.integrations.accelerate import join_prepared
    accelerate.Accelerator()
    net, scaler = build_net(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    raw = torch.optim.SGD(net.parameters(), lr=0.05)
    joined = Joined(net, raw, squared_error)
    optimizer = accelerate.optimizer.AcceleratedOptimizer(raw, scaler=scaler)
    model = nn.parallel.DistributedDataParallel(net)
    run = join_prepared(model, optimizer, {"agent": "off", "rule": "constant"})
    for inputs, targets, numbers in run.loader(Numbers(), BATCHES[rank]):
        joined.saw(numbers)
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(inputs), targets)).backward()
        scaler.unscale_(raw)
        optimizer.step()
    return joined.worst, run.status.step


def samplers(rank, world):
    """What `prepare` says of loaders that no run can deal."""
    as_torchrun(rank, world)
    from dynamix.integrations.accelerate import Accelerator
    from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler
    said = []
    for options in ({"sampler": SubsetRandomSampler(range(9)), "batch_size": 4},
                    {"sampler": RandomSampler(Numbers(), num_samples=5), "batch_size": 4},
                    {"sampler": WeightedRandomSampler([1.0] * 9, 9), "batch_size": 4}, {"batch_size": None}):
        accelerator, net = Accelerator(dynamix={"agent": "off"}), build_net()
        try:
            accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.05), DataLoader(Numbers(), **options))
        except NotImplementedError as problem:
            said.append(str(problem))
    return said


@needs("accelerate")
class Accelerate(Framework):
    def test_gives_the_gradient_of_the_joined_batch(self):
        found = train(accelerate_training, 2)
        self.check(found, 8)

    def test_accumulates_an_odd_number_of_micro_batches(self):
        found = train(accelerate_training, 2, accumulation=3)
        self.check(found, 3)
        self.assertFalse(any(found[0]["left"]), "gradients of a micro-batch that nobody stepped on")

    def test_trains_in_one_process(self):
        self.check(train(accelerate_training, 1, accumulation=2), 6)

    def test_evaluates_between_epochs_and_steps_a_schedule_there(self):
        found = train(accelerate_training, 2, accumulation=2, evaluate=True)
        self.check(found, 4)
        self.assertAlmostEqual(found[0]["rate"], 0.05 * 0.99 ** 4, places=9, msg="twice an epoch, as accelerate's for two processes")

    def test_takes_a_compiled_model(self):
        self.check(train(accelerate_training, 2, compiles=True), 8)

    def test_takes_a_gradient_scaler(self):
        for worst, steps in ranks.run(scaled_training, 2):
            self.assertLess(worst, 1e-6)
            self.assertEqual(steps, 8)

    def test_resumes_in_the_middle_of_an_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = train(accelerate_training, 2, accumulation=1, folder=folder, save_at=11, schedule=True)
            self.check_resumed(whole, train(accelerate_training, 2, accumulation=1, folder=folder, load=True, schedule=True))

    def test_advances_a_schedule_by_progress_as_accelerate_does_for_equal_batches(self):
        for accumulation in (1, 2):
            found = train(accelerate_training, 2, accumulation=accumulation, schedule=True)[0]
            for rate, progress in zip(found["rates"], found["progress"]):
                self.assertAlmostEqual(rate, 0.05 * 0.99 ** int(2 * progress + 1e-6), places=9)
            self.assertAlmostEqual(found["rates"][2], 0.05 * 0.99 ** 6, places=9)

    def test_refuses_a_loader_that_does_not_tell_accelerate_of_an_epochs_last_batch(self):
        for said in ranks.run(by_hand, 2):
            self.assertIn("would lose an epoch's last ones", said)

    def test_refuses_samplers_of_the_scripts_own(self):
        for said, words in zip(ranks.run(samplers, 1)[0], ("SubsetRandomSampler", "num_samples", "WeightedRandomSampler",
                                                           "batch_size")):
            self.assertIn(words, said)


def quiet(*loggers):
    """Of what frameworks say of themselves."""
    warnings.simplefilter("ignore")
    for name in loggers:
        logging.getLogger(name).setLevel(logging.ERROR)


def outside(script, *how):
    """What the checks of a script of accelerate's came to: {name: result}."""
    done = subprocess.run([*agents.torchrun(), "--nproc_per_node", "2", os.path.join(os.path.dirname(__file__), "outside.py"), script, *how],
                          env={**os.environ, "ACCELERATE_USE_CPU": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500)
    lines = [line.split(" ", 1)[1] for line in done.stdout.decode(errors="replace").splitlines() if line.startswith(script + " ")]
    return dict(line.split(": ", 1) for line in lines)


@needs("accelerate")
class AccelerateItself(unittest.TestCase):
    """Its own tests, from the installed package; docs/sdk.md has the table."""

    def test_of_synchronisation_pass_but_for_an_incomplete_accumulation(self):
        whole = outside("test_sync", "joined", "64")
        self.assertEqual(set(whole.values()), {"passed"}, whole)
        found = outside("test_sync", "joined")
        self.assertEqual({name for name, result in found.items() if result != "passed"},
                         {"test_gradient_accumulation_with_opt_and_scheduler"}, found)

    def test_of_scripts_pass_but_for_the_order_of_samples(self):
        found = outside("test_script", "joined")
        self.assertEqual({name for name, result in found.items() if result != "passed"}, {"training_check"}, found)
        self.assertGreater(len(found), 10)
        self.assertEqual(outside("test_script", "joined", "ordered"), {"training_check": "passed"})


def lightning_module(net, joined, rates, estimates):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
            if estimates:
                assert self.trainer.estimated_stepping_batches > 0
            joined.append(Joined(self.net, optimizer, squared_error))
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99 ** step)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

        def training_step(self, batch, number):
            inputs, targets, numbers = batch
            joined[0].saw(numbers)
            return nn.functional.mse_loss(self.net(inputs), targets)

        def validation_step(self, batch, number):
            self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]), sync_dist=True)

        def on_train_batch_end(self, *_):
            rates.append(self.lr_schedulers().get_last_lr()[0])

    return Module()


def lightning_training(rank, world, accumulation=1, epochs=2, folder="", save_at=None, resume=False, validate=False, limit=None,
                       estimates=False, **arguments):
    as_torchrun(rank, world)
    import lightning
    from dynamix.integrations.lightning import Dynamix
    quiet("lightning.pytorch", "lightning.fabric")
    net, joined, rates, counts = build_net(), [], [], []
    state = {}

    class Watch(lightning.pytorch.callbacks.Callback):
        def on_train_batch_end(self, trainer, *_):
            if save_at is not None and trainer.global_step == save_at:
                trainer.save_checkpoint(os.path.join(folder, "checkpoint"))

        def on_train_epoch_end(self, trainer, module):
            if save_at is None and not resume and limit is None and not arguments:
                counts.append(joined[0].end_epoch())

        def on_train_end(self, trainer, module):
            state["status"], state["progress"] = adopted.run.status, adopted.run.progress

    adopted = Dynamix(agent="off", rule="constant")
    trainer = lightning.Trainer(accelerator="cpu", devices=world, strategy="ddp" if world > 1 else "auto", max_epochs=epochs,
                                callbacks=[adopted, Watch()], enable_progress_bar=False, logger=False, enable_model_summary=False,
                                accumulate_grad_batches=accumulation, enable_checkpointing=False, default_root_dir=folder or None,
                                limit_train_batches=limit, **arguments)
    module = lightning_module(net, joined, rates, estimates)
    trainer.fit(module, DataLoader(Numbers(), BATCHES[rank], shuffle=True), DataLoader(Numbers(10), 5) if validate else None,
                ckpt_path=os.path.join(folder, "checkpoint") if resume else None)
    return {"worst": joined[0].worst, "counts": counts, "step": state["status"].step, "samples": state["status"].samples,
            "rates": rates, "progress": state["progress"], "epoch": trainer.current_epoch, "trained": joined[0].epoch,
            "parameters": [each.detach().numpy().copy() for each in net.parameters()]}


@needs("lightning")
class Lightning(Framework):
    def test_gives_the_gradient_of_the_joined_batch(self):
        found = train(lightning_training, 2)
        self.check(found, 8)
        self.assertAlmostEqual(found[0]["rates"][2], 0.05 * 0.99 ** 3, places=9)
        self.assertAlmostEqual(found[0]["rates"][-1], 0.05 * 0.99 ** int(found[0]["progress"]), places=9)

    def test_accumulates_an_odd_number_of_micro_batches(self):
        self.check(train(lightning_training, 2, accumulation=3), 3)

    def test_trains_in_one_process(self):
        self.check(train(lightning_training, 1, accumulation=2), 6)

    def test_validates_between_epochs(self):
        self.check(train(lightning_training, 2, validate=True), 8)

    def test_says_how_many_steps_there_may_be_before_it_joins(self):
        self.check(train(lightning_training, 2, estimates=True), 8)

    def test_ends_epochs_after_some_batches_or_a_part_of_them(self):
        for limit, accumulation, batches in ((3, 1, 6), (1, 1, 2), (0.5, 1, 8), (4, 3, 8)):
            for found in train(lightning_training, 2, limit=limit, accumulation=accumulation):
                self.assertEqual(found["step"], batches, limit)
                self.assertLess(found["worst"], 1e-6, limit)

    def test_resumes_in_the_middle_of_an_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = train(lightning_training, 2, folder=folder, save_at=11)
            self.check_resumed(whole, train(lightning_training, 2, folder=folder, resume=True))


def fabric_training(rank, world, epochs=2, folder="", save_at=None, load=False):
    as_torchrun(rank, world)
    from dynamix.integrations.lightning import Fabric
    quiet("lightning.pytorch", "lightning.fabric")
    fabric = Fabric(accelerator="cpu", devices=world, strategy="ddp", dynamix={"agent": "off", "rule": "constant"})
    fabric.launch()
    net = build_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    joined = Joined(net, optimizer, squared_error)
    loader, held_out = fabric.setup_dataloaders(DataLoader(Numbers(), BATCHES[rank], shuffle=True), DataLoader(Numbers(10), 5))
    model, optimizer = fabric.setup(net, optimizer)
    run, counts = fabric.dynamix_run, []
    state = {"model": model, "optimizer": optimizer, "dynamix": run}
    if load:
        fabric.load(os.path.join(folder, "checkpoint"), state)
    for epoch in range(run.epoch, epochs):
        for inputs, targets, numbers in loader:
            joined.saw(numbers)
            optimizer.zero_grad()
            fabric.backward(nn.functional.mse_loss(model(inputs), targets))
            optimizer.step()
            if run.status.step == save_at:
                fabric.save(os.path.join(folder, "checkpoint"), state)
        with torch.no_grad():
            for inputs, targets, numbers in held_out:
                model(inputs)
        counts.append(joined.end_epoch() if not load and save_at is None else None)
    return {"worst": joined.worst, "counts": counts, "step": run.status.step, "samples": run.status.samples,
            "parameters": [each.detach().numpy().copy() for each in net.parameters()]}


@needs("lightning")
class LightningFabric(Framework):
    def test_gives_the_gradient_of_the_joined_batch(self):
        self.check(train(fabric_training, 2), 8)

    def test_resumes_in_the_middle_of_an_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = train(fabric_training, 2, folder=folder, save_at=11)
            self.check_resumed(whole, train(fabric_training, 2, folder=folder, load=True))


class Columns(Dataset):
    """Numbers, by the names of a model's arguments."""

    def __init__(self, samples=SAMPLES):
        self.numbers = Numbers(samples)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, number):
        inputs, targets, number = self.numbers[number]
        return {"inputs": inputs, "targets": targets, "numbers": number}


class WithLoss(nn.Module):
    """A model in the Trainer's form, whose loss is a mean over samples."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, inputs, targets):
        outputs = self.net(inputs)
        return {"loss": nn.functional.mse_loss(outputs, targets), "logits": outputs}


class Tokens(Dataset):
    """Texts of 12 tokens, of which a loss ignores some at the beginning: fewer or more in each."""

    def __init__(self, samples=SAMPLES):
        made = torch.Generator().manual_seed(3)
        self.ids = torch.randint(0, 32, (samples, 12), generator=made)
        self.labels = self.ids.clone()
        for number in range(samples):
            self.labels[number, :number * 7 % 11] = -100

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, number):
        return {"input_ids": self.ids[number], "labels": self.labels[number], "numbers": number}


def build_language_model():
    import transformers
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=32, n_positions=12, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False))
    model.loss_type = "ForCausalLM"  # or the Trainer counts each text's first token, too, which nobody predicts
    return model


def token_loss(model, numbers):
    """The mean over all tokens that count."""
    data = Tokens()
    logits = model(input_ids=data.ids[numbers]).logits
    loss = nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 32), data.labels[numbers][:, 1:].reshape(-1))
    loss.backward()
    return float(loss.detach())


def trainer_training(rank, world, tokens=False, watch=True, resume=None, folder="", evaluate="no", **arguments):
    as_torchrun(rank, world)
    import transformers
    from dynamix.integrations.transformers import Trainer
    quiet("transformers", "accelerate")
    net = build_language_model() if tokens else WithLoss(build_net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    joined = Joined(net, optimizer, token_loss if tokens else lambda model, numbers: squared_error(model.net, numbers))
    counts, rates, seen = [], [], {}

    class Watching(Trainer):
        def training_step(self, model, inputs, *rest):
            joined.saw(inputs.pop("numbers"))
            return super().training_step(model, inputs, *rest)

        def prediction_step(self, model, inputs, *rest, **options):
            inputs.pop("numbers")
            return super().prediction_step(model, inputs, *rest, **options)

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            rates.append(trainer.lr_scheduler.get_last_lr()[0])
            seen.update(step=trainer.dynamix_run.status.step, samples=trainer.dynamix_run.status.samples, epoch=state.epoch)

        def on_epoch_end(self, *_, **__):
            if watch:
                counts.append(joined.end_epoch())

    options = {"num_train_epochs": 2, "save_strategy": "no", "lr_scheduler_type": "linear", "logging_strategy": "steps", "logging_steps": 1,
               "ddp_find_unused_parameters": False, **arguments}
    args = transformers.TrainingArguments(
        folder or tempfile.mkdtemp(), per_device_train_batch_size=BATCHES[rank], use_cpu=True, report_to="none", disable_tqdm=True,
        remove_unused_columns=False, max_grad_norm=0, label_names=["labels" if tokens else "targets"],
        eval_strategy=evaluate, **options)
    data = Tokens if tokens else Columns
    trainer = Watching(net, args, train_dataset=data(), eval_dataset=data(10), optimizers=(optimizer, None),
                       data_collator=torch.utils.data.default_collate, callbacks=[Watch()],
                       dynamix={"agent": "off", "rule": "constant"})
    told = trainer.train(resume_from_checkpoint=resume).metrics
    return {"worst": joined.worst, "told_samples": told["train_samples_per_second"] * told["train_runtime"],
            "losses": [joined.losses, [each["loss"] for each in trainer.state.log_history if "loss" in each]],
            "counts": counts, "rates": rates, "trainer_steps": trainer.state.global_step,
            "max_steps": trainer.state.max_steps, "evaluations": sum("eval_loss" in each for each in trainer.state.log_history), **seen, "parameters": [each.detach().numpy().copy() for each in net.parameters()]}


@needs("transformers", "accelerate")
class TransformersTrainer(Framework):
    def check_logged(self, found, steps):
        """And that the loss which is logged is that of the joined batch."""
        self.check(found, steps)
        joined, logged = found[0]["losses"]
        self.assertEqual(len(logged), 2 * steps)
        self.assertLess(max(abs(one - other) for one, other in zip(joined, logged)), 1e-4)

    def test_gives_the_gradient_of_the_joined_batch(self):
        found = train(trainer_training, 2, evaluate="epoch")
        self.check(found, 8)
        self.assertEqual((found[0]["trainer_steps"], found[0]["max_steps"], found[0]["epoch"]), (16, 16, 2.0))
        self.assertAlmostEqual(found[0]["rates"][3], 0.05 * (1 - 4 / 16), places=9)

    def test_gives_that_of_a_mean_over_tokens(self):
        for accumulation in (1, 3):
            self.check_logged(train(trainer_training, 2, tokens=True, gradient_accumulation_steps=accumulation), -(-8 // accumulation))

    def test_accumulates_an_odd_number_of_micro_batches(self):
        self.check_logged(train(trainer_training, 2, gradient_accumulation_steps=3), 3)

    def test_trains_in_one_process(self):
        self.check(train(trainer_training, 1, gradient_accumulation_steps=2), 6)

    def test_takes_a_compiled_model(self):
        self.check(train(trainer_training, 2, torch_compile=True, torch_compile_backend="eager"), 8)

    def test_ends_after_max_steps_and_after_a_part_of_an_epoch(self):
        found = train(trainer_training, 2, watch=False, max_steps=11)[0]
        self.assertEqual((found["step"], found["trainer_steps"]), (11, 11))
        self.assertAlmostEqual(found["told_samples"], SAMPLES + 3 * 11, delta=1)
        found = train(trainer_training, 2, watch=False, num_train_epochs=1.5)[0]
        self.assertEqual((found["step"], found["samples"]), (12, SAMPLES + 44))

    def test_evaluates_and_saves_behind_the_last_step(self):
        for epochs, steps in ((2, 16), (1.5, 12)):
            for every in (500, 4):  # which is no divisor of the steps, and is one
                with tempfile.TemporaryDirectory() as folder:
                    found = train(trainer_training, 2, watch=False, folder=folder, num_train_epochs=epochs, save_strategy="steps",
                                  save_steps=every, evaluate="steps", eval_steps=every)[0]
                    self.assertEqual(found["evaluations"], max(1, steps // every))
                    self.assertEqual(len(os.listdir(folder)), max(1, steps // every))
                    self.assertTrue(os.path.exists(os.path.join(folder, f"checkpoint-{steps}", "dynamix.pt")))

    def test_resumes_in_the_middle_of_an_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = train(trainer_training, 2, watch=False, folder=folder, save_strategy="steps", save_steps=11)
            again = train(trainer_training, 2, watch=False, folder=folder, resume=os.path.join(folder, "checkpoint-11"))
            self.check_resumed(whole, again)
            self.assertEqual(whole[0]["rates"][11:], again[0]["rates"])
            self.assertAlmostEqual(whole[0]["told_samples"], 2 * SAMPLES, delta=1)
            self.assertAlmostEqual(again[0]["told_samples"], SAMPLES - 3 * 11, delta=1)


if __name__ == "__main__":
    unittest.main()
