#!/usr/bin/python3
"""Time to a loss or an accuracy of real trainings: static global batches and policies beside each other.

    benchmarks/time_to_accuracy.py build/bench --out D [--tasks lenet,transformer,mlp] [--seeds 1,2] [--text FILE]

Steps, samples, gradients, losses and decisions are real; the time is virtual (benchmarks/time_to_accuracy.cpp): a step takes a
fixed time and one a sample of the slowest worker, so a busy machine changes nothing but how long this takes. Each training
writes a file of JSON rows to D; those that are there and complete are not run again. `page` in D has, of each task, the time to
each target over that of lb-bsp, which keeps the script's global batch, and over that of the best static one. A time is
interpolated between two evaluations, 0.02 of an epoch apart, of the loss averaged over three of them.
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
STATIC = (16, 32, 64, 128, 256, 512)
POLICIES = ("lb-bsp", "goodput", "ppo")


def cluster_of(name, task, policy, batch, seed, arguments):
    lowest, initial = (batch, batch) if batch else (task["lowest"], task["initial"])
    data = arguments.text if "text" in task["training"] else arguments.images
    kind = policy if not batch else "static"
    shape = "[ppo]\ndiscount = 0.3\ngae_lambda = 0.9\nentropy_coefficient = 0.0005\n" if kind == "ppo" else ""
    return (f'[cluster]\nname = "{name}"\nseed = {seed}\n\n[training]\n{task["training"]}data_path = "{data}"\n\n'
            f'[batch]\ninitial = {initial}\nlowest = {lowest}\nhighest = 1024\n\n[arbitrator]\npolicy = "{kind}"\n'
            f'mode = "infer"\n\n{shape}\n{HOSTS}')


def train(name, task, policy, batch, seed, arguments):
    label = f"static-{4 * batch}" if batch else policy
    rows = arguments.out / f"{name}-{label}-{seed}.jsonl"
    if rows.exists():
        return
    cluster = rows.with_suffix(".toml")
    cluster.write_text(cluster_of(name, task, policy, batch, seed, arguments))
    command = [str(arguments.build / "benchmarks/time_to_accuracy"), "--cluster", str(cluster), *task["clock"]]
    if policy == "ppo":
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


def page(tasks, seeds, out):
    lines = ["# Time to a test loss on a virtual clock", ""]
    for name in tasks:
        task = TASKS[name]
        labels = [f"static-{batch}" for batch in STATIC] + list(POLICIES)
        lines += [f"## {name}: B0 = {4 * task['initial']}, {len(seeds)} seeds, `{' '.join(task['clock'])}`", "",
                  "| | " + " | ".join(f"s to {target} (steps)" for target in task["targets"]) + " | / lb-bsp | / best static |",
                  "|" + "---|" * (3 + len(task["targets"]))]
        times = {}
        for label in labels:
            found = [[reached(out / f"{name}-{label}-{seed}.jsonl", target) for seed in seeds] for target in task["targets"]]
            times[label] = [None if None in each else (statistics.mean(one[0] for one in each), statistics.mean(one[2] for one in each))
                            for each in found]

        def over(label, rival):
            shares = [own[0] / best for own, best in zip(times[label], rival) if own and best]
            return f"{statistics.mean(shares):.2f}" if len(shares) == len(rival) else "-"
        lb_bsp = [each and each[0] for each in times["lb-bsp"]]
        static = [min((times[label][i][0] for label in labels if label.startswith("static") and times[label][i]), default=None)
                  for i in range(len(task["targets"]))]
        for label in labels:
            cells = [f"{each[0]:.1f} ({each[1]:.0f})" if each else "-" for each in times[label]]
            lines.append(f"| {label} | " + " | ".join(cells) + f" | {over(label, lb_bsp)} | {over(label, static)} |")
        lines.append("")
    (out / "page.md").write_text("\n".join(lines))
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--images", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--text", default="/usr/share/perl/5.36.0/Module", help="a file or a directory of them")
    parser.add_argument("--policy-file", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent.parent / "deployments/policies/ppo.dynamix")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    tasks, seeds = arguments.tasks.split(","), [int(seed) for seed in arguments.seeds.split(",")]
    for seed in seeds:
        for name in tasks:
            for policy in POLICIES:
                train(name, TASKS[name], policy, 0, seed, arguments)
            for batch in STATIC:
                train(name, TASKS[name], "static", batch // 4, seed, arguments)
    page(tasks, seeds, arguments.out)


if __name__ == "__main__":
    main()
