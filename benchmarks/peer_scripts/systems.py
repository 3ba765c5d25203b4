"""The systems and the jobs of benchmarks/peers."""

START_SECONDS = 60  # until all members of a run are loaded
VERSIONS = ("torch==2.13.0", "numpy", "setuptools<81", "accelerate==1.15.0", "torchft==0.2.0", "hivemind==1.1.12", "adaptdl==0.2.11")

#: `script` of this folder, how its processes are started, and what is said of it. `told`: it was given the true speeds.
SYSTEMS = {
    "plain": {"script": "plain.py", "launcher": "torchrun", "title": "plain DDP"},
    "plain again": {"script": "plain.py", "launcher": "torchrun", "title": "plain DDP, again"},
    "told": {"script": "plain.py", "arguments": ["told"], "launcher": "torchrun", "title": "plain DDP, told the true speeds"},
    "accelerate": {"script": "with_accelerate.py", "launcher": "torchrun", "title": "accelerate"},
    "adaptdl": {"script": "with_adaptdl.py", "launcher": "processes", "title": "AdaptDL"},
    "torchft": {"script": "with_torchft.py", "launcher": "torchft", "title": "torchft"},
    "torchft told": {"script": "with_torchft.py", "arguments": ["told"], "launcher": "torchft", "title": "torchft, told the true speeds"},
    "torchft mended": {"script": "with_torchft.py", "arguments": ["mended"], "launcher": "torchft", "title": "torchft, its hook mended by us"},
    "hivemind": {"script": "with_hivemind.py", "launcher": "hivemind", "title": "hivemind"},
    "torchrun": {"script": "plain.py", "launcher": "torchrun", "torchrun": ["--standalone", "--max-restarts", "3"],
                 "title": "torchrun --max-restarts, from the script's beginning"},
    "dynamix": {"script": "with_dynamix.py", "launcher": "torchrun", "policy": [], "title": "Dynamix"},
    "dynamix lb-bsp": {"script": "with_dynamix.py", "launcher": "torchrun", "policy": ["arbitrator.policy=lb-bsp"],
                       "title": "Dynamix, policy lb-bsp"},
    "dynamix alone": {"script": "with_dynamix.py", "arguments": ["alone"], "launcher": "torchrun", "title": "Dynamix without agents"},
    "dynamix elastic": {"script": "with_dynamix_elastic.py", "launcher": "store", "title": "Dynamix, elastic"},
}

_MLP = {"model": "mlp", "samples": 8000, "batch": 32, "change": None, "numbers": False, "evaluate_seconds": 0.5}
_UNEQUAL = {**_MLP, "workers": 4, "rates": [250, 250, 500, 1000], "batches": [16, 16, 32, 64], "seconds": 15,
            "targets": ["0.7", "0.6", "0.5"]}
_BY_SPEED = ["plain", "told", "accelerate", "adaptdl", "torchft told", "hivemind", "dynamix", "dynamix lb-bsp"]

#: In the order in which a budget of time is spent. `seconds`: behind the first step of all, where one is killed behind its return.
JOBS = {
    "steady": {**_UNEQUAL, "systems": _BY_SPEED, "title": "Hosts of speeds 1 : 1 : 2 : 4, given by waiting"},
    "changing": {**_UNEQUAL, "change": {"rank": 0}, "systems": _BY_SPEED,
                 "title": "The same, and a host of speed 1 halves after a third of the time"},
    "killed": {**_MLP, "workers": 3, "rates": [500] * 3, "batches": [32] * 3, "seconds": 13, "numbers": True,
               "kill": {"rank": 1, "seconds": 4, "back_seconds": 3},
               "systems": ["torchrun", "torchft", "torchft mended", "hivemind", "dynamix elastic"],
               "title": "One of three members is killed, and started again 3 s later"},
    "equal": {**_MLP, "workers": 2, "rates": None, "batches": [32] * 2, "seconds": 6,
              "systems": ["plain", "plain again", "accelerate", "adaptdl", "torchft", "dynamix alone", "dynamix", "dynamix lb-bsp"],
              "title": "Two equal hosts that only compute: what joining costs"},
    "real": {**_MLP, "model": "lenet", "workers": 2, "rates": None, "batch": 64, "batches": [32, 96], "seconds": 12,
             "quota": {"rank": 0, "share": 0.33}, "evaluate_seconds": 2,
             "targets": ["1.0", "0.7", "0.5"],
             "systems": ["plain", "told", "accelerate", "dynamix", "dynamix lb-bsp"],
             "title": "LeNet, a core for each of two hosts, one with a quota of a third of its own"},
}
