"""The structs of client/dynamix.h, field by field. Their first field is their size, so that the library can add fields."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_uint32, c_uint64

ABI_VERSION = 1

OK, ERROR, END, WAIT = range(4)
MEASURE, GATHER = 1, 2
INTRODUCTION_COLUMNS = 24
POSITION_COLUMN, RANK_COLUMN = 1, 17  # of an introduction
RULE_COLUMN = 10  # of an introduction, once the agent has said what None means
LOADER_COLUMNS = 21  # and behind: of its data loader, which may be another one when a member comes back
ROW_COLUMNS = 20
SAMPLES_MAX = 2**31 - 1  # of an epoch

#: How the learning rate follows the global batch; `None` leaves it to the agent.
RULES = {None: 0, "constant": 1, "linear": 2, "square-root": 3, "adascale": 4}
#: Whether members share the global batch by their own paces; `None` leaves it to the agent.
BALANCES = {None: 0, True: 1, False: 2}


class Sized(ctypes.Structure):
    """A struct that tells its size."""

    def __init__(self, **values: object) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **values)


class Options(Sized):
    """Of `dynamix_open`."""

    _fields_ = [("size", c_uint32), ("position", c_uint32), ("members", c_uint32), ("connect_timeout_ms", c_uint32),
                ("agent", c_char_p)]


class Workload(Sized):
    """Of `dynamix_introduce`: what is trained."""

    _fields_ = [("size", c_uint32), ("batch", c_uint32), ("samples", c_uint64), ("seed", c_uint64),
                ("lowest_batch", c_uint32), ("highest_batch", c_uint32), ("shuffle", c_uint32), ("drop_last", c_uint32),
                ("rule", c_uint32), ("adaptive", c_uint32), ("noise_interval", c_uint32), ("window_steps", c_uint32),
                ("balance", c_uint32), ("ahead", c_uint32), ("lengths", POINTER(c_uint64)), ("shards", c_uint64),
                ("identity", c_uint64), ("lanes", c_uint32), ("reserved", c_uint32)]


class Deal(Sized):
    """One step's samples, or what one fetch gives."""

    _fields_ = [("size", c_uint32), ("own", c_uint32), ("step", c_uint64), ("epoch", c_uint64), ("total", c_uint64),
                ("first", c_uint64), ("ends_epoch", c_uint32), ("padded", c_uint32), ("ranges", c_uint32), ("lane", c_uint32)]
    own: int
    step: int
    epoch: int
    total: int
    first: int
    ends_epoch: int
    padded: int
    ranges: int


class StepRate(Sized):
    """What the learning-rate rule makes of a step."""

    _fields_ = [("size", c_uint32), ("reserved", c_uint32), ("factor", c_double), ("gain", c_double),
                ("progress", c_double)]
    factor: float
    gain: float
    progress: float


class StepTimes(Sized):
    """`dynamix_step`: a completed step."""

    _fields_ = [("size", c_uint32), ("skipped", c_uint32), ("iteration_seconds", c_double), ("compute_seconds", c_double),
                ("exchange_seconds", c_double), ("data_seconds", c_double), ("loss", c_double), ("correct", c_double),
                ("gradient_norm", c_double), ("learning_rate", c_double), ("on_device", c_uint32), ("unused", c_uint32)]
    skipped: int
    iteration_seconds: float
    compute_seconds: float
    exchange_seconds: float
    data_seconds: float
    loss: float
    correct: float
    gradient_norm: float
    learning_rate: float
    on_device: int


class RawStatus(Sized):
    """`dynamix_status`."""

    _fields_ = [("size", c_uint32), ("batch", c_uint32), ("global_batch", c_uint64), ("step", c_uint64),
                ("samples", c_uint64), ("epoch", c_uint64), ("cursor", c_uint64), ("window", c_uint64),
                ("generation", c_uint64), ("decisions", c_uint64), ("connected", c_uint32), ("stop", c_uint32),
                ("rank", c_uint32), ("noise_valid", c_uint32), ("noise_scale", c_double), ("progress", c_double),
                ("gpu", c_uint32), ("reserved", c_uint32)]
