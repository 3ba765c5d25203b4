#!/usr/bin/env python3
"""Published measurements as clusters of the simulator: production stragglers, devices of unlike kinds, spot hosts that come and go.

    benchmarks/real_traces.py --out DIR [--stragglers CLONE] [--zeus CLONE] [--sailor CLONE] [--bamboo CLONE] [--program dynamix-node]

Each CLONE is a work tree that you have cloned; nothing of it is part of this repository:
    --stragglers  github.com/ByteDance-Seed/StragglerAnalysis, Apache-2.0: a data-parallel rank is a host, its slow-downs follow the trace's steps
    --zeus        github.com/ml-energy/zeus, Apache-2.0: epoch times of four kinds of GPU
    --sailor      github.com/eth-easl/sailor, MIT: layer times of OPT-350 on GPUs, larger batches in micro-batches
    --bamboo      github.com/uclasystem/bamboo, MIT: when spot hosts came and were taken back; GCP's have Sailor's devices, so --sailor, too,
                  and AWS's have Zeus's V100, so --zeus, too

Writes DIR/NAME/cluster.toml with its workload and profiles, which `dynamix-node simulate` and `compare --simulate` take. With --program it
also compares policies on each and prints how many times as fast as equal shares (`static`) each of them is. "ideal" is StragglerAnalysis'
own figure, of whole steps without any straggling operation; "bound" moves work between the hosts without delay, noise or restarts at the same
global batch, beside equal shares without them ("worked out"). The exchange takes no time anywhere, and the noise scale is the one
at which the global batch of the file is the best: a policy that changes it can only lose by that, and work counts alike for all.
"""
import argparse
import bisect
import csv
import dataclasses
import datetime
import json
import math
import pathlib
import subprocess

import production_traces

SOURCE = pathlib.Path(__file__).resolve().parent.parent
POLICIES = ("static", "lb-bsp", "omnilearn", "goodput", "ppo", "stigmergic", "step-oracle")
STRAGGLER_PASSES = 10       # of a trace, one behind the other
STRAGGLER_SAMPLES = 64      # of a rank
ZEUS_SAMPLES = {("imagenet", "resnet50"): 1281167, ("squad", "bert_base_uncased"): 87599}  # of an epoch
ZEUS_GPUS = ("a40", "v100", "rtx6000", "p100")
ZEUS_HOSTS = 4              # of each kind
SAILOR_CLUSTERS = {"mit": ("RTX-3090", "Titan-RTX", "RTX-2080"), "gcp": ("A100-40", "V100-16")}
SAILOR_HOSTS = 8            # of each kind
SAILOR_BATCH = 1024         # of all hosts, as Sailor trains OPT-350
MICRO_BATCHES = (2, 4, 8, 16, 64, 256)
STEADY_STEPS = 4000         # of equal shares
TRACE_SHARE = 0.9           # of a spot trace's time, in which equal shares would be done if restarts took no time


@dataclasses.dataclass
class Profile:
    """Seconds of a step by batch size: linear between the points and beyond them."""
    name: str
    source: str
    points: list                # (batch, seconds), rising
    highest: int = 0            # 0: not known

    def seconds(self, batch):
        place = min(max(bisect.bisect_left(self.points, (batch,)), 1), len(self.points) - 1)
        (b0, t0), (b1, t1) = self.points[place - 1:place + 1]
        return t0 + (batch - b0) * (t1 - t0) / (b1 - b0)

    def batch_within(self, seconds):
        low, high = 0.0, float(self.highest or self.points[-1][0])
        if self.seconds(high) <= seconds:
            return high
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.seconds(middle) <= seconds else (low, middle)
        return low


@dataclasses.dataclass
class Host:
    name: str
    profile: Profile
    slow: list = dataclasses.field(default_factory=lambda: [(0.0, 1.0)])   # (from second, times as slow)
    join: float = 0.0
    leave: float = 0.0          # 0: never


@dataclasses.dataclass
class Cluster:
    name: str
    hosts: list
    initial: int                # samples of a host that is there at the start
    lowest: int
    highest: int
    samples: int                # until the end
    noise: float
    ideal: float = math.nan     # times as fast if nothing straggled, as StragglerAnalysis works it out for whole steps

    def first(self):
        return [host for host in self.hosts if host.join == 0]

    def batch(self):
        return self.initial * len(self.first())


# What is read -------------------------------------------------------------------------------------------------------

def straggler_hosts(path):
    """A host a rank, whose slow-down changes where the trace's steps would with equal shares; how many steps these are; and how many times as
    fast the best split of each would be."""
    steps = production_traces.step_seconds(path)
    fastest = min(map(min, steps))
    profile = Profile("rank", f"StragglerAnalysis, {path.name}, Apache-2.0",
                      [(batch, batch * fastest / STRAGGLER_SAMPLES) for batch in (1, 16 * STRAGGLER_SAMPLES)])
    hosts = [Host(f"rank-{rank}", profile, []) for rank in range(len(steps[0]))]
    now = 0.0
    for step in steps * STRAGGLER_PASSES:
        for host, seconds in zip(hosts, step):
            host.slow.append((now, seconds / fastest))
        now += max(step)
    best = sum(len(step) / sum(1 / seconds for seconds in step) for step in steps)
    return hosts, len(steps), sum(map(max, steps)) / best


def zeus_profile(clone, gpu, dataset, network):
    """At the highest power limit that was measured for each batch size."""
    best = {}
    with open(clone / f"examples/research_reproducibility/zeus_nsdi23/trace/summary_power_{gpu}.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (row["dataset"], row["network"]) == (dataset, network):
                batch, power = int(row["batch_size"]), float(row["power_limit"])
                best[batch] = max(best.get(batch, (0, 0)), (power, float(row["time_per_epoch"])))
    points = [(batch, seconds * batch / ZEUS_SAMPLES[dataset, network]) for batch, (_, seconds) in sorted(best.items())]
    return Profile(f"{gpu}-{network}", "Zeus, Apache-2.0", points, points[-1][0])


def sailor_profile(clone, gpu, model="OPT-350"):
    """One GPU without tensor parallelism: all layers' forward, backward and update. Batches above the largest micro-batch are several."""
    path = clone / f"sailor/Planner/sailor_planner/profiles/{model}/{gpu}/profile.json"
    sizes = json.loads(path.read_text(encoding="utf-8"))
    work, update = {}, {}
    for size, splits in sizes.items():
        if "1" in splits:
            work[int(size)] = sum(forward + backward for forward, backward, _ in splits["1"].values())
            update[int(size)] = sum(last for _, _, last in splits["1"].values())
    largest = max(work)
    if min(update.values()) <= 0:
        raise ValueError(f"{path} holds no times of the update")
    points = [(size, work[size] + update[size]) for size in sorted(work)]
    points += [(count * largest, count * work[largest] + update[largest]) for count in MICRO_BATCHES]
    return Profile(f"{gpu}-{model}".lower(), "Sailor, MIT", points)


def spot_events(path):
    """Bamboo's `milliseconds,add or remove,node`: [(name, second it came, second it went or 0)], the first event at 0."""
    stays, begun, first = [], {}, None
    with open(path, encoding="utf-8") as file:
        for milliseconds, what, node in csv.reader(file):
            now = int(milliseconds) / 1000
            first = now if first is None else first
            if what == "add":
                begun[node] = now - first
            elif now - first > begun[node]:
                stays.append((node, begun.pop(node), now - first))
            else:
                del begun[node]
    return stays + [(node, came, 0.0) for node, came in begun.items()]


def spot_counts(path, prefix):
    """Bamboo's `date, time, hosts there`: as spot_events. Who goes is not told: here it is who came last."""
    there, stays, first, number = [], [], None, 0
    with open(path, encoding="utf-8") as file:
        for day, time, count in csv.reader(file, skipinitialspace=True):
            moment = datetime.datetime.fromisoformat(f"{day} {time}")
            first = first or moment
            now = (moment - first).total_seconds()
            while len(there) < int(count):
                number += 1
                there.append((f"{prefix}{number}", now))
            while len(there) > int(count):
                name, came = there.pop()
                if now > came:
                    stays.append((name, came, now))
    return stays + [(name, came, 0.0) for name, came in there]


# What is worked out --------------------------------------------------------------------------------------------------

def equal_seconds(hosts, batch):
    """Of a step; hosts are (profile, times as slow)."""
    return max(slow * profile.seconds(batch / len(hosts)) for profile, slow in hosts)


def best_seconds(hosts, batch):
    """The same with the best split, in parts of samples if need be."""
    kinds = {}
    for profile, slow in hosts:
        kinds.setdefault((profile.name, slow), [profile, 0])[1] += 1
    low, high = 0.0, max(slow * profile.seconds(batch) for profile, slow in hosts)
    for _ in range(60):
        middle = (low + high) / 2
        done = sum(count * profile.batch_within(middle / slow) for (_, slow), (profile, count) in kinds.items())
        low, high = (low, middle) if done >= batch else (middle, high)
    return high


def pace(cluster, step_seconds):
    """[(from second, samples per second)] of that split at the file's global batch."""
    moments = sorted({0.0} | {at for host in cluster.hosts for at, _ in host.slow} |
                     {at for host in cluster.hosts for at in (host.join, host.leave)})
    known, paces = {}, []
    for now in moments:
        there = []
        for host in cluster.hosts:
            if host.join <= now and not 0 < host.leave <= now:
                there.append((host.profile, host.slow[bisect.bisect_right(host.slow, (now, math.inf)) - 1][1]))
        key = tuple((profile.name, slow) for profile, slow in there)
        if key not in known:
            known[key] = cluster.batch() / step_seconds(there, cluster.batch())
        paces.append((now, known[key]))
    return paces


def seconds_for(samples, paces):
    for (now, speed), (until, _) in zip(paces, paces[1:] + [(math.inf, 0)]):
        if samples <= speed * (until - now):
            return now + samples / speed
        samples -= speed * (until - now)
    raise AssertionError


def samples_within(seconds, paces):
    return sum(speed * max(0, min(until, seconds) - now) for (now, speed), (until, _) in zip(paces, paces[1:] + [(math.inf, 0)]))


def noise_scale(cluster):
    """Under which the global batch is the best: d log T / d log B = B / (phi + B), the other way round."""
    there = [(host.profile, host.slow[0][1]) for host in cluster.first()]
    low, high = (best_seconds(there, cluster.batch() * factor) for factor in (0.95, 1.05))
    slope = math.log(high / low) / math.log(1.05 / 0.95)
    return min(1e9, cluster.batch() * slope / max(1 - slope, 1e-9))


# What is written -----------------------------------------------------------------------------------------------------

def write(cluster, directory):
    """Its files; the path of the cluster file."""
    directory.mkdir(parents=True, exist_ok=True)
    for profile in {host.profile.name: host.profile for host in cluster.hosts}.values():
        limit = f"batch_highest = {profile.highest}\n" if profile.highest else ""
        (directory / f"{profile.name}.profile.toml").write_text(
            f'[profile]\nname = "{profile.name}"\nsource = "{profile.source}"\n{limit}'
            f"batch = {[batch for batch, _ in profile.points]}\n"
            f"milliseconds = {[round(1000 * seconds, 9) for _, seconds in profile.points]}\n", encoding="utf-8")
    (directory / "workload.toml").write_text(f"""# Half of what can be learned, accuracy 0.5, takes {cluster.samples} samples at the global batch {cluster.batch()}.
[workload]
name = "{cluster.name}"
source = "assumed: the noise scale is the one at which this global batch is the best"
epoch_samples = {cluster.samples}
gradient_mib = 0
reference_batch = {cluster.batch()}
phi_start = {noise_scale(cluster):.6g}
phi_epochs = 1
phi_exponent = 0
accuracy_start = 0.1
accuracy_limit = 0.9
accuracy_epochs = 1
accuracy_exponent = 1
accuracy_noise = 0
phi_noise = {0 if cluster.noise == 0 else 0.2}
""", encoding="utf-8")
    comes = any(host.join or host.leave for host in cluster.hosts)
    membership = (f'membership = "open"\nworkers_min = {len(cluster.first())}\nworkers_max = {len(cluster.hosts)}\n' if comes else "")
    text = f"""# Made by benchmarks/real_traces.py.
[cluster]
name = "{cluster.name}"
seed = 1
{membership}
[training]
epochs = 20
evaluate_every_epochs = 20
target_accuracy = 0.5

[batch]
initial = {cluster.initial}
lowest = {cluster.lowest}
highest = {cluster.highest}

[arbitrator]
policy_file = "{SOURCE / 'deployments/policies/ppo.dynamix'}"
mode = "infer"

[simulation]
workload = "workload.toml"
latency_us = 0
noise = {cluster.noise}

[[host]]
name = "north"
port = 7500
roles = ["arbitrator"]
"""
    for number, host in enumerate(cluster.hosts):
        text += f'\n[[host]]\nname = "{host.name}"\nport = {7501 + number}\nprofile = "{host.profile.name}.profile.toml"\n'
        text += f"batch_highest = {host.profile.highest}\n" if host.profile.highest else ""
        text += f"join_at_seconds = {host.join}\n" if host.join else ""
        text += f"leave_at_seconds = {host.leave}\n" if host.leave else ""
        text += f"compute_slowdown = {host.slow[0][1]:.9g}\n" if host.slow[0][1] != 1 else ""
        if len(host.slow) > 1:  # a step that begins at the change is to meet it, whatever the last digits
            changes = (f"{{at_seconds = {at - 1e-3:.6f}, compute_slowdown = {slow:.9g}}}" for at, slow in host.slow[1:])
            text += f"emulate = [{', '.join(changes)}]\n"
    path = directory / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    return path


def stragglers(clone):
    for path in sorted((clone / "data").glob("timeline-*.json.gz")):
        name = path.name.removeprefix("timeline-").removesuffix(".json.gz")
        hosts, steps, by_step = straggler_hosts(path)
        result = json.loads((path.parent / f"result-{name}.json").read_text(encoding="utf-8"))
        print(f"stragglers-{name}: {len(hosts)} ranks, {steps} steps; the best split in each step is {by_step:.3f} times as fast", flush=True)
        yield Cluster(f"stragglers-{name}", hosts, STRAGGLER_SAMPLES, 1, 16 * STRAGGLER_SAMPLES,
                      STRAGGLER_SAMPLES * len(hosts) * steps * STRAGGLER_PASSES, 0, result["blocking_slowdown"])


def steady(name, profiles, each, initial, lowest, highest):
    hosts = [Host(f"{profile.name}-{number + 1}", profile) for profile in profiles for number in range(each)]
    return Cluster(name, hosts, initial, lowest, highest, STEADY_STEPS * initial * len(hosts), 0.03)


def zeus(clone):
    for dataset, network in ZEUS_SAMPLES:
        profiles = [zeus_profile(clone, gpu, dataset, network) for gpu in ZEUS_GPUS]
        lowest = max(profile.points[0][0] for profile in profiles)
        yield steady(f"zeus-{network}", profiles, ZEUS_HOSTS, min(profile.highest for profile in profiles), lowest,
                     max(profile.highest for profile in profiles))


def sailor(clone):
    for name, gpus in SAILOR_CLUSTERS.items():
        initial = round(SAILOR_BATCH / SAILOR_HOSTS / len(gpus))
        yield steady(f"sailor-{name}", [sailor_profile(clone, gpu) for gpu in gpus], SAILOR_HOSTS, initial, 1, SAILOR_BATCH)


def spot(name, stays, initial, highest):
    hosts = [Host(f"{node}-{number + 1}", profile, join=came, leave=went) for number, (node, came, went, profile) in
             enumerate(sorted(stays, key=lambda stay: stay[1]))]
    cluster = Cluster(name, hosts, initial, 1, highest, 0, 0.03)
    cluster.samples = int(samples_within(TRACE_SHARE * max(max(host.join, host.leave) for host in hosts), pace(cluster, equal_seconds)))
    return cluster


def bamboo(clone, zeus_clone, sailor_clone):
    if zeus_clone:
        v100 = zeus_profile(zeus_clone, "v100", "imagenet", "resnet50")
        yield spot("spot-aws-v100", [(*stay, v100) for stay in spot_events(clone / "traces/p3-trace.csv")], 64, v100.highest)
    if sailor_clone:
        kinds = (("a100x1-east1b", "A100-40"), ("v100x1-east1c", "V100-16"))
        stays = [(*stay, profile) for trace, gpu in kinds for profile in [sailor_profile(sailor_clone, gpu)]
                 for stay in spot_counts(clone / f"traces/gcloud/{trace}.txt", gpu.lower() + "-")]
        at_first = sum(came == 0 for _, came, _, _ in stays)
        yield spot("spot-gcp-a100-v100", stays, round(SAILOR_BATCH / at_first), SAILOR_BATCH)


def seconds_under(program, path, policy, seeds, *more):
    """To the end, the mean of the seeds. `simulate` and not `compare`, which keeps every window: gigabytes of a spot trace."""
    made = subprocess.run([program, "simulate", "--json", "--cluster", path, "--policy", policy, "--seeds", str(seeds), *more], check=True,
                          stdout=subprocess.PIPE, text=True)
    seconds = [run["seconds_to_target"] or math.nan for run in json.loads(made.stdout)]
    return sum(seconds) / len(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    for name in ("stragglers", "zeus", "sailor", "bamboo"):
        parser.add_argument(f"--{name}", type=pathlib.Path, metavar="CLONE")
    parser.add_argument("--program")
    arguments = parser.parse_args()
    clusters = [*(stragglers(arguments.stragglers) if arguments.stragglers else ()), *(zeus(arguments.zeus) if arguments.zeus else ()),
                *(sailor(arguments.sailor) if arguments.sailor else ()),
                *(bamboo(arguments.bamboo, arguments.zeus, arguments.sailor) if arguments.bamboo else ())]
    if not clusters:
        parser.error("no clone is given")
    columns = ("ideal", "bound", *POLICIES[1:3], "static with balance", *POLICIES[3:])
    print("| cluster | equal shares, s | worked out, s | " + " | ".join(columns) + " |\n|" + "---|" * (3 + len(columns)), flush=True)
    for cluster in clusters:
        path = write(cluster, arguments.out / cluster.name)
        if not arguments.program:
            continue
        equal = seconds_for(cluster.samples, pace(cluster, equal_seconds))
        seeds = 1 if cluster.noise == 0 or len(cluster.first()) < len(cluster.hosts) else 3
        seconds = {policy: seconds_under(arguments.program, path, policy, seeds) for policy in POLICIES}
        seconds["static with balance"] = seconds_under(arguments.program, path, "static", seeds, "--set", "arbitrator.balance=on")
        base = seconds["static"]
        times = {"ideal": cluster.ideal, "bound": equal / seconds_for(cluster.samples, pace(cluster, best_seconds))}
        times.update((name, base / value) for name, value in seconds.items())
        print(f"| {cluster.name} | {base:.1f} | {equal:.1f} | " + " | ".join(f"{times[each]:.3f}" for each in columns) + " |", flush=True)


if __name__ == "__main__":
    main()
