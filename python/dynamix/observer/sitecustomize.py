"""What `dynamix exec --observe` has Python run first, by $PYTHONPATH: the sitecustomize that would have been found without it,
and in a training process a look at each DistributedDataParallel that it makes. Imports nothing of torch's by itself."""
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, Optional, Sequence

_HERE = os.path.dirname(os.path.abspath(__file__))
_MODULE = "torch.nn.parallel.distributed"


def _is_here(entry: str) -> bool:
    return os.path.abspath(entry or ".") == _HERE


def _run_the_next() -> None:
    sys.path[:] = [entry for entry in sys.path if not _is_here(entry)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _attach(model: Any) -> None:
    try:
        if importlib.util.find_spec("dynamix") is None:  # the script's environment need not have it
            sys.path.append(os.path.dirname(os.path.dirname(_HERE)))
        from dynamix import observation
        observation.attach(model)
    except Exception as problem:  # whatever is wrong here, the script goes on as it is
        print(f"dynamix: this process is not observed ({type(problem).__name__}: {problem})", file=sys.stderr)


def _watch(module: Any) -> None:
    begin = module.DistributedDataParallel.__init__

    @functools.wraps(begin)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        _attach(self)

    module.DistributedDataParallel.__init__ = __init__


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the module by asking the others, and watches it once it is loaded."""

    def find_spec(self, name: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                _watch(module)

            setattr(spec.loader, "exec_module", exec_module)
        return spec


_run_the_next()
if os.environ.get("DYNAMIX_OBSERVE") and os.environ.get("RANK", "").isdecimal():
    sys.meta_path.insert(0, _Finder())
