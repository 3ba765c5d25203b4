"""A script that ends right behind its last step ends well, though threads of its process group are still busy."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import ranks
import run_test
import scripts

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from torch.nn.parallel import DistributedDataParallel
import dynamix
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(sys.argv[3]), world_size=2)
model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(8)])
wrapped = sys.argv[4] == "ddp"
if wrapped:
    model = DistributedDataParallel(model, bucket_cap_mb=0.001)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = dynamix.join(model, optimizer, agent="off")
loader = run.loader(torch.utils.data.TensorDataset(torch.randn(64, 32)), 8)
sys.setswitchinterval(100)  # the group's threads wait for the interpreter as long as this one is busy
for values, in loader:
    optimizer.zero_grad()
    model(values).square().mean().backward()
    if not wrapped:
        run.average_gradients()
    optimizer.step()
"""
#: Threads other than the main one are late at each mutex, as on a machine that has no core for them.
LATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int pthread_mutex_lock(pthread_mutex_t *mutex) {
  static int (*lock)(pthread_mutex_t *);
  static __thread unsigned seed;
  if (!lock) lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
  if (syscall(SYS_gettid) != getpid()) {
    if (!seed) seed = syscall(SYS_gettid);
    usleep(rand_r(&seed) % 20000);
  }
  return lock(mutex);
}
"""


class End(unittest.TestCase):
    def test_a_script_may_end_behind_its_last_step(self):
        for form in ("ddp", "plain"):
            for _ in range(int(os.environ.get("DYNAMIX_TEST_ENDS", 4)) // 2):
                with tempfile.TemporaryDirectory() as folder:
                    started = [scripts.Script(SCRIPT, ranks.PACKAGE, os.path.join(folder, "store"), str(rank), form) for rank in range(2)]
                    ended = [script.end() for script in started]
                    self.assertEqual([each.status for each in ended], [0, 0], ended)

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_a_script_may_end_before_the_threads_of_its_group_are_done(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "late.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", library, "-ldl"], input=LATE.encode(),
                           check=True)
            again = [sys.executable, run_test.__file__, "exit_test", "End.test_a_script_may_end_behind_its_last_step"]
            done = subprocess.run(again, env={**os.environ, "LD_PRELOAD": library}, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("Ran 1 test", done.stderr)


if __name__ == "__main__":
    unittest.main()
