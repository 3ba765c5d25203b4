#!/usr/bin/python3
"""A sceptic's question: does a plain DDP script of examples/ reach an accuracy sooner with Dynamix's lines, where two of four
hosts are slow? The same script with and without them, in turns, each as often as --repeat says.

    benchmarks/sdk_slow_hosts.py --repeat 3      # prints the table
    benchmarks/sdk_slow_hosts.py --script resnet --batch 32 --samples 4000 --epochs 6 --target 0.7
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "python"))

from dynamix.agent import program


def train(options, plain):
    """(accuracy, seconds of training) behind each epoch."""
    script = [str(SOURCE / f"examples/{options.script}.py"), "--slow", options.slow, "--batch", str(options.batch),
              "--epochs", str(options.epochs), "--target", str(options.target)]
    script += ["--evaluate", "1000"] if options.script == "resnet" else []
    script += ["--samples", str(options.samples)] if options.samples else []
    workers = options.slow.count(",") + 1
    with tempfile.TemporaryDirectory() as folder:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(workers)]
        agents = [] if plain else [program(), "exec", "--workers", str(workers), "--run", os.path.join(folder, "run"),
                                   "--set", f"batch.initial={options.batch}", "--set", f"batch.lowest={options.batch // 8}",
                                   "--set", f"batch.highest={4 * options.batch}", "--"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE / "python")}
        done = subprocess.run([*agents, *launch, *script, *(["--plain"] if plain else [])], env=environment, text=True,
                              stdout=subprocess.PIPE, check=True)
    return [(float(reached), float(seconds))
            for reached, seconds in re.findall(r"accuracy ([\d.]+) after ([\d.]+) s", done.stdout)]


def seconds_to(course, target):
    return next((seconds for reached, seconds in course if reached >= target), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", default="fashion_mnist", choices=("fashion_mnist", "resnet"))
    parser.add_argument("--slow", default="1,1,3,3", help="how many times longer each host computes")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=int, help="train on the first so many only")
    parser.add_argument("--target", type=float, default=0.87)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print("| round | plain, s to target | with Dynamix, s to target | ratio |\n|---|---|---|---|", flush=True)
    ratios = []
    for number in range(options.repeat):
        order = (True, False) if number % 2 == 0 else (False, True)
        found = {plain: seconds_to(train(options, plain), options.target) for plain in order}
        ratio = found[False] / found[True] if None not in found.values() else None
        ratios += [ratio] if ratio else []
        shown = [f"{found[plain]:.1f}" if found[plain] else "not reached" for plain in (True, False)]
        print(f"| {number + 1} | {shown[0]} | {shown[1]} | {f'{ratio:.3f}' if ratio else '-'} |", flush=True)
    if ratios:
        print(f"median ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
