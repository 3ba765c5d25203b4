"""Samples that are dealt by cost: each once an epoch, members within their budgets, little padding, and the mean over their cost."""
import collections
import math
import random
import time
import types
import unittest
import unittest.mock

import agents
import ranks
import torch
from torch import nn

import dynamix
from dynamix import cost

COUNT = 900


def lengths():
    """Of texts: most are short, few are long."""
    generator = torch.Generator().manual_seed(4)
    return torch.randn(COUNT, generator=generator).mul(0.9).add(3.5).exp().clamp(2, 400).round().long()


class Texts(torch.utils.data.Dataset):
    def __init__(self):
        self.lengths = lengths()

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return index, torch.randn(int(self.lengths[index]), 3, generator=generator, dtype=torch.float64)


def padded(samples):
    longest = max(len(values) for _, values in samples)
    values = torch.zeros(len(samples), longest, 3, dtype=torch.float64)
    mask = torch.zeros(len(samples), longest, dtype=torch.float64)
    for row, (_, own) in enumerate(samples):
        values[row, :len(own)], mask[row, :len(own)] = own, 1
    return torch.tensor([index for index, _ in samples]), values, mask


def loss_of(model, values, mask):
    """The mean over tokens, NaN where there are none."""
    return ((model(values).squeeze(2) - 1).square() * mask).sum() / mask.sum()


def joined(rank, budget, agent="off", **options):
    torch.manual_seed(0)
    model = nn.Linear(3, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = dynamix.join(model, optimizer, agent=agent, balance=options.pop("balance", None), rule="constant")
    loader = run.loader(Texts(), budget=budget, cost=lengths(), seed=3 if rank == 0 else 8, collate_fn=padded, **options)
    return model, optimizer, run, loader


def train(rank, world, budgets, epochs, stop, state, options):
    """By step: epoch, samples of this rank, tokens and those with padding; the largest error of a gradient; the state at `stop`."""
    model, optimizer, run, loader = joined(rank, budgets[rank], **options)
    if state is not None:
        run.load_state_dict(state)
    data, steps, worst, saved = Texts(), [], 0.0, None
    for epoch in range(run.epoch, epochs):
        expected, count = len(loader), 0
        for chosen, values, mask in loader:
            own = chosen.tolist()[:run.counted]
            steps.append((epoch, own, int(mask[:run.counted].sum()), mask[:run.counted].numel()))
            optimizer.zero_grad()
            loss = loss_of(model, values, mask)
            (loss if own else loss * math.nan).backward()
            run.average_gradients()
            everyones = [None] * world
            torch.distributed.all_gather_object(everyones, own)
            reference = nn.Linear(3, 1).double()
            reference.load_state_dict(model.state_dict())
            _, values, mask = padded([data[index] for part in everyones for index in part])
            loss_of(reference, values, mask).backward()
            worst = max(worst, float((model.weight.grad - reference.weight.grad).abs().max()))
            optimizer.step()
            count += 1
            if run.status.step == stop:
                saved = run.state_dict()
                break
        assert stop or state or count == expected, (count, expected)
        if saved:
            break
    now = run.status
    run.close()
    return steps, worst, (now.batches, now.samples), saved


def train_below_the_costliest(rank, world):
    """Budgets of 16 where some samples cost 64. By step: this rank's samples, and whether the optimiser moved the parameters; the
    progress at the end."""
    costs = [4] * 40 + [64] * 6
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    run = dynamix.join(model, optimizer, agent="off", rule="linear")
    loader = run.loader(torch.utils.data.TensorDataset(torch.arange(46), torch.randn(46, 3)), budget=64, cost=costs)
    run.limit_batch(16)
    run.load_state_dict(run.state_dict())
    steps = []
    for chosen, values in loader:
        own, before = chosen.tolist()[:run.counted], model.weight.detach().clone()
        optimizer.zero_grad()
        model(values).square().mean().backward()
        run.average_gradients()
        optimizer.step()
        steps.append((own, not torch.equal(model.weight, before)))
    result = steps, run.progress, run.status.step
    run.close()
    return result


def train_in_parts(rank, world):
    """The largest error of a gradient whose batch was trained in parts of two texts."""
    model, optimizer, run, loader = joined(rank, 800)
    worst = 0.0
    for _, values, mask in loader:
        run.backward(lambda *part: loss_of(model, *part), values, mask, micro_batch=2)
        found = model.weight.grad.clone()
        optimizer.zero_grad()
        loss_of(model, values, mask).backward()
        worst = max(worst, float((model.weight.grad - found).abs().max()))
        run.average_gradients()
        optimizer.step()
    run.close()
    return worst


class Budgets(unittest.TestCase):
    def check(self, results, epochs):
        for epoch in range(epochs):
            counts = collections.Counter(number for steps, *_ in results for at, own, _, _ in steps if at == epoch for number in own)
            self.assertEqual(counts, collections.Counter(range(COUNT)))

    def test_are_kept_and_each_sample_is_dealt_once(self):
        for budgets, options in (((2000, 2000), {}), ((2000, 900), {"grouped": False}), ((3000, 900, 500), {}), ((600, 1200), {"num_workers": 2})):
            with self.subTest(budgets=budgets):
                results = ranks.run(train, len(budgets), budgets, 3, None, None, options)
                self.check(results, 3)
                for rank, (steps, worst, (batches, samples), _) in enumerate(results):
                    self.assertLess(worst, 1e-12)
                    for batch, budget in zip(batches, budgets):
                        self.assertLess(abs(batch - budget), min(budgets) / 64)
                    self.assertAlmostEqual(samples, 3 * int(lengths().sum()), delta=3 * min(budgets) / 64)
                    tokens = [tokens for _, _, tokens, _ in steps]
                    self.assertLessEqual(max(tokens), budgets[rank] + int(lengths().max()))
                    full = sorted(tokens)[len(tokens) // 2]
                    self.assertLess(abs(full - budgets[rank]), 0.1 * budgets[rank])
                orders = {tuple(own for at, own, _, _ in results[0][0] if at == epoch)[0].__repr__() for epoch in range(3)}
                self.assertEqual(len(orders), 3, "two epochs have one order")

    def test_group_samples_of_like_cost_so_that_padding_is_little(self):
        results = ranks.run(train, 2, (2000, 2000), 2, None, None, {})
        tokens, filled = (sum(step[column] for steps, *_ in results for step in steps) for column in (2, 3))
        self.assertLess(filled, 1.35 * tokens)
        shuffled = torch.randperm(COUNT, generator=torch.Generator().manual_seed(0)).split(20)
        plain = sum(len(part) * int(lengths()[part].max()) for part in shuffled) / int(lengths().sum())
        self.assertLess(filled, 0.6 * plain * tokens, "unsorted batches would be filled as much")

    def test_that_mix_samples_are_filled_more_evenly(self):
        costs = lengths().tolist()[:200]
        for shares in ([64, 64], [64, 16, 100], [1, 0, 3]):
            parts = cost.split(costs, shares)
            self.assertEqual(sorted(place for part in parts for place in part), list(range(200)))
            for part, share in zip(parts, shares):
                wanted = sum(costs) * share / sum(shares)
                self.assertLess(abs(sum(costs[place] for place in part) - wanted), 0.002 * sum(costs))
        self.assertEqual(cost.split([], [3, 4]), [[], []])

    def test_that_are_exchanged_make_no_step_longer(self):
        draw = random.Random(1)
        for _ in range(1000):
            shares = [draw.randint(8, 64) for _ in range(draw.randint(2, 8))]
            costs = [draw.lognormvariate(0, 1) for _ in range(draw.randint(2, 20) * len(shares))]
            with unittest.mock.patch.object(cost, "_EXCHANGES", 0):
                before = cost.split(costs, shares)
            longest, without = (max(math.fsum(costs[place] for place in part) / share for part, share in zip(parts, shares))
                                for parts in (cost.split(costs, shares), before))
            self.assertLess(longest, without * (1 + 1e-12), (shares, costs))

    def test_go_on_from_a_state_in_mid_epoch(self):
        for options in ({"grouped": False}, {"num_workers": 1}):
            whole = ranks.run(train, 2, (900, 600), 2, None, None, options)
            first = ranks.run(train, 2, (900, 600), 2, 40, None, options)
            states = [result[3] for result in first]
            second = ranks.run(resume, 2, (900, 600), states, options)
            for rank in range(2):
                self.assertEqual(first[rank][0] + second[rank][0], whole[rank][0])

    def test_below_the_costliest_sample_leave_steps_in_which_nobody_moves(self):
        for world in (1, 2):
            results = ranks.run(train_below_the_costliest, world)
            self.assertEqual(sorted(number for steps, *_ in results for own, _ in steps for number in own), list(range(46)))
            for joint in zip(*(steps for steps, *_ in results)):
                self.assertEqual({moved for _, moved in joint}, {any(own for own, _ in joint)})
            self.assertTrue(any(not any(own for own, _ in joint) for joint in zip(*(steps for steps, *_ in results))), "no step was empty")
            for steps, progress, count in results:
                self.assertEqual(len(steps), count)
                self.assertAlmostEqual(progress, (40 * 4 + 6 * 64) / (64 * world))  # of schedules, which go by cost

    def test_that_are_trained_in_parts_have_the_mean_over_cost(self):
        self.assertLess(ranks.run(train_in_parts, 1)[0], 1e-12)

    def test_of_members_follow_their_paces(self):
        results = ranks.run(follow_paces, 2, "off", True)
        taken = collections.Counter(number for result in results for number in result[0])
        self.assertEqual(taken, collections.Counter(4 * list(range(COUNT))))
        self.assertGreater(results[0][1][0], 2.2 * results[0][1][1])  # thrice as fast
        self.assertLess(abs(sum(results[0][1]) - 1600), 25)

    @unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
    def test_are_decided_by_agents(self):
        with agents.started(2, arbitrator__policy="lb-bsp") as started:
            results = ranks.run(follow_paces, 2, started.sockets, None)
        taken = collections.Counter(number for result in results for number in result[0])
        self.assertEqual(taken, collections.Counter(4 * list(range(COUNT))))
        for _, budgets, decisions in results:
            self.assertGreater(decisions, 0)
            self.assertLess(abs(sum(budgets) - 1600), 25)
            self.assertGreaterEqual(budgets[0], budgets[1])


def resume(rank, world, budgets, states, options):
    return train(rank, world, budgets, 2, None, states[rank], options)


def follow_paces(rank, world, agent, balance):
    model, optimizer, run, loader = joined(rank, 800, agent, balance=balance)
    taken = []
    for _ in range(4):
        for chosen, values, mask in loader:
            taken += chosen.tolist()[:run.counted]
            optimizer.zero_grad()
            loss_of(model, values, mask).backward()
            time.sleep(float(mask[:run.counted].sum()) / (60_000, 20_000)[rank])
            run.average_gradients()
            optimizer.step()
            batches = run.status.batches
    decisions = run.status.decisions
    run.close()
    return taken, batches, decisions


class Fits(unittest.TestCase):
    def test_tell_seconds_that_grow_with_the_square_of_a_sample_from_those_that_do_not(self):
        for turn in (None, 100.0, 1000.0):
            generator = torch.Generator().manual_seed(1)
            fit, found = cost.Fit(), None
            for step in range(256):
                length = 20 + 380 * (step % 32) / 32
                count = round(2000 / length)
                seconds = count * length * (1 + (length / turn if turn else 0)) * 1e-5
                noise = 1 + 0.05 * float(torch.randn(1, generator=generator)) + 3.0 * (step % 40 == 7)
                found = fit.add(count * length, count * length**2, seconds * noise) or found
            if turn is None:
                self.assertTrue(found is None or found > 3000)
            else:
                self.assertLess(abs(found - turn), 0.25 * turn)

    def test_know_nothing_where_all_samples_cost_the_same(self):
        fit = cost.Fit()
        self.assertEqual([fit.add(2000, 2000 * 20, 0.01) for _ in range(300)], [None] * 300)


def refuse(rank, world):
    texts = []
    for options in ({"budget": 399}, {"budget": None}, {"budget": 2000, "cost": [1.0]}, {"budget": 2000, "cost": lengths() - 2},
                    {"budget": 2000, "batch_size": 4}, {"budget": 2000, "cost": lengths() + rank}):
        try:
            model = nn.Linear(3, 1)
            run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.1), agent="off")
            run.loader(Texts(), **{"cost": lengths(), **options})
        except (ValueError, dynamix.DynamixError) as problem:
            texts.append(str(problem))
    return texts


class Lines(unittest.TestCase):
    def test_leave_no_last_step_without_a_sample(self):
        costs = cost.Costs([44, 44, 60], 3, 64, 0, False, False, 2)
        for position in range(2):
            costs.samples_of(types.SimpleNamespace(step=0, epoch=0, first=64 * position), [64, 64], position)
            costs.samples_of(types.SimpleNamespace(step=1, epoch=0, first=128 + 10 * position), [10, 10], position)
            self.assertEqual(costs.deliver(types.SimpleNamespace(step=1)).total, 60)


class Refusals(unittest.TestCase):
    def test_say_what_cannot_be_dealt_by(self):
        for texts in ranks.run(refuse, 2):
            expected = ("not less than that of the costliest sample, 400", "go together", "one number for each of the 900 samples",
                        "above 0", "without batch_size", "costs differ, or whether samples are grouped or shuffled")
            self.assertEqual(len(texts), len(expected), texts)
            for text, part in zip(texts, expected):
                self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
