"""Every way in which a member can end, at every moment of a training: nobody hangs, and who cannot go on says why.

    ends.py RESULTS [fixed|elastic|WAY|MOMENT ...]    cells that RESULTS (JSON lines) has are not run again
    ends.py RESULTS table                             what it has, as a table

In a fixed group of two one member ends; the other has to end, too, with a sentence of dynamix's or of Gloo's (or finish, where both had
come to their end). In an elastic run of three the others have to finish with equal parameters. A hang is a process that still runs
LIMIT seconds after the member has ended. Members are forked from one process, so that torch is loaded once, and run to the
interpreter's end.
"""
import atexit
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import zlib

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a store's lost connection is told with a stack, whose names take seconds to find

import agents
import ranks
import torch
from torch.nn.parallel import DistributedDataParallel

import dynamix

LIMIT = 120
EPOCHS, SAMPLES, BATCH = 3, 32, 4
STEP_SECONDS = 0.01
STOP_SECONDS = 1.5
LONG_SECONDS = 12  # in one place: longer than a thread that looks for others' ends needs to think that it waits
SENTENCE = re.compile(r"DynamixError: |is ended$|Connection (closed|reset)|Broken pipe|connect|Application timeout|Store", re.M)


class Returned(Exception):
    """Ends the training as a return from its function does."""


def signalled(number):
    def end():
        os.kill(os.getpid(), number)
        time.sleep(LIMIT)  # it comes at once
    return end


def returns():
    raise Returned


def raises():
    raise ValueError("a bad file")


def raises_beside_a_thread():
    threading.Thread(target=time.sleep, args=(5,)).start()
    raise ValueError("a bad file")


def is_stopped():
    """As by a debugger."""
    if os.fork() == 0:
        time.sleep(STOP_SECONDS)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)


def forks():
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def restarts_as_a_notebook():
    """An interrupt, and soon after it the end."""
    if os.fork() == 0:
        time.sleep(0.1)
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGINT)


def forks_one_that_exits():
    """As far as Python is concerned: behind that torch's own group may hang."""
    if os.fork() == 0:
        atexit._run_exitfuncs()
        os._exit(0)
    os.wait()


GOES_ON = {"is stopped for a while": is_stopped, "forks": forks, "forks one that exits": forks_one_that_exits,
           "takes its time": lambda: time.sleep(LONG_SECONDS)}
WAYS = {"returns": returns, "raises": raises, "raises beside a thread": raises_beside_a_thread, "sys.exit(0)": lambda: sys.exit(0),
        "sys.exit(3)": lambda: sys.exit(3), "os._exit(0)": lambda: os._exit(0), "os._exit(3)": lambda: os._exit(3),
        "SIGTERM": signalled(signal.SIGTERM), "SIGINT": signalled(signal.SIGINT), "SIGKILL": signalled(signal.SIGKILL),
        "SIGHUP": signalled(signal.SIGHUP), "os.abort": os.abort, "a bad address": lambda: ctypes.string_at(0),
        "exec": lambda: os.execv("/bin/true", ["true"]), "a notebook's restart": restarts_as_a_notebook, **GOES_ON}
MOMENTS = ("before join", "before the loader", "before the first batch", "fetching a sample", "in a loader with workers", "before forward", "in forward", "behind forward",
           "in backward", "behind backward", "in the optimiser's step", "behind the step", "in a metric's all_reduce", "in run.gather",
           "in an accumulated pass", "in the epoch's last step", "between epochs", "in an evaluation", "in saving", "behind the last epoch",
           "behind close")


class Act:
    """The moment at which the member that leaves does so, once."""

    def __init__(self, way, moment, leaves, mark):
        self.way, self.moment, self.left, self.mark = way, moment, not leaves, mark

    def at(self, moment, holds=True):
        if not self.left and moment == self.moment and holds:
            self.left = True
            pathlib.Path(self.mark).write_text(str(time.monotonic()), encoding="ascii")
            WAYS[self.way]()


class Samples(torch.utils.data.Dataset):
    def __init__(self, act):
        self.act = act

    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        self.act.at("fetching a sample", number % 7 == 3)
        return torch.full((8,), number / SAMPLES)


class Model(torch.nn.Module):
    def __init__(self, act):
        super().__init__()
        self.layer, self.act, self.calls = torch.nn.Linear(8, 1), act, 0

    def forward(self, values):
        self.calls += 1
        self.act.at("in forward", self.calls > 4)
        found = self.layer(values)
        if found.requires_grad:
            found.register_hook(lambda gradient: self.act.at("in backward", self.calls > 4))
        return found


def train(kind, way, moment, rank, who, folder):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    act = Act(way, moment, rank == who, os.path.join(folder, "left"))
    model = plain = Model(act)
    if kind == "fixed":
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{int(pathlib.Path(folder, 'port').read_text())}", rank=rank, world_size=2)
        model = DistributedDataParallel(plain)
    else:
        os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), "3"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.register_step_pre_hook(lambda *_: act.at("in the optimiser's step", plain.calls > 4))
    act.at("before join")
    store = torch.distributed.FileStore(os.path.join(folder, "store"), -1) if kind == "elastic" else None
    run = dynamix.join(model, optimizer, agent="off", elastic=store, elastic_seconds=20)
    act.at("before the loader")
    workers = 1 if moment == "in a loader with workers" else 0
    loader = run.loader(Samples(act), batch_size=BATCH, num_workers=workers)
    act.at("before the first batch")
    last = time.monotonic()
    for epoch in range(run.epoch, EPOCHS):
        passes = 0
        for values in loader:
            passes += 1
            middle = epoch == 1 and passes >= 2
            act.at("before forward", middle)
            act.at("in a loader with workers", middle)
            if moment == "in a metric's all_reduce" and kind == "fixed":
                act.at(moment, middle)
                torch.distributed.all_reduce(torch.ones(1))
            if moment == "in run.gather":
                act.at(moment, middle)
                run.gather(values)
            accumulates = moment == "in an accumulated pass" and kind == "fixed" and passes % 2 == 1
            if not accumulates and moment != "in an accumulated pass" or passes % 2 == 1:
                optimizer.zero_grad()
            time.sleep(STEP_SECONDS)
            with model.no_sync() if accumulates else torch.enable_grad():
                loss = model(values).square().mean()
                act.at("behind forward", middle)
                loss.backward()
            if accumulates:
                act.at(moment, middle)
                continue
            act.at("behind backward", middle)
            if kind == "elastic":
                run.average_gradients()
            optimizer.step()
            now = time.monotonic()
            print("step", round(now - last, 3), file=sys.stderr)
            last = now
            act.at("behind the step", middle)
            act.at("in the epoch's last step", epoch == 1 and run.status.epoch == 2)
        act.at("between epochs", epoch == 1)
        act.at("in an evaluation", epoch == 1)
        with torch.no_grad():
            model(torch.ones(4, 8))
        if rank == who and moment == "in saving" and epoch == 1:
            with open(os.path.join(folder, "state"), "wb") as file:
                torch.save(run.state_dict(), file)
                act.at("in saving")
    act.at("behind the last epoch")
    run.close()
    act.at("behind close")
    pathlib.Path(folder, f"end-{rank}").write_text(str([value for parameter in plain.parameters() for value in parameter.flatten().tolist()]), encoding="ascii")


def member(kind, way, moment, rank, who, folder):
    """In a process of its own."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and nohup's the other
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    error = os.open(os.path.join(folder, f"said-{rank}"), os.O_WRONLY | os.O_CREAT)
    os.dup2(error, 2)
    os.dup2(error, 1)
    try:
        train(kind, way, moment, rank, who, folder)
    except Returned:
        pass
    except BaseException:  # what it is told; printing the stack takes longer on a busy machine
        pathlib.Path(folder, f"told-{rank}").write_text(str(time.monotonic()), encoding="ascii")
        raise


def settle(pids, folder, who):
    """Waits for all. Returns the statuses, when each ended, and who had to be killed."""
    statuses, ended, hung = {}, {}, set()
    began, mark = time.monotonic(), pathlib.Path(folder, "left")
    while len(statuses) < len(pids):
        for rank, pid in pids.items():
            if rank not in statuses:
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    statuses[rank], ended[rank] = os.waitstatus_to_exitcode(status), time.monotonic()
        text = mark.read_text(encoding="ascii") if mark.exists() else ""
        since = float(text) if text else began
        if time.monotonic() > max(since, min(ended.values(), default=since)) + LIMIT:
            for rank, pid in pids.items():
                if rank not in statuses:
                    hung.add(rank)
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return statuses, {rank: ended[rank] - since for rank in ended}, hung


def judge(kind, way, moment, who, statuses, hung, said, ends):
    """What is wrong; empty where nothing is."""
    others = [rank for rank in statuses if rank != who]
    if any(rank != who for rank in hung):
        return f"members {sorted(hung)} hang"
    if hung:
        return "the member that ends hangs"
    if way in GOES_ON:
        return "" if not any(statuses.values()) else f"it goes on, and they ended with {statuses}"
    if kind == "elastic" and moment not in ("before join", "before the loader"):  # they begin with all members
        if any(statuses[rank] for rank in others):
            return f"the others ended with {statuses}"
        return "" if len({ends[rank] for rank in others}) == 1 else "the others' parameters differ"
    for rank in others:
        if statuses[rank] < 0:
            return f"the other ended by signal {-statuses[rank]}"
        if statuses[rank] == 0 and rank not in ends:
            return "the other ended well without its end"
        if statuses[rank] != 0 and not SENTENCE.search(said[rank]):
            return "the other ended without a sentence"
    return ""


def run_cell(kind, way, moment, port):
    """Its result; None in a member's process, which is to end now."""
    world = 2 if kind == "fixed" else 3
    who = zlib.crc32(f"{way} {moment}".encode()) % world
    folder, own = tempfile.mkdtemp(), os.getpid()
    try:
        return run_in(folder, kind, way, moment, port, world, who)
    finally:
        if os.getpid() == own:  # a member's process leaves this, too
            shutil.rmtree(folder)


def run_in(folder, kind, way, moment, port, world, who):
    """The same, with a folder of its own."""
    pathlib.Path(folder, "port").write_text(str(port), encoding="ascii")
    pids = {}
    for rank in range(world):
        sys.stdout.flush()
        sys.stderr.flush()
        pids[rank] = os.fork()
        if pids[rank] == 0:
            member(kind, way, moment, rank, who, folder)
            return None
    statuses, seconds, hung = settle(pids, folder, who)
    said = {rank: pathlib.Path(folder, f"said-{rank}").read_text(encoding="utf-8", errors="replace") for rank in pids}
    ends = {rank: path.read_text(encoding="ascii") for rank in pids for path in [pathlib.Path(folder, f"end-{rank}")] if path.exists()}
    steps = [float(line.split()[1]) for rank in pids if rank != who for line in said[rank].splitlines() if re.fullmatch(r"step [0-9.]+", line)]
    problem = judge(kind, way, moment, who, statuses, hung, said, ends)
    left = pathlib.Path(folder, "left").exists()
    told = [seconds_of(folder, f"told-{rank}") - seconds_of(folder, "left") for rank in pids
            if left and rank != who and pathlib.Path(folder, f"told-{rank}").exists()]
    words = {rank: [line for line in text.splitlines() if line.strip() and not line.startswith("step ")][-3:] for rank, text in said.items()}
    return {"kind": kind, "way": way, "moment": moment, "who": who, "left": left, "problem": problem,
            "statuses": statuses, "seconds": {rank: round(value, 2) for rank, value in seconds.items()}, "longest_step": max(steps, default=None), "sentence": round(max(told), 3) if told else None, "load": os.getloadavg()[0],
            "said": words}


def seconds_of(folder, name):
    """Of the clock that all processes of a machine share."""
    return float(pathlib.Path(folder, name).read_text(encoding="ascii"))


def applies(kind, way, moment):
    """An elastic run has no collectives of the script's own, and no passes that are not summed."""
    if (way, moment) == ("forks one that exits", "in a loader with workers"):  # which end with it, by torch itself
        return False
    return kind == "fixed" or moment not in ("in a metric's all_reduce", "in an accumulated pass")


def table(rows):
    for kind in ("fixed", "elastic"):
        here = [row for row in rows if row["kind"] == kind]
        if here:
            print(f"{kind}: {len(here)} cells, {sum(1 for row in here if row['left'])} in which the member ended, "
                  f"{sum('hang' in row['problem'] for row in here)} hangs, {sum(bool(row['problem']) for row in here)} problems")
            told = sorted(row["sentence"] for row in here if row.get("sentence") is not None)
            if told:
                print(f"  s from the end to the others' sentence: {told[len(told) // 2]:.2f} in the median of {len(told)}, {told[-1]:.2f} at most; "
                      f"{sum(seconds > 2 for seconds in told)} above 2")
            steps = sorted(row["longest_step"] for row in here if row["left"] and row["longest_step"] is not None and row["way"] not in GOES_ON)
            if steps:
                print(f"  longest step of the others, s: {steps[len(steps) // 2]:.2f} in the median of {len(steps)}, {steps[-1]:.2f} at most")
        print("| a member | cells | without a problem | the others' last end, median s | most s |\n|---|---|---|---|---|")
        for way in WAYS:
            of = [row for row in here if row["way"] == way]
            later = sorted(max(value for rank, value in row["seconds"].items() if int(rank) != row["who"]) for row in of if row["left"])
            if later:
                print(f"| {way} | {len(of)} | {sum(not row['problem'] for row in of)} | {later[len(later) // 2]:.1f} | {later[-1]:.1f} |")
        for row in here:
            if row["problem"]:
                print(f"  {row['way']} {row['moment']}: {row['problem']} {row['statuses']}")


def main(results, *wanted):
    path = pathlib.Path(results)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    if "table" in wanted:
        table(rows)
        return 0
    done = {(row["kind"], row["way"], row["moment"]) for row in rows}
    kinds = {"fixed", "elastic"} & set(wanted) or {"fixed", "elastic"}
    cells = [(kind, way, moment) for kind in kinds for way in set(WAYS) & set(wanted) or WAYS
             for moment in set(MOMENTS) & set(wanted) or MOMENTS if applies(kind, way, moment)]
    for cell in sorted(set(cells) - done, key=lambda cell: zlib.crc32(repr(cell).encode())):  # any number of them is a sample of all
        row = run_cell(*cell, agents.take_free_ports(1)[0])
        if row is None:
            return 0
        rows.append(row)
        with path.open("a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)
        if row["problem"]:
            print(f"{cell}: {row['problem']}: {row['said']}", flush=True)
    table(rows)
    return int(any(row["problem"] for row in rows))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
