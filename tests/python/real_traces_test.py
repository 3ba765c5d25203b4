"""benchmarks/real_traces.py: what it reads of each format, what it works out, and that the simulator meets a trace's steps."""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import real_traces
from real_traces import Cluster, Host, Profile

UNIT = 1 / 7  # of the times below in seconds, no round number
# By step, by rank: the time of each stage. The slowest stage of each rank: 2 and 4, 2 and 2, 6 and 3.
STEPS = {16: [(2, 1), (1, 4)], 21: [(2, 2), (2, 1)], 27: [(3, 6), (3, 3)]}


def compute(step, rank, stage, time):
    """Forward and backward of one micro-batch, in StragglerAnalysis' threads: five for each stage of each rank."""
    return [{"name": f"{way}-compute", "ph": "X", "pid": rank, "tid": 5 * (2 * stage + rank), "ts": 1, "dur": part * time * UNIT * 1e6,
             "args": {"step": step}} for way, part in (("forward", 0.25), ("backward", 0.75))]


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def timeline(self):
        events = [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "DP rank [0]"}},
                  {"name": "grads-reduce-scatter", "ph": "X", "pid": 0, "tid": 3, "ts": 1, "dur": 9e6, "args": {"step": 16}}]
        for step, ranks in STEPS.items():
            for rank, stages in enumerate(ranks):
                for stage, time in enumerate(stages):
                    events += compute(step, rank, stage, time)
        path = self.folder / "data/timeline-XY.json.gz"
        path.parent.mkdir()
        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(events, file)
        self.write("data/result-XY.json", '{"blocking_slowdown": 1.5}')
        return path


class Stragglers(Files):
    def test_ranks_are_as_slow_as_their_slowest_stage(self):
        hosts, steps, by_step = real_traces.straggler_hosts(self.timeline())
        self.assertEqual(steps, 3)
        self.assertEqual([[(round(at / UNIT, 6), round(slow, 6)) for at, slow in host.slow[:4]] for host in hosts],
                         [[(0, 1), (4, 1), (6, 3), (12, 1)], [(0, 2), (4, 1), (6, 1.5), (12, 2)]])
        self.assertEqual(len(hosts[0].slow), 3 * real_traces.STRAGGLER_PASSES)
        self.assertAlmostEqual(by_step, 12 / (2 / (1 / 2 + 1 / 4) + 2 + 2 / (1 / 6 + 1 / 3)))

    def test_equal_shares_take_the_simulator_as_long_as_the_trace(self):
        self.timeline()
        cluster, = real_traces.stragglers(self.folder)
        self.assertEqual(cluster.ideal, 1.5)
        path = real_traces.write(cluster, self.folder / "made")
        made = subprocess.run([os.environ["DYNAMIX_NODE"], "simulate", "--cluster", path, "--policy", "static", "--json"], check=True,
                              stdout=subprocess.PIPE, text=True)
        self.assertAlmostEqual(json.loads(made.stdout)[0]["seconds_to_target"], 12 * UNIT * real_traces.STRAGGLER_PASSES, places=4)


class Devices(Files):
    def test_zeus_counts_at_the_highest_power(self):
        head = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
        rows = ("imagenet,resnet50,16,adadelta,250,1281.167,90", "imagenet,resnet50,16,adadelta,100,9000,60",
                "imagenet,resnet50,8,adadelta,250,1921.7505,90", "squad,bert_base_uncased,8,adamw,300,5,5")
        self.write("examples/research_reproducibility/zeus_nsdi23/trace/summary_power_v100.csv", head + "\n".join(rows) + "\n")
        profile = real_traces.zeus_profile(self.folder, "v100", "imagenet", "resnet50")
        self.assertEqual([(batch, round(seconds, 9)) for batch, seconds in profile.points], [(8, 0.012), (16, 0.016)])
        self.assertEqual(profile.highest, 16)

    def test_sailor_sums_layers_and_repeats_the_largest_micro_batch(self):
        layers = {"1": {"2": {"0": [9, 9, 9]}, "1": {"0": [0.1, 0.2, 0.05], "1": [0.2, 0.5, 0.05]}},
                  "2": {"1": {"0": [0.2, 0.3, 0.05], "1": [0.3, 1.0, 0.05]}}}
        self.write("sailor/Planner/sailor_planner/profiles/OPT-350/GPU/profile.json", json.dumps(layers))
        points = real_traces.sailor_profile(self.folder, "GPU").points
        self.assertEqual([(batch, round(seconds, 9)) for batch, seconds in points[:4]], [(1, 1.1), (2, 1.9), (4, 3.7), (8, 7.3)])

    def test_sailor_without_the_update_is_refused(self):
        self.write("sailor/Planner/sailor_planner/profiles/OPT-350/GPU/profile.json", json.dumps({"1": {"1": {"0": [1, 1, 0]}}}))
        with self.assertRaisesRegex(ValueError, "no times of the update"):
            real_traces.sailor_profile(self.folder, "GPU")


class Spot(Files):
    def test_events_begin_at_the_first(self):
        path = self.write("trace.csv", "480000,add,node1\n540000,add,node2\n540000,add,node3\n600000,remove,node1\n"
                                       "720000,add,node1\n720000,remove,node2\n780000,add,node4\n780000,remove,node4\n")
        self.assertCountEqual(real_traces.spot_events(path), [("node1", 0, 120), ("node2", 60, 240), ("node3", 60, 0), ("node1", 240, 0)])

    def test_counts_take_back_who_came_last(self):
        path = self.write("trace.txt", "2021-12-11, 23:59:30, 2\n2021-12-12, 00:00:30, 3\n2021-12-12, 00:01:30, 1\n"
                                       "2021-12-12, 00:01:30, 2\n")
        self.assertCountEqual(real_traces.spot_counts(path, "h"), [("h1", 0, 0), ("h2", 0, 120), ("h3", 60, 120), ("h4", 120, 0)])

    def test_a_trace_is_a_cluster_that_the_simulator_takes(self):
        profile = Profile("p", "made up", [(1, 0.5), (64, 0.6)])
        cluster = real_traces.spot("spot", [("a", 0, 0, profile), ("b", 0, 300, profile), ("c", 600, 0, profile)], 32, 64)
        cluster.noise = 0
        path = real_traces.write(cluster, self.folder / "made")
        made = subprocess.run([os.environ["DYNAMIX_NODE"], "simulate", "--cluster", path, "--policy", "static", "--json"], check=True,
                              stdout=subprocess.PIPE, text=True)
        self.assertIsNone(json.loads(made.stdout)[0]["failure"])
        self.assertAlmostEqual(json.loads(made.stdout)[0]["seconds_to_target"], 540 + 5, delta=1)


class Bounds(unittest.TestCase):
    one = Profile("one", "made up", [(1, 1), (100, 100)])

    def test_the_best_split_is_by_speed(self):
        self.assertAlmostEqual(real_traces.equal_seconds([(self.one, 1), (self.one, 3)], 40), 60)
        self.assertAlmostEqual(real_traces.best_seconds([(self.one, 1), (self.one, 3)], 40), 30, places=6)

    def test_the_best_split_keeps_to_memory(self):
        small = Profile("small", "made up", self.one.points, 10)
        self.assertAlmostEqual(real_traces.best_seconds([(small, 1), (self.one, 3)], 40), 90, places=6)

    def test_work_goes_on_at_each_moments_pace(self):
        cluster = Cluster("c", [Host("a", self.one), Host("b", self.one, [(0, 1), (10, 3)]), Host("c", self.one, join=20)], 10, 1, 100, 0, 0)
        paces = real_traces.pace(cluster, real_traces.best_seconds)
        self.assertEqual([now for now, _ in paces], [0, 10, 20])
        for (_, speed), expected in zip(paces, (2, 1 + 1 / 3, 2 + 1 / 3)):
            self.assertAlmostEqual(speed, expected, places=6)
        self.assertAlmostEqual(real_traces.seconds_for(20 + 4 / 3, paces), 11, places=6)
        self.assertAlmostEqual(real_traces.samples_within(11, paces), 20 + 4 / 3, places=6)

    def test_under_its_noise_scale_the_global_batch_is_the_best(self):
        cluster = Cluster("c", [Host("a", Profile("p", "made up", [(10, 2), (1000, 101)]))], 20, 1, 100, 0, 0)
        scale = real_traces.noise_scale(cluster)
        goodput = [batch / (1 + batch / 10) / (scale + batch) for batch in (18, 20, 22)]
        self.assertEqual(max(goodput), goodput[1])


if __name__ == "__main__":
    unittest.main()
