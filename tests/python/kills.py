"""Kills ranks and agents of runs at any moment, and looks whether any sample was lost or used twice.

    kills.py [KILLS [SEED]]

A group that has lost a rank is started again from its last checkpoint, as torchrun does it; an agent is started again by
`dynamix-node exec`, while its rank trains on.
"""
import collections
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import agents
import ranks
import torch

import dynamix

WORLD = 2
SAMPLES = 180
EPOCHS = 20
CHECKPOINT_STEPS = 7
FAREWELL_SECONDS = 60   # for the ranks that a killed one leaves
START_SECONDS = 1       # while a group forms, in which Torch may not see that a rank has died
GROUPS_A_RUN = 40


def train(rank, world, sockets, folder, number, loader_workers):
    """One life of a rank. Each step's samples are in its journal before they are trained on."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = dynamix.join(model, optimizer, agent=sockets, rule="linear")
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(torch.arange(SAMPLES), torch.randn(SAMPLES, 8, generator=generator))
    loader = run.loader(data, batch_size=8, num_workers=loader_workers)
    checkpoint = os.path.join(folder, "checkpoint")
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        run.load_state_dict(state["run"])
    with open(os.path.join(folder, f"journal-{number}-{rank}"), "w", encoding="ascii") as journal:
        print(json.dumps({"start": run.status.step}), file=journal, flush=True)
        for epoch in range(run.epoch, EPOCHS):
            for numbers, values in loader:
                step = run.status.step
                line = {"step": step, "epoch": epoch, "samples": numbers.tolist()[:run.counted], "time": time.monotonic()}
                print(json.dumps(line), file=journal, flush=True)
                optimizer.zero_grad()
                model(values).square().mean().backward()
                time.sleep(0.002 * (1 + rank))
                run.average_gradients()
                optimizer.step()
                if rank == 0 and (step + 1) % CHECKPOINT_STEPS == 0:
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "run": run.state_dict()},
                               checkpoint + ".new")
                    os.replace(checkpoint + ".new", checkpoint)
    run.close()
    return [parameter.tolist() for parameter in model.parameters()]


class Trial:
    """Runs until so many kills are done. `problems` says what went wrong."""

    def __init__(self, kills, seed):
        self._random = random.Random(seed)
        self.left = kills
        self.killed = collections.Counter()
        self.lives = self.runs = self.steps = 0
        self.restarts = []  # seconds from a rank's death to the first step of the next life
        self.problems = []
        self.last_words = []

    def run(self):
        while self.left > 0 and not self.problems:
            with tempfile.TemporaryDirectory() as folder, \
                    agents.started(WORLD, batch__initial=8, batch__lowest=2, batch__highest=32, arbitrator__window_steps=5,
                                   supervision__max_restarts=100) as started:
                self._train(started, folder)
            self.runs += 1
        return self

    def _train(self, started, folder):
        """One training, from its beginning to its end."""
        died_at = None
        for number in range(GROUPS_A_RUN):
            self.lives += 1
            workers = self._random.randrange(2)
            with ranks.Group(train, WORLD, started.sockets, folder, number, workers) as group:
                died = self._disturb(group, started)
                ended = self._await_end(group, folder, number)
            if died_at is not None:
                died_at = self._note_restart(folder, number, died_at)
            died_at = died or died_at
            if self.problems:
                return
            if ended is not None:
                if ended[0] != ended[1]:
                    self.problems.append("the ranks' parameters differ")
                self._check(folder)
                return
            time.sleep(0.2)
        self.problems.append(f"no end after {GROUPS_A_RUN} starts of the group: {self.last_words}")

    def _disturb(self, group, started):
        """Kills until a rank was killed or has ended; returns when that was."""
        while self.left > 0:
            until = time.monotonic() + self._random.choice((0.1, 1.0, 3.0)) * self._random.random()
            while time.monotonic() < until:
                time.sleep(0.005)
                if any(not process.is_alive() for process in group.processes):
                    return None
            self.left -= 1
            if self._random.random() < 0.3:
                self.killed["agents"] += agents.kill_one(started.process.pid, self._random)
                continue
            os.kill(self._random.choice(group.processes).pid, signal.SIGKILL)
            self.killed["ranks"] += 1
            return time.monotonic()
        return None

    def _await_end(self, group, folder, number):
        """The parameters of all ranks where they have come to the end."""
        limit = time.monotonic() + FAREWELL_SECONDS
        while any(process.is_alive() for process in group.processes):
            time.sleep(0.02)
            late = [rank for rank, process in enumerate(group.processes) if process.is_alive()]
            dead = len(late) < WORLD
            if not dead:
                limit = time.monotonic() + FAREWELL_SECONDS  # it trains
                if time.monotonic() > group.limit:
                    self.problems.append("a run does not come to its end")
                    return None
            elif not self._steps(folder, number) and time.monotonic() > limit - FAREWELL_SECONDS + START_SECONDS:
                for rank in late:  # Torch forms a group with a dead rank; torchrun ends it as this does
                    os.kill(group.processes[rank].pid, signal.SIGKILL)
                return None
            elif time.monotonic() > limit:
                self.problems.append(f"ranks {late} still run {FAREWELL_SECONDS} s behind the death of another")
                return None
        results = [group.result(rank) for rank in range(WORLD)]
        self.last_words = [text for good, text in results if not good]
        return [value for _, value in results] if all(good for good, _ in results) else None

    @staticmethod
    def _lines(path):
        """Of a journal; the last may be cut off."""
        lines = []
        for line in pathlib.Path(path).read_text(encoding="ascii").splitlines() if os.path.exists(path) else []:
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
        return lines

    def _steps(self, folder, number):
        return any(len(self._lines(os.path.join(folder, f"journal-{number}-{rank}"))) > 1 for rank in range(WORLD))

    def _note_restart(self, folder, number, died_at):
        lines = self._lines(os.path.join(folder, f"journal-{number}-0"))
        if len(lines) < 2:
            return died_at
        self.restarts.append(lines[1]["time"] - died_at)
        return None

    def _check(self, folder):
        """Of a step that two lives have done the later one counts: the earlier one's is in no checkpoint."""
        counted = {}
        for number in range(GROUPS_A_RUN):
            journals = [self._lines(os.path.join(folder, f"journal-{number}-{rank}")) for rank in range(WORLD)]
            starts = {journal[0]["start"] for journal in journals if journal}
            if len(starts) > 1:
                self.problems.append(f"life {number} began at steps {sorted(starts)}")
            for step in list(counted):
                if starts and step >= min(starts):
                    del counted[step]
            for journal in journals:
                for line in journal[1:]:
                    counted.setdefault(line["step"], []).append(line)
        self.steps += len(counted)
        used = collections.defaultdict(collections.Counter)
        for lines in counted.values():
            for line in lines:
                used[line["epoch"]].update(line["samples"])
        if sorted(counted) != list(range(len(counted))):
            self.problems.append("steps are missing")
        for epoch in range(EPOCHS):
            wrong = {sample: used[epoch][sample] for sample in range(SAMPLES) if used[epoch][sample] != 1}
            if wrong or len(used[epoch]) != SAMPLES:
                self.problems.append(f"epoch {epoch}: samples used not once: {wrong}")


def main(kills=200, seed=1):
    began = time.monotonic()
    trial = Trial(int(kills), int(seed)).run()
    restarts = sorted(trial.restarts) or [float("nan")]
    print(f"{dict(trial.killed)} killed in {trial.runs} runs and {trial.lives} starts of a group, {trial.steps} steps, "
          f"{time.monotonic() - began:.0f} s; from a rank's death to the next start's first step "
          f"{restarts[len(restarts) // 2]:.2f} s in the median, {restarts[-1]:.2f} s at most")
    for problem in trial.problems:
        print(problem, file=sys.stderr)
    return 1 if trial.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
