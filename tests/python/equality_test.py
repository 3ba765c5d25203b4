"""Members that no longer train one model, of whom a warning tells."""
import unittest

import ranks
import torch
from complaints_test import Script, data

import dynamix


def load_optimizer(rank, _, alone):
    """Of an epoch, into a new one: on all members, or on one alone."""
    script, told = Script(rank), []
    for way in ("save", "load"):
        script.optimizer = torch.optim.Adam(script.model.parameters(), lr=1e-5)
        script.run.close(again=True)
        script.run = dynamix.join(script.called, script.optimizer, agent="off")
        if way == "load" and (rank == 0 or not alone):
            script.optimizer.load_state_dict(state)
        for batch in script.run.loader(data(), batch_size=4):
            script.step(batch)
        state = script.optimizer.state_dict()
        told.append(script.told.getvalue())
    return told


def set_rates(rank, _, rates, others):
    """Of the two groups that the second optimiser has: those, and on the second member the others."""
    script = Script(rank)
    script.run.close(again=True)
    weight, bias = script.model.parameters()
    optimizers = [torch.optim.SGD([weight], lr=0.01), torch.optim.SGD([{"params": [bias]}, {"params": []}], lr=0.01)]
    run = dynamix.join(script.called, optimizers, agent="off")
    for group, rate in zip(optimizers[1].param_groups, others if rank else rates):
        group["lr"] = rate
    for _, values in run.loader(data(), batch_size=8):
        script.called(values).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return script.told.getvalue()


class Members(unittest.TestCase):
    def test_are_told_where_one_alone_gives_its_optimiser_a_checkpoint(self):
        (before, told), other = ranks.run(load_optimizer, 2, True)
        self.assertRegex(told, r"^the optimiser of member 1 has another state than that of member 0 .*: load a checkpoint of the optimiser on all "
                         r"members, or on none\n$")
        self.assertEqual((before, other, ranks.run(load_optimizer, 2, False)), ("", ["", ""], [["", ""]] * 2))

    def test_are_told_where_the_rates_of_any_group_differ(self):
        for rates, others in (((0.5, 1e-7), (0.5, 2e-7)), ((0.01, 0.02), (0.02, 0.01))):
            told, other = ranks.run(set_rates, 2, rates, others)
            self.assertRegex(told, r"^member 1 steps by another learning rate than member 0, .*\n$")
            self.assertEqual(other, "")
        self.assertEqual(ranks.run(set_rates, 2, (0.01, 0.0), (0.01 * (1 + 1e-7), 0.0)), ["", ""])


if __name__ == "__main__":
    unittest.main()
