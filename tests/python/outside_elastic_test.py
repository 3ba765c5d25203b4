"""What the tests of torchft and KungFu expect of members that fail, come and go, asked of elastic runs of real processes. No code is theirs; what
they expect are facts of

    torchft 0.2.0: torchft/manager_integ_test.py, manager_test.py, local_sgd_integ_test.py
    KungFu at b1e1768: tests/python/integration/test_step_based_schedule.py

and docs/peers.md has the table. Their steps have the members that a test says: torchft's managers wait for `min_replica_size` replicas,
KungFu's workers agree on a new size behind a step. Ours wait for nobody, so the scripts here do, until those are at hand that are to come.
"""
import json
import multiprocessing
import os
import pathlib
import signal
import tempfile
import time
import unittest

import ranks
import torch
from torch import nn

import dynamix

FEATURES, CLASSES = 3, 4  # of torchft's MyModel
LOOK_SECONDS = 0.06       # the first member looks for others every 0.05 s


def data(samples):
    generator = torch.Generator().manual_seed(42)
    return torch.utils.data.TensorDataset(torch.arange(samples), torch.rand(samples, FEATURES, generator=generator).double(),
                                          torch.randint(CLASSES, (samples,), generator=generator))


def make(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES), nn.ReLU()).double()
    return model, torch.optim.Adam(model.parameters())


def state_of(model, optimizer):
    """Numbers of all parameters, and of all that Adam keeps of them."""
    kept = [value for own in optimizer.state_dict()["state"].values() for value in own.values()]
    return torch.cat([each.detach().double().flatten() for each in [*model.parameters(), *kept]]).tolist()


class Plan:
    """The members of each step, member 0 always among them; each of all that there ever are has two samples in a step, or others have them.
    `dies`: the step in which a member is killed, that is started again. `fails`: in which its exchange fails, once."""

    def __init__(self, steps, dies=None, fails=None):
        self.steps, self.dies, self.fails = [frozenset(each) for each in steps], dies or {}, fails or {}
        self.size = max(map(max, self.steps)) + 1
        self.batch = 2 * self.size
        self.samples = len(self.steps) * self.batch

    def newcomers(self, step):
        return self.steps[step] - self.steps[step - 1] if 0 < step < len(self.steps) else frozenset()

    def lost(self, step):
        return {member for member, at in self.dies.items() if at == step}

    def leaves(self, member, step):
        """Behind this step."""
        return step + 1 < len(self.steps) and member not in self.steps[step + 1]


def wait_until(true):
    limit = time.monotonic() + ranks.SECONDS
    while not true():
        if time.monotonic() > limit:
            raise TimeoutError("nobody has come")
        time.sleep(0.005)


class Failing:
    """Stands in for a member's group, and fails once."""

    def __init__(self, members):
        self._members, self._group = members, members._gradients
        members._gradients = self

    def allreduce(self, _):
        self._members._gradients = self._group
        raise RuntimeError("injected allreduce error")


def train(rank, plan, folder, port, life):
    """One life of a member, with a journal of the steps that it completed."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(plan.size))
    torch.set_num_threads(1)
    model, optimizer = make(1000 * life + rank)  # all begin with the parameters of one
    run = dynamix.join(model, optimizer, agent="off", elastic=ranks.store(port), elastic_least=len(plan.steps[0]), rule="constant",
                       elastic_seconds=ranks.SECONDS)
    loader = run.loader(data(plan.samples), batch_size=2)
    fails, awaited = plan.fails.get(rank), set()

    def await_all(step):
        """Nobody is amid its exchange any more."""
        wait_until(lambda: all(os.path.exists(os.path.join(folder, f"done-{step}-{each}")) for each in plan.steps[step]))

    with open(os.path.join(folder, f"journal-{rank}-{life}"), "w", encoding="ascii") as journal:
        def note(**line):
            print(json.dumps({"rank": rank, "life": life, **line}), file=journal, flush=True)

        note(came=run.status.step, came_in=run.came_in)
        for numbers, values, labels in loader:
            step, generation = run.status.step, run._peers.generation
            if life == 0 and step in plan.dies.values() and step not in awaited:
                awaited.add(step)
                if rank in plan.lost(step):
                    await_all(step - 1)
                    os.kill(os.getpid(), signal.SIGKILL)
                wait_until(lambda: all(run._peers._waits(member) for member in plan.lost(step)))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(values), labels).backward()
            if fails == step:
                fails = None
                Failing(run._peers)
            run.average_gradients()
            if rank == 0 and plan.newcomers(step + 1):
                pathlib.Path(folder, f"wanted-{step + 1}").touch()
                wait_until(lambda: all(run._peers._waits(member) for member in plan.newcomers(step + 1)))
                time.sleep(LOOK_SECONDS)
            done = {"generation": generation, "present": [member for member, here in enumerate(run._peers.present) if here],
                    "samples": numbers.tolist()[:run.counted] if run.taken else []}
            optimizer.step()
            if run.status.step == step:
                continue  # it was dropped
            note(step=step, **done)
            pathlib.Path(folder, f"done-{step}-{rank}").touch()
            if plan.leaves(rank, step):
                await_all(step)
                run.close("detached", succeeded=False)
                break
        else:
            note(end=state_of(model, optimizer))
            run.close()
    os._exit(0)


class Course:
    """Carries a plan out: the journals' lines, and how often members were killed."""

    def __init__(self, plan):
        self.plan, self.lines, self.deaths = plan, [], 0
        self._lives, self._living, self._store = {}, {}, ranks.store()
        with tempfile.TemporaryDirectory() as folder:
            try:
                self._carry_out(folder)
            finally:
                for process in self._living.values():
                    process.kill()
                    process.join()
            for path in sorted(pathlib.Path(folder).glob("journal-*")):
                self.lines += [json.loads(text) for text in path.read_text(encoding="ascii").splitlines()]

    def _start(self, rank, folder):
        life = self._lives[rank] = self._lives.get(rank, -1) + 1
        self._living[rank] = multiprocessing.get_context("fork").Process(target=train, args=(rank, self.plan, folder, self._store.port, life))
        self._living[rank].start()

    def _carry_out(self, folder):
        wanted, limit, steps = set(self.plan.steps[0]), time.monotonic() + ranks.SECONDS, set(range(1, len(self.plan.steps)))
        while wanted or self._living:
            for step in [each for each in steps if os.path.exists(os.path.join(folder, f"wanted-{each}"))]:
                steps.remove(step)
                wanted |= self.plan.newcomers(step)
            for rank, process in list(self._living.items()):
                process.join(0)
                if process.exitcode is not None:
                    del self._living[rank]
                    if process.exitcode == -signal.SIGKILL:
                        self.deaths += 1
                        wanted.add(rank)
                    elif process.exitcode:
                        raise AssertionError(f"member {rank} has ended with {process.exitcode}")
            for rank in wanted - set(self._living):  # one that was to leave may not have ended yet
                wanted.remove(rank)
                self._start(rank, folder)
            if time.monotonic() > limit:
                raise AssertionError(f"members {sorted(self._living)} do not come to an end")
            time.sleep(0.005)

    def of_step(self, step):
        return [line for line in self.lines if line.get("step") == step]

    def came(self, rank, life=0):
        return next((line["came"], line["came_in"]) for line in self.lines if "came" in line and (line["rank"], line["life"]) == (rank, life))

    def generations(self):
        """Of each step."""
        return [self.of_step(step)[0]["generation"] for step in range(len(self.plan.steps))]

    def ends(self):
        return [line["end"] for line in self.lines if "end" in line]


def replay(_, __, plan, batches, end):
    """How far one process that trains on the joined batches comes from that end."""
    model, optimizer = make(0)
    _, values, labels = data(plan.samples).tensors
    for batch in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(values[batch]), labels[batch]).backward()
        optimizer.step()
    return max(abs(own - other) for own, other in zip(state_of(model, optimizer), end))


class Members(unittest.TestCase):
    def carry_out(self, plan):
        """Every step was done once, by the members that were to do it, and every sample used once; they come to one state of model and
        optimiser, which is that of one process."""
        course, batches = Course(plan), []
        for step, members in enumerate(plan.steps):
            lines = course.of_step(step)
            self.assertEqual(sorted(line["rank"] for line in lines), sorted(members), f"step {step}")
            self.assertEqual({(tuple(line["present"]), line["generation"]) for line in lines},
                             {(tuple(sorted(members)), lines[0]["generation"])}, f"step {step}")
            batches.append([sample for line in lines for sample in line["samples"]])
            self.assertEqual(len(batches[-1]), plan.batch, f"step {step}")
        self.assertEqual(sorted(sum(batches, [])), list(range(plan.samples)))
        ends = course.ends()
        self.assertEqual(len(ends), len(plan.steps[-1]))
        for end in ends:
            self.assertEqual(end, ends[0])
        self.assertLess(ranks.run(replay, 1, plan, batches, ends[0])[0], 1e-9)
        self.assertEqual(course.deaths, len(plan.dies))
        return course


class Torchft(Members):
    BOTH = {0, 1}

    def test_healthy(self):
        """test_ddp_healthy: two replicas, four steps, one state; and test_quorum_happy: the quorum stays."""
        self.assertEqual(len(set(self.carry_out(Plan([self.BOTH] * 4)).generations())), 1)

    def test_recovery(self):
        """test_ddp_recovery: one of two replicas fails behind two of four steps, once, and comes back into the third; and test_quorum_heal_sync:
        it has the other's step and state then."""
        course = self.carry_out(Plan([self.BOTH] * 4, dies={1: 2}))
        self.assertEqual(course.came(1, life=1), (2, True))
        before, _, behind, _ = course.generations()
        self.assertGreater(behind, before, "test_quorum_happy and its like: another quorum has another number")

    def test_recovery_of_a_group(self):
        """test_ddp_recovery_multi_rank: both ranks of one of two replica groups fail behind two of four steps."""
        course = self.carry_out(Plan([{0, 1, 2, 3}] * 4, dies={2: 2, 3: 2}))
        self.assertEqual([course.came(rank, life=1) for rank in (2, 3)], [(2, True)] * 2)

    def test_heal_of_a_newcomer(self):
        """test_quorum_heal_sync: who comes at step 0 to a replica behind its 20th step takes its state, two take part, and both stand at 21 then."""
        course = self.carry_out(Plan([{0}] * 20 + [self.BOTH]))
        self.assertEqual(course.came(1), (20, True))

    def test_upscale(self):
        """test_streaming_diloco_upscale: a third replica comes when the others have made two steps, and all end with one state."""
        self.assertEqual(self.carry_out(Plan([self.BOTH] * 2 + [{0, 1, 2}] * 2)).came(2), (2, True))

    def test_allreduce_error(self):
        """test_allreduce_error, test_pg_errored: of one replica. The step is not made, nobody ends, and the next quorum makes it."""
        self.fails(Plan([self.BOTH] * 4, fails={1: 2}), 2)

    def test_allreduce_error_of_both(self):
        """test_streaming_diloco_commit_failure: of both replicas, in the same step."""
        self.fails(Plan([self.BOTH] * 4, fails={0: 1, 1: 1}), 1)

    def fails(self, plan, step):
        course = self.carry_out(plan)
        generations = course.generations()
        self.assertEqual(len(set(generations[:step])), 1)
        self.assertEqual(len(set(generations[step:])), 1)
        self.assertGreater(generations[step], generations[step - 1])
        self.assertEqual({line["life"] for line in course.lines}, {0})


class Kungfu(Members):
    def test_schedule_of_sizes(self):
        """test_step_based_schedule: 1:3,2:3,4:3,8:3,4:3 and so on. The sum of ones over the workers is the size that each step has; who is detached
        stops, and who comes goes on from the others' step."""
        sizes = [1, 2, 4, 8, 4, 2, 1, 2, 4, 8, 4, 2, 1]
        course = self.carry_out(Plan([range(size) for size in sizes for _ in range(3)]))
        self.assertEqual([len(course.of_step(step)) for step in range(0, 39, 3)], sizes)
        self.assertEqual([course.came(7, life) for life in (0, 1)], [(9, True), (27, True)])


if __name__ == "__main__":
    unittest.main()
