"""Runs a test script of accelerate's from its installed package, plain or joined, in a torchrun:
`outside.py test_sync [joined] [ordered] [SAMPLES]`.

Joined, the script gets the Accelerator of dynamix.integrations in place of accelerate's own. Each of its checks is judged by itself:
rank 0 prints one line for it. `ordered` leaves out shuffling, for the check of training alone, and SAMPLES makes its data sets of 80 samples that long: with 64 there is
no incomplete accumulation. The exit status is 0 where all have passed."""
import collections
import functools
import importlib
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import accelerate
from accelerate.state import GradientState, PartialState
from torch.utils.data import DataLoader, SequentialSampler

results = collections.OrderedDict()


def judged(name, function):
    @functools.wraps(function)
    def judge(*arguments, **options):
        try:
            function(*arguments, **options)
            results.setdefault(name, "passed")
        except Exception as problem:
            where = traceback.extract_tb(problem.__traceback__)[-1]
            results[name] = f"failed: {type(problem).__name__}: {str(problem).strip() or where.line}".replace("\n", " ")[:300]
            GradientState._reset_state()

    return judge


def main():
    script, *rest = sys.argv[1:]
    if "joined" in rest:
        import dynamix.integrations.accelerate as adopted

        class Accelerator(adopted.Accelerator):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, dynamix={"agent": "off", "rule": "constant"}, **kwargs)

        accelerate.Accelerator = accelerate.accelerator.Accelerator = Accelerator
    module = importlib.import_module(f"accelerate.test_utils.scripts.{script}")
    lengths = [int(word) for word in rest if word.isdigit()]
    if lengths:
        data_set = module.RegressionDataset
        module.RegressionDataset = lambda length, **options: data_set(lengths[0] if length == 80 else length, **options)
    if "ordered" in rest:
        module.DataLoader = lambda *data, shuffle=False, **options: DataLoader(*data, **options)
        module.SeedableRandomSampler = lambda data_source, **options: SequentialSampler(data_source)
    only = "training_check" if "ordered" in rest else ""  # others are about shuffling
    for name in module.main.__code__.co_names:  # what it calls
        if name.startswith(("test_", "check_")) or name.endswith("_check"):
            setattr(module, name, judged(name, getattr(module, name)) if only in name else lambda *_, **__: None)
    is_first = PartialState(cpu=True).process_index == 0
    sys.argv = [script]
    module.main()
    for name, result in results.items():
        if is_first or result != "passed":
            print(f"{script} {name}: {result}", flush=True)
    sys.exit(any(result != "passed" for result in results.values()))


if __name__ == "__main__":
    main()
