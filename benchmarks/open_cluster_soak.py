#!/usr/bin/env python3
"""An open cluster in which a host comes or goes every minute: what is lost, and how memory grows.

    benchmarks/open_cluster_soak.py --program build/release/node/dynamix-node --minutes 240

The arbitrator's host and two workers stay; guests come, each under a name that nobody has had, and leave in order
(SIGTERM) or die (SIGKILL) by turns. At the end the arbitrator's host is asked to end, and the run's own summary says
what was lost. Memory is what each process has of its own, every five seconds (its share of libraries would change with
the number of processes); its growth an hour is the slope of
a straight line through the later half of the samples. In a run of minutes it says little: allocators and caches still
fill up.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Tuple

sys.dont_write_bytecode = True
from free_ports import free_ports

STAYING = ("hub", "w0", "w1")
SAMPLE_SECONDS = 5.0
END_SECONDS = 120.0
ENDED_EARLY = 3  # with the training, which another host's stop has ended
STOPPED = 130  # before it had joined; a process that has hardly begun ends by the signal itself

FILE = """[cluster]
name = "soak"
membership = "open"
workers_min = 2
workers_max = 8
detect_ms = {detect_ms}
[training]
epochs = 10000
evaluate_every_epochs = 20
checkpoint_every_epochs = 20
[batch]
initial = 32
lowest = 8
highest = 128
[arbitrator]
policy = "{policy}"
[dashboard]
listen = "127.0.0.1:{page}"
[run]
keep_ledger_mb = {keep_ledger_mb}
[[host]]
name = "hub"
port = {hub}
roles = ["arbitrator"]
[[host]]
name = "w0"
port = {w0}
[[host]]
name = "w1"
port = {w1}
"""

Samples = Dict[str, List[Tuple[float, float]]]


def memory_mb(process: int) -> float:
    """What is its own, in memory or swapped out; 0 where it has gone."""
    total = 0
    try:
        for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith(("Anonymous:", "Swap:")):
                total += int(line.split()[1])
    except OSError:
        pass
    return total / 1024


def growth_an_hour(samples: List[Tuple[float, float]]) -> float:
    """MB per hour, of (seconds, MB): over the later half."""
    later = samples[len(samples) // 2:]
    if len(later) < 3:
        return float("nan")
    middle_x = statistics.fmean(at for at, _ in later)
    middle_y = statistics.fmean(mb for _, mb in later)
    spread = sum((at - middle_x) ** 2 for at, _ in later)
    return 3600 * sum((at - middle_x) * (mb - middle_y) for at, mb in later) / spread


class Soak:
    """The processes, of which some stay."""

    def __init__(self, arguments: argparse.Namespace, directory: pathlib.Path) -> None:
        self.program = str(pathlib.Path(arguments.program).resolve())
        self.directory = directory
        self.run = directory / "run"
        ports = dict(zip(("page", "hub", "w0", "w1"), free_ports(4)))
        (directory / "cluster.toml").write_text(
            FILE.format(policy=arguments.policy, detect_ms=arguments.detect_ms, keep_ledger_mb=arguments.keep_ledger_mb,
                        **ports), encoding="ascii")
        self.processes: Dict[str, subprocess.Popen[bytes]] = {}
        self.guests: List[str] = []
        self.counts = {"came": 0, "left": 0, "killed": 0}
        self.problems: List[str] = []

    def start(self, name: str) -> None:
        with open(self.directory / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [self.program, "run", "--cluster", str(self.directory / "cluster.toml"), "--name", name,
                 "--out", str(self.run), "--log-to-stderr"], stdout=log, stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

    def change(self, most: int) -> None:
        """A guest comes; where there are enough the oldest goes, in order or not by turns."""
        if len(self.guests) < most:
            self.counts["came"] += 1
            self.guests.append(f"guest-{self.counts['came']}")
            self.start(self.guests[-1])
            return
        name = self.guests.pop(0)
        how = "left" if self.counts["left"] <= self.counts["killed"] else "killed"
        self.counts[how] += 1
        self.end(name, signal.SIGTERM if how == "left" else signal.SIGKILL, how == "left")

    def end(self, name: str, by: signal.Signals, in_order: bool) -> None:
        process = self.processes.pop(name)
        process.send_signal(by)
        try:
            code = process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
            self.problems.append(f"{name} did not end within {END_SECONDS:.0f} s of {by.name}")
        if in_order and code not in (0, STOPPED, -signal.SIGTERM):
            self.problems.append(f"{name} ended with {code}")

    def look(self) -> None:
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} has ended with {process.returncode}; see {self.directory / name}.log")

    def last_for(self, seconds: float, period: float, most: int) -> Samples:
        begin = time.monotonic()
        next_change = begin + period
        samples: Samples = {name: [] for name in STAYING}
        while (now := time.monotonic()) < begin + seconds:
            self.look()
            if now >= next_change:
                self.change(most)
                next_change += period
            for name in STAYING:
                samples[name].append((now - begin, memory_mb(self.processes[name].pid)))
            time.sleep(SAMPLE_SECONDS)
        return samples

    def finish(self) -> Dict[str, object]:
        self.end("hub", signal.SIGTERM, True)  # the only arbitrator: training ends
        for name in list(self.processes):
            try:
                if self.processes[name].wait(END_SECONDS) not in (0, ENDED_EARLY):
                    self.problems.append(f"{name} ended with {self.processes[name].returncode}")
            except subprocess.TimeoutExpired:
                self.problems.append(f"{name} did not end with the training")
        return dict(json.loads((self.run / "summary.json").read_text(encoding="utf-8")))

    def kill_all(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="dynamix-node")
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--period", type=float, default=60, help="seconds between changes")
    parser.add_argument("--guests", type=int, default=2, help="at once")
    parser.add_argument("--policy", default="goodput")
    parser.add_argument("--detect-ms", type=int, default=5000)
    parser.add_argument("--keep-ledger-mb", type=int, default=1)
    parser.add_argument("--out", help="keep logs and the run directory there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dynamix-soak-") as temporary:
        directory = pathlib.Path(arguments.out or temporary)
        directory.mkdir(parents=True, exist_ok=True)
        soak = Soak(arguments, directory)
        try:
            for name in STAYING:
                soak.start(name)
            samples = soak.last_for(60 * arguments.minutes, arguments.period, arguments.guests)
            summary = soak.finish()
        finally:
            soak.kill_all()
        parts = sum(file.stat().st_size for file in soak.run.glob("windows*"))
    decisions = summary["decisions"]
    assert isinstance(decisions, dict)
    result = {"minutes": arguments.minutes, **soak.counts, "generations": summary["generations"],
              "steps_lost": summary["steps_lost"], "decisions_made": decisions["made"],
              "decisions_lost": decisions["lost"],
              "unapplied_by_loss": decisions["unapplied_by_loss"], "duplicated": decisions["duplicated"],
              "samples_dropped": summary["samples_dropped"], "samples_repeated": summary["samples_repeated"],
              "ledger_bytes": parts, "problems": soak.problems}
    for name in STAYING:
        mb = [mb for _, mb in samples[name]]
        result[f"{name}_mb"] = [round(mb[0], 1), round(max(mb), 1), round(mb[-1], 1)]  # first, most, last
        result[f"{name}_mb_an_hour"] = round(growth_an_hour(samples[name]), 2)
    print(json.dumps(result, indent=2))
    return 0 if decisions["lost"] == 0 and not soak.problems else 1


if __name__ == "__main__":
    sys.exit(main())
