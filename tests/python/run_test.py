"""Runs one module of tests, each test in a process of its own; skips the module (77) where there is no Torch.

Tests fork the members of their groups. A process that has computed gradients, or has had a group, has threads that a fork
loses, and some builds of Torch refuse to go on in the child or abort there: so no test inherits what another has done."""
import importlib.util
import multiprocessing
import os
import sys
import unittest


class Outcome(unittest.TestResult):
    """What of a test's outcome can be sent to another process."""

    def told(self):
        return {"addFailure": [text for _, text in self.failures], "addError": [text for _, text in self.errors],
                "addSkip": [reason for _, reason in self.skipped]}


class Failed(Exception):
    """In the test's own process; the text is its traceback."""


def _run_and_tell(test, end):
    outcome = Outcome()
    test.run(outcome)
    end.send(outcome.told())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Suite(unittest.TestSuite):
    def run(self, result, debug=False):
        for test in self:
            if isinstance(test, unittest.TestSuite):
                Suite(test).run(result)
            elif not result.shouldStop:
                self._run_apart(test, result)
        return result

    def _run_apart(self, test, result):
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        result.startTest(test)
        sys.stdout.flush()
        process = context.Process(target=_run_and_tell, args=(test, theirs))
        process.start()
        theirs.close()
        try:
            told = ours.recv()
        except EOFError:
            told = None
        process.join()
        if told is None:
            told = {"addError": [f"its process ended with {process.exitcode}"]}
        for way, texts in told.items():
            for text in texts:
                getattr(result, way)(test, text if way == "addSkip" else (Failed, Failed(text), None))
        if not any(told.values()):
            result.addSuccess(test)
        result.stopTest(test)


class Loader(unittest.TestLoader):
    suiteClass = Suite


def choose_store():
    """Debian's torch has no libuv, which torchrun asks for unless it is told not to, and always where it serves a store (agents.torchrun)."""
    import torch.distributed
    try:
        torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=True)
    except RuntimeError:
        os.environ.update(USE_LIBUV="0", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print(f"skipped: {sys.executable} has no torch (pip install torch)")
        sys.exit(77)
    choose_store()
    unittest.main(module=sys.argv[1], argv=sys.argv[1:], testLoader=Loader())
