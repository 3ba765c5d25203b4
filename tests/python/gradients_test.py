"""The weighted gradient is that of the joined batch, in whatever way DistributedDataParallel is used."""
import contextlib
import copy
import io
import itertools
import logging
import math
import random
import unittest

import ranks
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import dynamix
from dynamix import step

FEATURES = 12


class Branches(nn.Module):
    """Layers of several sizes, and two branches of which a step may take one."""

    def __init__(self, both):
        super().__init__()
        self.first = nn.Linear(FEATURES, 64)
        self.left = nn.Linear(64, 64)
        self.right = nn.Linear(64, 64)
        self.last = nn.Linear(64, 3)
        self.register_buffer("count", torch.zeros(1))  # DDP broadcasts it in each forward pass
        self.both = both

    def forward(self, values, left=True):
        hidden = torch.tanh(self.first(values))
        if self.both:
            return self.last(self.left(hidden) + self.right(hidden))
        return self.last(self.left(hidden) if left else self.right(hidden))


def numbers(count, dtype):
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(count, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    return torch.utils.data.TensorDataset(torch.arange(count), inputs, torch.randint(3, (count,), generator=generator))


def batch_of(rank):
    """Unequal, and so large together that the last step of an epoch leaves ranks with nothing."""
    return (2, 9, 4, 6)[rank]


def joined_gradient(model, dataset, chosen, left=True, autocast=False):
    model.zero_grad()
    _, inputs, labels = dataset[chosen]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = nn.functional.cross_entropy(model(inputs, left), labels)
    loss.backward()
    return gradients(model)


def largest_error(found, expected):
    """Relative to the largest gradient."""
    scale = max(float(e.double().abs().max()) for e in expected)
    return max(float((f.double() - e.double()).abs().max()) for f, e in zip(found, expected)) / scale


def gradients(model):
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def numbers_of_all(own, world):
    """The sample numbers of all ranks."""
    if world == 1:
        return own
    gathered = [None] * world
    torch.distributed.all_gather_object(gathered, own)
    return [number for part in gathered for number in part]


def compare(rank, world, dtype, options, use):
    """The largest error of a step's gradient (under autocast: what it is more than twice as large as the error of the
    joined batch's), the sizes of this rank's batches, the parameters at the end, and how many rows went behind buckets."""
    step._LOADED_BYTES = use.get("loaded_bytes", step._LOADED_BYTES)
    model = Branches(both=not use.get("branches")).to(dtype)
    reference = copy.deepcopy(model)
    wrapped = DistributedDataParallel(model, **options) if use.get("ddp", True) else model
    if use.get("compiled"):
        wrapped = torch.compile(wrapped, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    by_loss = use.get("by_loss", False)
    run = dynamix.join(wrapped, optimizer, agent="off", weighting="loss" if by_loss else "gradients")
    dataset = numbers(3 * sum(batch_of(member) for member in range(world)) + 1, dtype)
    loader = run.loader(dataset, batch_size=batch_of(rank), seed=3)
    unload, behind = run._step.unload_rows, []
    run._step.unload_rows = lambda: (behind.append(0), unload())
    factor = use.get("scale", 1.0)
    worst, rounding, sizes = 0.0, 0.0, []
    for epoch in range(2):
        for number, (chosen, inputs, labels) in enumerate(loader):
            sizes.append(run.counted)
            left = not use.get("branches") or number % 2 == 0
            optimizer.zero_grad()
            passes = use.get("passes", 1)
            for micro in range(passes):
                silent = contextlib.nullcontext() if micro == passes - 1 or not use.get("no_sync") else wrapped.no_sync()
                with silent, torch.autocast("cpu", torch.bfloat16, enabled=use.get("autocast", False)):
                    loss = nn.functional.cross_entropy(wrapped(inputs, left), labels) / passes
                    if run.counted == 0 and use.get("nan"):
                        loss = loss * math.nan
                    ((run.scale(loss) if by_loss else loss) * factor).backward()
            if not use.get("ddp", True):
                run.average_gradients()
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= factor
            counted = chosen.tolist()[:run.counted]
            reference.load_state_dict(model.state_dict())
            everyones = numbers_of_all(counted, world)
            expected = joined_gradient(reference, dataset, everyones, left)
            worst = max(worst, largest_error(gradients(model), expected))
            if use.get("autocast"):
                rounded = joined_gradient(reference, dataset, everyones, left, autocast=True)
                rounding = max(rounding, largest_error(rounded, expected))
            optimizer.step()
    run.close()
    return worst - 2 * rounding, sizes, [parameter.detach().clone() for parameter in model.parameters()], len(behind)


class Gradients(unittest.TestCase):
    def check(self, world, dtype=torch.float64, most=1e-12, options=None, **use):
        results = ranks.run(compare, world, dtype, options or {}, use)
        for worst, _, parameters, _ in results:
            self.assertLess(worst, most)
            for ours, first in zip(parameters, results[0][2]):
                self.assertTrue(torch.equal(ours, first), "the ranks' parameters differ")
        if world > 1:
            self.assertIn(0, [size for _, sizes, _, _ in results for size in sizes], "no batch was empty")
        return [behind for _, _, _, behind in results]

    def check_rows(self, world, *arguments, **use):
        """The same with rows behind the last bucket, and with rows that travel by themselves."""
        for loaded_bytes in (2**18, 0):
            with self.subTest(world=world, loaded_bytes=loaded_bytes):
                for behind in self.check(world, *arguments, loaded_bytes=loaded_bytes, **use):
                    self.assertEqual(behind > 0, loaded_bytes > 0)

    def test_in_float64_at_two_three_and_four_ranks(self):
        for world in (2, 3, 4):
            self.check_rows(world)

    def test_in_float32(self):
        for world in (2, 3, 4):
            self.check_rows(world, torch.float32, 1e-6)

    def test_in_bfloat16_within_its_rounding(self):
        for world in (2, 3, 4):
            with self.subTest(world=world):
                self.check(world, torch.float32, 0, autocast=True)

    def test_in_buckets_of_half_floats_while_the_noise_is_measured_in_float32(self):
        for way, (dtype, bits) in itertools.product(("behind", "alone", "without DDP"),
                                                    ((torch.half, 9), (torch.bfloat16, 6))):
            with self.subTest(way=way, dtype=dtype):
                results = ranks.run(average_halves, 3, way, dtype)
                self.assertIn(0, [square for _, squares, _, _ in results for square in squares], "no batch was empty")
                for errors, squares, expected, behind in results:
                    self.assertLess(max(errors), 2**-bits, "more than it rounds in three additions")
                    self.assertEqual(behind, len(squares) if way == "behind" else 0)
                    for square, true in zip(squares, expected):
                        self.assertAlmostEqual(square, true, delta=1e-5 * true, msg="|g_i|^2 overflows beyond 65504")

    def test_in_buckets_of_their_own(self):
        self.check_rows(3, options={"bucket_cap_mb": 0.01})

    def test_in_views_of_the_buckets(self):
        self.check_rows(3, options={"gradient_as_bucket_view": True, "bucket_cap_mb": 0.01})

    def test_of_branches_that_are_not_used(self):
        self.check(2, options={"find_unused_parameters": True}, branches=True)

    def test_of_a_static_graph(self):
        self.check(2, options={"static_graph": True})

    def test_of_a_model_whose_sums_nobody_touches(self):
        for world in (2, 3):
            self.check(world, by_loss=True)
        self.check(2, torch.float32, 1e-6, by_loss=True)

    @unittest.skipUnless(hasattr(torch.cpu.Stream, "record_event"), "this torch's fully_shard does not run on a CPU")
    def test_of_parameters_that_are_fully_sharded(self):
        self.assertLess(max(ranks.run(shard_fully, 2)), 1e-12)

    def test_of_a_model_that_is_compiled_outside_of_its_wrapper(self):
        self.check(2, compiled=True)
        self.check(2, compiled=True, ddp=False)

    def test_of_a_part_of_the_processes(self):
        self.assertLess(max(ranks.run(train_in_parts, 3)), 1e-12)

    def test_accumulated_without_synchronisation(self):
        self.check(2, no_sync=True, passes=4)

    def test_accumulated_with_synchronisation(self):
        self.check(2, passes=3)

    def test_of_a_loss_that_is_scaled(self):
        self.check(2, scale=65536.0)

    def test_without_the_loss_of_a_worker_that_has_no_samples(self):
        self.check(3, nan=True)

    def test_of_a_model_without_ddp(self):
        self.check(3, ddp=False)
        self.check(3, ddp=False, nan=True)

    def test_of_a_single_process(self):
        self.check(1, ddp=False)


class Given(nn.Module):
    """Parameters whose gradients are given."""

    def __init__(self, outputs, dtype):
        super().__init__()
        self.layer = nn.Linear(300, outputs).to(dtype)

    def forward(self, wanted):
        return sum((parameter.double() * gradient).sum() for parameter, gradient in zip(self.parameters(), wanted))


def average_halves(rank, world, way, dtype):
    """Gradients of 16 bits: the errors of their means, the squares that this rank measured, beside true ones, and how many
    rows travelled behind buckets."""
    step._LOADED_BYTES = 0 if way == "alone" else 2**18
    ddp = way != "without DDP"
    model = DistributedDataParallel(Given(40, dtype)) if ddp else Given(40, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    run = dynamix.join(model, optimizer, agent="off", noise_interval=1)
    count = 3 * sum(batch_of(member) for member in range(world)) + 1
    loader = run.loader(torch.utils.data.TensorDataset(torch.arange(count)), batch_size=batch_of(rank))
    unload, behind = run._step.unload_rows, []
    run._step.unload_rows = lambda: (behind.append(0), unload())
    told, errors, squares, expected = run._step.client.write_row, [], [], []
    run._step.client.write_row = lambda square, row: (squares.append(square), told(square, row))
    draw = torch.Generator().manual_seed(rank)
    for _ in loader:
        own = [torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 4
               for parameter in model.parameters()]
        optimizer.zero_grad()
        model(own if run.counted else [gradient * math.nan for gradient in own]).backward()
        counts = torch.tensor([float(run.counted)], dtype=torch.float64)
        expected.append(sum(float(gradient.to(dtype).double().square().sum()) for gradient in own) if run.counted else 0.0)
        torch.distributed.all_reduce(counts)
        means = [gradient * (run.counted / float(counts)) for gradient in own]
        for mean in means:
            torch.distributed.all_reduce(mean)
        if not ddp:
            run.average_gradients()
        errors.append(largest_error(gradients(model), means))
        optimizer.step()
    run.close()
    return errors, squares, expected, len(behind)


def shard_fully(rank, world):
    """The largest error where fully_shard sums the gradients."""
    model = Branches(both=True).double()
    reference = copy.deepcopy(model)
    fully_shard(model.left)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = dynamix.join(model, optimizer, agent="off", weighting="loss")
    dataset, worst = numbers(34, torch.float64), 0.0
    for chosen, inputs, labels in run.loader(dataset, batch_size=batch_of(rank)):
        with torch.no_grad():
            for own, whole in zip(model.parameters(), reference.parameters()):
                whole.copy_(own.full_tensor())
        optimizer.zero_grad()
        run.scale(nn.functional.cross_entropy(model(inputs), labels)).backward()
        everyones = numbers_of_all(chosen.tolist()[:run.counted], world)
        found = [parameter.grad.full_tensor() for parameter in model.parameters()]
        worst = max(worst, largest_error(found, joined_gradient(reference, dataset, everyones)))
        optimizer.step()
    run.close()
    return worst


def train_in_parts(rank, world):
    """Ranks 0 and 2 train a model together, and rank 1 one of its own: the largest error."""
    group = [torch.distributed.new_group(members) for members in ([0, 2], [1])][rank % 2]
    model = Branches(both=True).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", process_group=group)
    dataset, worst = numbers(34, torch.float64), 0.0
    for chosen, inputs, labels in run.loader(dataset, batch_size=batch_of(rank)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        run.average_gradients()
        gathered = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(gathered, chosen.tolist()[:run.counted], group)
        expected = joined_gradient(copy.deepcopy(model), dataset, [number for part in gathered for number in part])
        worst = max(worst, largest_error(gradients(model), expected))
        optimizer.step()
    run.close()
    return worst


def exchange_rows(rank, world, most):
    """What the members agreed on, and how many rows travelled by themselves, where they travel behind buckets of `most` bytes."""
    step._LOADED_BYTES = most
    model = DistributedDataParallel(Branches(True).double())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off", rule="adascale", noise_interval=2)
    loader = run.loader(numbers(60 * world + 1, torch.float64), batch_size=batch_of(rank))
    gather, alone = run._peers.gather, []
    run._peers.gather = lambda row, again=False: (alone.extend([0] * again), gather(row, again))[1]
    for number, (_, inputs, labels) in enumerate(loader):
        if number == 3 and rank == 1:
            run.limit_batch(5)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    words, batches = run.state_dict()["words"], run.status.batches
    run.close()
    return len(alone), batches, words, [parameter.tolist() for parameter in model.parameters()]


class Rows(unittest.TestCase):
    def test_say_the_same_behind_a_bucket_as_by_themselves(self):
        # Of two members: the sums of more depend on where Gloo cuts a buffer.
        behind, alone = ranks.run(exchange_rows, 2, 2**18), ranks.run(exchange_rows, 2, 0)
        for (count, batches, words, parameters), by_itself in zip(behind, alone):
            self.assertEqual(count, 0)
            self.assertGreater(by_itself[0], 8)
            self.assertEqual(batches[1], 5)
            self.assertEqual((batches, words, parameters), by_itself[1:])


def weigh_tokens(rank, world, dtype):
    """Steps whose weights are drawn, 0 among them: the error against the sum of the losses by the sum of the weights."""
    model = DistributedDataParallel(nn.Linear(FEATURES, 1).to(dtype), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent="off")
    draw = random.Random(5)
    worst = 0.0
    for _, inputs, _ in run.loader(numbers(200, dtype), batch_size=4):
        weights = [draw.choice((0, 1, 3, 17, 250)) for _ in range(world)]
        weights[draw.randrange(world)] += 1
        if run.counted == 0:
            weights[rank] = 0
        everyones = numbers_of_all([weights[rank]], world)
        optimizer.zero_grad()
        run.weight(weights[rank])
        loss = model(inputs).square().sum() / weights[rank] if weights[rank] else model(inputs).sum() * math.nan
        loss.backward()
        own = torch.autograd.grad(model.module(inputs).square().sum(), list(model.parameters()))
        expected = []
        for gradient in own:
            total = gradient if weights[rank] else torch.zeros_like(gradient)
            torch.distributed.all_reduce(total)
            expected.append(total / sum(everyones))
        worst = max(worst, largest_error(gradients(model), expected))
        optimizer.step()
    run.close()
    return worst


class Weights(unittest.TestCase):
    def test_of_tokens_that_change_in_each_step(self):
        for world in (2, 4):
            self.assertLess(max(ranks.run(weigh_tokens, world, torch.float64)), 1e-12)
        self.assertLess(max(ranks.run(weigh_tokens, 3, torch.float32)), 1e-6)


def sum_before(rank, world, way, constant):
    """How many steps were made, and the error, where gradients are summed before dynamix averages them, in that way."""
    plain = nn.Linear(FEATURES, 3).double()
    wrapped = DistributedDataParallel(plain) if way != "none" else plain
    if way == "hooks":
        def add_up(gradient):
            gradient = gradient.clone()
            torch.distributed.all_reduce(gradient)
            return gradient

        for parameter in plain.parameters():
            parameter.register_hook(add_up)
    joined = wrapped if way == "hooks" else plain  # "inner": the module within a DistributedDataParallel
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    inputs = torch.ones(40, FEATURES, dtype=torch.float64) if constant else numbers(40, torch.float64).tensors[1]
    run, text = dynamix.join(joined, optimizer, agent="off"), ""
    try:
        for _, values, _ in run.loader(torch.utils.data.TensorDataset(torch.arange(40), inputs, torch.arange(40.0)), batch_size=(2, 6)[rank]):
            optimizer.zero_grad()
            wrapped(values).square().mean().backward()
            if way != "hooks":
                run.average_gradients()
            optimizer.step()
    except RuntimeError as problem:
        text = str(problem)
    return run.status.step, text


class Waves(nn.Module):
    """Layers of which one is complex."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, 8).double()
        self.filter = nn.Parameter(torch.randn(8, 3, dtype=torch.complex128))

    def forward(self, values, left=True):
        return (self.first(values).to(torch.complex128) @ self.filter).abs()


def train_waves(rank, world, ddp):
    """The largest error of complex gradients, and whether the noise was measured."""
    model = Waves()
    reference, joined = copy.deepcopy(model), DistributedDataParallel(model) if ddp else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(joined, optimizer, agent="off")
    dataset, worst = numbers(200, torch.float64), 0.0
    for chosen, inputs, labels in run.loader(dataset, batch_size=(6, 2)[rank]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(joined(inputs), labels).backward()
        if not ddp:
            run.average_gradients()
        reference.load_state_dict(model.state_dict())
        expected = joined_gradient(reference, dataset, numbers_of_all(chosen.tolist()[:run.counted], world))
        found, expected = ([torch.view_as_real(each) if each.is_complex() else each for each in part]
                           for part in (gradients(model), expected))
        worst = max(worst, largest_error(found, expected))
        optimizer.step()
    known = math.isfinite(run.status.noise_scale)
    run.close()
    return worst, known


def wrap_waves(rank, world):
    """What DistributedDataParallel says of complex parameters: Gloo sends none before torch 2.7."""
    try:
        DistributedDataParallel(Waves())
    except RuntimeError as problem:
        return str(problem)
    return ""


class Complex(unittest.TestCase):
    def check(self, ddp):
        for worst, known in ranks.run(train_waves, 2, ddp):
            self.assertLess(worst, 1e-12)
            self.assertTrue(known)

    def test_parameters_have_the_gradient_of_the_joined_batch(self):
        self.check(ddp=False)

    def test_parameters_have_it_under_ddp(self):
        if "Invalid scalar type" in ranks.run(wrap_waves, 2)[0]:
            self.skipTest("this torch's DistributedDataParallel takes no complex parameters over Gloo")
        self.check(ddp=True)


def contrast(features, others, first=0):
    """The loss of CLIP's form: the mean over the rows of `features`, of which the first is row `first` of `others`."""
    return nn.functional.cross_entropy(features @ others.T, torch.arange(first, first + len(features)))


def train_contrastively(rank, world, way):
    """The largest error of the gradient where the loss is over gathered features: "whole" on all members alike, or "own" rows on
    each; sizes of this member's batches, and whether what was gathered was the joined batch each time."""
    model = Branches(both=True).double()
    reference, wrapped = copy.deepcopy(model), DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(wrapped, optimizer, agent="off")
    dataset, worst, sizes, exact = numbers(3 * sum(batch_of(member) for member in range(world)) + 2, torch.float64), 0.0, [], True
    for chosen, inputs, _ in run.loader(dataset, batch_size=batch_of(rank)):
        optimizer.zero_grad()
        sizes.append(run.counted)
        everyones = numbers_of_all(chosen.tolist()[:run.counted], world)
        exact = exact and run.gather(chosen).tolist() == everyones and run.gather(chosen > 3).tolist() == [n > 3 for n in everyones]
        features = wrapped(inputs)
        joined = run.gather(features)
        exact = exact and torch.equal(joined[[everyones.index(number) for number in chosen.tolist()[:run.counted]]],
                                      features[:run.counted])
        if way == "whole":
            loss = contrast(joined, joined)
        else:
            own = features[:run.counted] if run.counted else features * math.nan
            first = everyones.index(chosen[0].item()) if run.counted else 0
            loss = contrast(own, joined, first)
        loss.backward()
        reference.load_state_dict(model.state_dict())
        reference.zero_grad()
        outputs = reference(dataset[everyones][1])
        contrast(outputs, outputs).backward()
        worst = max(worst, largest_error(gradients(model), gradients(reference)))
        optimizer.step()
    evaluated = run.gather(torch.full((rank + 1, 2), float(rank))).tolist()
    run.close()
    return worst, sizes, exact, evaluated


class Gathered(unittest.TestCase):
    def test_features_of_unequal_batches_have_the_gradient_of_the_joined_one(self):
        for world, way in ((2, "whole"), (2, "own"), (3, "own")):
            results = ranks.run(train_contrastively, world, way)
            self.assertIn(0, [size for _, sizes, _, _ in results for size in sizes], "no batch was empty")
            for worst, _, exact, evaluated in results:
                self.assertLess(worst, 1e-12, way)
                self.assertTrue(exact)
                self.assertEqual(evaluated, [[float(member)] * 2 for member in range(world) for _ in range(member + 1)])


def sum_losses(rank, world, reduction, weighted):
    """Warnings of a training, and its largest error against the loss over the joined batch, divided by the number of members
    where the loss is a sum."""
    model = Branches(both=True).double()
    reference, wrapped, told = copy.deepcopy(model), DistributedDataParallel(model), io.StringIO()
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    run = dynamix.join(wrapped, optimizer, agent="off")
    dataset, worst = numbers(300, torch.float64), 0.0
    for chosen, inputs, labels in run.loader(dataset, batch_size=(6, 2)[rank]):
        optimizer.zero_grad()
        if weighted:
            run.weight(1)
        nn.functional.cross_entropy(wrapped(inputs), labels, reduction=reduction).backward()
        reference.load_state_dict(model.state_dict())
        expected = joined_gradient(reference, dataset, numbers_of_all(chosen.tolist()[:run.counted], world))
        if reduction == "sum":
            expected = [gradient * (run._step.client.delivered.total / world) for gradient in expected]
        worst = max(worst, largest_error(gradients(model), expected)) if run.counted else worst
        optimizer.step()
    run.close()
    return worst, told.getvalue()


class SummedLosses(unittest.TestCase):
    def test_are_told_of_where_batches_differ(self):
        (worst, told), (_, elsewhere) = ranks.run(sum_losses, 2, "sum", False)
        self.assertGreater(worst, 0.2)
        self.assertRegex(told, r"grows with the batch, by its power [12]\.\d, .*reduction=\"sum\".*run.weight\(1\)")
        self.assertEqual((told.count("reduction"), elsewhere), (1, ""))

    def test_are_right_with_one_weight_for_all(self):
        for worst, told in ranks.run(sum_losses, 2, "sum", True):
            self.assertLess(worst, 1e-12)
            self.assertEqual(told, "")

    def test_are_not_supposed_where_losses_are_means(self):
        for worst, told in ranks.run(sum_losses, 2, "mean", False):
            self.assertLess(worst, 1e-12)
            self.assertEqual(told, "")


def spoil_a_step(rank, world):
    """Warnings of a training in which the gradient of the last member but one is no number in one step."""
    model, told = Branches(both=True).double(), io.StringIO()
    wrapped = DistributedDataParallel(model)
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    run = dynamix.join(wrapped, optimizer, agent="off")
    for step, (_, inputs, labels) in enumerate(run.loader(numbers(100, torch.float64), batch_size=4)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(wrapped(inputs), labels)
        (loss * float("nan") if step == 3 and rank == world - 2 else loss).backward()
        if step == 3:
            for parameter in model.parameters():  # what a careful script does
                parameter.grad = None
        optimizer.step()
    run.close()
    return told.getvalue()


class NotFinite(unittest.TestCase):
    def test_gradients_are_told_of_with_member_and_step(self):
        first, own, other = ranks.run(spoil_a_step, 3)
        self.assertIn("the gradient of member 1 in step 3 is not finite", first)
        self.assertEqual((first.count("finite"), own.count("finite"), other), (1, 1, ""))


class SummedBefore(unittest.TestCase):
    def test_by_somebody_else_are_refused_in_the_first_step(self):
        for way in ("inner", "hooks"):
            for steps, text in ranks.run(sum_before, 2, way, False):
                self.assertEqual(steps, 0)
                self.assertRegex(text, "the same on all members before dynamix averaged them.*DistributedDataParallel itself.*"
                                       "weighting=\"loss\"")

    def test_are_not_supposed_where_the_batches_are_the_same(self):
        """Where features are, that is: numbers and weights of samples may differ."""
        self.assertEqual(ranks.run(sum_before, 2, "none", True), [(5, "")] * 2)
        self.assertEqual(ranks.run(sum_before, 2, "hooks", True), [(5, "")] * 2)
        self.assertEqual(ranks.run(sum_before, 2, "none", False), [(5, "")] * 2)


if __name__ == "__main__":
    unittest.main()
