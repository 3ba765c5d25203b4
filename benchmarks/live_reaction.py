#!/usr/bin/env python3
"""Real processes on this machine whose hosts are slowed down: how soon work moves, and how fast training is.

    benchmarks/live_reaction.py --program build/release/node/dynamix-node          # both parts, see --help

**Reaction.** A cluster file without its slow-downs, but for one: at a random moment a random worker becomes four times
slower. Counted are the steps that the others then wait for 20 % of them and more, until they wait for less in one:
`computing` goes by how much less they compute than the slowest (1 - own / slowest's), `blocked` by how long they really
wait, the exchange included (from a step later on, since a slowed host sends its gradients before it sleeps).

**Speed.** The same cluster file with its slow-downs, under each policy: samples per second over those of `static` and of
the best rival, each seed's policies in turn. A seed's runs are compared over the same seconds of training, since who
trains faster ends sooner and would see other slow-downs: from where all have run 10 steps until the first one ends.
Beside them the machine's bound, if all cores are busy: the fastest that `static` or the first policy is where nobody
is slowed down, times what the slow-downs leave of it in those seconds. A slowed host sleeps, so n hosts on c cores have
min(c, sum of 1 / slow-down) of min(c, n).

Both read the traces of steps (`--trace`), which every run writes. Only on a quiet machine do the figures mean anything:
the load at the beginning of each run is printed.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

sys.dont_write_bytecode = True
from free_ports import free_ports

SOURCE = pathlib.Path(__file__).resolve().parents[1]
RIVALS = ("lb-bsp", "omnilearn", "goodput")
POLICIES = ("ppo+balance=on", "static", *RIVALS)
FACTOR = 4.0
WAITING = 0.2       # share of a step
SEEN = 2.0          # times as long for a sample as before: the slow-down has begun
WARM_STEPS = 10     # that are no measure of speed
SHOWN_WITHIN = 3    # steps after which the others wait, if they do
RUN_SECONDS = 1800  # a run that takes longer is ended
END_SECONDS = 30    # after which it is killed
HOST_FIELDS = {"name", "port", "roles", "compute_slowdown", "emulate"}  # the port is replaced by a free one
CHANGE_FIELDS = {"at_seconds", "compute_slowdown"}


@dataclass
class Step:
    """One worker's part of a step."""
    begin: float
    end: float
    batch: int
    compute: float
    blocked: float


Hosts = List[Dict[str, Any]]
Steps = Dict[int, Dict[str, Step]]  # by number, then host


def check_host(path: pathlib.Path, host: Dict[str, Any]) -> None:
    """Exits where `write_cluster` would leave something of it out."""
    where = f"{path}: host {host.get('name', '?')!r}"
    if "name" not in host:
        sys.exit(f"{where} has no name")
    if unknown := sorted(set(host) - HOST_FIELDS):
        sys.exit(f"{where} has {', '.join(unknown)}; here a host has only {', '.join(sorted(HOST_FIELDS))}")
    for change in host.get("emulate", []):
        if set(change) != CHANGE_FIELDS:
            sys.exit(f"{where}: an entry of emulate needs {' and '.join(sorted(CHANGE_FIELDS))}, and has "
                     f"{', '.join(sorted(change)) or 'nothing'}")


def read_cluster(path: pathlib.Path) -> Tuple[str, Hosts]:
    """The text before the hosts, its paths absolute, and the hosts, whose `emulate` begins with an entry at 0."""
    text = path.read_text()
    head = text.partition("[[host]]")[0]
    whole = tomllib.loads(text)
    hosts: Hosts = whole.pop("host", [])
    if not hosts or tomllib.loads(head) != whole:
        sys.exit(f"{path}: the hosts have to be [[host]] tables behind all other sections")
    for host in hosts:
        check_host(path, host)
        changes = host.get("emulate", [])
        at_first = {"at_seconds": 0.0, "compute_slowdown": host.get("compute_slowdown", 1.0)}
        host["emulate"] = changes if changes and changes[0]["at_seconds"] == 0 else [at_first, *changes]
    return head.replace('"../', f'"{path.resolve().parent}/../'), hosts


def write_cluster(path: pathlib.Path, head: str, hosts: Hosts) -> None:
    lines = [head]
    for host, port in zip(hosts, free_ports(len(hosts))):
        lines += ["[[host]]", f'name = "{host["name"]}"', f"port = {port}",
                  f"roles = {json.dumps(host.get('roles', ['worker']))}"]
        for each in host["emulate"]:
            at_first = each["at_seconds"] == 0
            lines += [] if at_first else ["[[host.emulate]]", f"at_seconds = {each['at_seconds']}"]
            lines += [f"compute_slowdown = {each['compute_slowdown']}"]
    path.write_text("\n".join(lines) + "\n")


def workers_of(hosts: Hosts) -> Hosts:
    return [host for host in hosts if "worker" in host.get("roles", ["worker"])]


def read_steps(run: pathlib.Path) -> Steps:
    """Of those steps that all workers have traced."""
    steps: Steps = {}
    files = sorted((run / "traces").glob("*.jsonl"))
    for path in files:
        for line in path.read_text().splitlines():
            if '"kind":"step"' not in line or not line.endswith("}"):
                continue
            row = json.loads(line)
            args = row["args"]
            number = int(row["name"].split()[1])
            steps.setdefault(number, {})[path.stem] = Step(row["begin"], row["end"], args["batch"],
                                                           args["data"] + args["compute"], args["blocked"])
    most = max((len(each) for each in steps.values()), default=0)
    return {number: each for number, each in sorted(steps.items()) if len(each) == most}


def session_of(leader: int) -> List[int]:
    """The processes of a session: the hosts have process groups of their own."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def run_program(command: Sequence[str]) -> None:
    """Runs it in a session of its own, of which nothing is left running; exits where it fails or takes too long."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            sys.exit(f"{' '.join(command)}\ntook more than {RUN_SECONDS} s")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # it ends its hosts
                try:
                    process.communicate(timeout=END_SECONDS)
                except subprocess.TimeoutExpired:
                    pass
            for each in session_of(process.pid):
                try:
                    os.kill(each, signal.SIGKILL)
                except ProcessLookupError:
                    pass
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {process.returncode}:\n{said[-3000:]}")


def train(options: argparse.Namespace, head: str, hosts: Hosts, policy: str, seed: int, extra: Sequence[str]) -> Steps:
    """One run; its steps."""
    name, *features = policy.split("+")
    changes = [f"arbitrator.{each if '=' in each else each + '=true'}" for each in features]
    changes += ["training.target_accuracy=0", *extra]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cluster.toml"
        write_cluster(file, head, hosts)
        run = pathlib.Path(folder) / "run"
        command = [options.program, "local", "--cluster", str(file), "--policy", name, "--seed", str(seed), "--quiet",
                   "--trace", "--out", str(run)]
        for each in changes:
            command += ["--set", each]
        run_program(command)
        return read_steps(run)


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def per_sample(step: Step) -> float:
    return step.compute / max(1, step.batch)


def waiting(step: Dict[str, Step], slowed: str) -> Tuple[float, float]:
    """Mean share of the step that the others wait: by computing, by what they were blocked."""
    slowest = max(each.compute for each in step.values())
    others = [each for name, each in step.items() if name != slowed]
    return (statistics.mean(1 - each.compute / slowest for each in others),
            statistics.mean(each.blocked / (each.end - each.begin) for each in others))


def find_onset(steps: Steps, slowed: str, at_seconds: float) -> Optional[int]:
    """The first step that the host computes slowly."""
    numbers = list(steps)
    begun = steps[numbers[0]][slowed].begin
    before = [number for number in numbers if steps[number][slowed].end - begun < at_seconds - 1][-20:]
    if len(before) < 5:
        return None
    usual = statistics.median(per_sample(steps[number][slowed]) for number in before)
    return next((number for number in numbers
                 if number > before[-1] and per_sample(steps[number][slowed]) > SEEN * usual), None)


def react(options: argparse.Namespace, path: pathlib.Path, policy: str, seed: int) -> None:
    """One row of the reaction's table."""
    head, hosts = read_cluster(path)
    numbers = random.Random(f"{path.name} {seed}")
    slowed = numbers.choice(workers_of(hosts))
    at_seconds = round(numbers.uniform(*options.slow_between), 2)
    for host in hosts:
        host["emulate"] = [{"at_seconds": at_seconds, "compute_slowdown": FACTOR}] if host is slowed else []
    busy = load()
    steps = train(options, head, hosts, policy, seed, [f"training.epochs={options.reaction_epochs}"])
    onset = find_onset(steps, slowed["name"], at_seconds)
    later = [] if onset is None else [number for number in steps if number >= onset]
    if onset is None or len(later) < 20:
        print(f"| {path.stem} | {policy} | {seed} | the run ended too soon: --reaction-epochs | | | | {busy} |",
              flush=True)
        return
    cells = []
    shares = [waiting(steps[number], slowed["name"]) for number in later]
    for kind in (0, 1):
        begun = next((i for i, each in enumerate(shares[:SHOWN_WITHIN]) if each[kind] >= WAITING), 0)
        late = next((i for i, each in enumerate(shares[begun:]) if each[kind] < WAITING), None)
        cells.append("never" if late is None else str(late))
    before = [waiting(steps[number], slowed["name"])[0] for number in steps if number < onset][-20:]
    after = [waiting(steps[number], slowed["name"])[0] for number in later[5:25]]
    print(f"| {path.stem} | {policy} | {seed} | {slowed['name']} at {at_seconds} s | {cells[0]} | {cells[1]} | "
          f"{100 * statistics.mean(before):.0f} %, {100 * statistics.mean(after):.0f} % | {busy} |", flush=True)


def common_seconds(runs: Iterable[Steps]) -> Tuple[float, float]:
    """Of training, in all runs: from their first `WARM_STEPS` until one ends."""
    begin, end = 0.0, math.inf
    for steps in runs:
        if len(steps) < 2 * WARM_STEPS:
            sys.exit("a run had too few steps to be timed: --epochs")
        numbers, started = list(steps), begin_of(steps)
        begin = max(begin, min(each.begin for each in steps[numbers[WARM_STEPS]].values()) - started)
        end = min(end, max(each.end for each in steps[numbers[-1]].values()) - started)
    return begin, end


def begin_of(steps: Steps) -> float:
    return min(each.begin for each in next(iter(steps.values())).values())


def speed_of(steps: Steps, between: Tuple[float, float]) -> float:
    """Samples per second, of the steps that lie whole within these seconds of training."""
    started = begin_of(steps)
    timed = [step for step in steps.values() if min(each.begin for each in step.values()) - started >= between[0]
             and max(each.end for each in step.values()) - started <= between[1]]
    if len(timed) < WARM_STEPS:
        sys.exit("a run had too few steps to be timed: --epochs")
    seconds = max(each.end for each in timed[-1].values()) - min(each.begin for each in timed[0].values())
    return sum(each.batch for step in timed for each in step.values()) / seconds


def slowdown_at(host: Dict[str, Any], seconds: float) -> float:
    begun = [each["compute_slowdown"] for each in host["emulate"] if each["at_seconds"] <= seconds]
    return float(begun[-1]) if begun else 1.0


def share_left(hosts: Hosts, between: Tuple[float, float], cores: int) -> float:
    """Of the machine, by the slow-downs in these seconds."""
    workers = workers_of(hosts)
    begin, end = between
    moments = [begin + (end - begin) * (i + 0.5) / 1000 for i in range(1000)]
    speeds = [sum(1 / slowdown_at(host, moment) for host in workers) for moment in moments]
    return statistics.mean(min(cores, each) for each in speeds) / min(cores, len(workers))


def race(options: argparse.Namespace, path: pathlib.Path) -> None:
    """The table of speeds of one cluster file."""
    head, hosts = read_cluster(path)
    extra = [f"training.epochs={options.epochs}"] if options.epochs else []
    free: Hosts = [{**host, "emulate": []} for host in hosts]
    cores = len(os.sched_getaffinity(0))
    print(f"\n{path.stem}: samples/s (over static's), {cores} cores\n")
    names = list(options.policies)
    print(f"| seed | load | seconds | {' | '.join(names)} | all cores busy: bound | first / best rival "
          "| first / bound |")
    print("|---" * (len(names) + 6) + "|", flush=True)
    ratios: List[Tuple[float, float, float]] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        busy = load()
        order = names if seed % 2 else names[::-1]
        runs = {policy: train(options, head, hosts, policy, seed, extra) for policy in order}
        unslowed_runs = [train(options, head, free, policy, seed, extra) for policy in sorted({"static", names[0]})]
        between = common_seconds(runs.values())
        speeds = {policy: speed_of(steps, between) for policy, steps in runs.items()}
        unslowed = max(speed_of(steps, common_seconds([steps])) for steps in unslowed_runs)
        static, first = speeds["static"], speeds[names[0]]
        bound = unslowed * share_left(hosts, between, cores)
        rival = max((speeds[policy] for policy in names if policy.split("+")[0] in RIVALS), default=static)
        ratios.append((first / static, first / rival, first / bound))
        cells = [f"{speeds[policy]:.0f} ({speeds[policy] / static:.3f})" for policy in names]
        print(f"| {seed} | {busy} | {between[0]:.0f} to {between[1]:.0f} | {' | '.join(cells)} | {unslowed:.0f}: "
              f"{bound:.0f} ({bound / static:.3f}) | {first / rival:.3f} | {first / bound:.3f} |", flush=True)
    middle = [statistics.median(each) for each in zip(*ratios)]
    print(f"\n{names[0]}, median of {len(ratios)} seeds: {middle[0]:.3f} of static's speed, {middle[1]:.3f} of the "
          f"best rival's, {middle[2]:.3f} of the bound", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="dynamix-node")
    parser.add_argument("--clusters", nargs="+", type=pathlib.Path,
                        default=[SOURCE / f"deployments/clusters/slow-steps-{n}.toml" for n in (2, 4)])
    parser.add_argument("--parts", default="reaction,speed", help="comma-separated")
    parser.add_argument("--policies", type=lambda text: text.split(","), default=list(POLICIES),
                        help="of the race: the first one is judged; NAME+FIELD and NAME+FIELD=VALUE set "
                             "arbitrator.FIELD")
    parser.add_argument("--reacting", type=lambda text: text.split(","), help="of the reaction",
                        default=["ppo+balance=on", "stigmergic", "goodput"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--epochs", type=float, help="of the race; the file's unless given")
    parser.add_argument("--reaction-epochs", type=float, default=0.6)
    parser.add_argument("--slow-between", type=float, nargs=2, default=(25.0, 45.0), metavar="SECONDS",
                        help="the moment of the slow-down, in the reaction")
    options = parser.parse_args()
    if "static" not in options.policies:
        parser.error("--policies needs static, which the others are compared with")
    parts = options.parts.split(",")
    if "reaction" in parts:
        print("| file | policy | seed | slowed four times | steps of 20 % waiting: computing | blocked | waiting "
              "before, after 5 steps | load |\n|---|---|---|---|---|---|---|---|", flush=True)
        for path in options.clusters:
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                for policy in options.reacting:
                    react(options, path, policy, seed)
    if "speed" in parts:
        for path in options.clusters:
            race(options, path)


if __name__ == "__main__":
    main()
