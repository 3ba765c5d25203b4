"""Dynamix: an existing PyTorch training script adapts each worker's batch size while it trains.

    model = DistributedDataParallel(Net().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run = dynamix.join(model, optimizer)
    loader = run.loader(dataset, batch_size=64, num_workers=4)
    for epoch in range(run.epoch, 30):
        for images, labels in loader:
            ...                       # unchanged
        dynamix.save({"model": model.state_dict(), "dynamix": run.state_dict()}, path)  # torch.save, all or none

docs/sdk.md tells the rest. Messages go to the logger "dynamix".
"""
import importlib.util
import os
import sys

from .world import NO_TORCH, torch_problem


def _torch_problem() -> str:
    if importlib.util.find_spec("torch") is None:
        return NO_TORCH.format(sys.executable)
    import torch
    return torch_problem(torch.__version__)


_name = os.path.basename((getattr(sys, "argv", None) or [""])[0])
_words = getattr(sys, "orig_argv", ())  # since Python 3.10
# This package's own commands need no torch, and start at once since they load none.
_is_command = _name in ("dynamix", "dynamix-node") or (
    _name == "-m" and "-m" in _words and _words[_words.index("-m") + 1] == "dynamix")
_problem = "" if _is_command else _torch_problem()
if not _problem and not _is_command:
    from .checkpoint import save
    from .client import DynamixError
    from .joining import join
    from .loader import Loader
    from .run import Run
    from .status import Status
    from .stream import Stream
elif _problem and _name != "-m":
    raise (ImportError if "torch" in sys.modules else ModuleNotFoundError)(_problem, name="torch")

__version__ = "0.1.0"
__all__ = ["DynamixError", "Loader", "Run", "Status", "Stream", "join", "save"]
