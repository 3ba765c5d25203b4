"""Times of steps on a device that is behind the host: known later, and nobody waits for them."""
import math
import os
import pathlib
import subprocess
import sys
import types
import unittest

import ranks
import torch

from dynamix import structures as raw
from dynamix.device_clock import DeviceClock, clock_of
from dynamix.step import Step


class Device:
    """Does work in order, and comes to it when a test says so."""

    def __init__(self):
        self.handed_over = 0.0  # seconds of work
        self.done = 0.0

    def work(self, seconds):
        self.handed_over += seconds

    def mark(self):
        return Mark(self, self.handed_over)


class Mark:
    def __init__(self, device, at):
        self.device, self.at = device, at

    def query(self):
        return self.device.done >= self.at

    def elapsed_time(self, end):
        assert self.query() and end.query(), "the device has not come to it"
        return 1000 * (end.at - self.at)


class DeviceClocks(unittest.TestCase):
    def step(self, device, clock, compute, exchange, data, batch=64):
        """Hands one step over."""
        since = clock.mark()
        device.work(data)
        clock.fetched(since)
        device.work(compute)
        since = clock.mark()
        device.work(exchange)
        clock.exchanged(since)
        return clock.ended(batch)

    def check(self, seconds, iteration, exchange, data):
        self.assertIsNotNone(seconds)
        for found, expected in zip(seconds, (iteration, exchange, data)):
            self.assertAlmostEqual(found, expected)

    def test_know_a_step_once_the_device_has_come_to_its_end(self):
        device = Device()
        clock = DeviceClock(device.mark)
        clock.restart()
        self.assertIsNone(self.step(device, clock, 5, 2, 1))
        device.done = 7  # in mid-step
        self.assertIsNone(self.step(device, clock, 5, 4, 1))
        device.done = 8
        self.check(self.step(device, clock, 5, 6, 1), 8, 2, 1)
        self.assertIsNone(self.step(device, clock, 5, 8, 1))  # none since
        device.done = device.handed_over
        self.check(self.step(device, clock, 5, 10, 1), 12, 6, 1)  # of three, in the mean

    def test_tell_a_batch_size_nothing_of_the_times_of_another(self):
        device = Device()
        clock = DeviceClock(device.mark)
        clock.restart()
        self.step(device, clock, 5, 2, 0)
        device.done = device.handed_over
        self.assertIsNone(self.step(device, clock, 9, 2, 0, batch=128))
        device.done = device.handed_over
        self.check(self.step(device, clock, 9, 3, 0, batch=128), 11, 2, 0)

    def test_leave_out_what_has_gone_by_between_steps(self):
        device = Device()
        clock = DeviceClock(device.mark)
        clock.restart()
        self.step(device, clock, 5, 2, 0)
        device.work(900)  # an evaluation
        clock.restart()
        device.done = 1000
        self.check(self.step(device, clock, 5, 2, 0), 7, 2, 0)

    def test_are_of_models_on_a_gpu_alone(self):
        self.assertIsNone(clock_of(torch.nn.Linear(2, 2)))
        self.assertIsNone(clock_of(torch.nn.ReLU()))


class Client:
    """Keeps the times of steps."""

    def __init__(self):
        self.told = []
        self.delivered = raw.Deal(own=64, total=128)

    def complete(self, times):
        self.told.append((times.iteration_seconds, times.compute_seconds, times.exchange_seconds, times.data_seconds))

    def notices(self):
        return []


class Work:
    """A collective that the device, and not the host, waits for."""

    def __init__(self, device, seconds):
        self.device, self.seconds = device, seconds

    def wait(self):
        self.device.work(self.seconds)


class Steps(unittest.TestCase):
    def test_are_told_as_the_device_had_them(self):
        device, client = Device(), Client()
        step = Step(client, types.SimpleNamespace(size=1, position=0, notes=None), clock=DeviceClock(device.mark))
        step.restart_clock()
        for _ in range(3):
            since = step.fetching()
            device.work(0.25)
            step.fetched(since, ())
            device.work(1.0)
            step.wait(Work(device, 0.5))
            step.wait(Work(device, 0.125))
            device.work(0.125)
            step._square = 0.0
            step.complete()
            device.done = device.handed_over
        self.assertTrue(all(math.isnan(seconds) for seconds in client.told[0]), "the device had not come to its end")
        self.assertEqual(client.told[1:], [(2.0, 1.125, 0.625, 0.25)] * 2)


class Check(unittest.TestCase):
    def test_of_a_device_runs_on_the_cpu_and_says_that_no_gpu_has(self):
        program = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/gpu_check"
        done = subprocess.run([sys.executable, program, "--device", "cpu", "--only", "agreement,memory"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": ranks.PACKAGE}, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, "agreement .*equal_bits True")
        self.assertRegex(done.stdout, "memory .*out_of_memory_after 0")
        self.assertIn("nothing of it has been shown on a GPU", done.stdout)


if __name__ == "__main__":
    unittest.main()
