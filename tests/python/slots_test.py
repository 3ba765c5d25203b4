"""Several workers a host: their processes join one agent, at a socket each, and one that dies costs no other."""
import collections
import contextlib
import io
import json
import logging
import multiprocessing
import os
import pathlib
import signal
import tempfile
import time
import unittest
import unittest.mock

import agents
import elastic
import ranks
import torch

import dynamix
from dynamix.agent import check_gpu, gpu_index

HOSTS, WORKERS = 2, 2
SAMPLES, EPOCHS = 2000, 4


def train(rank, world, directories, seconds_a_sample):
    """As a script under torchrun: $DYNAMIX_AGENT is its host's directory, $LOCAL_RANK says which process there it is."""
    os.environ.update(LOCAL_RANK=str(rank % WORKERS), DYNAMIX_AGENT=directories[rank // WORKERS])
    model = torch.nn.Linear(8, 1)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.001), rule="linear")
    data = torch.utils.data.TensorDataset(torch.arange(SAMPLES), torch.randn(SAMPLES, 8))
    loader = run.loader(data, batch_size=16)
    train_on = ranks.trainer(run, model, run._optimizers[0])
    taken = [[] for _ in range(EPOCHS)]
    for epoch in range(EPOCHS):
        for batch in loader:
            taken[epoch] += batch[0].tolist()[:run.counted]
            time.sleep(run.counted * seconds_a_sample[rank])
            train_on(batch)
    status = run.status
    run.close()
    return taken, status, os.sched_getaffinity(0)


def train_beside(rank, world, sockets, end):
    """Slowly in its second half until the file `end` is there. This rank's samples by epoch, its decisions, and what it was told."""
    told = io.StringIO()
    logging.getLogger("dynamix").addHandler(logging.StreamHandler(told))
    logging.getLogger("dynamix").setLevel(logging.INFO)
    model = torch.nn.Linear(8, 1)
    run = dynamix.join(model, torch.optim.SGD(model.parameters(), lr=0.001), agent=sockets[rank], rule="linear")
    loader = run.loader(torch.utils.data.TensorDataset(torch.arange(SAMPLES), torch.randn(SAMPLES, 8)), batch_size=8)
    train_on = ranks.trainer(run, model, run._optimizers[0])
    taken = [[] for _ in range(EPOCHS)]
    for epoch in range(EPOCHS):
        for batch in loader:
            taken[epoch] += batch[0].tolist()[:run.counted]
            time.sleep(0.3 if epoch >= EPOCHS // 2 and not os.path.exists(end) else 0.02)
            train_on(batch)
    decisions = run.status.decisions
    run.close()
    return taken, decisions, told.getvalue()


def windows(hub):
    text = pathlib.Path(hub.run, "windows.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [row for row in rows if row["kind"] == "window"]


def decided(hub, members):
    """The generations of the windows in which so many workers were decided on."""
    return [row["generation"] for row in windows(hub) if row["decided"] and len(row["workers"]) == members]


def since(hub, members, before):
    """Such windows of generations behind all those in which so many workers as `before` were decided on: a window that is open when a
    worker is lost is closed without it."""
    newest = max(decided(hub, before))
    return [row for row in windows(hub) if row["decided"] and len(row["workers"]) == members and row["generation"] > newest]


def applied(rows):
    """How many decisions were in force in these windows."""
    return len({tuple(worker["report"]["decision"].values()) for row in rows for worker in row["workers"]})


def journal_steps(folder, rank, life):
    path = pathlib.Path(folder, f"journal-{rank}-{life}")
    return path.read_text(encoding="ascii").count('"done"') if path.exists() else 0


@unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
class Slots(unittest.TestCase):
    def check_ends(self, hosts):
        """All end by themselves, in order."""
        for host in hosts:
            self.assertEqual(host.process.wait(60), 0, host.said())
        summary = json.loads(pathlib.Path(hosts[0].run, "summary.json").read_text(encoding="utf-8"))
        self.assertTrue(summary["succeeded"], summary["reason"])
        for host in hosts[1:]:
            self.assertEqual(sorted(path.name for path in pathlib.Path(host.run, "workers").iterdir()),
                             [f"{host.name}+{slot}.json" for slot in range(WORKERS)])
        return summary

    def check_journals(self, folder, world):
        trial = elastic.Trial(world=world)
        trial.check(folder)
        self.assertEqual(trial.problems, [])

    def wait_until(self, true, hosts):
        limit = time.monotonic() + 60
        while not true() and time.monotonic() < limit:
            time.sleep(0.05)
        self.assertTrue(true(), "\n".join(host.said() for host in hosts))

    def test_train_by_decisions_and_deal_each_sample_once(self):
        with agents.shared_hosts(HOSTS, WORKERS, batch__initial=16, batch__lowest=4, batch__highest=64,
                                 arbitrator__window_steps=5) as hosts:
            directories = [os.path.join(host.run, "agents") for host in hosts[1:]]
            results = ranks.run(train, HOSTS * WORKERS, directories, [0.0002, 0.0006, 0.0002, 0.0002])
            summary = self.check_ends(hosts)
        for epoch in range(EPOCHS):
            counts = collections.Counter(number for taken, *_ in results for number in taken[epoch])
            self.assertEqual(counts, collections.Counter(range(SAMPLES)))
        for rank, (_, status, _) in enumerate(results):
            self.assertGreater(status.decisions, 0)
            self.assertEqual(status.samples, EPOCHS * SAMPLES)
            self.assertEqual(status.gpu, 10 * (rank // WORKERS) + rank % WORKERS)
        self.assertEqual(summary["workers"], HOSTS * WORKERS)
        cpus = os.sched_getaffinity(0)
        for host in range(HOSTS):
            mine, siblings = (results[host * WORKERS + slot][2] for slot in range(WORKERS))
            if len(cpus) >= WORKERS:
                self.assertFalse(mine & siblings, "two workers of a host share a core")
            else:
                self.assertEqual((mine, siblings), (cpus, cpus))

    def check_decisions_without(self, lost, with_member=True, by=signal.SIGKILL, **settings):
        """Of an elastic run of three hosts: its members form their group without that of the lost one, or know that it has no agent
        any more, and tell their agents. An agent comes back."""
        with agents.shared_hosts(3, 1, batch__initial=8, batch__lowest=2, batch__highest=32, arbitrator__window_steps=5,
                                 **settings) as hosts, tempfile.TemporaryDirectory() as folder:
            fork = multiprocessing.get_context("fork")
            members = [fork.Process(target=elastic.train, args=(rank, folder, 0, hosts[1 + rank].socket(0), False, 0, False),
                                    kwargs={"world": 3, "awaited": os.path.join(folder, "end")})
                       for rank in range(3)]
            try:
                for member in members:
                    member.start()
                self.wait_until(lambda: decided(hosts[0], 3), hosts)
                hosts[1 + lost].process.send_signal(by)
                if with_member:
                    members[lost].kill()
                self.wait_until(lambda: len(since(hosts[0], 2, 3)) >= 3, hosts)
                if by == signal.SIGSTOP:
                    hosts[1 + lost].process.send_signal(signal.SIGCONT)
                elif not with_member:
                    hosts[1 + lost].process.wait()
                    hosts[1 + lost] = agents.Host(os.path.dirname(hosts[0].run), hosts[1 + lost].name)
                if not with_member:
                    self.wait_until(lambda: since(hosts[0], 3, 2), hosts)
                pathlib.Path(folder, "end").touch()
                left = [member for rank, member in enumerate(members) if rank != lost or not with_member]
                for member in left:
                    member.join(elastic.RUN_SECONDS)
                self.assertEqual([member.exitcode for member in left], [0] * len(left))
                if not with_member:
                    self.check_journals(folder, 3)
            finally:
                for member in members:
                    member.kill()
                    member.join()

    def test_go_on_by_decisions_without_an_agent_that_is_killed_while_its_script_lives_on(self):
        self.check_decisions_without(2, False)

    def test_go_on_by_decisions_while_an_agent_hangs_and_its_script_trains_on(self):
        self.check_decisions_without(2, False, signal.SIGSTOP)

    @contextlib.contextmanager
    def fixed_group(self):
        """Three hosts of a fixed group that trains, and has decisions in force; and what to call for its end, which gives what its
        members come to, checked."""
        with agents.shared_hosts(3, 1, batch__initial=8, batch__lowest=2, batch__highest=32, arbitrator__window_steps=5,
                                 arbitrator__policy='"lb-bsp"') as hosts, tempfile.TemporaryDirectory() as folder:
            end = pathlib.Path(folder, "end")
            with ranks.Group(train_beside, 3, [host.socket(0) for host in hosts[1:]], str(end)) as group:
                def results():
                    end.touch()
                    members = [group.result(rank) for rank in range(3)]
                    self.assertEqual([good for good, _ in members], [True] * 3, members)
                    for epoch in range(EPOCHS):
                        counts = collections.Counter(number for _, (taken, *_) in members for number in taken[epoch])
                        self.assertEqual(counts, collections.Counter(range(SAMPLES)))
                    told = members[0][1][2]
                    self.assertIn("the agent of member 1 is gone: decisions are for the other members alone", told)
                    return [value for _, value in members]

                self.wait_until(lambda: decided(hosts[0], 3), hosts)
                yield hosts, results

    def check_while_an_agent_hangs(self, awake):
        """One agent is stopped amid training, and goes on where `awake`; else behind the end. What it said, and what members were told."""
        with self.fixed_group() as (hosts, results):
            hosts[2].process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            self.wait_until(lambda: applied(since(hosts[0], 2, 3)) >= 2, hosts)
            print(f"decisions for the others were in force {time.monotonic() - began:.1f} s behind the stop")
            if awake:
                hosts[2].process.send_signal(signal.SIGCONT)
                self.wait_until(lambda: applied(since(hosts[0], 3, 2)) >= 2, hosts)
            told = [told for _, _, told in results()]
            hosts[2].process.send_signal(signal.SIGCONT)
            for host in hosts:
                self.assertEqual(host.process.wait(60), 0, host.said())
            self.assertIn("it has taken nothing for 5 s; training goes on", told[1])
            self.assertNotIn("another process trains for this worker", told[1])
            return hosts[2].said(), told

    def test_decide_for_the_others_of_a_fixed_group_while_an_agent_hangs_and_for_all_once_it_goes_on(self):
        _, told = self.check_while_an_agent_hangs(True)
        self.assertIn("all members have their agents again", told[0])

    def test_end_beside_an_agent_that_hangs_and_hears_of_the_end_once_it_goes_on(self):
        said, _ = self.check_while_an_agent_hangs(False)
        self.assertEqual(said.count("training_ended succeeded=true"), 1, said)
        self.assertIn('host_ended reason="completed"', said)

    def test_decide_for_the_others_of_a_fixed_group_without_an_agent_that_is_killed_for_good(self):
        with self.fixed_group() as (hosts, results):
            hosts[2].process.kill()
            self.wait_until(lambda: len(since(hosts[0], 2, 3)) >= 3, hosts)
            (_, ours, _), (_, theirs, _), _ = results()
            self.assertGreater(ours, theirs, "nothing was decided without the agent of member 1")
            # A policy that keeps the script's global batch, and a member that keeps its own.
            self.assertEqual({worker["report"]["global_batch"] for worker in windows(hosts[0])[-1]["workers"]}, {24})

    def test_go_on_by_decisions_without_a_host_that_is_killed_for_good(self):
        self.check_decisions_without(2)

    def test_go_on_by_decisions_without_the_host_of_a_shard_that_is_killed_for_good(self):
        self.check_decisions_without(0, arbitrator__topology='"tree"', arbitrator__fanout=2)

    def test_outlive_one_of_them(self):
        """Of an elastic run, whose other members go on."""
        with agents.shared_hosts(HOSTS, WORKERS, batch__initial=8, batch__lowest=2, batch__highest=32,
                                 arbitrator__window_steps=5) as hosts, tempfile.TemporaryDirectory() as folder:
            def start(rank, life):
                member = multiprocessing.get_context("fork").Process(
                    target=elastic.train,
                    kwargs={"world": HOSTS * WORKERS, "awaited": os.path.join(folder, "journal-1-1")},
                    args=(rank, folder, life, hosts[1 + rank // WORKERS].socket(rank % WORKERS), False, 0, False))
                member.start()
                return member

            def trains(rank, life, steps):
                limit = time.monotonic() + 60
                while journal_steps(folder, rank, life) < steps and time.monotonic() < limit:
                    time.sleep(0.01)
                self.assertGreaterEqual(journal_steps(folder, rank, life), steps, [host.said() for host in hosts])

            members = [start(rank, 0) for rank in range(HOSTS * WORKERS)]
            try:
                for rank in range(HOSTS * WORKERS):
                    trains(rank, 0, 5)
                os.kill(members[1].pid, signal.SIGKILL)
                members[1].join()
                for rank in (0, 2, 3):
                    trains(rank, 0, journal_steps(folder, rank, 0) + 3)
                members[1] = start(1, 1)
                trains(1, 1, 3)
                for member in members:
                    member.join(elastic.RUN_SECONDS)
                self.assertEqual([member.exitcode for member in members], [0] * len(members))
            finally:
                for member in members:
                    member.kill()
                    member.join()
            self.check_ends(hosts)
            self.assertIn("worker=m0/1", hosts[1].said())
            self.assertNotIn("client_lost", hosts[2].said())
            self.check_journals(folder, HOSTS * WORKERS)


class Gpus(unittest.TestCase):
    def test_are_found_among_those_that_a_process_sees(self):
        self.assertEqual(gpu_index(3, None), 3)
        self.assertEqual(gpu_index(6, "4,6"), 1)
        self.assertEqual(gpu_index(6, " 6 "), 0)
        self.assertEqual(gpu_index(6, "0"), 0, "a container's only one")
        self.assertIsNone(gpu_index(6, "GPU-7,GPU-8"))

    def test_are_warned_of_where_a_model_is_on_another(self):
        with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="4,6"):
            with self.assertLogs("dynamix", "WARNING") as told:
                check_gpu(6, torch.device("cuda", 0))
            self.assertIn("GPU 6, which is cuda:1 here, and its model is on cuda:0", told.output[0])
            with self.assertRaises(AssertionError), self.assertLogs("dynamix"):
                check_gpu(6, torch.device("cuda", 1))
                check_gpu(6, torch.device("cpu"))
                check_gpu(-1, torch.device("cuda", 0))


if __name__ == "__main__":
    unittest.main()
