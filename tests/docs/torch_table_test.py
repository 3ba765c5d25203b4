#!/usr/bin/python3
"""That the table of docs/install.md has only what tools/test-torch writes into it, and that this says what failed."""
import importlib.machinery
import importlib.util
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("test_torch", str(SOURCE / "tools/test-torch"))
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("test_torch", LOADER))
LOADER.exec_module(tool)

FAILED = """.F
======================================================================
FAIL: test_groups (optimizers_test.Groups.test_groups)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "optimizers_test.py", line 9, in test_groups
AssertionError: Tuples differ: (360, 4) != (360, 3)

First differing element 1:
4
3

- (360, 4)
?       ^

+ (360, 3)
?       ^

----------------------------------------------------------------------
Ran 2 tests in 0.100s

FAILED (failures=1, skipped=1)
"""


class TorchTable(unittest.TestCase):
    def test_tells_the_error_of_what_failed(self):
        self.assertEqual(tool.outcome_of(FAILED, 1), (2, 1, ["test_groups: AssertionError: Tuples differ: (360, 4) != (360, 3)"]))
        self.assertEqual(tool.outcome_of("torchrun: killed\n", 9), (0, 0, ["exit status 9: torchrun: killed"]))

    def test_has_only_what_the_tool_writes(self):
        page = tool.PAGE.read_text(encoding="utf-8")
        rows = [line for line in page[page.index(tool.BEGIN):page.index(tool.END)].splitlines() if re.match(r"\| \d", line)]
        self.assertTrue(rows)
        for row in rows:
            self.assertEqual(tool.with_row(page, row), page)
            told = row.strip("| ").split(" | ")[-1]
            self.assertRegex(told, r"^(-|(\w+: \w+: .+|\w+\.py: .+))$")


if __name__ == "__main__":
    unittest.main()
