#!/usr/bin/python3
"""Time to a loss or an accuracy of real trainings: static global batches and policies beside each other.

    benchmarks/time_to_accuracy.py build/bench --out D [--tasks lenet,transformer,mlp] [--seeds 1,2] [--text FILE]

Steps, samples, gradients, losses and decisions are real; the time is virtual (benchmarks/time_to_accuracy.cpp): a step takes a
fixed time and one a sample of the slowest worker, so a busy machine changes nothing but how long this takes. Each training
writes a file of JSON rows to D; those that are there and complete are not run again. `page` in D has, of each task, the time to
each target over that of lb-bsp, which keeps the script's global batch, and over that of the best static one. A time is
interpolated between two evaluations, 0.02 of an epoch apart, of the loss averaged over three of them.

`split-B` is what can be done by hand: a global batch of B throughout, shared by the hosts' speeds, at the task's learning rate. The
least of their times is what choosing a fixed batch could gain in hindsight. The critical batch C of a target is fitted to their
samples, E = Emin (1 + B/C), so that it can be compared with the noise scale that policies go by.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HOSTS = '\n'.join(f'[[host]]\nname = "h{i}"\nport = {7401 + i}\n' + ('roles = ["arbitrator"]\n' if i == 0 else "")
                  for i in range(5))
#: targets are test losses, from early to late; hosts compute 1:1:2:4 but where cores are shared
TASKS = {
    "lenet": {"training": 'model = "lenet"\ndataset = "fashion-mnist"\noptimizer = "sgd"\nlearning_rate = 0.05\n'
                          'momentum = 0.9\nrule = "adascale"\nepochs = 0.5\n',
              "initial": 32, "lowest": 8, "targets": (0.80, 0.65, 0.55),
              "clock": ["--samples-per-second", "250,250,500,1000", "--fixed-seconds", "0.03"]},
    "transformer": {"training": 'model = "transformer"\nwidth = 0.25\nlayers = 2\nheads = 4\ncontext = 64\ndataset = "text"\n'
                                'vocabulary = "bytes"\noptimizer = "adamw"\nlearning_rate = 0.003\nrule = "square-root"\n'
                                'clip_norm = 1\nepochs = 2.0\n',
                    "initial": 32, "lowest": 8, "targets": (2.0, 1.6, 1.4),
                    "clock": ["--samples-per-second", "125,125,250,500", "--fixed-seconds", "0.03", "--evaluate-every-epochs", "0.04"]},
}
TASKS["lenet-256"] = {**TASKS["lenet"], "initial": 64}  # as clusters that do not say otherwise begin
STATIC = (16, 32, 64, 128, 256, 512)
SPLIT = (48, 64, 96, 192)
POLICIES = ("lb-bsp", "goodput", "ppo")


def batch_of(label):
    """Of all workers, in labels such as static-64; 0: the task's."""
    kind, _, batch = label.rpartition("-")
    return int(batch) if kind in ("static", "split") else 0


def cluster_of(name, task, label, seed, arguments):
    initial = batch_of(label) // 4 or task["initial"]
    lowest = initial if label.startswith("static") else min(initial, task["lowest"])
    data = arguments.text if "text" in task["training"] else arguments.images
    kind = {"static": "static", "split": "lb-bsp"}.get(label.split("-")[0], label)
    shape = "[ppo]\ndiscount = 0.3\ngae_lambda = 0.9\nentropy_coefficient = 0.0005\n" if kind == "ppo" else ""
    return (f'[cluster]\nname = "{name}"\nseed = {seed}\n\n[training]\n{task["training"]}data_path = "{data}"\n\n'
            f'[batch]\ninitial = {initial}\nlowest = {lowest}\nhighest = 1024\n\n[arbitrator]\npolicy = "{kind}"\n'
            f'mode = "infer"\n\n{shape}\n{HOSTS}')


def train(name, label, seed, arguments):
    task = TASKS[name]
    rows = arguments.out / f"{name}-{label}-{seed}.jsonl"
    if rows.exists():
        return
    cluster = rows.with_suffix(".toml")
    cluster.write_text(cluster_of(name, task, label, seed, arguments))
    command = [str(arguments.build / "benchmarks/time_to_accuracy"), "--cluster", str(cluster), *task["clock"]]
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


def noise_scale(path, target):
    """What policies went by when the target was reached."""
    seconds = reached(path, target)[0]
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    return [row["noise_scale"] for row in rows if "noise_scale" in row and row["seconds"] <= seconds][-1]


def page(tasks, seeds, out):
    lines = ["# Time to a test loss on a virtual clock", ""]
    for name in tasks:
        task = TASKS[name]
        labels = [f"{kind}-{batch}" for kind, sizes in (("static", STATIC), ("split", SPLIT)) for batch in sizes] + list(POLICIES)
        labels = [label for label in labels if all((out / f"{name}-{label}-{seed}.jsonl").exists() for seed in seeds)]
        columns = [f"s to {target} (steps)" for target in task["targets"]] + ["/ lb-bsp", "/ best static", "/ best split"]
        lines += [f"## {name}: B0 = {4 * task['initial']}, {len(seeds)} seeds, `{' '.join(task['clock'])}`", "",
                  "| | " + " | ".join(columns) + " |",
                  "|" + "---|" * (4 + len(task["targets"]))]
        times = {}
        samples = {}
        for label in labels:
            found = [[reached(out / f"{name}-{label}-{seed}.jsonl", target) for seed in seeds] for target in task["targets"]]
            times[label] = [None if None in each else (statistics.mean(one[0] for one in each), statistics.mean(one[2] for one in each))
                            for each in found]
            samples[label] = [None if None in each else statistics.mean(one[1] for one in each) for each in found]

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
        for i, target in enumerate(task["targets"]):
            used = {batch_of(label): each[i] for label, each in samples.items() if label.startswith("split") and each[i]}
            critical = critical_batch(used) if len(used) > 2 else None
            seen = [noise_scale(out / f"{name}-lb-bsp-{seed}.jsonl", target) for seed in seeds if lb_bsp[i]]
            lines.append(f"Critical batch to {target}: {'-' if critical is None else round(critical)}; noise scale then, by lb-bsp: "
                         f"{'-' if not seen else round(statistics.mean(seen))}.")
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
    parser.add_argument("--policy-file", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent.parent / "deployments/policies/ppo.dynamix")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tasks, seeds = arguments.tasks.split(","), [int(seed) for seed in arguments.seeds.split(",")]
    labels = arguments.labels.split(",") if arguments.labels else [
        *POLICIES, *(f"static-{batch}" for batch in STATIC), *(f"split-{batch}" for batch in SPLIT)]
    for seed in seeds:
        for name in tasks:
            for label in labels:
                train(name, label, seed, arguments)
    page(tasks, seeds, arguments.out)


if __name__ == "__main__":
    main()
