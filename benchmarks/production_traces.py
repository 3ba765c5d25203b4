#!/usr/bin/python3
"""What balance between decisions gives on published production traces, beside even shares and each step's best split.

    benchmarks/production_traces.py DIRECTORY --program build/bench/benchmarks/production_traces

DIRECTORY holds timeline-NAME.json.gz as ByteDance's StragglerAnalysis has them in its data/ (Apache-2.0, not part of this repository): an
event an operation, `pid` the data-parallel rank. A rank's time in a step is that of its pipeline's stage that computes longest; communication
is left out, since it waits for others. Trains nothing and measures no time.
"""
import argparse
import collections
import gzip
import json
import pathlib
import subprocess


def stage_seconds(path):
    """Of each step, by rank and by stage of the pipeline, the seconds that it computed."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)
    steps = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(float)))
    for event in events:
        if event["ph"] == "X" and event["name"].endswith("-compute"):
            steps[event["args"]["step"]][event["pid"]][event["tid"]] += event["dur"] / 1e6
    return [{rank: dict(steps[step][rank]) for rank in sorted(steps[step])} for step in sorted(steps)]


def step_seconds(path):
    """The seconds that each rank computed, by rank, of each step."""
    return [[max(stages.values()) for stages in step.values()] for step in stage_seconds(path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--program", required=True, help="of benchmarks/production_traces.cpp")
    arguments = parser.parse_args()
    paths = sorted(arguments.directory.glob("timeline-*.json.gz"))
    if not paths:
        parser.error(f"{arguments.directory} holds no timeline-NAME.json.gz")
    for path in paths:
        print(path.name.removeprefix("timeline-").removesuffix(".json.gz"), flush=True)
        lines = "".join(" ".join(map(repr, row)) + "\n" for row in step_seconds(path))
        subprocess.run([arguments.program], input=lines, text=True, check=True)


if __name__ == "__main__":
    main()
