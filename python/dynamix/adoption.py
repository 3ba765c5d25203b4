"""The lines by which an observed script adopts dynamix: found where it makes its DistributedDataParallel."""
from __future__ import annotations

import linecache
import os
import re
from types import FrameType
from typing import Dict, List, NamedTuple, Optional

#: Frameworks whose frames lie between the script and the model, the outermost first: Trainer and Lightning use others.
_FRAMEWORKS: Dict[str, str] = {
    "transformers": "from dynamix.integrations.transformers import Trainer       # in place of transformers' Trainer",
    "lightning": "Trainer(..., callbacks=[dynamix.integrations.lightning.Dynamix()])   # Fabric: from "
                 "dynamix.integrations.lightning import Fabric",
    "accelerate": "from dynamix.integrations.accelerate import Accelerator     # in place of accelerate's Accelerator"}


class Adoption(NamedTuple):
    """Where the script makes its model, and by which framework."""

    file: str
    line: int
    model: str      # the name that the script gives it
    framework: str  # empty: none

    def lines(self, batch: int) -> List[str]:
        """What to write, one line each. `batch`: samples of a process a step."""
        if self.framework:
            return [_FRAMEWORKS[self.framework]]
        place = f"after {os.path.basename(self.file)}:{self.line} and the optimiser" if self.file else "after the optimiser"
        return [f"run = dynamix.join({self.model}, optimizer)          # {place}",
                f"loader = run.loader(dataset, batch_size={batch})    # in place of the DataLoader and its DistributedSampler"]


def _package_of(path: str) -> str:
    """The package that a file of site-packages belongs to; empty for a script's own.

    >>> _package_of("lib/python3.11/site-packages/accelerate/accelerator.py")
    'accelerate'
    >>> _package_of("train.py")
    ''
    """
    found = re.search(r"/(?:site|dist)-packages/(\w+)", path)
    return found[1] if found else ""


def how_to_adopt(frame: Optional[FrameType]) -> Adoption:
    """`frame`: within the making of the model."""
    between = set()
    here = os.path.dirname(os.path.abspath(__file__))
    while frame is not None:
        path = frame.f_code.co_filename
        package = _package_of(path)
        if package and not path.startswith(here):
            between.add(package)
        elif not path.startswith(here) and os.path.isfile(path) and f"{os.sep}torch{os.sep}nn{os.sep}" not in path:
            break
        frame = frame.f_back
    framework = next((name for name in _FRAMEWORKS if name in between), "")
    if frame is None:
        return Adoption("", 0, "model", framework)
    path, line = frame.f_code.co_filename, frame.f_lineno
    named = re.match(r"\s*([A-Za-z_][\w.]*)\s*=[^=]", linecache.getline(path, line))
    return Adoption(path, line, named[1] if named else "model", framework)
