#!/usr/bin/python3
"""Time to a loss or an accuracy of real trainings: static global batches and policies beside each other.

    benchmarks/time_to_accuracy.py build/bench --out D [--tasks lenet,transformer] [--seeds 1,2] [--text FILE]

Steps, samples, gradients, losses and decisions are real; the time is virtual (benchmarks/time_to_accuracy.cpp): a step takes a
fixed time and one a sample of the slowest worker, so a busy machine changes nothing but how long this takes. Each training
writes a file of JSON rows to D; those that are there and complete are not run again. `page` in D has, of each task, the time to
each target over that of lb-bsp, which keeps the script's global batch, and over that of the best static one. A time is
interpolated between two evaluations, 0.02 of an epoch apart, of the loss averaged over three of them.

`split-B` is what can be done by hand: a global batch of B throughout, shared by the hosts' speeds, at the task's learning rate. The
least of their times is what choosing a fixed batch could gain in hindsight. `rule-B` is a global batch of B throughout at the rate
that the task's rule gives it, as policies would run it. From station to station the critical batch C is fitted to its samples,
E = Emin (1 + B/C), and the samples are compared with those that lb-bsp's noise scale on the way predicts. Neither from the start,
where other things than noise hold training up, nor at one rate for all batches would that be what the noise scale speaks of.
"""
import argparse
import gzip
import json
import math
import pathlib
import statistics
import struct
import subprocess
import sys

HOSTS = '\n'.join(f'[[host]]\nname = "h{i}"\nport = {7401 + i}\n' + ('roles = ["arbitrator"]\n' if i == 0 else "")
                  for i in range(5))
#: targets are test losses, from early to late; hosts compute 1:1:2:4 but where cores are shared. Between `stations`, the first of
#: them some 30 steps off, what a batch is worth is compared with the noise scale.
TASKS = {
    "lenet": {"training": 'model = "lenet"\ndataset = "fashion-mnist"\noptimizer = "sgd"\nlearning_rate = 0.05\n'
                          'momentum = 0.9\nrule = "adascale"\nepochs = 0.5\n',
              "initial": 32, "lowest": 8, "targets": (0.80, 0.65, 0.55), "stations": (1.90, 1.20, 0.80, 0.65, 0.55),
              "clock": ["--samples-per-second", "250,250,500,1000", "--fixed-seconds", "0.03"]},
    "transformer": {"training": 'model = "transformer"\nwidth = 0.25\nlayers = 2\nheads = 4\ncontext = 64\ndataset = "text"\n'
                                'vocabulary = "bytes"\noptimizer = "adamw"\nlearning_rate = 0.003\nrule = "square-root"\n'
                                'clip_norm = 1\nepochs = 2.0\n',
                    "initial": 32, "lowest": 8, "targets": (2.0, 1.6, 1.4),
                    "clock": ["--samples-per-second", "125,125,250,500", "--fixed-seconds", "0.03", "--evaluate-every-epochs", "0.04"]},
}
TASKS["lenet-256"] = {**TASKS["lenet"], "initial": 64}  # as clusters that do not say otherwise begin
# Short trainings with a schedule that warms up, whose end comes by progress: plain DDP is static-32, of resnet-one-cycle-128 static-128.
for schedule in ("one-cycle", "warm-up"):
    TASKS[f"lenet-{schedule}"] = {**TASKS["lenet"], "initial": 8, "targets": (0.80, 0.60, 0.45),
                                  "clock": [*TASKS["lenet"]["clock"], "--schedule", schedule, "--schedule-steps", "600"]}
TASKS["resnet-one-cycle"] = {
    "training": 'model = "resnet18"\nwidth = 0.125\ndataset = "fashion-mnist"\noptimizer = "sgd"\nlearning_rate = 0.05\n'
                'momentum = 0.9\nweight_decay = 0.0001\nclip_norm = 5\nrule = "adascale"\nepochs = 1\n',
    "initial": 8, "lowest": 8, "targets": (0.80, 0.65, 0.55),
    "clock": [*TASKS["lenet"]["clock"], "--schedule", "one-cycle", "--schedule-steps", "375"]}
TASKS["resnet-one-cycle-128"] = {
    "training": TASKS["resnet-one-cycle"]["training"].replace("learning_rate = 0.05", "learning_rate = 0.1"),
    "initial": 32, "lowest": 8, "targets": (0.80, 0.65, 0.55),
    "clock": [*TASKS["lenet"]["clock"], "--schedule", "one-cycle", "--schedule-steps", "190"]}
TASKS["small-transformer"] = {
    "training": TASKS["transformer"]["training"].replace("width = 0.25\nlayers = 2\nheads = 4\ncontext = 64",
                                                         "width = 0.125\nlayers = 1\nheads = 2\ncontext = 32")
                .replace('rule = "square-root"', 'rule = "adascale"').replace("epochs = 2.0", "epochs = 0.8"),
    "initial": 32, "lowest": 8, "targets": (1.8, 1.5, 1.35), "stations": (2.5, 1.8, 1.5, 1.35),
    "clock": [*TASKS["lenet"]["clock"], "--evaluate-every-epochs", "0.025"]}
# The job "equal" of benchmarks/peers: two equal hosts, whose step of 2.9 ms at 64 samples (of both) is 10.6 ms at 1244.
TASKS["mlp-equal"] = {
    "training": 'model = "script:MLP"\ndataset = "fashion-mnist"\noptimizer = "sgd"\nlearning_rate = 0.05\nmomentum = 0.9\n'
                'rule = "adascale"\nepochs = 15\n',
    "workers": 2, "images": 8000, "initial": 32, "lowest": 8, "targets": (0.80, 0.60, 0.50, 0.45),
    "clock": ["--samples-per-second", "75000,75000", "--fixed-seconds", "0.0017", "--exchange-seconds", "0.0008",
              "--evaluate-every-epochs", "0.1"]}
STATIC = (16, 32, 64, 128, 256, 512)
SPLIT = (48, 64, 96, 192)
RULE = (32, 48, 64, 96, 192, 256, 384)
POLICIES = ("lb-bsp", "goodput", "ppo")


def batch_of(label):
    """Of all workers, in labels such as static-64; 0: the task's."""
    kind, _, batch = label.rpartition("-")
    return int(batch) if kind in ("static", "split", "rule") else 0


def workers_of(task):
    return task.get("workers", 4)


def first_images(count, arguments):
    """A directory with the first so many training images of Fashion-MNIST, and its test set."""
    to = arguments.out / f"images-{count}"
    to.mkdir(exist_ok=True)
    for path in pathlib.Path(arguments.images).glob("*-ubyte.gz"):
        contents = gzip.decompress(path.read_bytes())
        if path.name.startswith("train"):
            header, item = (16, 28 * 28) if "images" in path.name else (8, 1)
            contents = contents[:4] + struct.pack(">I", count) + contents[8:header + count * item]
        (to / path.name).write_bytes(gzip.compress(contents, 1))
    return to


def cluster_of(name, task, label, seed, arguments):
    initial = batch_of(label) // workers_of(task) or task["initial"]
    lowest = initial if label.startswith("static") else min(initial, task["lowest"])
    data = arguments.text if "text" in task["training"] else arguments.images
    if "images" in task:
        data = first_images(task["images"], arguments)
    hosts = "\n\n".join(HOSTS.split("\n\n")[:1 + workers_of(task)])
    kind = {"static": "static", "split": "lb-bsp", "rule": "lb-bsp"}.get(label.split("-")[0], label)
    shape = "[ppo]\ndiscount = 0.3\ngae_lambda = 0.9\nentropy_coefficient = 0.0005\n" if kind == "ppo" else ""
    training = task["training"].replace("MLP", arguments.mlp)
    return (f'[cluster]\nname = "{name}"\nseed = {seed}\n\n[training]\n{training}data_path = "{data}"\n\n'
            f'[batch]\ninitial = {initial}\nlowest = {lowest}\nhighest = 1024\n\n[arbitrator]\npolicy = "{kind}"\n'
            f'mode = "infer"\n\n{shape}\n{hosts}')


def train(name, label, seed, arguments):
    task = TASKS[name]
    rows = arguments.out / f"{name}-{label}-{seed}.jsonl"
    if rows.exists():
        return
    cluster = rows.with_suffix(".toml")
    cluster.write_text(cluster_of(name, task, label, seed, arguments))
    command = [str(arguments.build / "benchmarks/time_to_accuracy"), "--cluster", str(cluster), *task["clock"]]
    if label.startswith("rule"):
        command += ["--base-batch", str(workers_of(task) * task["initial"])]
    if label == "ppo":
        command += ["--policy-file", str(arguments.policy_file)]
    unfinished = rows.with_suffix(".part")
    with open(unfinished, "w", encoding="utf-8") as file:
        subprocess.run(command, stdout=file, check=True)
    unfinished.rename(rows)
    print(rows.name, file=sys.stderr)


def reached(path, target):
    """Seconds until the smoothed test loss is at most the target, and samples and steps; None: never."""
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    rows = [row for row in rows if "test_loss" in row]
    smooth = [statistics.mean(row["test_loss"] for row in rows[max(0, i - 2):i + 1]) for i in range(len(rows))]
    for i, loss in enumerate(smooth):
        if loss > target:
            continue
        if i == 0:
            return rows[0]["seconds"], rows[0]["samples"], rows[0]["step"]
        part = (smooth[i - 1] - target) / (smooth[i - 1] - loss)
        return tuple(rows[i - 1][of] + part * (rows[i][of] - rows[i - 1][of]) for of in ("seconds", "samples", "step"))
    return None


def critical_batch(samples):
    """C of E = Emin (1 + B/C), by least squares of relative errors. `samples`: {B: E}. None: larger batches took no more samples."""
    weights = {batch: 1 / used ** 2 for batch, used in samples.items()}
    total = sum(weights.values())
    x = sum(weight * batch for batch, weight in weights.items()) / total
    y = sum(weight * samples[batch] for batch, weight in weights.items()) / total
    slope = (sum(weight * (batch - x) * (samples[batch] - y) for batch, weight in weights.items()) /
             sum(weight * (batch - x) ** 2 for batch, weight in weights.items()))
    return (y - slope * x) / slope if slope > 0 else None


def noise_scale(path, first_step, last_step):
    """What policies went by between two steps: the mean over the windows that ended there, or else that of the next window."""
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    seen = [(row["step"], row["noise_scale"]) for row in rows if row.get("step", 0) > first_step and "noise_scale" in row]
    return statistics.mean([scale for step, scale in seen if step <= last_step] or [seen[0][1]])


def rms(values):
    return math.sqrt(statistics.mean(value ** 2 for value in values))


def worth(task, batches, path_of, seeds):
    """What batches are worth from station to station, and what the noise scale says of it: a line for each, and one of all."""
    base, stations, all_errors = workers_of(task) * task["initial"], task.get("stations", task["targets"]), []
    for before, target in zip((None, *stations), stations):
        samples, scales = {}, []
        for label, batch in [("lb-bsp", base), *((f"rule-{batch}", batch) for batch in batches)]:
            ends = [reached(path_of(label, seed), target) for seed in seeds]
            if None in ends:
                continue
            starts = [reached(path_of(label, seed), before) if before else (0, 0, 0) for seed in seeds]
            samples[batch] = statistics.mean(end[1] - start[1] for start, end in zip(starts, ends))
            if batch == base:
                scales = [noise_scale(path_of(label, seed), start[2], end[2]) for seed, start, end in zip(seeds, starts, ends)]
        if base not in samples or len(samples) < 3:
            continue
        critical, scale = critical_batch(samples), statistics.mean(scales)
        errors = [math.log((scale + batch) / (scale + base) * samples[base] / used) for batch, used in samples.items() if batch != base]
        all_errors += errors if before else []
        yield (f"From {before or 'the start'} to {target}: critical batch {'-' if critical is None else round(critical)}, noise scale "
               f"{round(scale)} by lb-bsp; rms of the logarithm of predicted over used samples {rms(errors):.2f}.")
    if all_errors:
        yield f"From {stations[0]} on: {rms(all_errors):.2f}."


def page(tasks, seeds, out):
    lines = ["# Time to a test loss on a virtual clock", ""]
    for name in tasks:
        task = TASKS[name]
        labels = [f"{kind}-{batch}" for kind, sizes in (("static", STATIC), ("split", SPLIT), ("rule", RULE)) for batch in sizes] + list(POLICIES)
        labels = [label for label in labels if all((out / f"{name}-{label}-{seed}.jsonl").exists() for seed in seeds)]
        columns = [f"s to {target} (steps)" for target in task["targets"]] + ["/ lb-bsp", "/ best static", "/ best split"]
        lines += [f"## {name}: B0 = {workers_of(task) * task['initial']}, {len(seeds)} seeds, `{' '.join(task['clock'])}`", "",
                  "| | " + " | ".join(columns) + " |",
                  "|" + "---|" * (4 + len(task["targets"]))]
        times = {}
        for label in labels:
            found = [[reached(out / f"{name}-{label}-{seed}.jsonl", target) for seed in seeds] for target in task["targets"]]
            times[label] = [None if None in each else (statistics.mean(one[0] for one in each), statistics.mean(one[2] for one in each))
                            for each in found]

        def over(label, rival):
            shares = [own[0] / best for own, best in zip(times[label], rival) if own and best]
            return f"{statistics.mean(shares):.2f}" if len(shares) == len(rival) else "-"
        lb_bsp = [each and each[0] for each in times.get("lb-bsp", [None] * len(task["targets"]))]
        static, split = [[min((times[label][i][0] for label in labels if label.startswith(kind) and times[label][i]), default=None)
                          for i in range(len(task["targets"]))] for kind in ("static", "split")]
        for label in labels:
            cells = [f"{each[0]:.1f} ({each[1]:.0f})" if each else "-" for each in times[label]]
            lines.append(f"| {label} | " + " | ".join(cells) + f" | {over(label, lb_bsp)} | {over(label, static)} | {over(label, split)} |")
        lines.append("")
        if "lb-bsp" in labels:
            lines += worth(task, [batch_of(label) for label in labels if label.startswith("rule")],
                           lambda label, seed: out / f"{name}-{label}-{seed}.jsonl", seeds)
        lines.append("")
    (out / "page.md").write_text("\n".join(lines))
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--labels", help="such as goodput,split-64; default: all")
    parser.add_argument("--images", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--text", default="/usr/share/perl/5.36.0/Module", help="a file or a directory of them")
    parser.add_argument("--mlp", default="", help="TorchScript file of mlp-equal's model, as benchmarks/peer_scripts/bench.py has it")
    parser.add_argument("--policy-file", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent.parent / "deployments/policies/ppo.dynamix")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tasks, seeds = arguments.tasks.split(","), [int(seed) for seed in arguments.seeds.split(",")]
    labels = arguments.labels.split(",") if arguments.labels else [
        *POLICIES, *(f"static-{batch}" for batch in STATIC), *(f"split-{batch}" for batch in SPLIT), *(f"rule-{batch}" for batch in RULE)]
    for seed in seeds:
        for name in tasks:
            for label in labels:
                train(name, label, seed, arguments)
    page(tasks, seeds, arguments.out)


if __name__ == "__main__":
    main()
