"""Ranks and agents may be killed at any moment: no sample is lost or used twice, and nobody hangs."""
import os
import unittest

import agents
import kills


@unittest.skipUnless(agents.program(), "there is no dynamix-node with `exec`: let $DYNAMIX_NODE name it")
class Kills(unittest.TestCase):
    def test_of_ranks_and_agents_lose_no_sample(self):
        trial = kills.Trial(int(os.environ.get("DYNAMIX_TEST_KILLS", 10)), 1).run()
        self.assertEqual(trial.problems, [])
        self.assertEqual(trial.left, 0)
        self.assertGreater(trial.killed["ranks"], 0)


if __name__ == "__main__":
    unittest.main()
