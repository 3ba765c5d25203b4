"""Runs one module of tests; skips it (77) where there is no Torch."""
import importlib.util
import sys
import unittest

if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print(f"skipped: {sys.executable} has no torch (pip install torch)")
        sys.exit(77)
    unittest.main(module=sys.argv[1], argv=sys.argv[1:])
