"""Times of steps on a device that is behind the host: known later, and nobody waits for them."""
import json
import math
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import types
import unittest

import ranks
import torch

from dynamix import structures as raw
from dynamix.device_clock import DeviceClock, clock_of
from dynamix.step import Step


PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/gpu_check"


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
    def test_of_a_device_runs_on_the_cpu_and_says_what_has_not_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "lines.json")
            done = subprocess.run([sys.executable, PROGRAM, "--device", "cpu", "--only", "agreement,nccl,lack,built_in", "--minutes", "20", "--json", path],
                                  stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": ranks.PACKAGE}, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout)
            lines = json.loads(path.read_text(encoding="utf-8"))["lines"]
        for line in lines:
            ran = line["check"] in ("agreement", "lack")
            self.assertEqual(line["state"], "good" if ran else "left out", line)
            self.assertEqual("why" in line, not ran, line)
        self.assertEqual({line.get("equal_bits") for line in lines if line["check"] == "agreement"}, {True})
        self.assertIn("nothing of it has been shown on a GPU", done.stdout)

    def test_of_a_device_says_why_a_line_did_not_run(self):
        check = runpy.run_path(str(PROGRAM))
        rows = [{"case": "lenet fp32", "largest_error": 0.5, "wrong": "by half"}, {"case": "lenet scaled", "failed": "no memory"}]
        lines = list(check["lines_of"]("agreement", rows, "did not end within 60 s", check["NOT_REACHED"]))
        self.assertEqual([(line["state"], line["why"]) for line in lines],
                         [("WRONG", "by half"), ("FAILED", "no memory"), *[("NOT REACHED", "did not end within 60 s")] * 2])


if __name__ == "__main__":
    unittest.main()
