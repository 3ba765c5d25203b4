"""`run.backward`: a batch that memory does not hold is trained in parts, with the gradient of the whole."""
import collections
import contextlib
import itertools
import logging
import multiprocessing
import os
import pathlib
import resource
import sys
import unittest

import ranks
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import dynamix
from dynamix import largest, memory

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import memory_finder

COUNT = 96
Pair = collections.namedtuple("Pair", ("left", "right"))
NUMBERS_A_SAMPLE = 64 * 2**12  # that each operation makes of a sample: 1 MiB


class Wide(nn.Module):
    """A few parameters and large activations."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 64), nn.Linear(64, 1)

    def forward(self, inputs):
        values = self.first(inputs).unsqueeze(2).expand(-1, -1, NUMBERS_A_SAMPLE // 64)
        return self.last(torch.tanh(values * 0.5).mean(2))


def data():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(COUNT, 8, generator=generator), torch.randn(COUNT, 1, generator=generator)


def loss_of(model, inputs, targets):
    return nn.functional.mse_loss(model(inputs), targets)


def limit_memory(megabytes):
    """This process gets no more than so much beyond what it has."""
    has = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + megabytes * 2**20,) * 2)


class Lines(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def train(rank, world, limited):
    """Rank 0 takes 4 samples per step, rank 1 takes 48, of which memory holds but a part."""
    lines = Lines()
    logging.getLogger("dynamix").addHandler(lines)
    torch.manual_seed(5)
    net = Wide()
    model = DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = dynamix.join(model, optimizer, agent="off", window_steps=5)
    inputs, targets = data()
    dataset = torch.utils.data.TensorDataset(torch.arange(COUNT), inputs, targets)
    loader = run.loader(dataset, batch_size=(4, 48)[rank])
    loss_of(net, inputs[:1], targets[:1]).backward()  # whatever the first pass allocates for good
    if limited and rank == 1:
        limit_memory(80)
    steps = []
    for _ in range(2):
        for numbers, values, wanted in loader:
            counted = run.counted
            before = [parameter.detach().clone() for parameter in net.parameters()]
            run.backward(lambda *part: loss_of(model, *part), values, wanted)
            optimizer.step()
            steps.append((numbers.tolist()[:counted], before, [parameter.detach().clone() for parameter in net.parameters()]))
    sizes = run.status.batches
    run.close()
    return steps, sizes, lines.lines


class Gradients(unittest.TestCase):
    def check_gradients(self, results):
        """Each step is that of one process on the joined batch."""
        inputs, targets = data()
        for joined in zip(*(steps for steps, _, _ in results)):
            net = Wide()
            for parameter, value in zip(net.parameters(), joined[0][1]):
                parameter.data.copy_(value)
            numbers = [number for taken, _, _ in joined for number in taken]
            for number in numbers:
                (loss_of(net, inputs[number:number + 1], targets[number:number + 1]) / len(numbers)).backward()
            for parameter, ours in zip(net.parameters(), joined[0][2]):
                self.assertLess(float((parameter - 0.1 * parameter.grad - ours).abs().max()), 1e-6)


class Memory(Gradients):
    def test_that_does_not_hold_a_batch_trains_it_in_parts(self):
        results = ranks.run(train, 2, True)
        taken = sorted(number for steps, _, _ in results for numbers, _, _ in steps for number in numbers)
        self.assertEqual(taken, sorted(2 * list(range(COUNT))))
        self.assertEqual(results[0][2], [])
        self.assertGreater(len(results[1][2]), 0)
        self.assertIn("memory does not hold 48 samples at once", results[1][2][0])
        self.assertEqual(results[0][1], results[1][1])
        self.assertLess(results[1][1][1], 48, "the limit was not lowered")
        self.check_gradients(results)

    def test_that_holds_every_batch_changes_nothing(self):
        results = ranks.run(train, 2, False)
        self.assertEqual(results[0][1], (4, 48))
        self.assertEqual([lines for _, _, lines in results], [[], []])
        self.check_gradients(results)


def accumulate(rank, world):
    """Rank 0 has 4 samples per step and rank 1 has 14, both in micro-batches of at most 4: the steps, and the passes of each."""
    torch.manual_seed(5)
    net = Wide()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = dynamix.join(model, optimizer, agent="off")
    inputs, targets = data()
    dataset = torch.utils.data.TensorDataset(torch.arange(COUNT), inputs, targets)
    steps, passes, sums = [], [], []
    all_reduce = run._peers.all_reduce
    run._peers.all_reduce = lambda values: (sums.append(0), all_reduce(values))[1]
    for numbers, values, wanted in run.loader(dataset, batch_size=(4, 14)[rank]):
        counted = run.counted
        before = [parameter.detach().clone() for parameter in net.parameters()]
        calls = []
        run.backward(lambda *part: (calls.append(len(part[0])), loss_of(model, *part))[1], values, wanted, micro_batch=4)
        optimizer.step()
        steps.append((numbers.tolist()[:counted], before, [parameter.detach().clone() for parameter in net.parameters()]))
        passes.append(tuple(calls))
    run.close()
    return steps, passes, len(sums)


class MicroBatches(Gradients):
    def test_are_as_many_as_a_member_has_and_their_sum_is_one(self):
        results = ranks.run(accumulate, 2)
        self.check_gradients(results)
        for _, passes, sums in results:
            self.assertEqual(sums, len(passes))
        self.assertEqual(results[0][1][0], (4,))
        self.assertEqual(results[1][1][0], (3, 4, 3, 4))


def weigh(rank, world):
    """Weights of items: rank 1's batch has no item in one of its halves."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    run = dynamix.join(model, optimizer, agent="off")
    loader = run.loader(torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1)), batch_size=4, shuffle=False)
    failed = []

    def masked_mean(values, mask):
        if len(values) > 2 and not failed:
            failed.append(True)
            raise MemoryError
        return (model(values) * mask).sum() / mask.sum()

    (values,) = next(iter(loader))
    mask = torch.tensor([[1.0], [1.0], [1.0 - rank], [1.0 - rank]])
    run.backward(masked_mean, values, mask, weight_of=lambda _, part: float(part.sum()))
    run.average_gradients()
    gradient = float(model.weight.grad)
    optimizer.step()
    run.close()
    return gradient, len(failed)


class Weights(unittest.TestCase):
    def test_of_items_are_those_of_the_whole_batch(self):
        for gradient, failed in ranks.run(weigh, 2):
            self.assertAlmostEqual(gradient, (0 + 1 + 2 + 3 + 4 + 5) / 6, places=6)
            self.assertEqual(failed, 1)


class Parts(unittest.TestCase):
    def test_of_nested_batches(self):
        batch = ({"ids": torch.arange(6), "scale": torch.tensor(2.0)}, ["a", "b", "c", "d", "e", "f"], torch.zeros(3, 2))
        self.assertEqual(memory.rows_of(batch), 6)
        named, names, whole = memory.part_of(batch, 6, 2, 4)
        self.assertEqual(named["ids"].tolist(), [2, 3])
        self.assertEqual(float(named["scale"]), 2)
        self.assertEqual(names, ["c", "d"])
        self.assertEqual(whole.shape, (3, 2))
        pairs = [("q0", "q1"), ("a0", "a1")]  # two samples of two texts, as torch collates them
        self.assertEqual(memory.part_of((torch.arange(2), pairs), 2, 1, 2)[1], [("q1",), ("a1",)])
        with self.assertRaisesRegex(TypeError, "no tensor with rows"):
            memory.rows_of((1, torch.tensor(2.0)))

    def test_keep_the_types_of_batches(self):
        batch = (collections.UserDict(ids=torch.arange(4), kept=3), collections.UserList([torch.arange(4.0), "whole"]),
                 collections.deque([torch.arange(8).reshape(4, 2)]), Pair(torch.arange(4), ["a", "b", "c", "d"]))
        for named, listed, queued, pair in (memory.part_of(batch, 4, 1, 3), memory.resized(batch[:], 4, 6)):
            self.assertEqual([type(each) for each in (named, listed, queued, pair)], [type(each) for each in batch])
            self.assertEqual((named["kept"], listed[1]), (3, "whole"))
            rows = named["ids"].tolist()
            self.assertIn(rows, ([1, 2], [0, 1, 2, 3, 0, 1]))
            self.assertEqual((listed[0].tolist(), (queued[0][:, 0] // 2).tolist(), pair.left.tolist()), (rows, rows, rows))
            self.assertEqual(pair.right, ["abcd"[row] for row in rows])
        self.assertEqual(memory.rows_of((collections.UserList([torch.arange(5)]),)), 5)

    def test_errors_of_memory_are_told_from_others(self):
        with self.assertRaises(RuntimeError) as caught:
            torch.empty(2**60)
        self.assertTrue(memory.is_out_of_memory(caught.exception))
        self.assertTrue(memory.is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")))
        self.assertTrue(memory.is_out_of_memory(RuntimeError("could not create a primitive")))
        self.assertFalse(memory.is_out_of_memory(RuntimeError("could not create a primitive descriptor for the matmul primitive")))
        self.assertFalse(memory.is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied")))


def find(rank, world, kind):
    """The largest batch of each rank, whose memory holds 30 and 20 rows; the trials; what a training with it then warns of, and
    whether the search has changed anything."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Dropout(0.1), nn.Linear(4, 1))
    optimizer = kind(net.parameters(), lr=0.01)
    run = dynamix.join(net, optimizer, agent="off", rule="constant")
    inputs, targets = data()
    loader = run.loader(torch.utils.data.TensorDataset(inputs, targets), batch_size=4, highest_batch=64)
    before = [value.clone() for value in net.state_dict().values()], torch.get_rng_state()
    tried, had_state = [], []

    def held(values, wanted):
        tried.append(len(values))
        had_state.append(bool(optimizer.state))
        if len(values) > 30 - 10 * rank:
            raise MemoryError
        return loss_of(net, values, wanted)

    found = run.find_batch(held, inputs[:4], targets[:4], highest=64)
    passes, trials = len(tried), [rows for rows, _ in itertools.groupby(tried)]
    same = torch.equal(torch.get_rng_state(), before[1]) and not optimizer.state and all(had_state)
    same = same and all(torch.equal(value, one) for value, one in zip(net.state_dict().values(), before[0]))
    lines = Lines()
    logging.getLogger("dynamix").addHandler(lines)
    for step, (values, wanted) in enumerate(loader):  # whose rows stand for the largest batch, and for one trained in parts
        places = torch.arange((found, 3 * found)[step % 2]) % len(values)
        run.backward(held, values[places], wanted[places])
        run.average_gradients()
        optimizer.step()
    run.close()
    return found, trials, lines.lines, same, max(tried[passes:])


def train_with_zero(rank, world, searching):
    """Parameters behind a training with ZeroRedundancyOptimizer, each member of which steps a part of them. `searching`: members that
    look for their largest batch, before the first step and amid."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))
    model = DistributedDataParallel(net)
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.05)
    run = dynamix.join(model, optimizer, agent="off", rule="constant")
    for number, (values, wanted) in enumerate(run.loader(torch.utils.data.TensorDataset(*data()), batch_size=12)):
        if rank in searching and number in (0, 2):
            run.find_batch(lambda *part: loss_of(model, *part), values, wanted, highest=24)
        optimizer.zero_grad()
        loss_of(model, values, wanted).backward()
        optimizer.step()
    result = [parameter.tolist() for parameter in net.parameters()]
    run.close()
    return result


class Trained(unittest.TestCase):
    """A plain model in one process."""

    def setUp(self):
        torch.manual_seed(5)
        self.net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))

    def join(self, kind):
        optimizer = kind(self.net.parameters(), lr=0.01)
        run = dynamix.join(self.net, optimizer, agent="off")
        return run, optimizer, run.loader(torch.utils.data.TensorDataset(*data()), batch_size=24)

    def test_model_is_refused_micro_batches_of_no_row(self):
        run, _, loader = self.join(torch.optim.SGD)
        for batch in loader:
            with self.assertRaisesRegex(ValueError, "micro_batch=-1"):
                run.backward(lambda *given: loss_of(self.net, *given), *batch, micro_batch=-1)
            break
        run.close()

    def test_parameters_may_be_fewer_at_first(self):
        self.net[0].requires_grad_(False)
        run, optimizer, loader = self.join(torch.optim.SGD)
        for number, batch in enumerate(loader):
            if number == 1:
                self.net[0].requires_grad_(True)
            run.backward(lambda *part: loss_of(self.net, *part), *batch)
            trained = [parameter for parameter in self.net.parameters() if parameter.requires_grad]
            for parameter, gradient in zip(trained, torch.autograd.grad(loss_of(self.net, *batch), trained)):
                torch.testing.assert_close(parameter.grad, gradient)
            optimizer.step()

    def test_model_makes_no_step_while_its_largest_batch_is_looked_for(self):
        run, optimizer, loader = self.join(torch.optim.Adam)
        for number, batch in enumerate(loader):
            if number == 0:
                run.find_batch(lambda *part: loss_of(self.net, *part), *batch, highest=48)
                self.assertEqual((run.status.step, run.counted, len(optimizer.state)), (0, 24, 0))
            optimizer.zero_grad()
            loss_of(self.net, *batch).backward()
            optimizer.step()
        self.assertEqual((run.status.step, run.status.samples), (4, COUNT))


class Largest(unittest.TestCase):
    def test_batch_is_found_in_five_trials_and_holds(self):
        for kind in (torch.optim.AdamW, torch.optim.RMSprop):
            for rank, (found, trials, lines, same, largest_part) in enumerate(ranks.run(find, 2, kind)):
                self.assertLessEqual(len(trials), largest.MOST_TRIALS, trials)
                self.assertEqual(lines, [], f"memory did not hold what was found: {trials}")
                self.assertTrue(same, "the search has left something behind")
                self.assertLessEqual(0.6 * (30 - 10 * rank), found)
                self.assertLess(found, 30 - 10 * rank)
                self.assertLessEqual(largest_part, found)

    def test_batch_is_looked_for_beside_an_optimiser_that_shards_its_state(self):
        undisturbed = ranks.run(train_with_zero, 2, ())
        for searching in ((0, 1), (1,)):
            self.assertEqual(ranks.run(train_with_zero, 2, searching), undisturbed)

    def test_batch_is_within_the_margin_of_what_memory_holds(self):
        for room in (10.0, 55.0, 300.0, 1000.0, 9000.0):
            for fixed, a_row in ((0.0, 1.0), (5.0, 0.25), (8.0, 3.0)):
                for kills, measured in ((True, True), (False, True), (False, False)):
                    with self.subTest(room=room, fixed=fixed, a_row=a_row, kills=kills, measured=measured):
                        truth = int((room - fixed) / a_row)
                        trials, start, highest = [], 16, 128
                        while True:
                            chosen = largest.choose(trials, start, highest, room, kills)
                            if chosen.ends:
                                break
                            if kills and trials and trials[-1].ran:
                                self.assertLessEqual(chosen.rows, truth, "the process would have been killed")
                            took = fixed + a_row * chosen.rows
                            trials.append(largest.Trial(chosen.rows, took <= room, took if measured else float("nan")))
                        self.assertLessEqual(len(trials), largest.MOST_TRIALS)
                        self.assertLessEqual(chosen.rows, truth)
                        if truth >= 1:
                            self.assertGreaterEqual(chosen.rows, min(highest, truth) * (0.65 if truth >= start else 0.25) - 1)
                        self.assertTrue(chosen.reason)

    def test_batch_of_no_row_is_an_error_that_says_so(self):
        trials = [largest.Trial(rows, False, float("nan")) for rows in (4, 1)]
        self.assertEqual(largest.choose(trials, 4, 32, 100.0, False)[:2], (0, True))


def left_in(group):
    memory_finder.enter(group)
    os._exit(0 if 0 < largest.Host().left() <= 64 * 2**20 else 1)


class Groups(unittest.TestCase):
    def test_limit_what_a_process_can_still_get(self):
        with contextlib.ExitStack() as stack:
            try:
                group = stack.enter_context(memory_finder.limited_group(64))
            except OSError as problem:
                self.skipTest(f"no control group can be made that limits memory: {problem}")
            process = multiprocessing.get_context("fork").Process(target=left_in, args=(group,))
            process.start()
            process.join()
        self.assertEqual(process.exitcode, 0)


def refuse(rank, world):
    """Errors of other kinds, a batch of one sample that is too large, models whose sums cannot wait."""
    texts = []
    model = DistributedDataParallel(nn.Linear(1, 1), find_unused_parameters=True)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=1.0), agent="off")
    batch = next(iter(run.loader(torch.utils.data.TensorDataset(torch.zeros(8, 1)), batch_size=2)))
    try:
        run.backward(lambda values: model(values).mean(), *batch)
    except NotImplementedError as problem:
        texts.append(str(problem))
    plain = nn.Linear(1, 1)
    alone = dynamix.join(plain, torch.optim.SGD(plain.parameters(), lr=1.0), agent="off")
    batch = next(iter(alone.loader(torch.utils.data.TensorDataset(torch.zeros(8, 1)), batch_size=2)))
    for error in (ValueError("wrong"), MemoryError("none left")):
        def fail(values):
            raise error
        try:
            alone.backward(fail, *batch)
        except type(error) as problem:
            texts.append(str(problem))
    return texts


class Refusals(unittest.TestCase):
    def test_say_what_cannot_be_done(self):
        for texts in ranks.run(refuse, 2):
            self.assertIn("find_unused_parameters", texts[0])
            self.assertEqual(texts[1:], ["wrong", "none left"])


if __name__ == "__main__":
    unittest.main()
