"""What a run of a system comes to: one row. Pure, over what the ranks have written."""
import collections
import json
import statistics

WARM_UP_SECONDS = 2.0
TARGETS = (1.0, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4)


def read_ranks(folder):
    """The lines of each process, by (rank, process), in order."""
    ranks = {}
    for path in sorted(folder.glob("rank-*.jsonl")):
        _, rank, process = path.stem.split("-")
        lines = []
        for line in path.read_text(encoding="ascii").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:  # it was killed while it wrote
                pass
        ranks[int(rank), int(process)] = lines
    return ranks


def steps_of(lines):
    return [line for line in lines if "samples" in line]


def speed_row(ranks, seconds, change=None):
    """Samples a second of all, behind the warm-up; seconds to losses; where speeds change, samples per second from a second after it."""
    firsts = [steps_of(lines)[0]["at"] for lines in ranks.values() if steps_of(lines)]
    began = max(firsts)
    end = began + seconds
    steps = [line for lines in ranks.values() for line in steps_of(lines)]

    def rate(start, stop):
        return sum(line["samples"] for line in steps if start < line["at"] <= stop) / (stop - start)

    losses = [line for lines in ranks.values() for line in lines if "loss" in line and line["at"] <= end]
    row = {"samples_per_second": rate(began + WARM_UP_SECONDS, change and began + change or end),
           "seconds_to_loss": {str(target): next((line["at"] - began for line in losses if line["loss"] <= target), None)
                               for target in TARGETS},
           "last_loss": losses[-1]["loss"] if losses else None}
    if change:
        row["samples_per_second_after"] = rate(began + change + 1, end)
    return row


def step_row(ranks):
    """The median step of the first rank behind its first 20, milliseconds; samples of all a second, and of all in its median step."""
    lines = next(steps_of(lines) for (rank, _), lines in ranks.items() if rank == 0)
    gaps = [later["at"] - earlier["at"] for earlier, later in zip(lines[20:], lines[21:])]
    began, end = lines[20]["at"], lines[-1]["at"]
    samples = sum(line["samples"] for own in ranks.values() for line in steps_of(own) if began < line["at"] <= end)
    return {"step_ms": 1e3 * statistics.median(gaps), "samples_per_second": samples / (end - began),
            "samples_per_step": sum(statistics.median(line["samples"] for line in steps_of(own)[20:]) for own in ranks.values())}


def kill_row(ranks, killed_rank, killed_at, started_at, samples):
    """Survivors' next step and the newcomer's first, in seconds; nothing where one of the survivors has made none. How often samples of
    the data set were used less, or more, than the others."""
    survivors = {}
    for (rank, _), lines in ranks.items():
        if rank != killed_rank:
            survivors.setdefault(rank, []).extend(steps_of(lines))
    nexts = [min((line["at"] for line in lines if line["at"] > killed_at + 0.1), default=None) for lines in survivors.values()]
    came = [line["at"] for (rank, _), lines in ranks.items() if rank == killed_rank for line in steps_of(lines) if line["at"] > started_at]
    numbers = [number for lines in ranks.values() for line in steps_of(lines) for number in line.get("numbers", ())]
    counts = dict.fromkeys(range(samples), 0) if numbers else {}
    for number in numbers:
        counts[number] += 1
    row = {"survivors_next_step_seconds": max(nexts) - killed_at if nexts and None not in nexts else None,
           "newcomers_first_step_seconds": min(came) - started_at if came else None}
    if counts:  # in the middle of a pass two counts are right, one and the next: those that leave the fewest uses to explain
        times = collections.Counter(counts.values())

        def behind_and_ahead(right):
            return (sum(number * max(0, right - count) for count, number in times.items()),
                    sum(number * max(0, count - right - 1) for count, number in times.items()))

        row["samples_behind"], row["samples_ahead"] = min(map(behind_and_ahead, range(max(times) + 1)), key=sum)
    return row


def interval(values):
    """Median, least and greatest."""
    return statistics.median(values), min(values), max(values)
