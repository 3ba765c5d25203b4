#!/usr/bin/python3
"""The README's picture: test accuracy over time, equal batches against the policy that ships, on the same hosts.

    benchmarks/accuracy_over_time.py --program build/release/node/dynamix-node

Trains `deployments/clusters/local-4.toml` under `static` and `ppo` by turns, three seeds of each, for six epochs each, with an
evaluation every quarter of an epoch. Writes the curves to benchmarks/results/accuracy-over-time.json and draws
docs/images/accuracy-over-time.svg from that file; without `--program` it only draws. Every run is drawn, none is chosen.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent
CURVES = SOURCE / "benchmarks/results/accuracy-over-time.json"
PICTURE = SOURCE / "docs/images/accuracy-over-time.svg"
CLUSTER = "deployments/clusters/local-4.toml"
NAMES = {"static": "static: 64 samples per worker", "ppo": "ppo: adapted per worker"}
TARGET = 0.88
# No target ends these trainings: compare wants one, and this one is out of reach.
CHANGES = ("training.target_accuracy=0.99", "training.epochs=6", "training.evaluate_every_epochs=0.25")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 56, 18, 64, 46
STYLE = """text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:12px;fill:#57606a}.title{font-size:15px;font-weight:600}
.grid{stroke:#d0d7de;stroke-width:1}.mark{stroke:#57606a;stroke-dasharray:4 3}.line{fill:none;stroke-width:1.6;opacity:.75}
.static{stroke:#b35900}.ppo{stroke:#0a66c2}.staticname{fill:#b35900;font-weight:600}.pponame{fill:#0a66c2;font-weight:600}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#30363d}.mark{stroke:#9198a1}
.static{stroke:#f0883e}.ppo{stroke:#58a6ff}.staticname{fill:#f0883e}.pponame{fill:#58a6ff}}"""


def command(program, out):
    changes = [word for change in CHANGES for word in ("--set", change)]
    return [program, "compare", "--cluster", CLUSTER, "--policies", "static,ppo", "--seeds", "3", *changes, "--out", str(out)]


def curve(run):
    """[seconds of training, test accuracy] of each evaluation in a run's ledger."""
    with open(run / "windows.jsonl", encoding="utf-8") as ledger:
        reports = [row["report"] for row in map(json.loads, ledger) if row["kind"] == "evaluation"]
    return [[round(each["elapsed_seconds"], 2), each["test_accuracy"]] for each in reports]


def read(runs):
    """The curves of finished runs: {policy: {seed: curve}}."""
    found = {policy: {} for policy in NAMES}
    for policy, seeds in found.items():
        for run in sorted(runs.glob(f"local-4/{policy}-seed-*")):
            seeds[run.name.rsplit("-", 1)[1]] = curve(run)
    return found


def reached(points):
    """Seconds to the first evaluation that is at least the target; None: never."""
    return next((seconds for seconds, accuracy in points if accuracy >= TARGET), None)


def median_reached(seeds):
    """Over the seeds; None where half of them or more never got there."""
    times = sorted(float("inf") if reached(points) is None else reached(points) for points in seeds.values())
    middle = statistics.median(times)
    return None if middle == float("inf") else middle


def write(record):
    """One line per curve."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items() if key != "curves"]
    curves = [f'  "{policy}": {{\n' + ",\n".join(f'   "{seed}": {json.dumps(points)}' for seed, points in seeds.items()) + "\n  }"
              for policy, seeds in record["curves"].items()]
    CURVES.write_text("{\n" + ",\n".join(lines) + ',\n "curves": {\n' + ",\n".join(curves) + "\n }\n}\n", encoding="utf-8")


def draw(record):
    curves = record["curves"]
    points = [point for seeds in curves.values() for each in seeds.values() for point in each]
    longest = 10 * (int(max(seconds for seconds, _ in points)) // 10 + 1)
    low, high = 0.70, 0.91
    x = lambda seconds: LEFT + (WIDTH - LEFT - RIGHT) * seconds / longest
    y = lambda accuracy: HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (accuracy - low) / (high - low)
    text = lambda at_x, at_y, said, more="": f'<text x="{at_x:.0f}" y="{at_y:.0f}" {more}>{said}</text>'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
             "<title>Test accuracy over time, equal batches against adapted ones, on the same four hosts</title>",
             f"<style>{STYLE}</style>",
             text(LEFT, 22, "Test accuracy on Fashion-MNIST over time, the same four hosts", 'class="title"'),
             text(LEFT, 42, "LeNet; hosts slowed down by 1, 1, 2 and 4; three seeds of each, all drawn", 'class="small"')]
    for step in range(5):
        accuracy = 0.70 + 0.05 * step
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(accuracy):.1f}" y2="{y(accuracy):.1f}"/>')
        parts.append(text(LEFT - 8, y(accuracy) + 4, f"{100 * accuracy:.0f} %", 'text-anchor="end" class="small"'))
    for seconds in range(0, longest + 1, 10):
        parts.append(text(x(seconds), HEIGHT - BOTTOM + 20, seconds, 'text-anchor="middle" class="small"'))
    parts.append(text(WIDTH - RIGHT, HEIGHT - 8, "seconds of training", 'text-anchor="end" class="small"'))
    parts.append(f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
                 f'height="{HEIGHT - TOP - BOTTOM}"/></clipPath>')
    for policy, seeds in curves.items():
        for each in seeds.values():
            line = " ".join(f"{x(seconds):.1f},{y(accuracy):.1f}" for seconds, accuracy in each)
            parts.append(f'<polyline clip-path="url(#plot)" class="line {policy}" points="{line}"/>')
    for row, (policy, name) in enumerate(NAMES.items()):
        median = median_reached(curves[policy])
        parts.append(text(WIDTH - RIGHT - 4, HEIGHT - BOTTOM - 36 + 20 * row,
                          f"{name}: {100 * TARGET:.0f} % " + ("not reached" if median is None else f"after {median:.0f} s (median)"),
                          f'text-anchor="end" class="{policy}name"'))
        if median is not None:
            parts.append(f'<line class="mark" x1="{x(median):.1f}" x2="{x(median):.1f}" y1="{y(TARGET):.1f}" '
                         f'y2="{HEIGHT - BOTTOM}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="dynamix-node; without it only the picture is drawn again")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/accuracy-over-time"),
                        help="where the runs go; finished ones are kept")
    arguments = parser.parse_args()
    if arguments.program:
        before = os.getloadavg()[0]
        subprocess.run(command(arguments.program, arguments.out.resolve()), cwd=SOURCE, check=True)
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=SOURCE, check=True, capture_output=True, text=True)
        record = {"command": "benchmarks/accuracy_over_time.py --program build/release/node/dynamix-node",
                  "runs": " ".join(command("dynamix-node", "runs/accuracy-over-time")),
                  "date": datetime.date.today().isoformat(), "commit": commit.stdout.strip(),
                  "machine": f"{os.cpu_count()} cores; load {before:.1f} before the runs and {os.getloadavg()[0]:.1f} after them",
                  "curves": read(arguments.out)}
        write(record)
    record = json.loads(CURVES.read_text(encoding="utf-8"))
    PICTURE.write_text(draw(record), encoding="utf-8")
    for policy, seeds in record["curves"].items():
        print(f"{policy}: {100 * TARGET:.0f} % after {[reached(each) for each in seeds.values()]} s, median {median_reached(seeds)}")


if __name__ == "__main__":
    main()
