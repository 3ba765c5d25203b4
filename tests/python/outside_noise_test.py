"""What the tests of fairscale's AdaScale and of AdaptDL's gradient noise expect, asked of ours. No code is theirs; their numbers are facts of

    fairscale 0.4.13 (146f1602): tests/optim/test_single_node_adascale.py, test_ddp_adascale.py, fairscale/fair_dev/testing/golden_testing_data.py
    AdaptDL 0.2.11 (c0bb45f): adaptdl/adaptdl/torch/gradient_noise_scale_test.py, scaling_rules_test.py

and docs/peers.md has the table. Both keep the variance of the gradient at the base batch b, and we tr(Sigma) of one sample, which is b times that.
Their scale S is the global batch by the base batch, as ours is; a worker of theirs, or a pass that it accumulates, is a member here, with one sample.
"""
import math
import random
import unittest

import ranks
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import dynamix
from dynamix import structures as raw
from dynamix.client import Client

NEAR = 1e-5  # relative: numpy's allclose, by which they compare

#: adascale_test_data: inputs of the two workers in each step, the gain behind the last one, and the rows of the mean gradient.
GOLDENS = [([[[1.0, 0.0], [0.0, 1.0]]] * 2, 4 / 3, [0.5, 0.5]),
           ([[[1.0, 1.0], [1.0, 1.0]]] * 2, 1.0000001249999846, [1.0, 1.0]),
           ([[[-1.0, 1.0], [1.0, -1.0]]] * 2, 2.0, [0.0, 0.0]),
           ([[[1.0, 4.0], [5.0, 0.5]]] * 2, 1.4688796680497926, [3.0, 2.25]),
           ([[[-0.2, 3.0], [5.0, 0.5]]] * 2, 1.8472893901708, [2.4, 1.75]),
           ([[[-0.2, 3.3], [5.2, 0.7]], [[1.0, 4.0], [3.1, 0.1]]], 1.6720968158031417, [2.05, 2.05])]


class Group:
    """Members in this process, which exchange rows as processes do."""

    def __init__(self, count, samples=64, rule="adascale", batch=1, state=None):
        self.clients = [Client(position, count) for position in range(count)]
        rows = torch.zeros(count, raw.INTRODUCTION_COLUMNS, dtype=torch.int64)
        workload = raw.Workload(batch=batch, samples=samples, rule=raw.RULES[rule])
        for client, row in zip(self.clients, rows):
            client.introduce(workload, row.data_ptr())
        for client in self.clients:
            client.begin(rows.data_ptr())
            if state is not None:
                client.restore(bytearray(state))
        self._in_epoch = False

    def save(self):
        return self.clients[0].save()

    def step(self, own_squares, global_square, passes=1):
        """What the rule makes of a step with these |g_i|^2 and |g|^2: (gain, factor on the rate)."""
        rows, made = torch.zeros(len(self.clients), raw.ROW_COLUMNS, dtype=torch.int64), set()
        self._deal(passes)
        gathers = [bool(client.due() & raw.GATHER) for client in self.clients]
        for client, row, square, gathered in zip(self.clients, rows, own_squares, gathers):
            if gathered:
                client.write_row(square, row.data_ptr())
        for client, gathered in zip(self.clients, gathers):
            if gathered:
                client.read_rows(rows.data_ptr())
            rate = client.rate(global_square)
            made.add((rate.gain, rate.factor))
            client.complete(raw.StepTimes(iteration_seconds=0.01, compute_seconds=0.01))
        assert len(made) == 1, "the members differ"
        return made.pop()

    def _deal(self, passes):
        for client in self.clients:
            for _ in range(passes):
                if not self._in_epoch or client.deal() == raw.END:
                    client.start_epoch()
                    client.deal()
                client.deliver()
        self._in_epoch = True

    def learn(self, gradients, passes=1):
        """The gain of a step with these gradients, each the mean of a member's samples, of which all have as many."""
        mean = torch.stack(gradients).mean(0)
        return self.step([square(each) for each in gradients], square(mean), passes)[0]


def square(gradient):
    return float(gradient.double().square().sum())


def begun(base, samples=64):
    """The state of a run that one worker begins with a batch of `base` samples, for which its learning rate is meant: others may go on."""
    return Group(1, samples, batch=base).save()


def at_scale(scale, rule="adascale"):
    """A group whose steps have `scale` times the base batch, with a sample a member, and that base batch."""
    if scale < 1:
        base = round(2 / scale)
        return Group(2, 2, rule, batch=base // 2), base  # an epoch of two samples fills no step
    base = 2 if scale == 1 else 1
    count = round(scale * base)
    return Group(count, 64 * count, rule, state=begun(base, 64 * count)), base


def squares_for(var, sqr, base, count):
    """|g_i|^2 and |g|^2 of a step of `count` samples that shows this variance at the base batch and this squared gradient."""
    trace = var * base
    whole = sqr + trace / count
    return [whole + trace * (count - 1) / count] * count, whole


def gradients_of(model, inputs):
    """One a pass, of model(x).sum()."""
    return [torch.cat([each.flatten() for each in torch.autograd.grad(model(torch.tensor(x)).sum(), list(model.parameters()))])
            for x in inputs]


def bare(rank, world, inputs):
    """The state of a script's run that one worker begins with one sample a step."""
    model = nn.Linear(2, 2)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off", rule="adascale")
    run.loader(torch.utils.data.TensorDataset(torch.tensor(inputs)), batch_size=1, shuffle=False)
    return run.state_dict()


def train_golden(rank, world, inputs, state):
    """The gain of each step, and of the last one the gradient of the weight and what the optimiser made of it."""
    model = nn.Linear(2, 2)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = dynamix.join(wrapped, optimizer, agent="off", rule="adascale")
    run.load_state_dict(state)
    gains = []
    for (values,) in run.loader(torch.utils.data.TensorDataset(torch.tensor(inputs)), batch_size=1, shuffle=False):
        before, progress = model.weight.detach().clone(), run.progress
        optimizer.zero_grad()
        wrapped(values).sum().backward()
        gradient = model.weight.grad.clone()
        optimizer.step()
        gains.append(run.progress - progress)
    moved = (before - model.weight.detach()) / 0.1
    rate = optimizer.param_groups[0]["lr"]
    run.close()
    return gains, gradient.tolist(), moved.tolist(), rate


class Fairscale(unittest.TestCase):
    def near(self, ours, theirs):
        self.assertLessEqual(abs(ours - theirs), NEAR * abs(theirs) + 1e-8, f"ours {ours}, theirs {theirs}")

    def test_goldens_of_two_workers_or_passes(self):
        """test_grad_accum, test_basic: of all their goldens, those of two steps included."""
        for steps, expected, row in GOLDENS:
            group, model = Group(2, state=begun(1)), nn.Linear(2, 2)
            for number, inputs in enumerate(steps):
                gradients = gradients_of(model, inputs)
                gain = group.learn(gradients)
                if inputs == steps[-1]:
                    self.near(gain, expected)
            for ours, theirs in zip(torch.stack(gradients).mean(0).tolist(), row * 2 + [1.0, 1.0]):
                self.near(ours, theirs)

    def test_goldens_of_a_script_in_distributed_data_parallel(self):
        """test_basic, of two processes: the gain, the gradient, and the step that the optimiser makes by both."""
        steps, expected, row = GOLDENS[-1]
        inputs = [x for each in steps for x in each]
        state = ranks.run(bare, 1, inputs)[0]
        for gains, gradient, moved, rate in ranks.run(train_golden, 2, inputs, state):
            self.near(gains[-1], expected)
            self.assertEqual(rate, 0.1, "test_lr_scheduler: what the script's schedule says stays")
            for ours, by_rate in zip(sum(gradient, []), sum(moved, [])):
                self.near(ours, row[0])
                self.assertAlmostEqual(by_rate, expected * row[0], places=5)

    def test_gains_of_orthogonal_gradients(self):
        """test_scale_not_equal_default: four of them at scales of 4 (its default), 4/3 and 2; test_debias_ewma: two, in each of four steps."""
        four = gradients_of(nn.Linear(4, 2, bias=False), torch.eye(4).tolist())
        for base, expected in ((1, 4.0), (3, 4 / 3), (2, 2.0)):
            self.near(Group(4, state=begun(base)).learn(four), expected)
        two, group = gradients_of(nn.Linear(2, 2, bias=False), torch.eye(2).tolist()), Group(2, state=begun(1))
        for _ in range(4):
            self.near(group.learn(two), 2.0)

    def test_gain_of_equal_gradients(self):
        """test_gradient_value expects 1.00000025: their variance is at least 1e-6, and ours may be 0."""
        self.near(Group(2, state=begun(1)).learn(gradients_of(nn.Linear(2, 2, bias=False), [[0.0, 1.0]] * 2)), 1.0000002499999376)

    def test_gain_of_two_layers(self):
        """test_add_param_group: gain() of the whole. Theirs has one a parameter group, too, by which each group steps; ours is this one."""
        layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
        with torch.no_grad():
            layers[0].weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
            layers[0].bias.fill_(0.1)
            layers[1].weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
            layers[1].bias.fill_(0.2)
        self.near(Group(2, state=begun(1)).learn(gradients_of(layers, [[1.0, 2.0], [3.0, 4.0]])), 1.1440223454935758)

    def test_gain_of_accumulated_passes(self):
        """test_grad_accum of test_ddp_adascale: 4, of two workers with two passes each. They count from one pass; we from as many passes
        as the script accumulates, which are no decision of ours: all four being orthogonal, the two parts of the gain multiply."""
        four = gradients_of(nn.Linear(4, 2, bias=False), torch.eye(4).tolist())
        own = [torch.stack([four[rank], four[rank + 2]]).mean(0) for rank in range(2)]
        self.near(2 * Group(2, state=begun(1)).learn(own, passes=2), 4.0)

    def test_gain_where_the_scale_changes(self):
        """test_set_num_gradients_to_accumulate. Not the same: with the number of passes set_scale multiplies their variance by the old
        scale over the new one, though that of one pass has not changed. Ours keeps it, and comes to theirs with that factor."""
        for passes, expected in ((3, 2.141385737279438), (6, 2.9927880097754036), (9, 3.4461759591877312)):
            first = Group(2, state=begun(1))
            self.near(first.learn(gradients_of(nn.Linear(2, 2, bias=False), torch.eye(2).tolist())), 2.0)
            alike = [torch.tensor([0.0, 1.0, 0.0, 1.0]) / passes] * passes
            own = Group(passes, state=first.save()).learn(alike)

            def gain(var):
                old, new = 0.002 * (1 - passes / 1000), passes / 1000  # weights of the two steps
                var, sqr = old * var / (old + new), new * square(alike[0]) / (old + new)
                return (var + sqr) / (var / passes + sqr)

            self.near(own, gain(2.0))
            self.near(gain(2.0 * 2 / passes), expected)
            self.assertGreater(own, expected)

    def test_gains_are_within_the_scale(self):
        """test_lr_scheduler: at most 3 of three passes, whatever the gradients."""
        group, model, source = Group(3, state=begun(1)), nn.Linear(2, 2, bias=False), random.Random(1)
        for _ in range(30):
            gain = group.learn(gradients_of(model, [[source.random(), source.random()] for _ in range(3)]))
            self.assertTrue(1 <= gain <= 3, gain)

    def test_one_worker_without_accumulation(self):
        """test_basic_cpu expects a RuntimeError. Ours trains on at the base rate: one gradient shows no noise."""
        group = Group(1)
        for _ in range(3):
            self.assertEqual(group.step([5.0], 5.0), (1.0, 1.0))


class Distance(nn.Module):
    """Squared, of a parameter that begins at 1."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.ones(1))

    def forward(self, target):
        return (self.value - target).square().sum()


def approach_beside_nans(rank, world):
    """Where a parameter comes to whose target is NaN for one of two members in about half of the steps, and what is known by then. The
    members' targets differ a little: `run.average_gradients` takes equal gradients of other samples for a sum that was made before."""
    model = Distance()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = dynamix.join(model, optimizer, agent="off", rule="adascale", nan="drop")
    source, spoiled = random.Random(3), 0
    targets = torch.tensor([math.nan if source.random() > 0.5 else 4.0 for _ in range(100)])
    for (numbers,) in run.loader(torch.utils.data.TensorDataset(torch.arange(200)), batch_size=1, shuffle=False):
        target = targets[numbers // 2] if rank == 1 else torch.tensor([4.001])
        spoiled += bool(target.isnan())
        optimizer.zero_grad()
        model(target).backward()
        run.average_gradients()
        optimizer.step()
    state = model.value.item(), run.status.noise_scale, run.progress, spoiled
    run.close()
    return state


def later_factor(group, squares, square):
    """Behind the first steps of training, in which a smaller batch keeps its rate."""
    for _ in range(200):
        factor = group.step(squares, square)[1]
    return factor


class Adaptdl(unittest.TestCase):
    def test_gain_of_a_known_state(self):
        """test_object: 1 at scale 2 without variance, 2 at scale 3 with a variance of 3 and a squared gradient of 1."""
        for scale, var, sqr, expected in ((2, 0, 1, 1.0), (3, 3, 1, 2.0)):
            group, base = at_scale(scale)
            self.assertAlmostEqual(group.step(*squares_for(var, sqr, base, len(group.clients)))[0], expected, places=12)

    def test_factors_of_adascale(self):
        """test_scaling_rules_1: with noise alone, and with a variance of 2 and a squared gradient of 1."""
        for scale, noise, both in ((0.5, 0.5, 0.6), (1, 1, 1), (2, 2, 1.5), (4, 4, 2), (10, 10, 2.5)):
            for var, sqr, expected in ((1, None, noise), (2, 1, both)):
                group, base = at_scale(scale)
                count = len(group.clients)
                sqr = -var * base / count / 2 if sqr is None else sqr  # as far below 0 as gradients can show it
                self.assertAlmostEqual(later_factor(group, *squares_for(var, sqr, base, count)), expected, places=12)

    def test_factors_of_adascale_without_any_gradient(self):
        """test_scaling_rules_1 expects the scale, since its variance is at least 1e-6. Not the same: where nothing is known, ours raises no rate."""
        for scale in (0.5, 1, 2, 4, 10):
            group, _ = at_scale(scale)
            self.assertEqual(later_factor(group, [0.0] * len(group.clients), 0.0), min(1, scale))

    def test_factors_of_the_other_rules(self):
        """test_scaling_rules_2 (linear) and test_scaling_rules_3 (square root)."""
        for rule, factors in (("linear", {0.5: 0.5, 1: 1, 2: 2, 4: 4, 10: 10}), ("square-root", {1: 1, 4: 2, 9: 3, 16: 4, 25: 5})):
            for scale, expected in factors.items():
                group, _ = at_scale(scale, rule)
                self.assertEqual(group.step([1.0] * len(group.clients), 1.0)[1], expected)

    def test_gradients_that_are_not_finite(self):
        """test_nan: within 100 steps, about half of them spoiled, from 1 to within 0.01 of 4, and all averages stay finite."""
        found = ranks.run(approach_beside_nans, 2)
        self.assertGreater(found[1][3], 30, "spoiled steps")
        for value, noise, progress, _ in found:
            self.assertAlmostEqual(value, 4.0, delta=0.01)
            self.assertTrue(math.isfinite(noise) and math.isfinite(progress), (noise, progress))


if __name__ == "__main__":
    unittest.main()
