"""docs/peers.md and its pictures, from the rows of benchmarks/peers."""
import statistics

import rows
from systems import JOBS, SYSTEMS

_QUIET_LOAD = 4.0

#: System, and for each property what it does and what says so: a test, a line of its source, or its documents.
_PROPERTIES = ["unequal batches", "changes them online", "a death", "joins a stranger", "exact mean", "FSDP", "telemetry", "lines to adopt"]
_TOLD = "told by its documents"
_WORK = {
    "Dynamix": ["yes (`gradients_test`)", "yes, every few steps and between (`agents_test`)", "elastic: the others go on (`elastic_test`)",
                "yes, with `membership = \"open\"`, built-in trainer (`open_cluster_soak.py`); scripts: no", "yes, 1e-6 (`gradients_test`)",
                "fully_shard and HSDP (`sharded_test`, on CPUs); FSDP1 by the loss", "eBPF, TCP_INFO, procfs (`telemetry_test`)",
                "2; 1 with a framework (`integrations_test`)"],
    "plain DDP": ["by hand", "no", "restart by torchrun (row `killed`)", "no", "where batches are equal", f"yes ({_TOLD})", "no", "0"],
    "accelerate 1.15": [f"`split_batches`, equal ({_TOLD})", "no", "left to torchrun (src/accelerate/commands/launch.py)", "no",
                        f"where batches are equal ({_TOLD})", f"yes ({_TOLD})", "no", f"4 ({_TOLD})"],
    "AdaptDL 0.2.11": ["no: each replica has the same (adaptdl/torch/data.py)", "the global one, between epochs (adaptdl/torch/data.py)",
                       "checkpoint and restart (adaptdl/torch/data.py)", f"by its scheduler ({_TOLD})", "where batches are equal",
                       "no (wraps DistributedDataParallel, adaptdl/torch/parallel.py)", "step times and noise (adaptdl/torch/_metrics.py)",
                       f"8 ({_TOLD})"],
    "torchft 0.2.0": ["by hand, with the loss weighted by hand", "no", "in place (row `killed`)", f"yes, a replica group ({_TOLD})",
                      "of the replicas that take part, unweighted (torchft/manager.py)", f"yes, HSDP ({_TOLD})", "no", f"some 24 ({_TOLD})"],
    "hivemind 1.1.12": ["yes: each peer accumulates at its speed", "yes, by that", "in place (row `killed`)", f"yes, by its DHT ({_TOLD})",
                        "of a round, not of a step", "no", f"averaging's own ({_TOLD})", f"4 ({_TOLD})"],
}

_WHEN = """## When to use something else
- **All hosts are equal and none ever dies**: plain DistributedDataParallel; nothing here makes it faster ("equal", below).
- **You know the hosts' speeds and they stay**: set the batch sizes by hand and weight the loss, as `told` does; nobody finds a better split than that.
- **Thousands of GPUs in replica groups that fail often, and FSDP**: torchft, which is made for it; Dynamix has not run on NCCL.
- **A cluster that is shared by many jobs, whose replicas a scheduler adds and takes away**: AdaptDL with its scheduler.
- **Volunteers over the internet, without a trusted host**: hivemind. Its peers need not wait for each other in each step.
- **A model that does not fit on one device**: DeepSpeed, Megatron or FSDP. Dynamix is data parallelism.
"""


def _of(kept, job, system):
    return [row for row in kept["rows"] if row["job"] == job and row["system"] == system]


def _ratios(kept, job, system, field):
    """Of a round over plain DDP's of the same round."""
    plain = {row["seed"]: row[field] for row in _of(kept, job, "plain") if field in row}
    return [row[field] / plain[row["seed"]] for row in _of(kept, job, system) if field in row and plain.get(row["seed"])]


def _cell(values, digits):
    if not values:
        return "-"
    middle, least, greatest = rows.interval(values)
    if len(values) == 1:
        return f"{middle:,.{digits}f}"
    return f"{middle:,.{digits}f} ({least:,.{digits}f} to {greatest:,.{digits}f})"


def _values(kept, job, system, field):
    return [row[field] for row in _of(kept, job, system) if row.get(field) is not None]


def _losses(kept, job, system, target):
    return [row["seconds_to_loss"][target] for row in _of(kept, job, system)
            if row.get("seconds_to_loss", {}).get(target) is not None]


def _columns(job):
    """Headings, and what gives the numbers of a system: (kept, system) -> values, digits."""
    if "kill" in JOBS[job]:
        return [("survivors' next step, s", lambda k, s: (_values(k, job, s, "survivors_next_step_seconds"), 2)),
                ("newcomer's first step, s", lambda k, s: (_values(k, job, s, "newcomers_first_step_seconds"), 1)),
                ("samples used less often than others", lambda k, s: (_values(k, job, s, "samples_behind"), 0)),
                ("more often", lambda k, s: (_values(k, job, s, "samples_ahead"), 0))]
    if job == "equal":
        return [("step, ms", lambda k, s: (_values(k, job, s, "step_ms"), 2)), ("x plain", lambda k, s: (_ratios(k, job, s, "step_ms"), 2))]
    columns = [("samples/s", lambda k, s: (_values(k, job, s, "samples_per_second"), 0)),
               ("x plain", lambda k, s: (_ratios(k, job, s, "samples_per_second"), 2))]
    if JOBS[job]["change"]:
        columns += [("after the change", lambda k, s: (_values(k, job, s, "samples_per_second_after"), 0)),
                    ("x plain after it", lambda k, s: (_ratios(k, job, s, "samples_per_second_after"), 2))]
    return columns + [(f"s to loss {target}", lambda k, s, t=target: (_losses(k, job, s, t), 1)) for target in ("0.7", "0.5", "0.4")]


def _table(kept, job):
    columns = _columns(job)
    lines = ["| system | " + " | ".join(title for title, _ in columns) + " | rounds |", "|---|" + "---|" * (len(columns) + 1)]
    for system in JOBS[job]["systems"]:
        own = _of(kept, job, system)
        if not own:
            continue
        good = [row for row in own if "failure" not in row]
        if good:
            cells = [_cell(*values(kept, system)) for _, values in columns]
        else:
            cells = [own[-1]["failure"].replace("|", "/")[:160]] + [""] * (len(columns) - 1)
        lines.append(f"| {SYSTEMS[system]['title']} | " + " | ".join(cells) + f" | {len(good)}/{len(own)} |")
    return lines


def _field(job):
    return "survivors_next_step_seconds" if "kill" in JOBS[job] else "step_ms" if job == "equal" else \
        "samples_per_second_after" if JOBS[job]["change"] else "samples_per_second"


def _picture(kept, job):
    """Bars of the medians, with a line from the least to the greatest; an SVG, or nothing where there are no rows."""
    field = _field(job)
    found = [(SYSTEMS[system]["title"], _values(kept, job, system, field)) for system in JOBS[job]["systems"]]
    found = [(title, values) for title, values in found if values]
    if not found:
        return ""
    most = max(max(values) for _, values in found) or 1
    height = 26 * len(found) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif" font-size="13">',
             f'<rect width="760" height="{height}" fill="white"/>']
    for number, (title, values) in enumerate(found):
        y, middle = 26 * number + 10, statistics.median(values)
        own = "#1f6fb4" if title.startswith("Dynamix") else "#9a9a9a"
        x = [260 + 420 * value / most for value in (middle, min(values), max(values))]
        parts += [f'<text x="250" y="{y + 13}" text-anchor="end">{title}</text>',
                  f'<rect x="260" y="{y}" width="{x[0] - 260:.1f}" height="18" fill="{own}"/>',
                  f'<line x1="{x[1]:.1f}" x2="{x[2]:.1f}" y1="{y + 9}" y2="{y + 9}" stroke="black"/>',
                  f'<text x="{x[2] + 6:.1f}" y="{y + 13}">{middle:,.4g}</text>']
    return "\n".join([*parts, f'<text x="260" y="{height - 8}" fill="#555">{field.replace("_", " ")}</text>', "</svg>", ""])


def _warnings(kept):
    busy = [row for row in kept["rows"] if max(row.get("load", [0])) > _QUIET_LOAD]
    if not kept["rows"]:
        return ["No rows yet: `benchmarks/peers --all` makes them, and this page.", ""]
    if busy:
        return [f"**The machine was not quiet**: its load was above {_QUIET_LOAD:.0f} in {len(busy)} of {len(kept['rows'])} runs (at most "
                f"{max(max(row['load']) for row in busy):.0f}), so times here show that each adapter runs, and no more.", ""]
    return []


def text_of(kept):
    """The page."""
    stamp = kept.get("stamp", {})
    lines = ["# Peers: the same job, in the same minutes, by their own code", "",
             "Made by `benchmarks/peers --all` on any Linux machine with two cores; rerun it to check a figure. Every system trains the same model "
             "on the same data from the same start, in the best form that its own documents give; its script is in "
             "[`benchmarks/peer_scripts`](../benchmarks/peer_scripts) and has at most 60 lines. Systems of one round follow each other; cells are "
             "the median of the rounds (least to greatest). `told` was given the hosts' true speeds, which no system knows.", ""]
    if stamp:
        lines += [f"Commit {stamp['commit']}, {stamp['cores']} cores, Python {stamp['python']}; " +
                  ", ".join(f"{name} {version}" for name, version in stamp["versions"].items()) + ".", ""]
    for name, why in kept.get("missing", {}).items():
        lines += [f"{name} does not install here: {why}", ""]
    lines += _warnings(kept) + ["## What each does", "", "| | " + " | ".join(_PROPERTIES) + " |", "|---|" + "---|" * len(_PROPERTIES)]
    lines += [f"| {system} | " + " | ".join(cells) + " |" for system, cells in _WORK.items()]
    lines += ["", _WHEN]
    for job, of in JOBS.items():
        if any(row["job"] == job for row in kept["rows"]):
            lines += [f"## {of['title']}", "", f"`benchmarks/peers --jobs {job}`", "", *_table(kept, job), ""]
            if _picture(kept, job):
                lines += [f"![{of['title']}](images/peers-{job}.svg)", ""]
    return "\n".join(lines)


def write(path, kept):
    path.write_text(text_of(kept), encoding="utf-8")
    for job in JOBS:
        picture = _picture(kept, job)
        if picture:
            (path.parent / "images").mkdir(exist_ok=True)
            (path.parent / f"images/peers-{job}.svg").write_text(picture, encoding="utf-8")
    print(f"wrote {path}")
