"""Kills members of elastic runs at any moment, and looks whether any sample was lost or used twice.

    elastic.py [KILLS [SEED [AGENTS [PASSES]]]]     # AGENTS: 1 beside agents; PASSES: synchronised backward passes a step

What dies is started again, and comes into the training that goes on meanwhile.
"""
import collections
import ctypes
import json
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import agents
import ranks  # noqa: F401  (finds the package)
import torch
import torch.distributed

import dynamix

WORLD = 3
SAMPLES = 180
EPOCHS = 24
RUN_SECONDS = 300
HOST_SECONDS = 3
LEARNING_RATE = 0.001  # stable at any batch sizes that agents may decide on: what diverges makes rounding large


def read(shard):
    """A shard of a stream: 15 items."""
    generator = torch.Generator().manual_seed(shard)
    for item in range(15):
        yield 15 * shard + item, torch.randn(8, generator=generator)


class Branches(torch.nn.Module):
    """A layer for samples of two kinds, of which many batches have but one."""

    def __init__(self):
        super().__init__()
        self.common, self.rare, self.often = torch.nn.Linear(8, 64), torch.nn.Linear(64, 1), torch.nn.Linear(64, 1)

    def forward(self, values):
        hidden, is_rare = torch.tanh(self.common(values)), values[:, 0] > 1.2
        outputs = torch.zeros(len(values), 1)
        for layer, rows in ((self.rare, is_rare), (self.often, ~is_rare)):
            if rows.any():
                outputs[rows] = layer(hidden[rows])
        return outputs


def layers(branches=False):
    """Of several buckets: the first one of DistributedDataParallel is of a megabyte."""
    return Branches() if branches else torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4096),
                                                           torch.nn.Tanh(), torch.nn.Linear(4096, 1))


def loss_of(model, values):
    """A product is not learned by the end, so that every sample has a gradient until then."""
    return (model(values)[:, 0] - values[:, 0] * values[:, 1]).square().mean()


def tensors():
    generator = torch.Generator().manual_seed(2)
    return torch.randn(SAMPLES, 8, generator=generator)


def parameters_of(model):
    """Their bytes: as numbers, they are half a second's work for whoever writes a journal."""
    return [parameter.detach().numpy().tobytes().hex() for parameter in model.parameters()]


def restore(parameter, text):
    return torch.frombuffer(bytearray.fromhex(text), dtype=parameter.dtype).view_as(parameter)


def store_of(folder):
    """Where the members meet: the TCPStore whose port and prefix are told there, or a file."""
    port = pathlib.Path(folder, "port")
    if port.exists():
        number, _, prefix = port.read_text(encoding="ascii").partition(" ")
        store = ranks.store(int(number))
        return torch.distributed.PrefixStore(prefix, store) if prefix else store
    return torch.distributed.FileStore(os.path.join(folder, "store"), -1)


def train(rank, folder, life, sockets, wrapped, loader_workers, stream, passes=1, world=WORLD, pause=0.004, seconds=60,
          awaited=None, branches=False, least=0):
    """One life of a member. Each step is in its journal before it is trained, and behind it. So many backward passes, each
    of them synchronised, come before a step of the optimiser. The second half of the training is slow until the file
    `awaited` is there."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    torch.manual_seed(100 * rank + life)  # all begin with the parameters of one
    model = layers(branches)
    if wrapped:
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    run = dynamix.join(model, optimizer, agent=sockets, elastic=store_of(folder), rule="linear", elastic_seconds=seconds,
                       elastic_least=least)
    data = torch.utils.data.TensorDataset(torch.arange(SAMPLES), tensors())
    if stream:
        data = dynamix.Stream(range(SAMPLES // 15), read)
    try:
        loader = run.loader(data, batch_size=8, num_workers=loader_workers)
    except dynamix.DynamixError as problem:
        os._exit(0 if "has come to its end" in str(problem) else 1)
    with open(os.path.join(folder, f"journal-{rank}-{life}"), "w", encoding="ascii") as journal:
        def note(**line):
            print(json.dumps({**line, "generation": run._peers.generation, "time": time.monotonic()}), file=journal, flush=True)

        if not run.came_in:
            note(initial=parameters_of(model))

        def step_now(last):
            if not wrapped:
                run.average_gradients()
            optimizer.step()
            optimizer.zero_grad(set_to_none=branches)
            note(done=last)

        for epoch in range(run.epoch, EPOCHS):
            taken = 0  # for the step under way
            for numbers, values in loader:
                step = run.status.step + taken
                note(step=step, epoch=epoch, samples=numbers.tolist()[:run.counted] if run.taken > taken else [])  # the last batch comes again where the group broke
                taken += 1
                loss_of(model, values).backward()
                waits = awaited is not None and epoch >= EPOCHS // 2 and not os.path.exists(awaited)
                time.sleep(0.5 if waits else pause)
                if taken == passes:
                    step_now(step)
                    taken = 0
            if taken:
                step_now(step)
        run.close()
        note(parameters=parameters_of(model))
    os._exit(0)


def host(first, folder, life):
    """Two members of four, as those of one host; it waits for them. They begin when both hosts are there, which may take a busy
    machine longer than members wait for each other."""
    pathlib.Path(folder, f"host-{first}").touch()
    limit = time.monotonic() + RUN_SECONDS
    while not all(os.path.exists(os.path.join(folder, f"host-{each}")) for each in (0, 2)) and time.monotonic() < limit:
        time.sleep(0.02)
    fork = multiprocessing.get_context("fork")
    members = [fork.Process(target=train, args=(rank, folder, life, "off", True, 0, True, 1, 4, 0.05, HOST_SECONDS,
                                                os.path.join(folder, "journal-2-1")))
               for rank in (first, first + 1)]
    for member in members:
        member.start()
    for member in members:
        member.join()
    return max(abs(member.exitcode) for member in members)


def apart(function, *arguments):
    """Ends with what it returns: in a namespace of processes that ends with this one, as `unshare --pid --fork --kill-child --mount-proc`
    makes it, whose program would have to load Torch."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    check(libc.unshare(0x20020000))  # CLONE_NEWPID | CLONE_NEWNS
    child = os.fork()
    if child == 0:
        check(libc.prctl(1, signal.SIGKILL, 0, 0, 0))  # PR_SET_PDEATHSIG
        check(libc.mount(b"none", b"/", None, 0x44000, None))  # MS_REC | MS_PRIVATE
        check(libc.mount(b"proc", b"/proc", b"proc", 0, None))
        os._exit(function(*arguments))
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


class Trial:
    """Runs until so many members were killed. `problems` says what went wrong."""

    def __init__(self, kills=0, seed=1, with_agents=False, streams=None, passes=1, by_tcp=False, prefix="",
                 world=WORLD, branches=False, least=WORLD):
        """`branches`: of a model whose parameters not all members use in each step.
        `least`: so many begin, and the others come for the first time once these train.
        `by_tcp`: the members meet through a TCPStore of this process, under a `prefix` where there is one.
        `streams`: whether the data are a stream; None: drawn for each run. Of several `passes` a step
        DistributedDataParallel synchronises each."""
        self._random = random.Random(seed)
        self._with_agents = with_agents
        self._streams = streams
        self._passes = passes
        self._branches, self._least = branches, least
        self._by_tcp, self._prefix = by_tcp, prefix
        self._stream, self._world = bool(streams), world
        self.left = kills
        self._workers = 0
        self.runs = self.steps = self.redone = self.killed = 0
        self.seconds = {0: [], 2: []}  # from a death to the end of each survivor's next step, by forked loader workers
        self.problems = []
        self.replay_error = 0.0  # relative to the largest parameter

    def run(self):
        while self.left > 0 and not self.problems:
            with tempfile.TemporaryDirectory() as folder:
                if self._with_agents:
                    with agents.started(WORLD, batch__initial=8, batch__lowest=2, batch__highest=32,
                                        arbitrator__window_steps=5, supervision__max_restarts=100) as started:
                        self._train(folder, started.sockets)
                else:
                    self._train(folder, "off")
            self.runs += 1
        return self

    def _start(self, rank, folder, sockets):
        workers = self._workers if self._lives[rank] == 0 else self._random.choice((0, 2))  # it may come back with other options
        arguments = (rank, folder, self._lives[rank], sockets, self._wrapped, workers, self._stream, self._passes)
        process = multiprocessing.get_context("fork").Process(target=train, args=arguments,
                                                              kwargs={"branches": self._branches, "least": self._least})
        self._lives[rank] += 1
        process.start()
        return process

    def _train(self, folder, sockets):
        self._lives, deaths = collections.Counter(), []
        if self._by_tcp:
            store = ranks.store()
            pathlib.Path(folder, "port").write_text(f"{store.port} {self._prefix}", encoding="ascii")
        self._wrapped, self._workers = self._random.random() < 0.5 or self._passes > 1, self._random.choice((0, 0, 2))
        self._wrapped = self._wrapped and not self._branches
        self._stream = self._streams if self._streams is not None else self._random.random() < 0.3
        members = [self._start(rank, folder, sockets) for rank in range(self._least)]
        limit = time.monotonic() + RUN_SECONDS
        while self._least < WORLD and time.monotonic() < limit and not self._train_already(folder):
            time.sleep(0.01)
        members += [self._start(rank, folder, sockets) for rank in range(self._least, WORLD)]
        try:
            while any(each.exitcode != 0 for each in members):
                until = time.monotonic() + self._random.choice((0.1, 0.5, 2.0)) * self._random.random()
                while time.monotonic() < until:
                    time.sleep(0.01)
                if time.monotonic() > limit:
                    self.problems.append("a run does not come to its end")
                    return
                rank = self._random.randrange(WORLD)
                if self.left > 0 and all(each.is_alive() for each in members) and self._may_die(rank, folder):
                    os.kill(members[rank].pid, signal.SIGKILL)
                    deaths.append((rank, time.monotonic()))
                    members[rank].join()  # until then it counts as one that has the training's state
                    self.left -= 1
                    self.killed += 1
                    time.sleep(self._random.choice((0, 0.3)))
                for rank in range(WORLD):
                    members[rank].join(0)
                    if members[rank].exitcode not in (None, 0):
                        if members[rank].exitcode != -signal.SIGKILL:
                            self.problems.append(f"member {rank} ended by itself: {members[rank].exitcode}")
                        members[rank] = self._start(rank, folder, sockets)
        finally:
            for each in members:
                each.kill()
                each.join()
        self.check(folder, deaths)

    @staticmethod
    def _train_already(folder):
        return any('"done"' in path.read_text(encoding="ascii") for path in pathlib.Path(folder).glob("journal-*"))

    def _may_die(self, rank, folder):
        """Somebody else has the training's state, or nobody has it yet."""
        came_in = [other for other in range(WORLD)
                   if os.path.exists(os.path.join(folder, f"journal-{other}-{self._lives[other] - 1}"))]
        return any(other != rank for other in came_in) or not any(pathlib.Path(folder).glob("journal-*"))

    def check(self, folder, deaths=()):
        """Of a step that two generations have done the later one's counts: the earlier one's was dropped."""
        begun, ends = collections.defaultdict(list), []
        lines = {}
        for path in sorted(pathlib.Path(folder).glob("journal-*")):
            rank = int(path.name.split("-")[1])
            for text in path.read_text(encoding="ascii").splitlines():
                try:
                    line = json.loads(text)
                except ValueError:  # cut off by its death
                    continue
                lines.setdefault(rank, []).append(line)
                if "step" in line:
                    begun[line["step"]].append(line)
                elif "parameters" in line:
                    ends.append(line["parameters"])
        if sorted(lines) != list(range(self._world)):
            self.problems.append(f"only {sorted(lines)} have trained")
        if sorted(begun) != list(range(len(begun))):
            self.problems.append("steps are missing")
        if not ends or any(each != ends[0] for each in ends):
            self.problems.append(f"the members' parameters differ: {[each[0][:32] for each in ends]}")
        elif self._passes == 1:
            self._replay(begun, lines, ends[0])
        used = collections.defaultdict(collections.Counter)
        for attempts in begun.values():
            newest = max(line["generation"] for line in attempts)
            self.redone += len({line["generation"] for line in attempts}) - 1
            for line in attempts:
                if line["generation"] == newest:
                    used[line["epoch"]].update(line["samples"])
        self.steps += len(begun)
        for epoch in range(EPOCHS):
            wrong = {sample: used[epoch][sample] for sample in range(SAMPLES) if used[epoch][sample] != 1}
            if wrong or len(used[epoch]) != SAMPLES:
                self.problems.append(f"epoch {epoch}: samples used not once: {wrong}")
        self._time(lines, deaths)

    def _replay(self, begun, lines, end):
        """In a process of its own: one that has computed gradients can start no members any more where Torch's autograd does not
        outlive a fork."""
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=lambda: theirs.send(self._errors(begun, lines, end)))
        process.start()
        theirs.close()
        errors, largest = ours.recv()
        process.join()
        for error in errors:
            self.replay_error = max(self.replay_error, error)
            if not error <= 1e-5:  # or it is NaN; rounding makes 3e-7, one missing sample 4e-5 and more
                self.problems.append(f"a replay in one process comes to other parameters: {error}, largest {largest}")

    def _errors(self, begun, lines, end):
        """One process trains on the joined batches of all steps, and has to come to the same parameters: how far each is off,
        relative to the largest, and that one."""
        starts = [line for own in lines.values() for line in own if "initial" in line]
        start = max(starts, key=lambda line: line["generation"])["initial"]
        values = torch.cat([value.unsqueeze(0) for shard in range(SAMPLES // 15) for _, value in read(shard)])
        values = values if self._stream else tensors()
        model = layers(self._branches)
        with torch.no_grad():
            for parameter, text in zip(model.parameters(), start):
                parameter.copy_(restore(parameter, text))
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
        for step in sorted(begun):
            newest = max(line["generation"] for line in begun[step])
            batch = [sample for line in begun[step] if line["generation"] == newest for sample in line["samples"]]
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * len(batch) / (8 * self._world)  # rule="linear"
            optimizer.zero_grad(set_to_none=self._branches)
            loss_of(model, values[batch]).backward()
            optimizer.step()
        largest = max(own.abs().max().item() for own in model.parameters())
        return [float((own.detach() - restore(own, text)).abs().max()) / largest for own, text in zip(model.parameters(), end)], largest

    def _time(self, lines, deaths):
        for number, (dead, at) in enumerate(deaths):
            following = deaths[number + 1][1] if number + 1 < len(deaths) else float("inf")
            for rank in set(lines) - {dead}:
                before = [line["generation"] for line in lines[rank] if line["time"] < at]
                after = [line["time"] for line in lines[rank]
                         if before and "done" in line and line["time"] > at and line["generation"] > before[-1]]
                if after and after[0] < following:
                    self.seconds[self._workers].append(after[0] - at)

    def report(self):
        text = f"{self.killed} members killed in {self.runs} runs, {self.steps} steps, {self.redone} times one was done again"
        text += f"; parameters within {self.replay_error:.1e} of a replay in one process" if self._passes == 1 else ""
        for workers, seconds in self.seconds.items():
            if seconds:
                seconds = sorted(seconds)
                at = [seconds[min(len(seconds) - 1, int(len(seconds) * share))] for share in (0.5, 0.99, 1)]
                text += (f"; {workers} loader workers: from a death to the end of a survivor's next step {at[0]:.3f} s in the "
                         f"median, {at[1]:.3f} s p99, {at[2]:.3f} s at most ({len(seconds)})")
        return text


def main(kills=200, seed=1, with_agents=0, passes=1):
    began = time.monotonic()
    trial = Trial(int(kills), int(seed), bool(int(with_agents)), passes=int(passes)).run()
    print(f"{trial.report()}; {time.monotonic() - began:.0f} s")
    for problem in trial.problems:
        print(problem, file=sys.stderr)
    return 1 if trial.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
