"""Models that fully_shard has sharded: gradients are those of the joined batch, and times of steps tell which host is slow."""
import contextlib
import copy
import io
import itertools
import logging
import math
import time
import unittest

import agents
import ranks
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard

import dynamix
from dynamix.integrations.source import refuse_sharded

FEATURES = 12
CAN_WEIGHT = hasattr(FSDPModule, "set_custom_reduce_scatter")


class Layers(nn.Module):
    """Of sizes that no number of members divides, and with parameters of its own beside those of its layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(FEATURES, 33), nn.Linear(33, 17), nn.Linear(17, 3)
        self.gain = nn.Parameter(torch.ones(17))

    def forward(self, values):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(values)))) * self.gain)


def sharded(model, **options):
    for part in (model.first, model.second, model):
        fully_shard(part, **options)
    return model


def flat(model, strategy):
    """In FSDP1."""
    options = {"sharding_strategy": ShardingStrategy[strategy], "device_id": torch.device("cpu"), "use_orig_params": True}
    model.first, model.second = (FullyShardedDataParallel(part, **options) for part in (model.first, model.second))
    return FullyShardedDataParallel(model, **options)


def numbers(count, dtype):
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(count, FEATURES, generator=generator, dtype=torch.float64).to(dtype)
    return torch.utils.data.TensorDataset(torch.arange(count), inputs, torch.randint(3, (count,), generator=generator))


def batch_of(rank):
    return (2, 9, 4, 6)[rank]


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def whole_model(model):
    """Its parameters and their gradients."""
    if isinstance(model, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
            return [each.detach().clone() for each in model.parameters()], [each.grad.clone() for each in model.parameters()]
    return [whole(each).detach() for each in model.parameters()], [whole(each.grad) for each in model.parameters()]


def unsummed(model, last):
    """A pass whose gradients are kept, unless it is the last one."""
    if isinstance(model, FullyShardedDataParallel):
        return contextlib.nullcontext() if last else model.no_sync()
    model.set_requires_gradient_sync(last)
    return contextlib.nullcontext()


def numbers_of_all(own, world):
    gathered = [own] * world
    if world > 1:
        torch.distributed.all_gather_object(gathered, own)
    return [number for part in gathered for number in part]


def compare(rank, world, use):
    """The largest error of a step's gradient, this rank's batch sizes, and the errors of the squares that the client was told:
    of the own gradient, and of the mean."""
    dtype = use.get("dtype", torch.float64)
    if world == 1:
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    model = Layers().to(dtype)
    reference = copy.deepcopy(model)
    options = {"mesh": init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))} if use.get("hybrid") else {}
    if use.get("reduce"):
        options["mp_policy"] = MixedPrecisionPolicy(reduce_dtype=use["reduce"])
    model = flat(model, use["strategy"]) if use.get("strategy") else sharded(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = dynamix.join(model, optimizer, agent="off", noise_interval=1)
    dataset = numbers(3 * sum(batch_of(member) for member in range(world)) + 1, dtype)
    loader = run.loader(dataset, batch_size=batch_of(rank), seed=3)
    client, told = run._step.client, {}
    write_row, rate = client.write_row, client.rate
    client.write_row = lambda square, row: (told.update(own=square), write_row(square, row))[1]
    client.rate = lambda square: (told.update(mean=square), rate(square))[1]
    passes, worst, sizes, squares = use.get("passes", 1), 0.0, [], []
    for _ in range(2):
        for chosen, inputs, labels in loader:
            sizes.append(run.counted)
            optimizer.zero_grad()
            for micro in range(passes):
                with unsummed(model, micro == passes - 1):
                    loss = nn.functional.cross_entropy(model(inputs), labels) / passes
                    (loss if run.counted else loss * math.nan).backward()
            parameters, found = whole_model(model)
            reference_of(parameters, reference)
            counted = chosen.tolist()[:run.counted]
            expected = gradient(reference, dataset, numbers_of_all(counted, world))
            worst = max(worst, max(float((f - e).abs().max()) for f, e in zip(found, expected)) /
                        max(float(e.abs().max()) for e in expected))
            own = gradient(reference, dataset, counted) if counted else []
            optimizer.step()
            for name, gradients in (("own", own), ("mean", expected)) if world > 1 else ():
                square = sum(float(each.square().sum()) for each in gradients)
                squares.append(abs(told[name] - square) / max(square, 1e-30))
    run.close()
    optimizer.zero_grad()
    _, inputs, labels = dataset[[rank]]
    with unsummed(model, True):
        nn.functional.cross_entropy(model(inputs), labels).backward()  # as torch does by itself: the plain mean
    parameters, found = whole_model(model)
    plain = gradient(reference_of(parameters, reference), dataset, list(range(world)))
    worst = max(worst, max(float((f - e).abs().max()) for f, e in zip(found, plain)))
    return worst, sizes, max(squares, default=0)


def reference_of(parameters, reference):
    with torch.no_grad():
        for own, all_of_it in zip(parameters, reference.parameters()):
            all_of_it.copy_(own)
    return reference


def gradient(model, dataset, chosen):
    model.zero_grad()
    _, inputs, labels = dataset[chosen]
    nn.functional.cross_entropy(model(inputs), labels).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


class Joined(unittest.TestCase):
    def check(self, world, most=1e-12, squares=1e-10, **use):
        results = ranks.run(compare, world, use)
        for worst, _, squared in results:
            self.assertLess(worst, most)
            self.assertLess(squared, squares)
        if world > 1:
            self.assertIn(0, [size for _, sizes, _ in results for size in sizes], "no batch was empty")


class FlatGradients(Joined):
    def test_of_fsdp1_are_those_of_the_joined_batch(self):
        for world, strategy in ((1, "FULL_SHARD"), (2, "FULL_SHARD"), (3, "SHARD_GRAD_OP"), (2, "NO_SHARD")):
            with self.subTest(world=world, strategy=strategy):
                self.check(world, strategy=strategy)

    def test_of_fsdp1_that_were_accumulated_are_those_of_the_joined_batch(self):
        self.check(2, strategy="FULL_SHARD", passes=3)


@unittest.skipUnless(CAN_WEIGHT, "this torch's fully_shard takes no reduce-scatter")
class Gradients(Joined):
    def test_are_those_of_the_joined_batch_at_one_to_four_ranks(self):
        for world in (1, 2, 3, 4):
            with self.subTest(world=world):
                self.check(world)

    def test_of_float32_and_sums_of_half_floats_are_so_within_their_rounding(self):
        self.check(2, 1e-5, 1e-4, dtype=torch.float32)
        self.check(2, 3e-2, 3e-2, dtype=torch.float32, reduce=torch.bfloat16)

    def test_that_were_accumulated_are_those_of_the_joined_batch(self):
        self.check(2, passes=3)

    def test_of_replicas_of_shards_are_those_of_the_joined_batch(self):
        self.check(4, hybrid=True)
        self.check(4, hybrid=True, passes=2)


def train_beside_a_slow_one(rank, world, sockets, weighting, rates, strategy=""):
    """Trains with one rank or more slower than the others by waiting. This rank's share in the last steps, the times that it told
    of its steps per sample, and what was warned of."""
    torch.manual_seed(1)
    model = flat(Layers(), strategy) if strategy else sharded(Layers())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    warnings = io.StringIO()
    handler = logging.StreamHandler(warnings)
    logging.getLogger("dynamix").addHandler(handler)
    run = dynamix.join(model, optimizer, agent=sockets or "off", weighting=weighting, balance=None if sockets else True)
    loader = run.loader(numbers(6000, torch.float32), batch_size=24, lowest_batch=2, highest_batch=96)
    logging.getLogger("dynamix").removeHandler(handler)
    client, times, shares = run._step.client, [], []
    complete = client.complete
    client.complete = lambda step: (times.append(step.compute_seconds / max(run.counted, 1)), complete(step))[1]
    for _ in range(2):
        for _, inputs, labels in itertools.islice(loader, 90):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            time.sleep(run.counted / rates[rank])
            (run.scale(loss) if weighting == "loss" else loss).backward()
            shares.append(run.counted / max(run.status.global_batch, 1))
            optimizer.step()
    run.close()
    return sum(shares[-20:]) / 20, times, warnings.getvalue()


@unittest.skipUnless(CAN_WEIGHT, "this torch's fully_shard takes no reduce-scatter")
class StepTimes(unittest.TestCase):
    def test_tell_computing_from_waiting_so_that_a_slow_member_gets_less(self):
        for strategy in ("", "FULL_SHARD"):  # of fully_shard, and of FSDP1
            results = ranks.run(train_beside_a_slow_one, 2, "", "gradients", (1000.0, 250.0), strategy)
            (fast, fast_times, _), (slow, slow_times, _) = results
            self.assertGreater(fast, 0.68)  # of the joined batch; 0.8 is right
            self.assertLess(slow, 0.32)
            self.assertLess(sorted(fast_times)[90], 0.6 * sorted(slow_times)[90], "the fast one's waiting counts as computing")

    @unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
    def test_and_squares_serve_agents_by_their_defaults(self):
        with agents.started(2, training__rule="adascale") as started:
            results = ranks.run(train_beside_a_slow_one, 2, started.sockets, "gradients", (2000.0, 500.0))
        for _, times, warnings in results:
            self.assertFalse(any(map(math.isnan, times)))
            self.assertEqual(warnings, "")
        self.assertLess(results[1][0], 0.4)

    @unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
    def test_are_not_known_where_losses_are_weighted_and_adascale_gives_way_to_the_square_root(self):
        with agents.started(2, training__rule="adascale") as started:
            results = ranks.run(train_beside_a_slow_one, 2, started.sockets, "loss", (4000.0, 1000.0))
        for rank, (_, times, warnings) in enumerate(results):
            self.assertTrue(all(map(math.isnan, times)))
            self.assertEqual(warnings.count("square root"), 1 - rank)
            self.assertEqual(warnings.count("no times of steps"), 1 - rank)


def refuse(rank, world):
    """What is said of models that cannot be weighted, and the batches of two runs of one model, one behind the other."""
    texts = []

    def refused(model, **options):
        optimizer = torch.optim.SGD([parameter for parameter in model.parameters()], lr=0.1)
        try:
            dynamix.join(model, optimizer, agent="off", **options)
        except NotImplementedError as problem:
            texts.append(str(problem))

    refused(sharded(Layers()), elastic=torch.distributed.HashStore())
    part = Layers()
    fully_shard(part.first)
    refused(part)
    own = sharded(Layers())
    own.set_gradient_divide_factor(3.0)
    refused(own)
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    refused(parallelize_module(Layers(), init_device_mesh("cpu", (world,)), {"first": ColwiseParallel()}))
    mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("data", "tensor"))
    parallel = parallelize_module(Layers(), mesh["tensor"], {"first": ColwiseParallel()})
    refused(sharded(parallel, mesh=mesh["data"]))
    refused(FullyShardedDataParallel(Layers(), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_id=torch.device("cpu"),
                                     process_group=(torch.distributed.group.WORLD, torch.distributed.new_group([rank], use_local_synchronization=True))))
    taken_hook = flat(Layers(), "FULL_SHARD")
    taken_hook._comm_hook = print
    refused(taken_hook)
    refused(flat(Layers(), "FULL_SHARD"), elastic=torch.distributed.HashStore())
    part = Layers()
    part.first = FullyShardedDataParallel(part.first, device_id=torch.device("cpu"))
    refused(part)
    copies = sharded(Layers(), mesh=init_device_mesh("cpu", (world, 1), mesh_dim_names=("replicate", "shard")))
    refused(copies)
    model, taken = sharded(Layers()), []
    for _ in range(2):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = dynamix.join(model, optimizer, agent="off")
        if not taken:
            refused(model)
        for _, inputs, labels in run.loader(numbers(30, torch.float32), batch_size=8 - 5 * rank):
            if len(taken) == 1:
                try:
                    run.backward(lambda values: model(values).mean(), inputs)
                except NotImplementedError as problem:
                    texts.append(str(problem))
            taken.append(run.counted)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        run.close()
    return texts, sum(taken)


@unittest.skipUnless(CAN_WEIGHT, "this torch's fully_shard takes no reduce-scatter")
class Refusals(unittest.TestCase):
    def test_say_what_cannot_be_weighted_and_a_model_may_join_again(self):
        results = ranks.run(refuse, 2)
        self.assertEqual(sum(taken for _, taken in results), 60)
        for texts, _ in results:
            expected = ("takes its shards with it", "leaves out parameters", "the script's own", "tensor parallelism, say",
                        "tensor parallelism splits", "HYBRID_SHARD: use fully_shard", "has a communication hook already",
                        "takes its shards with it", "FSDP leaves out parameters", "use DistributedDataParallel", "the script's own", "some collectives and not in others")
            self.assertEqual(len(texts), len(expected), texts)
            for text, part in zip(texts, expected):
                self.assertIn(part, text)


def refuse_of_a_framework(rank, world):
    for model in (flat(Layers(), "FULL_SHARD"), sharded(Layers())):
        try:
            refuse_sharded(model)
            return ""
        except NotImplementedError as problem:
            said = str(problem)
    refuse_sharded(nn.Linear(4, 4))
    return said


class OfAFramework(unittest.TestCase):
    def test_are_refused(self):
        for said in ranks.run(refuse_of_a_framework, 2):
            self.assertIn("a model that the framework has sharded", said)


if __name__ == "__main__":
    unittest.main()
