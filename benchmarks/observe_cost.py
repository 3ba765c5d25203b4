#!/usr/bin/python3
"""What `exec --observe` adds to a step of a plain DistributedDataParallel script: steps of three equal models in turns, in one run with two
workers and their agents. `--observe` observes the first model of a process, so the others' steps are plain ones.

    benchmarks/observe_cost.py                     # 600 rounds of one case; the target is 1 % of a step
    benchmarks/observe_cost.py --case "mlp 64" --rounds 200

Of each step the time of the clock and the CPU time of the thread that trains are taken, which observing adds to; the second knows little of
what others do on the machine. Printed are the median of the plain steps, and what the observed ones and those of the second plain model
take more, as the median over the rounds: the latter is the floor of the noise.
$DYNAMIX_NODE names the program, else it is found as the package finds it.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import sdk_overhead

HERE = pathlib.Path(__file__).resolve()
FORMS = ("observed", "plain", "plain again")  # the first one made is observed
WARM_UP = 20


def train(case, rounds):
    """The script: prints the medians on member 0."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    build, batch, shape, _ = sdk_overhead.CASES[case]
    forms = {name: sdk_overhead.Form(build, batch, shape, 1, None) for name in FORMS}
    taken = {name: [] for name in FORMS}
    for turn in range(WARM_UP + rounds):
        for name in FORMS[turn % 3:] + FORMS[:turn % 3]:
            clocks = forms[name].steps(1, lambda: torch.tensor([time.perf_counter(), time.thread_time()], dtype=torch.float64))
            if turn >= WARM_UP:
                taken[name].append((1e3 * clocks).tolist())
    if torch.distributed.get_rank() == 0:
        for kind, clock in enumerate(("clock", "CPU")):
            usual = statistics.median(step[kind] for step in taken["plain"])
            more = {name: statistics.median(step[kind] - plain[kind] for step, plain in zip(taken[name], taken["plain"]))
                    for name in FORMS if name != "plain"}
            print(f"{case}, {clock}: plain {usual:.3f} ms; " +
                  ", ".join(f"{name} {1e3 * added:+.0f} us ({100 * added / usual:+.2f} %)" for name, added in more.items()), flush=True)
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="lenet 64", choices=sdk_overhead.CASES)
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=600, help="that the run may take, loading torch included")
    parser.add_argument("--script", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.script:
        return train(options.case, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dynamix", "exec", "--observe", "--workers", "2", "--out", f"{folder}/run",
                   "--set", "dashboard.listen=", "--", sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                   "127.0.0.1:0", "--nproc-per-node", "2", str(HERE), "--script", "--case", options.case, "--rounds", str(options.rounds)]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python")}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                said = process.communicate(timeout=options.seconds)[0]
            except subprocess.TimeoutExpired:
                process.terminate()  # which ends the command and the agents, too
                said = process.communicate()[0] + f"\nnot done within {options.seconds} s (--seconds)"
    found = [line for line in said.splitlines() if line.startswith(f"{options.case}, ")]
    if not found:
        sys.exit(said)
    print("\n".join(found + [line for line in said.splitlines() if "observing" in line or line.startswith("worker-")]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
