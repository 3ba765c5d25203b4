"""What `join` has to find: a torch that is new enough, and the process group that $WORLD_SIZE promises. Pure functions, which
return what is wrong and what to do, or an empty string."""
from __future__ import annotations

import re
from typing import Optional

OLDEST_TORCH = (2, 6)
NO_TORCH = ("{} has no torch, and dynamix trains with the one that is there: `pip install torch` into the same environment (torch 2.6 or "
            "later), or start the script by the Python of the environment that has it")
NO_NUMPY = "dynamix reads the bytes of tensors by numpy, and {} has none: pip install numpy"


def torch_problem(version: str) -> str:
    """Of torch.__version__.

    >>> torch_problem("2.13.0+cpu")
    ''
    >>> torch_problem("2.5.1")[:52]
    'this is torch 2.5.1, and dynamix needs 2.6 or later:'
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= OLDEST_TORCH:
        return ""
    oldest = ".".join(map(str, OLDEST_TORCH))
    return (f"this is torch {version}, and dynamix needs {oldest} or later: make a virtual environment (python3 -m venv "
            f"ENVIRONMENT) and install one there (ENVIRONMENT/bin/pip install 'torch>={oldest}')")


def world_problem(promised: str, size: int, back_end: Optional[str]) -> str:
    """Of $WORLD_SIZE, and the size and the back end of the script's process group; None: it has none."""
    if size > 1 or not promised.isdecimal() or int(promised) <= 1:
        return ""
    alone = f"$WORLD_SIZE is {promised}, and each process would train alone"
    instead = "for a training of this process alone unset $WORLD_SIZE"
    if back_end is None:
        return f"{alone}: call torch.distributed.init_process_group(\"gloo\") before dynamix.join; {instead}"
    if back_end == "mpi":
        return (f"{alone}: this torch was built with MPI and prefers it where no back end is named, and no mpirun has started "
                "this process; write torch.distributed.init_process_group(\"gloo\") (\"nccl\" on GPUs)")
    return (f"{alone}, in a process group ({back_end}) of one: leave rank and world_size out of init_process_group, which "
            f"takes them from the environment; {instead}")
