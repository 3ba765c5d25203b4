"""Runs torch's own tests of DistributedDataParallel from the installed package, plain or joined: `outside_ddp.py [joined] [TEST ...]`.

Those of torch.testing._internal.distributed.distributed_test (which needs the package expecttest) whose name has ddp or
DistributedDataParallel in it, with two processes on the CPU and Gloo. Joined, each model is given to dynamix.join behind its making, so that
its gradients travel through the package's hook, with the plain mean, as no loader is made. One line for each: passed, skipped (torch's own
reason), or what failed. The exit status is 0 where none has failed."""
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest

os.environ.update(BACKEND="gloo", WORLD_SIZE="2", TEMP_DIR=tempfile.mkdtemp(), OMP_NUM_THREADS="1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import torch
import torch._dynamo  # once for all, since processes are forked
from torch.testing._internal.distributed import distributed_test as outside

JOINED = "joined" in sys.argv
runs = []  # not among the model's attributes, which are saved with it
PLAIN = torch.nn.parallel.DistributedDataParallel


class Joined(PLAIN):
    """A model that joins when it is made."""

    def __init__(self, module, *arguments, **options):
        super().__init__(module, *arguments, **options)
        import dynamix

        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        runs.append(dynamix.join(self, torch.optim.SGD(parameters, lr=0.0), agent="off", process_group=self.process_group))


class Outside(outside.TestDistBackend, outside.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    def _should_stop_test_suite(self):
        return False

    @classmethod
    def _run(cls, *arguments, **options):
        if JOINED:
            torch.nn.parallel.DistributedDataParallel = torch.nn.parallel.distributed.DistributedDataParallel = Joined
            torch.nn.parallel.DistributedDataParallel.__name__ = PLAIN.__name__
        super()._run(*arguments, **options)


def named(test):
    return re.search("ddp|distributeddataparallel", test.lower()) is not None


def main():
    wanted = [word for word in sys.argv[1:] if word.startswith("test_")]
    tests = wanted or [name for name in unittest.defaultTestLoader.getTestCaseNames(Outside) if named(name)]
    failed = passed = 0
    for name in tests:
        result, began = unittest.TestResult(), time.monotonic()
        try:
            Outside(name).run(result)
        except unittest.SkipTest as reason:
            result.skipped.append((None, str(reason)))
        problems = [text for _, text in result.failures + result.errors]
        if problems:
            failed += 1
            lines = [line for line in problems[0].splitlines() if line.strip()]
            said = f"failed: {next((line for line in reversed(lines) if re.match(r'[A-Za-z_.]+(Error|Exception)', line)), lines[-1])[:300]}"
        elif result.skipped:
            said = f"skipped: {result.skipped[0][1].splitlines()[0][:100]}"
        else:
            passed += 1
            said = "passed"
        print(f"{name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{passed} passed of {passed + failed} run, {len(tests) - passed - failed} skipped", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
