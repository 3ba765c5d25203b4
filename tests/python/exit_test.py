"""A script that ends right behind its last step ends well, though threads of its process group are still busy."""
import os
import subprocess
import sys
import tempfile
import unittest

import ranks

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from torch.nn.parallel import DistributedDataParallel
import dynamix
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(sys.argv[3]), world_size=2)
net = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(8)])
model = DistributedDataParallel(net, bucket_cap_mb=0.001)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = dynamix.join(model, optimizer, agent="off")
loader = run.loader(torch.utils.data.TensorDataset(torch.randn(64, 32)), 8)
sys.setswitchinterval(100)  # the group's threads wait for the interpreter as long as this one is busy
for values, in loader:
    optimizer.zero_grad()
    model(values).square().mean().backward()
    optimizer.step()
"""


class End(unittest.TestCase):
    def test_a_script_may_end_behind_its_last_step(self):
        for _ in range(4):
            with tempfile.TemporaryDirectory() as folder:
                script = [sys.executable, "-c", SCRIPT, ranks.PACKAGE, os.path.join(folder, "store")]
                started = [subprocess.Popen([*script, str(rank)], stderr=subprocess.PIPE) for rank in range(2)]
                texts = [process.communicate(timeout=ranks.SECONDS)[1].decode(errors="replace") for process in started]
                self.assertEqual([process.returncode for process in started], [0, 0], "\n".join(texts))


if __name__ == "__main__":
    unittest.main()
