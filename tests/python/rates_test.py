"""Learning rates follow the global batch, and schedules advance by progress."""
import copy
import unittest
import warnings

import ranks
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import Optimizer, lr_scheduler

import dynamix
from dynamix.optimizer import ADAPTIVE, PROPORTIONAL, REFUSED, WITHOUT_RULE, is_adaptive

SCHEDULES = {
    "step": lambda o: lr_scheduler.StepLR(o, 3, 0.5),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 30),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.3, total_steps=200),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    "chained": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.1, 4),
                                                        lr_scheduler.ExponentialLR(o, 0.95)]),
    "sequential": lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o, 0.1, 100),
                                                          lr_scheduler.ExponentialLR(o, 0.9)], [5]),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.97),
    "several steps": lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 9], 0.5),
    "linear": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=9),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, 40, 2.0),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 4),
}
#: Shorter than `follow` trains.
SHORT = {"short cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.3, total_steps=5)}
#: All of torch but ReduceLROnPlateau, which steps by a metric and is refused.
OF_TORCH = {"ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
            "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
            "SequentialLR", "StepLR"}


def optimizer_of(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def follow(rank, world, name, passed):
    """(progress, rate of the schedule) of each step, the keys of its state, and the warnings that came. A scheduler that is
    not passed to `join` is made behind it."""
    model = nn.Linear(4, 1)
    optimizer = optimizer_of(model.parameters())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        make = {**SCHEDULES, **SHORT}[name]
        scheduler = make(optimizer) if passed else None
        run = dynamix.join(model, optimizer, scheduler=scheduler, rule="linear", agent="off")
        scheduler = scheduler or make(optimizer)
        loader = run.loader(torch.utils.data.TensorDataset(torch.randn(43, 4)), batch_size=4)
        rates = []
        for _ in range(2):
            for (values,) in loader:
                optimizer.zero_grad()
                model(values).square().mean().backward()
                run.average_gradients()
                optimizer.step()
                scheduler.step()
                rates.append((run.progress, optimizer.param_groups[0]["lr"]))
        # Torch's own CyclicLR cannot be copied.
        state = (scheduler if name == "cyclic" else copy.deepcopy(scheduler)).state_dict()
        run.close()
    assert type(optimizer) is torch.optim.SGD and type(scheduler) is type(make(optimizer_of([nn.Parameter()])))
    # Torch itself warns of schedulers that step others, but in other words.
    return rates, sorted(state), [str(w.message) for w in warned if "optimizer.step()" in str(w.message)]


class Schedules(unittest.TestCase):
    def plain(self, name, steps):
        """Rates by steps, and the keys of the state."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = optimizer_of([nn.Parameter(torch.zeros(1))])
            scheduler = SCHEDULES[name](optimizer)
            rates = [optimizer.param_groups[0]["lr"]]
            for _ in range(steps):
                optimizer.step()
                scheduler.step()
                rates.append(optimizer.param_groups[0]["lr"])
            return rates, sorted(scheduler.state_dict())

    def check(self, name, passed, steps_at):
        rates, keys, warned = ranks.run(follow, 2, name, passed)[0]
        plain, plain_keys = self.plain(name, len(rates))
        for number, (progress, rate) in enumerate(rates):
            self.assertAlmostEqual(rate, plain[steps_at(number, progress)], delta=2e-6)
        self.assertLess(rates[-1][0], len(rates), "the last steps of an epoch make less progress")
        self.assertEqual(keys, plain_keys)
        self.assertEqual(warned, [])

    def test_are_all_of_torch(self):
        made = set()
        for schedule in SCHEDULES.values():
            scheduler = schedule(optimizer_of([nn.Parameter(torch.zeros(1))]))
            made |= {type(each).__name__ for each in [scheduler, *getattr(scheduler, "_schedulers", [])]}
        self.assertEqual(made, OF_TORCH)
        known = {name for name, kind in vars(lr_scheduler).items() if isinstance(kind, type) and hasattr(kind, "step")}
        self.assertEqual(known - {"_LRScheduler", "LRScheduler", "Optimizer", "ReduceLROnPlateau"}, OF_TORCH,
                         f"torch {torch.__version__} has other schedulers than SCHEDULES follows")

    def test_that_join_are_the_plain_ones_at_equal_progress(self):
        for name in SCHEDULES:
            with self.subTest(schedule=name):
                self.check(name, True, lambda _, progress: int(progress + 1e-6))

    def test_of_one_cycle_stay_at_its_end(self):
        """Torch's own refuses the step behind it, to which a step of much progress would go."""
        rates, _, _ = ranks.run(follow, 2, "short cycle", True)[0]
        self.assertGreater(rates[-1][0], 6)
        optimizer = optimizer_of([nn.Parameter(torch.zeros(1))])
        scheduler = SHORT["short cycle"](optimizer)
        for _ in range(5):
            optimizer.step()
            scheduler.step()
        for progress, rate in rates:
            if progress > 5:
                self.assertEqual(rate, optimizer.param_groups[0]["lr"])

    def test_that_do_not_join_are_left_alone(self):
        for name in ("step", "one cycle"):
            with self.subTest(schedule=name):
                self.check(name, False, lambda number, _: number + 1)


def observe_rates(rank, world, rule):
    """(global batch / base batch, rate that the optimiser used) of each step, and the rate afterwards."""
    model = nn.Linear(4, 1)
    used = []

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            used.append(self.param_groups[0]["lr"])
            return super().step(closure)

    optimizer = Watched(model.parameters(), lr=0.1)
    run = dynamix.join(model, optimizer, rule=rule, agent="off")
    loader = run.loader(torch.utils.data.TensorDataset(torch.randn(10, 4)), batch_size=4)
    for (values,) in loader:
        def closure():
            optimizer.zero_grad()
            loss = model(values).square().mean()
            loss.backward()
            run.average_gradients()
            return loss

        assert optimizer.step(closure).item() > 0
        assert optimizer.param_groups[0]["lr"] == 0.1
    run.close()
    return used


class Rules(unittest.TestCase):
    def test_multiply_the_rate_for_the_step_alone(self):
        # Two workers of 4 samples: 10 samples are a step of 8 and one of 2, a quarter.
        self.assertEqual(ranks.run(observe_rates, 2, "linear")[0], [0.1, 0.025])
        self.assertEqual(ranks.run(observe_rates, 2, "square-root")[0], [0.1, 0.05])
        self.assertEqual(ranks.run(observe_rates, 2, "constant")[0], [0.1, 0.1])


def last_step(kind, gradient_factor, rate_factor):
    """How far an optimiser moves in the last of ten steps, where all gradients and the rate of this step are multiplied."""
    parameter = nn.Parameter(torch.ones(2, 3))
    optimizer = kind([parameter], lr=0.01)
    for step in range(10):
        before = parameter.detach().clone()
        parameter.grad = torch.arange(1.0, 7).reshape(2, 3) * gradient_factor
        optimizer.param_groups[0]["lr"] = 0.01 * (rate_factor if step == 9 else 1)
        optimizer.step()
    return float((parameter.detach() - before).norm())


class Optimisers(unittest.TestCase):
    def kinds(self):
        return {name: kind for name, kind in vars(torch.optim).items()
                if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer}

    def test_of_torch_are_all_classified(self):
        classified = ADAPTIVE | PROPORTIONAL | set(WITHOUT_RULE) | set(REFUSED)
        for name in self.kinds():
            self.assertIn(name, classified, f"torch {torch.__version__} has an optimiser that dynamix/optimizer.py does not "
                                            f"know: say there whether the steps of {name} grow with the gradient, and whether "
                                            "each goes by its own rate")

    def test_step_by_the_rate_of_that_very_step(self):
        for name, kind in self.kinds().items():
            if name not in REFUSED and name != "SparseAdam":
                ratio = last_step(kind, 1, 0.5) / last_step(kind, 1, 1)
                if name in WITHOUT_RULE:
                    self.assertGreater(ratio, 0.9, name)
                else:
                    self.assertAlmostEqual(ratio, 0.5, delta=1e-3, msg=name)

    def test_are_adaptive_where_their_steps_do_not_grow_with_the_gradient(self):
        for name, kind in self.kinds().items():
            if name in (ADAPTIVE | PROPORTIONAL) - {"SparseAdam"}:
                growth = last_step(kind, 10, 1) / last_step(kind, 1, 1)
                self.assertEqual(growth < 2, name in ADAPTIVE, f"{name}: {growth}")

    def test_are_known_within_those_that_wrap_them(self):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        try:
            for kind in (torch.optim.Adam, torch.optim.SGD):
                wrapped = ZeroRedundancyOptimizer([nn.Parameter(torch.zeros(3))], kind, lr=0.1)
                self.assertEqual(is_adaptive(wrapped), kind is torch.optim.Adam)
        finally:
            torch.distributed.destroy_process_group()


class Scaler:
    """As a GradScaler on a GPU: leaves out the steps whose gradients are not finite."""

    def __init__(self):
        self.scale = 1024.0

    def get_scale(self):
        return self.scale

    def step(self, optimizer):
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        for gradient in gradients:
            gradient /= self.scale
        if all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            optimizer.step()

    def update(self):
        pass


def overflow(rank, world):
    model = nn.Linear(4, 1)
    optimizer = optimizer_of(model.parameters())
    scaler = Scaler()
    run = dynamix.join(model, optimizer, scaler=scaler, agent="off", window_steps=2)
    loader = run.loader(torch.utils.data.TensorDataset(torch.randn(64, 4)), batch_size=4)
    for number, (values,) in enumerate(loader):
        optimizer.zero_grad()
        loss = model(values).square().mean() * (float("inf") if number == 3 else 1)
        (loss * scaler.get_scale()).backward()
        run.average_gradients()
        scaler.step(optimizer)
        scaler.update()
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
    steps = run.status.step
    run.close()
    return steps


def overflow_fused(rank, world):
    """Steps and progress of a run whose fused optimiser leaves one of eight steps out itself."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    run = dynamix.join(model, optimizer, scaler=scaler, agent="off")
    for number, (values,) in enumerate(run.loader(torch.utils.data.TensorDataset(torch.randn(64, 4)), batch_size=4)):
        optimizer.zero_grad()
        scaler.scale(model(values).square().mean() * (float("inf") if number == 3 else 1)).backward()
        run.average_gradients()
        scaler.step(optimizer)
        scaler.update()
    found = run.status.step, run.progress
    run.close()
    return found


class Overflow(unittest.TestCase):
    def test_of_a_fused_optimiser_is_no_progress(self):
        self.assertEqual(ranks.run(overflow_fused, 2), [(8, 7.0)] * 2)

    def test_uses_a_step_up_without_the_optimiser(self):
        self.assertEqual(ranks.run(overflow, 2), [8, 8])


if __name__ == "__main__":
    unittest.main()
