"""What people have reported of training by data parallelism, each tried as a script would meet it: it works, or a sentence says what to do.

benchmarks/results/2026-11-27-complaints.md names the sources."""
import copy
import io
import itertools
import logging
import sys
import time
import unittest
import warnings
from unittest import mock

import numpy
import ranks
import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Subset, TensorDataset, random_split

import dynamix
from dynamix.equality import other_parameters, other_rates

SAMPLES = 50
BATCHES = (6, 3)


def data():
    """(number, four features) of each sample."""
    generator = torch.Generator().manual_seed(3)
    return TensorDataset(torch.arange(SAMPLES), torch.randn(SAMPLES, 4, generator=generator, dtype=torch.float64))


class Script:
    """One that has joined, with batches of 6 and 3 samples."""

    def __init__(self, rank, dataset=None, wrapped=True, seed=1, rule=None, **options):
        torch.manual_seed(seed)
        self.model = nn.Linear(4, 1).double()
        self.called = DistributedDataParallel(self.model) if wrapped else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.told = io.StringIO()
        logging.getLogger("dynamix").handlers = [logging.StreamHandler(self.told)]
        self.run = dynamix.join(self.called, self.optimizer, agent="off", rule=rule)
        self.loader = self.run.loader(data() if dataset is None else dataset, batch_size=BATCHES[rank], **options)
        self.used = []

    def step(self, batch):
        numbers, values = batch
        self.used += numbers.tolist()[:self.run.counted]
        self.optimizer.zero_grad()
        loss = self.called(values).square().mean()
        loss.backward()
        if self.called is self.model:
            self.run.average_gradients()
        self.optimizer.step()

    def error(self, numbers):
        """Of the averaged gradient, against that of one process with the joined batch."""
        all_numbers = [None, None]
        torch.distributed.all_gather_object(all_numbers, numbers)
        reference = copy.deepcopy(self.model)
        reference.zero_grad()
        reference(data().tensors[1][sum(all_numbers, [])]).square().mean().backward()
        return max(float((own.grad - right.grad).abs().max() / right.grad.abs().max())
                   for own, right in zip(self.model.parameters(), reference.parameters()))


def everyone(own):
    """The members' lists as one, sorted."""
    found = [None, None]
    torch.distributed.all_gather_object(found, own)
    return sorted(sum(found, []))


def peek(rank, _):
    """For the shape of a batch, say, before training."""
    script = Script(rank)
    next(iter(script.loader))
    for _ in range(script.run.epoch, 2):
        for batch in script.loader:
            script.step(batch)
    return everyone(script.used)


def load_late(rank, _):
    script = Script(rank, num_workers=1)
    iterator = iter(script.loader)
    script.run.load_state_dict(script.run.state_dict())
    try:
        next(iterator)
    except RuntimeError as problem:
        text = str(problem)
    for batch in script.loader:
        script.step(batch)
    return text, everyone(script.used)


def load_on_one(rank, _):
    """Behind run.loader."""
    script = Script(rank, wrapped=False)
    try:
        if rank == 0:
            script.run.load_state_dict(script.run.state_dict())
        for batch in script.loader:
            script.step(batch)
    except dynamix.DynamixError as problem:
        return str(problem)
    return ""


def load_later(rank, _):
    script = Script(rank)
    with mock.patch("dynamix.run._LATE_SECONDS", 30 if rank else 0.1):
        time.sleep(rank)
        script.run.load_state_dict(script.run.state_dict())
    return script.told.getvalue()


def end_amid_a_step(rank, _, way, workers=0):
    """Epochs of six batches, whose last gradients are summed and not stepped by."""
    script, steps = Script(rank, num_workers=workers), 0
    script.optimizer.zero_grad()
    for _ in range(3):
        for number, (numbers, values) in enumerate(script.loader):
            script.called(values).square().mean().backward()
            if way == "break" and number == 5:
                break
            if way == "continue" and number == 5 or way == "accumulate" and number % 4 < 3:
                continue
            script.optimizer.step()
            script.optimizer.zero_grad()
            steps += 1
    return steps, script.run.status.step


def collate_sparse(rank, _, kind):
    def collate(items):
        values = [value for _, value in items]
        if kind == "sparse":
            return torch.stack(values).to_sparse()
        return torch.nested.nested_tensor(values, layout=torch.jagged if kind == "jagged" else torch.strided)

    script, steps = Script(rank, collate_fn=collate), 0
    for batch in script.loader:
        values = batch.to_dense() if kind == "sparse" else torch.stack(list(batch.unbind()))
        script.step((torch.arange(len(values)), values))
        steps += 1
    return steps


def accumulate_by_flag(rank, _):
    """As nanoGPT does it, without no_sync."""
    script = Script(rank)
    iterator, worst = iter(script.loader), 0.0
    for _ in range(2):
        numbers = []
        script.optimizer.zero_grad()
        for number in range(2):
            script.called.require_backward_grad_sync = number == 1
            chosen, values = next(iterator)
            numbers += chosen.tolist()
            (script.called(values).square().mean() / 2).backward()
        worst = max(worst, script.error(numbers))
        script.optimizer.step()
    return worst


def accumulate_in_odd_settings(rank, world, setting):
    if setting == "deterministic":
        torch.use_deterministic_algorithms(True)
        torch.autograd.set_detect_anomaly(True)
    elif setting == "warnings":
        warnings.filterwarnings("error", module="dynamix")
    else:
        torch.set_default_dtype(torch.bfloat16)
    return accumulate_by_flag(rank, world)


def stop_early(rank, _):
    """Each epoch behind three steps, with a batch that was taken in vain."""
    script, epochs = Script(rank), []
    for _ in range(3):
        for number, batch in enumerate(script.loader):
            if number == 3:
                break
            script.step(batch)
        epochs.append(script.run.epoch)
    return epochs, script.run.status.step, script.model.weight.tolist()


def iterate_without_end(rank, _):
    script = Script(rank)
    iterator = iter(script.loader)
    for _ in range(12):
        try:
            batch = next(iterator)
        except StopIteration:
            iterator = iter(script.loader)
            batch = next(iterator)
        script.step(batch)
    return everyone(script.used)


def cycle(rank, _):
    """itertools.cycle gives the batches of the first epoch again."""
    script, steps = Script(rank), 0
    try:
        for batch in itertools.islice(itertools.cycle(script.loader), 12):
            script.step(batch)
            steps += 1
    except dynamix.DynamixError as problem:
        return steps, str(problem)
    return steps, ""


def set_rates(rank, _):
    script, rates = Script(rank, rule="linear"), []
    for number, batch in enumerate(script.loader):
        script.optimizer.param_groups[0]["lr"] = 0.01 / (number + 1)
        script.step(batch)
        rates.append(script.optimizer.param_groups[0]["lr"] * (number + 1))
    return rates


def drop_samples(rank, _, weighted):
    def collate(items):
        items = [item for item in items if rank == 1 or int(item[0]) % 5]
        return [torch.stack(values) for values in zip(*items)]

    script, worst = Script(rank, collate_fn=collate), 0.0
    for numbers, values in script.loader:
        script.optimizer.zero_grad()
        if weighted:
            script.run.weight(len(numbers) if script.run.counted else 0)
        script.called(values).square().mean().backward()
        worst = max(worst, script.error(numbers.tolist() if script.run.counted else []))
        script.optimizer.step()
    return worst, script.told.getvalue()


class Elsewhere(torch.overrides.TorchFunctionMode):
    """torch.set_default_device of a device that there is none of here, for what dynamix makes."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in torch.utils._device._device_constructors() and kwargs.get("device") is None:
            if sys._getframe(1).f_globals["__name__"].startswith("dynamix"):
                kwargs["device"] = "meta"
        return function(*args, **kwargs)


def train_elsewhere(rank, _, wrapped, options):
    with Elsewhere():
        script = Script(rank, wrapped=wrapped, **options)
        for _ in range(2):
            for batch in script.loader:
                script.run.gather(batch[1])
                script.step(batch)
        script.run.load_state_dict(script.run.state_dict())
        script.run.close()
    return everyone(script.used)


def gather_in_inference(rank, _):
    script, rows = Script(rank), []
    for batch in script.loader:
        with torch.inference_mode():
            rows.append(len(script.run.gather(script.called(batch[1]))))
        script.step(batch)
    return rows


def skip_on_one(rank, _):
    script = Script(rank)
    try:
        for number, batch in enumerate(script.loader):
            if rank == 1 and number == 2:
                script.called(batch[1])  # whose loss was no number, say
                continue
            script.step(batch)
    except dynamix.DynamixError as problem:
        return str(problem)
    return ""


def plateau(rank, _):
    script = Script(rank)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(script.optimizer, patience=0)
    for epoch in range(3):
        for batch in script.loader:
            script.step(batch)
        scheduler.step(1.0 if rank == 0 else 1.0 / (epoch + 1))
    return script.told.getvalue()


def begin_with_others(rank, _, seeds):
    script = Script(rank, wrapped=False, seed=seeds[rank])
    for batch in script.loader:
        script.step(batch)
    return script.told.getvalue()


def keep_some_local(rank, _):
    """A wrapped model, one of whose parameters each member has for itself."""
    model = nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 1)).double()
    nn.init.constant_(model[1].bias, float(rank))
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["1.bias"])
    script = Script(rank)
    script.run.close()
    script.called = DistributedDataParallel(model)
    script.optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    script.run = dynamix.join(script.called, script.optimizer, agent="off")
    loader = script.run.loader(data(), batch_size=4)
    for batch in itertools.chain(loader, loader):
        script.step(batch)
    return script.told.getvalue(), model[1].bias.item()


def shard(rank, _):
    """By FSDP, each member of which has other parameters."""
    script = Script(rank)
    script.run.close()
    script.called = FullyShardedDataParallel(script.model, device_id=torch.device("cpu"), use_orig_params=True)
    script.optimizer = torch.optim.SGD(script.called.parameters(), lr=0.01)
    run = script.run = dynamix.join(script.called, script.optimizer, agent="off", weighting="loss")
    for _, values in run.loader(data(), batch_size=4):
        script.optimizer.zero_grad()
        run.scale(script.called(values).square().mean()).backward()
        script.optimizer.step()
    return [line for line in script.told.getvalue().splitlines() if "other parameters" in line]


def detect(rank, _):
    """Samples of images and boxes, which are no rows of a batch, as torchvision's references collate them."""
    class Boxes(torch.utils.data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, number):
            return torch.randn(3, 4, 4, dtype=torch.float64), {"boxes": torch.rand(3 + number % 2 * rank, 4)}

    script = Script(rank, Boxes(), collate_fn=lambda items: tuple(zip(*items)))
    for images, _ in script.loader:
        script.optimizer.zero_grad()
        sum(script.called(image).square().mean() for image in images).backward()
        script.optimizer.step()
    return script.told.getvalue()


class Keyed(torch.utils.data.Dataset):
    """By names."""

    def __len__(self):
        return 10

    def __getitem__(self, name):
        return torch.tensor(int(name[1:])), torch.zeros(4, dtype=torch.float64)


INDICES = {"list": [*range(20)], "range": range(20), "tensor": torch.arange(20), "array": numpy.arange(20, dtype=numpy.int32),
           "others": [*range(1, 21)]}


def choose(rank, _, kinds):
    """Subsets whose indices are of several kinds. Returns the samples used, or why there are none."""
    kind = kinds[rank]
    try:
        if kind == "keys":
            script = Script(rank, Subset(Keyed(), [f"n{number}" for number in range(10)]))
        else:
            script = Script(rank, Subset(data(), INDICES[kind]))
    except dynamix.DynamixError as problem:
        return str(problem)
    for batch in script.loader:
        script.step(batch)
    return everyone(script.used)


def split(rank, _, seeds):
    part, _ = random_split(data(), [30, 20], torch.Generator().manual_seed(seeds[rank]))
    try:
        script = Script(rank, Subset(part, range(20)))
    except dynamix.DynamixError as problem:
        return str(problem)
    for batch in script.loader:
        script.step(batch)
    return everyone(script.used) == sorted(part.indices[:20])


def save_whole(rank, _):
    """The error of an average by the model as it was saved, which sums as without dynamix."""
    script = Script(rank)
    for batch in script.loader:
        script.step(batch)
    file = io.BytesIO()
    torch.save(script.called, file)
    file.seek(0)
    script.called = torch.load(file, weights_only=False)
    script.model = script.called.module
    numbers = [*range(20 * rank, 20 * rank + 20)]
    script.called(data().tensors[1][numbers]).square().mean().backward()
    return type(script.called).__name__, b"dynamix" in file.getvalue(), script.error(numbers)


def resume_in_second_epoch(rank, _):
    script = Script(rank, num_workers=1)
    for epoch in range(2):
        for number, batch in enumerate(script.loader):
            if (epoch, number) == (1, 2):
                state, script.used = script.run.state_dict(), []
            script.step(batch)
    script.run.close()
    resumed = Script(rank, num_workers=2)
    resumed.run.load_state_dict(state)
    for batch in resumed.loader:
        resumed.step(batch)
    return resumed.used == script.used and len(script.used) > 0, resumed.run.epoch


def seed_by_rank(rank, _):
    script = Script(rank)
    script.run.close()
    optimizer = torch.optim.SGD(script.called.parameters(), lr=0.01)
    script.optimizer, script.run = optimizer, dynamix.join(script.called, optimizer, agent="off")
    orders = []
    for _ in range(2):
        script.used = []
        loader = script.loader = script.run.loader(data(), batch_size=4, seed=100 * rank) if not orders else loader
        for batch in loader:
            script.step(batch)
        orders.append(script.used)
    return everyone(orders[0]), orders[0] != orders[1]


class Complaints(unittest.TestCase):
    def test_of_a_model_that_is_saved_whole(self):
        for name, needs_dynamix, worst in ranks.run(save_whole, 2):
            self.assertEqual((name, needs_dynamix), ("DistributedDataParallel", False))
            self.assertLess(worst, 1e-12)

    def test_of_a_resume_in_the_second_epoch(self):
        """It goes on with the same samples, whatever loader workers have fetched, and not with those of the first epoch."""
        self.assertEqual(ranks.run(resume_in_second_epoch, 2), [(True, 2)] * 2)

    def test_of_seeds_that_differ_and_of_an_epoch_that_nobody_sets(self):
        self.assertEqual(ranks.run(seed_by_rank, 2), [([*range(SAMPLES)], True)] * 2)

    def test_of_a_batch_that_was_looked_at_before_training(self):
        self.assertEqual(ranks.run(peek, 2), [sorted([*range(SAMPLES)] * 2)] * 2)

    def test_of_a_state_that_is_loaded_behind_iter(self):
        for text, used in ranks.run(load_late, 2):
            self.assertIn("load the state before iter(loader)", text)
            self.assertEqual(used, [*range(SAMPLES)])

    def test_of_a_state_that_one_member_loads(self):
        here, there = ranks.run(load_on_one, 2)
        self.assertIn("run.load_state_dict() was called on this member, and has to be on all, behind the same step", here)
        self.assertIn("member 0 is in run.load_state_dict() behind 0 steps, and this one trains on", there)
        told, other = ranks.run(load_later, 2)
        self.assertEqual((told, other), ("member 0 has waited for the others in run.load_state_dict() for 0.1 s: it is called on all members\n", ""))

    def test_of_gradients_that_an_epoch_ends_behind(self):
        for way, workers, steps in (("accumulate", 0, 12), ("accumulate", 1, 12), ("continue", 0, 15), ("break", 0, 15)):
            self.assertEqual(ranks.run(end_amid_a_step, 2, way, workers), [(3 if way == "accumulate" else 15, steps)] * 2, way)

    def test_of_batches_that_are_sparse_or_nested(self):
        for kind in ("sparse", "jagged", "nested"):
            self.assertEqual(ranks.run(collate_sparse, 2, kind), [6, 6], kind)

    def test_of_accumulation_by_a_flag_of_the_model(self):
        for worst in ranks.run(accumulate_by_flag, 2):
            self.assertLess(worst, 1e-12)

    def test_of_deterministic_algorithms_warnings_that_are_errors_and_another_default_type(self):
        for setting in ("deterministic", "warnings", "bfloat16"):
            for worst in ranks.run(accumulate_in_odd_settings, 2, setting):
                self.assertLess(worst, 1e-12, setting)

    def test_of_epochs_that_stop_early(self):
        first, second = ranks.run(stop_early, 2)
        self.assertEqual(first, second)
        self.assertEqual(first[:2], ([1, 2, 3], 9))

    def test_of_an_iterator_that_begins_again(self):
        self.assertEqual(ranks.run(iterate_without_end, 2), [sorted([*range(SAMPLES)] * 2)] * 2)

    def test_of_batches_that_come_a_second_time(self):
        for steps, text in ranks.run(cycle, 2):
            self.assertEqual(steps, 6)
            self.assertIn("a batch is used for one step", text)

    def test_of_rates_that_the_loop_sets(self):
        for rates in ranks.run(set_rates, 2):
            self.assertEqual([round(rate, 12) for rate in rates], [0.01] * 6)

    def test_of_samples_that_a_collate_function_drops(self):
        (worst, told), (_, other) = ranks.run(drop_samples, 2, False)
        self.assertGreater(worst, 0.01)
        self.assertRegex(told, r"^a batch has 5 rows and was dealt as 6 samples, .* call run.weight\(n\) .*\n$")
        self.assertEqual(other, "")
        for worst, told in ranks.run(drop_samples, 2, True):
            self.assertLess(worst, 1e-12)
            self.assertEqual(told, "")

    def test_of_a_default_device(self):
        for wrapped, options in ((False, {}), (True, {}), (True, {"weights": [1.0] * SAMPLES}), (True, {"num_workers": 1})):
            for used in ranks.run(train_elsewhere, 2, wrapped, options):
                self.assertEqual(len(used), 2 * SAMPLES)

    def test_of_metrics_in_inference_mode(self):
        self.assertEqual(ranks.run(gather_in_inference, 2), [[9] * 5 + [5]] * 2)

    def test_of_a_batch_that_one_member_skips(self):
        for text in ranks.run(skip_on_one, 2):
            self.assertRegex(text, "disagree about the samples of step 2: each must be given as many batches a step")

    def test_of_rates_that_follow_a_member_s_own_metric(self):
        told, other = ranks.run(plateau, 2)
        self.assertRegex(told, r"^member 1 steps by another learning rate than member 0, .*all_reduce.*\n$")
        self.assertEqual(other, "")

    def test_of_parameters_that_begin_unequal(self):
        told, other = ranks.run(begin_with_others, 2, (1, 2))
        self.assertRegex(told, r"^member 1 has other parameters than member 0 .*\n$")
        self.assertEqual((other, *ranks.run(begin_with_others, 2, (1, 1))), ("", "", ""))

    def test_of_splits_that_each_member_draws_for_itself(self):
        for text in ranks.run(split, 2, (1, 2)):
            self.assertIn("the members' subsets have other samples", text)
        self.assertEqual(ranks.run(split, 2, (1, 1)), [True, True])

    def test_of_parameters_that_members_have_for_themselves(self):
        (told, one), (other, another) = ranks.run(keep_some_local, 2)
        self.assertEqual((told, other), ("", ""))
        self.assertGreater(another, one + 0.1)
        self.assertEqual(ranks.run(shard, 2), [[], []])

    def test_of_batches_whose_rows_are_no_samples(self):
        self.assertEqual(ranks.run(detect, 2), ["", ""])

    def test_of_subsets_by_numbers_of_any_kind_and_by_keys(self):
        for kinds in (("list", "range"), ("tensor", "array")):
            self.assertEqual(ranks.run(choose, 2, kinds), [[*range(20)]] * 2, kinds)
        self.assertEqual(ranks.run(choose, 2, ("keys", "keys")), [[*range(10)]] * 2)
        for text in ranks.run(choose, 2, ("tensor", "others")):
            self.assertIn("the members' subsets have other samples", text)

    def test_of_parameters_and_rates_that_are_no_numbers(self):
        nan = float("nan")
        self.assertEqual(other_parameters([nan, nan]) + other_rates([nan, nan]), "")
        self.assertEqual(other_parameters([1.0, nan]), "member 1 has parameters that are NaN or infinite, and others have none")
        self.assertIn("another learning rate", other_rates([0.1, nan]))

    def test_of_a_torch_without_numpy(self):
        with mock.patch("importlib.util.find_spec", lambda name: None), self.assertRaisesRegex(RuntimeError, "pip install numpy"):
            model = nn.Linear(2, 1)
            dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")


if __name__ == "__main__":
    unittest.main()
