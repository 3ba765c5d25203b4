"""Several workers a host: their processes join one agent, at a socket each, and one that dies costs no other."""
import collections
import json
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

    def check_decisions_without(self, lost, **settings):
        """Of an elastic run of three hosts: its members form their group without that of the lost one, and tell their agents."""
        with agents.shared_hosts(3, 1, batch__initial=8, batch__lowest=2, batch__highest=32, arbitrator__window_steps=5,
                                 **settings) as hosts, tempfile.TemporaryDirectory() as folder:
            def rows():
                text = pathlib.Path(hosts[0].run, "windows.jsonl").read_text(encoding="utf-8")
                return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

            def decided(members):
                """The generations of the windows in which so many workers were decided on."""
                return [row["generation"] for row in rows()
                        if row["kind"] == "window" and row["decided"] and len(row["workers"]) == members]

            fork = multiprocessing.get_context("fork")
            members = [fork.Process(target=elastic.train, args=(rank, folder, 0, hosts[1 + rank].socket(0), False, 0, False),
                                    kwargs={"world": 3, "awaited": os.path.join(folder, "end")})
                       for rank in range(3)]
            try:
                for member in members:
                    member.start()
                self.wait_until(lambda: decided(3), hosts)
                hosts[1 + lost].process.kill()
                members[lost].kill()
                self.wait_until(lambda: len(decided(2)) >= 3, hosts)
                self.assertGreater(min(decided(2)), max(decided(3)))
                pathlib.Path(folder, "end").touch()
                left = [member for rank, member in enumerate(members) if rank != lost]
                for member in left:
                    member.join(elastic.RUN_SECONDS)
                self.assertEqual([member.exitcode for member in left], [0, 0])
            finally:
                for member in members:
                    member.kill()
                    member.join()

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
            trial = elastic.Trial(world=HOSTS * WORKERS)
            trial.check(folder)
            self.assertEqual(trial.problems, [])


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
