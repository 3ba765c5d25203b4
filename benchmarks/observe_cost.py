#!/usr/bin/python3
"""What `exec --observe` adds to a step of a plain DistributedDataParallel script: whole runs with it and without, in turns, each with two
workers and their agents.

    benchmarks/observe_cost.py                     # 10 pairs of one case, some 10 minutes; the target is 1 % of a step
    benchmarks/observe_cost.py --case "mlp 64" --pairs 4

A pair's ratio is that of the median steps of its two runs, whose order turns; the median and the middle half over all pairs are printed.
"plain again" is the ratio of two runs without it: the floor of the noise. --cpu compares the processes' own CPU time, for machines that are
not quiet. $DYNAMIX_NODE names the program, else it is found as the package finds it.
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


def train(case, steps, cpu):
    """The script: prints the median step's milliseconds, on member 0."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    build, batch, shape, _ = sdk_overhead.CASES[case]
    form = sdk_overhead.Form(build, batch, shape, 1, None)
    form.steps(20, time.perf_counter)
    taken = [form.steps(1, time.process_time if cpu else time.perf_counter) for _ in range(steps)]
    if torch.distributed.get_rank() == 0:
        print(f"median {statistics.median(taken) * 1000:.6f}", flush=True)
    torch.distributed.destroy_process_group()


def run(options, observed):
    """Milliseconds of the median step of one run. Ends this program where it has none within --seconds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dynamix", "exec", *(["--observe"] if observed else []), "--workers", "2", "--out", f"{folder}/run",
                   "--set", "dashboard.listen=", "--", sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                   "127.0.0.1:0", "--nproc-per-node", "2", str(HERE), "--script", "--case", options.case,
                   "--steps", str(options.steps), *(["--cpu"] if options.cpu else [])]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python")}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                said = process.communicate(timeout=options.seconds)[0]
            except subprocess.TimeoutExpired:
                process.terminate()  # which ends the command and the agents, too
                said = process.communicate()[0] + f"\nnot done within {options.seconds} s (--seconds)"
    found = [line.split()[1] for line in said.splitlines() if line.startswith("median ")]
    if not found:
        sys.exit(said)
    return float(found[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="lenet 64", choices=sdk_overhead.CASES)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=300, help="that a run may take, loading torch included")
    parser.add_argument("--cpu", action="store_true", help="compare CPU time")
    parser.add_argument("--script", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.script:
        train(options.case, options.steps, options.cpu)
        return
    ratios, floor = [], []
    for pair in range(options.pairs):
        order = ("observed", "plain", "plain again")
        taken = {form: run(options, form == "observed") for form in order[pair % 3:] + order[:pair % 3]}
        ratios.append(taken["observed"] / taken["plain"])
        floor.append(taken["plain again"] / taken["plain"])
        print(f"pair {pair}: plain {taken['plain']:.3f} ms, observed {ratios[-1]:.4f}, plain again {floor[-1]:.4f}", flush=True)
    for name, values in (("observed", ratios), ("plain again", floor)):
        low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
        print(f"{options.case}: {name} {middle:.4f} ({low:.4f} to {high:.4f}) of plain, {len(values)} pairs")


if __name__ == "__main__":
    main()
