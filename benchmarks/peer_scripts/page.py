"""docs/peers.md and its pictures, from the rows of benchmarks/peers."""
import statistics

import rows
import their_tests
from systems import JOBS, SYSTEMS

_QUIET_CORES, _QUIET_LOAD = 0.5, 8.0  # of others before a run; of all in it

#: System, and for each property what it does and what says so: a test, a line of its source, or its documents.
_PROPERTIES = ["unequal batches", "changes them online", "a death", "joins a stranger", "exact mean", "FSDP", "telemetry", "lines to adopt"]
_DOCUMENTS = {
    "torchrun": "[its documents](https://docs.pytorch.org/docs/stable/elastic/quickstart.html)",
    "torch": "[its documents](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)",
    "DDP": "[nothing in its documents](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)",
    "accelerate": "[its documents](https://huggingface.co/docs/accelerate/usage_guides/fsdp)",
    "not accelerate": "[nothing in its documents](https://huggingface.co/docs/accelerate/index)",
    "AdaptDL": "[its README](https://github.com/petuum/adaptdl)",
    "torchft": "[its README](https://github.com/meta-pytorch/torchft)",
    "not torchft": "[nothing in its README](https://github.com/meta-pytorch/torchft)",
    "hivemind": "[its documents](https://github.com/learning-at-home/hivemind/blob/master/docs/user/dht.md)",
    "not hivemind": "[nothing in its documents](https://learning-at-home.readthedocs.io/)",
}

#: How a statement of an adapter that adopts the system is told, by the name of its script; imports are not counted, of nobody.
ADOPTS = {
    "with_dynamix.py": r"dynamix\.join|run\.loader", "plain.py": r"$^", "with_accelerate.py": r"[Aa]ccelerator[.(]",
    "with_adaptdl.py": r"adl\.|ADAPTDL", "with_hivemind.py": r"hivemind\.|dht\.",
    "with_torchft.py": r"^(?!.*_comm_hook).*(torchft\.|TCPStore|WORLD_SIZE|load_state|parallel\(|steps\.|manager\.)",
}
#: Lines are those of the pinned versions. `tests/..` are of this repository.
_WORK = {
    "Dynamix": ["yes (`tests/python/gradients_test.py`)", "yes, every few steps (`tests/python/agents_test.py`)",
                "elastic: the others go on (`tests/python/elastic_test.py`, and \"killed\" below)",
                "open clusters of the built-in trainer (`tests/cluster/open_cluster_test.cpp`); elastic scripts, up to the group's size "
                "(`tests/python/outside_elastic_test.py`)", "yes, of unequal batches too (`tests/python/gradients_test.py`)",
                "FSDP2 and HSDP, on CPUs only (`tests/python/sharded_test.py`)",
                "eBPF, TCP_INFO, procfs (`tests/unit/telemetry`)", "2; 1 with a framework (`tests/python/peers_test.py`, `examples_test.py`)"],
    "plain DDP": ["by hand (`benchmarks/peer_scripts/plain.py`)", "no (`torch/utils/data/distributed.py`: a sampler deals the same to each rank)",
                  "torchrun restarts all (\"killed\" below)", f"between two lives of all (torchrun; {_DOCUMENTS['torchrun']})",
                  "of equal batches, or with the loss weighted by hand (`plain.py`)", f"yes ({_DOCUMENTS['torch']})", f"no ({_DOCUMENTS['DDP']})", "0 (`plain.py`)"],
    "accelerate": ["equal; samplers of varying sizes need `even_batches=False` (`accelerate/data_loader.py:140`)", f"no ({_DOCUMENTS['not accelerate']})",
                   "left to torchrun (`accelerate/commands/launch.py:339`)", f"no ({_DOCUMENTS['not accelerate']})", "of equal batches (it wraps DDP)",
                   f"yes ({_DOCUMENTS['accelerate']})", f"no ({_DOCUMENTS['not accelerate']})", "3 (`with_accelerate.py`)"],
    "AdaptDL": ["no: the same for each replica (`adaptdl/torch/data.py:132`)",
                "the global one, at the start of a pass (`adaptdl/torch/data.py:529`) by a fit every 30 s (`adaptdl/torch/_metrics.py:63`)",
                "all save, end and start again (`adaptdl/torch/data.py:325`)", f"by its scheduler, with that restart ({_DOCUMENTS['AdaptDL']})",
                "of equal batches (it wraps DDP, `adaptdl/torch/parallel.py:39`)", "no (the same line)",
                "step times and gradient noise (`adaptdl/torch/_metrics.py:29`)", "5 (`with_adaptdl.py`)"],
    "torchft": ["by hand, with the loss weighted by hand (`with_torchft.py`)", "no (`torchft/manager.py:478` divides by the members)",
                f"in place ({_DOCUMENTS['torchft']}); its hook's assertion ends the survivors here (`torchft/ddp.py:76`, and \"killed\" below)",
                f"yes, a replica group ({_DOCUMENTS['torchft']})", "of the members that take part, unweighted (`torchft/manager.py:478`)",
                f"yes, HSDP ({_DOCUMENTS['torchft']})", f"no ({_DOCUMENTS['not torchft']})", "14 (`with_torchft.py`)"],
    "hivemind": ["yes: each peer accumulates at its own speed (`with_hivemind.py`)", "yes, by that (\"changing\" below)",
                 "in place (\"killed\" below)", f"yes, by its DHT ({_DOCUMENTS['hivemind']})",
                 "of a round, weighted by samples (`hivemind/optim/grad_averager.py:196`)", f"no ({_DOCUMENTS['not hivemind']})",
                 "samples/s of its peers (`hivemind/optim/progress_tracker.py:35`)", "3 (`with_hivemind.py`)"],
}

#: What a reader of a job's table needs to know.
_NOTES = {
    "steady": "`told` and AdaptDL's, torchft's and plain DDP's equal batches all have the same global batch, 128; Dynamix keeps it unless its "
              "policy chooses another. hivemind's peers average once in 2,048 samples, so its losses come later. "
              "AdaptDL fits its model of steps once in 30 s, which is longer than a run here.",
    "killed": "torchrun starts all members again from the script's beginning, since it has no snapshot yet: what was trained is lost. A "
              "step of hivemind is one peer's own; peers meet every 2,048 samples, and each shuffles the whole data set for itself. Samples "
              "are counted over the whole run, by the passes that most samples have had.",
    "equal": "Agents and arbitrator of Dynamix run on the same two cores as the members, but for \"without agents\". Its default policy changes "
             "the global batch: then steps are longer, and samples/s say nothing of how fast the model learns; lb-bsp keeps it.",
    "real": "The held-out loss is taken every 2 s. Agents and arbitrator of Dynamix run on the same two cores.",
}

_WHEN = """## When to use something else
- **All hosts are equal and none ever dies**: plain DistributedDataParallel; nothing here makes it faster ("equal", below).
- **You know the hosts' speeds and they stay**: set the batch sizes by hand and weight the loss, as `told` does; nobody finds a better split than that.
- **Thousands of GPUs in replica groups that fail often, and FSDP**: torchft, which is made for it; Dynamix has not run on NCCL.
- **A cluster that is shared by many jobs, whose replicas a scheduler adds and takes away**: AdaptDL with its scheduler.
- **Volunteers over the internet, without a trusted host**: hivemind. Its peers need not wait for each other in each step.
- **A model that does not fit on one device**: DeepSpeed, Megatron or FSDP. Dynamix is data parallelism.

Tried, and not beside these: DeepSpeed 0.19.8 took no step within 100 s on CPUs, Horovod 0.28.1 does not build here (C++14), and
nvidia-resiliency-ext 0.7 needs Python 3.12 and glibc 2.39.
"""


def _of(kept, job, system):
    return [row for row in kept["rows"] if row["job"] == job and row["system"] == system]


def _ratios(kept, job, system, field):
    """Of a round over plain DDP's of the same round."""
    plain = {row["seed"]: row[field] for row in _of(kept, job, "plain") if field in row}
    return [row[field] / plain[row["seed"]] for row in _of(kept, job, system) if field in row and plain.get(row["seed"])]


def _cell(values, digits, never):
    """Median, least and greatest; what was not reached is counted apart."""
    there = [value for value in values if value is not None]
    if not there:
        return never if values else "-"
    middle, least, greatest = rows.interval(there)
    text = f"{middle:,.{digits}f}"
    if len(there) > 1:
        text += f" ({least:,.{digits}f} to {greatest:,.{digits}f})"
    return text if len(there) == len(values) else f"{text}; {never} in {len(values) - len(there)} of {len(values)}"


def _values(kept, job, system, field):
    return [row[field] for row in _of(kept, job, system) if field in row]


def _losses(kept, job, system, target):
    return [row["seconds_to_loss"].get(target) for row in _of(kept, job, system) if "seconds_to_loss" in row]


def _columns(job):
    """Heading, what gives the numbers of a system, digits, and which number is the best: max, min, or None where it decides nothing."""
    def values(field):
        return lambda kept, system: _values(kept, job, system, field)

    def ratios(field):
        return lambda kept, system: _ratios(kept, job, system, field)

    if "kill" in JOBS[job]:
        return [("survivors' next step, s", values("survivors_next_step_seconds"), 2, min),
                ("newcomer's first step, s", values("newcomers_first_step_seconds"), 2, min),
                ("samples used less often than others", values("samples_behind"), 0, min),
                ("more often", values("samples_ahead"), 0, min)]
    if job == "equal":
        return [("samples a step", values("samples_per_step"), 0, None), ("step, ms", values("step_ms"), 2, min),
                ("x plain", ratios("step_ms"), 2, None), ("samples/s", values("samples_per_second"), 0, None)]
    columns = [("samples/s before it" if JOBS[job]["change"] else "samples/s", values("samples_per_second"), 0, max), ("x plain", ratios("samples_per_second"), 2, None)]
    if JOBS[job]["change"]:
        columns += [("samples/s after it", values("samples_per_second_after"), 0, max),
                    ("x plain after it", ratios("samples_per_second_after"), 2, None)]
    return columns + [(f"s to loss {target}", lambda k, s, t=target: _losses(k, job, s, t), 1, min) for target in JOBS[job]["targets"]]


def _good(kept, job, system):
    return [row for row in _of(kept, job, system) if "failure" not in row]


def _table(kept, job):
    columns = _columns(job)
    never = "never" if "kill" in JOBS[job] else "not reached"
    lines = ["| system | " + " | ".join(column[0] for column in columns) + " | rounds |", "|---|" + "---|" * (len(columns) + 1)]
    for system in JOBS[job]["systems"]:
        own, good = _of(kept, job, system), _good(kept, job, system)
        if not own:
            continue
        if good:
            cells = [_cell(of(kept, system), digits, never) for _, of, digits, _ in columns]
        else:
            cells = [own[-1]["failure"].replace("|", "/")[:160]] + [""] * (len(columns) - 1)
        lines.append(f"| {SYSTEMS[system]['title']} | " + " | ".join(cells) + f" | {len(good)}/{len(own)} |")
    some = [f"- {SYSTEMS[row['system']]['title']}, round {row['seed']}: {row['failure'][:200]}" for row in kept["rows"]
            if row["job"] == job and "failure" in row and _good(kept, job, row["system"])]
    return [*lines, *([""] + some if some else [])]


def _firsts(kept, job):
    """Who is first in what by the median, among those that have reached it in every round; others than Dynamix are named first."""
    said = []
    for title, of, digits, best in _columns(job):
        medians = {}
        for system in JOBS[job]["systems"]:
            values = of(kept, system)
            if best and values and None not in values:
                medians[system] = statistics.median(values)
        own = {system: value for system, value in medians.items() if system.startswith("dynamix")}
        others = {system: value for system, value in medians.items() if system not in own}
        if not medians:
            continue
        ahead, behind = (own, others) if own and (not others or best(own.values()) != best(others.values()) and
                                                  best([*own.values(), *others.values()]) == best(own.values())) else (others, own)
        first, second = (best(group, key=group.get) if group else None for group in (ahead, behind))
        text = f"- {title}: **{SYSTEMS[first]['title']}**, {ahead[first]:,.{digits}f}"
        if second:
            text += f"; {'the best other' if ahead is own else 'the best of ours'}, {SYSTEMS[second]['title']}, {behind[second]:,.{digits}f}"
        else:
            text += "; no other has reached it in every round" if ahead is own else "; ours has not reached it in every round"
        said.append((ahead is own, text + "."))
    return [text for _, text in sorted(said, key=lambda each: each[0])]


def _field(job):
    return "survivors_next_step_seconds" if "kill" in JOBS[job] else "step_ms" if job == "equal" else \
        "samples_per_second_after" if JOBS[job]["change"] else "samples_per_second"


def _picture(kept, job):
    """Bars of the medians, with a line from the least to the greatest; an SVG, or nothing where there are no rows."""
    field = _field(job)
    found = [(SYSTEMS[system]["title"], _values(kept, job, system, field)) for system in JOBS[job]["systems"]]
    found = [(title, [value for value in values if value is not None]) for title, values in found]
    found = [(title, values) for title, values in found if values]
    if not found:
        return ""
    most = max(max(values) for _, values in found) or 1
    height = 26 * len(found) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="780" height="{height}" font-family="sans-serif" font-size="13">',
             f'<rect width="780" height="{height}" fill="white"/>']
    for number, (title, values) in enumerate(found):
        y, middle = 26 * number + 10, statistics.median(values)
        own = "#1f6fb4" if title.startswith("Dynamix") else "#9a9a9a"
        x = [360 + 340 * value / most for value in (middle, min(values), max(values))]
        parts += [f'<text x="350" y="{y + 13}" text-anchor="end">{title}</text>',
                  f'<rect x="360" y="{y}" width="{x[0] - 360:.1f}" height="18" fill="{own}"/>',
                  f'<line x1="{x[1]:.1f}" x2="{x[2]:.1f}" y1="{y + 9}" y2="{y + 9}" stroke="black"/>',
                  f'<text x="{x[2] + 6:.1f}" y="{y + 13}">{middle:,.4g}</text>']
    return "\n".join([*parts, f'<text x="360" y="{height - 8}" fill="#555">{field.replace("_", " ")}</text>', "</svg>", ""])


def _commits(kept):
    """One, or those of each job."""
    jobs = {job: sorted({row["commit"] for row in kept["rows"] if row["job"] == job and "commit" in row}) for job in JOBS}
    all_of_them = {commit for commits in jobs.values() for commit in commits}
    return ", ".join(all_of_them) if len(all_of_them) == 1 else ", ".join(f"{'/'.join(commits)} ({job})" for job, commits in jobs.items() if commits)


def _untried(kept):
    """What no round was tried of, by job."""
    rounds = kept.get("seeds", 0)
    lines = []
    for job, of in JOBS.items():
        tried = {system: len(_of(kept, job, system)) for system in of["systems"]}
        if min(tried.values()) >= rounds:
            continue
        if len(set(tried.values())) == 1:
            lines.append(f"- \"{job}\": {min(tried.values())} of {rounds} were run.")
        else:
            lacking = [f"{SYSTEMS[system]['title']} ({count} of {rounds})" for system, count in tried.items() if count < rounds]
            lines.append(f"- \"{job}\": " + ", ".join(lacking))
    return ["Rounds are missing because the command's time was over; the same command goes on:", *lines, ""] if lines else []


def _seconds(kept, job):
    """Of the whole rounds."""
    rounds = {}
    for row in kept["rows"]:
        if row["job"] == job:
            rounds.setdefault(row["seed"], []).append(row.get("wall_seconds", 0))
    return [sum(walls) for walls in rounds.values() if len(walls) == len(JOBS[job]["systems"])]


def _warnings(kept):
    busy = [row for row in kept["rows"] if row.get("busy_cores_before", 0) > _QUIET_CORES or row.get("load", 0) > _QUIET_LOAD]
    if not kept["rows"]:
        return ["No rows yet: `benchmarks/peers --all` makes them, and this page.", ""]
    if busy:
        named = ", ".join(f"{row['job']} {row['seed']} {SYSTEMS[row['system']]['title']}" for row in busy[:12])
        return [*_untried(kept), f"**The machine was not quiet** in {len(busy)} of {len(kept['rows'])} runs: others used more than "
                f"{_QUIET_CORES} cores before it, or the load was above {_QUIET_LOAD:.0f}. Believe no difference that needs these (job, round, "
                f"system): {named}{' and more' if len(busy) > 12 else ''}.", ""]
    return _untried(kept)


def _before(kept):
    """What a first comparison found, at 32a1c9e on torch 2.13, beside the rows."""
    def ratio(job, system, other, values):
        over, under = (statistics.median([each for each in values(one) if each is not None] or [0]) for one in ((job, system), (job, other)))
        return f"{over / under:.2f}" if over and under else "-"

    def rate(field):
        return lambda one: _values(kept, *one, field)

    survivors = _values(kept, "killed", "dynamix elastic", "survivors_next_step_seconds")
    found = [("steady: samples/s over `told`", "0.78", ratio("steady", "dynamix", "told", rate("samples_per_second"))),
             ("steady: time to the last loss over `told`", "1.44 (training loss 0.40)",
              ratio("steady", "dynamix", "told", lambda one: _losses(kept, *one, "0.5")) + " (held-out loss 0.5)"),
             ("changing: samples/s after it over plain DDP", "3.20", ratio("changing", "dynamix", "plain", rate("samples_per_second_after"))),
             ("killed: survivors' next step, s", "never: they aborted, 3 of 3", f"{statistics.median(survivors):.2f}" if survivors else "-"),
             ("equal: step over plain DDP at the same batch, agents beside it", "1.20", ratio("equal", "dynamix lb-bsp", "plain", rate("step_ms")))]
    return ["## Before", "", "Dynamix, its default policy where none is named, in the first comparison (by hand, at 32a1c9e) and in the tables above:", "",
            "| | then | now |", "|---|---|---|", *(f"| {what} | {then} | {now} |" for what, then, now in found), ""]


def text_of(kept):
    """The page."""
    stamp = kept.get("stamp", {})
    lines = ["# Peers: the same job, in the same minutes, by their own code", "",
             "Made by `benchmarks/peers --all` on any Linux machine with two cores; rerun it to check a figure. Every system trains the same model "
             "on the same data from the same start, in the best form that its own documents give; its script is in "
             "[`benchmarks/peer_scripts`](../benchmarks/peer_scripts) and has at most 60 lines. Systems of one round follow each other; cells are "
             "the median of the rounds (least to greatest). `told` was given the hosts' true speeds, which no system knows. The rows are in "
             "[`benchmarks/results/peers/rows.json`](../benchmarks/results/peers/rows.json).", ""]
    if stamp:
        lines += [f"Commit {_commits(kept)}; {stamp['cores']} cores, Python {stamp['python']}; " +
                  ", ".join(f"{name} {version}" for name, version in stamp["versions"].items()) + ".", ""]
    for name, why in kept.get("missing", {}).items():
        lines += [f"{name} does not install here: {why}", ""]
    lines += _warnings(kept) + ["## What each does", "", "| | " + " | ".join(_PROPERTIES) + " |", "|---|" + "---|" * len(_PROPERTIES)]
    lines += [f"| {system} | " + " | ".join(cells) + " |" for system, cells in _WORK.items()]
    lines += ["", "Lines to adopt are the statements of the scripts here that name the system, imports left out.", "", _WHEN]
    for job, of in JOBS.items():
        if any(row["job"] == job for row in kept["rows"]):
            seconds = _seconds(kept, job)
            took = f"; a round took {statistics.median(seconds):.0f} s" if seconds else ""
            lines += [f"## {of['title']}", "", f"\"{job}\": `benchmarks/peers --jobs {job}`{took}.", "", *_firsts(kept, job), "",
                      *_table(kept, job), ""]
            if job in _NOTES:
                lines += [_NOTES[job], ""]
            if _picture(kept, job):
                lines += [f"![{of['title']}](images/peers-{job}.svg)", ""]
    return "\n".join(lines + _before(kept) + their_tests.lines())


def write(path, kept):
    path.write_text(text_of(kept), encoding="utf-8")
    for job in JOBS:
        picture = _picture(kept, job)
        if picture:
            (path.parent / "images").mkdir(exist_ok=True)
            (path.parent / f"images/peers-{job}.svg").write_text(picture, encoding="utf-8")
    print(f"wrote {path}")
