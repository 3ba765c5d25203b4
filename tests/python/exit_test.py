"""A script that ends right behind its last step ends well, though threads of its process group are still busy."""
import os
import shutil
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
    def check(self, form, times, **environment):
        for _ in range(times):
            with tempfile.TemporaryDirectory() as folder:
                script = [sys.executable, "-c", SCRIPT, ranks.PACKAGE, os.path.join(folder, "store")]
                started = [subprocess.Popen([*script, str(rank), form], stderr=subprocess.PIPE,
                                            env={**os.environ, **environment}) for rank in range(2)]
                texts = [process.communicate(timeout=ranks.SECONDS)[1].decode(errors="replace") for process in started]
                self.assertEqual([process.returncode for process in started], [0, 0], "\n".join(texts))

    def test_a_script_may_end_behind_its_last_step(self):
        for form in ("ddp", "plain"):
            self.check(form, int(os.environ.get("DYNAMIX_TEST_ENDS", 4)) // 2)

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_a_script_may_end_before_the_threads_of_its_group_are_done(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "late.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", library, "-ldl"], input=LATE.encode(),
                           check=True)
            for form in ("ddp", "plain"):
                self.check(form, 2, LD_PRELOAD=library)


if __name__ == "__main__":
    unittest.main()
