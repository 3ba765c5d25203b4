"""What every training process of the fault plan scripts-40 runs: a small network, in an elastic run with agents.

    elastic.py LEAST    trains until all are asked to stop; begins with so many members. $RANK, $WORLD_SIZE, $DYNAMIX_AGENT and
                        $DYNAMIX_RUN are as `dynamix-node faults` gives them
    elastic.py check    judges what they have written there: whether each sample was used once an epoch, and whether all
                        members had the same parameters, to the bit, behind each step
"""
import collections
import itertools
import json
import os
import pathlib
import sys
import zlib

SAMPLES = 4800
RUN = pathlib.Path(os.environ["DYNAMIX_RUN"])


def train(least):
    import torch
    import torch.distributed

    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))  # where the package is not installed
    import dynamix

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    store = torch.distributed.FileStore(str(RUN / "store"), -1)
    run = dynamix.join(model, optimizer, elastic=store, elastic_seconds=600, elastic_least=least, rule="linear")
    values = torch.randn(SAMPLES, 16, generator=torch.Generator().manual_seed(2))
    loader = run.loader(torch.utils.data.TensorDataset(torch.arange(SAMPLES), values), batch_size=8)
    path = RUN / "journals" / f"{os.environ['RANK']}-{os.getpid()}"
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", encoding="ascii") as journal:
        def note(**line):
            print(json.dumps({**line, "generation": run._peers.generation}), file=journal, flush=True)

        for epoch in itertools.count(run.epoch):
            if run.status.stop:
                break
            for numbers, batch in loader:
                step = run.status.step
                note(step=step, epoch=epoch, samples=numbers.tolist()[:run.counted])
                loss = (model(batch)[:, 0] - batch[:, 0] * batch[:, 1]).square().mean()
                loss.backward()
                run.average_gradients()
                optimizer.step()
                optimizer.zero_grad()
                bits = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
                if run.status.step > step:  # else the group was formed anew, and the step left out
                    note(done=step, parameters=zlib.crc32(bits))
        run.close()


def check():
    """Of a step that two generations have done the later one's counts: the earlier one's was dropped."""
    used = collections.defaultdict(lambda: collections.defaultdict(list))  # by epoch, and step
    done = collections.defaultdict(dict)                                   # by step, and generation
    for path in (RUN / "journals").iterdir():
        for text in path.read_text(encoding="ascii").splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # cut off by its death
                continue
            if "step" in line:
                used[line["epoch"]][line["step"]].append(line)
            else:
                done[line["done"]].setdefault(line["generation"], set()).add(line["parameters"])
    wrong = [f"after step {step}, parameters differ" for step, said in done.items() if len(said[max(said)]) != 1]
    steps = sorted(step for of in used.values() for step in of)
    if steps != list(range(len(steps))):
        wrong.append("steps are missing")
    for epoch, of in sorted(used.items()):
        counts = collections.Counter()
        for lines in of.values():
            newest = max(line["generation"] for line in lines)
            counts.update(sample for line in lines if line["generation"] == newest for sample in line["samples"])
        if max(counts.values()) > 1 or (epoch < max(used) and len(counts) != SAMPLES):
            wrong.append(f"epoch {epoch}: {len(counts)} of {SAMPLES} samples used, one up to {max(counts.values())} times")
    print(f"{len(steps)} steps, {len(used)} epochs begun")
    if wrong:
        sys.exit("; ".join(wrong[:3]))


if __name__ == "__main__":
    check() if sys.argv[1] == "check" else train(int(sys.argv[1]))
