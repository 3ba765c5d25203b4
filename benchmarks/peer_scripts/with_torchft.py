"""torchft, as in its train_ddp.py: each process a replica group of its own. With `told`, sizes by hand, the loss weighted for the
joined batch. `mended` stands for its communication hook, whose assertion ends the survivors when a member dies."""
import itertools
import os
import sys
from datetime import timedelta

import bench
import torch
import torchft

job = bench.Job()
told, mended = "told" in sys.argv, "mended" in sys.argv
os.environ.update(WORLD_SIZE="1", RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job.told["port"] + 10 + job.rank))
store = torch.distributed.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), None, True, wait_for_workers=False)
model = job.model()
optimizer = job.optimizer(model)


def load_state(state):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


seconds = timedelta(seconds=5)
manager = torchft.Manager(pg=torchft.ProcessGroupGloo(timeout=seconds), min_replica_size=1, load_state_dict=load_state,
                          state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                          replica_id=f"train_{job.rank}", timeout=seconds, quorum_timeout=timedelta(seconds=20))
if mended:
    def hook(state, bucket):
        state.allreduce(bucket.buffer()).wait()
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done
    torchft.DistributedDataParallel._comm_hook = staticmethod(hook)
parallel = torchft.DistributedDataParallel(manager, model)
steps = torchft.Optimizer(manager, optimizer)
batch = job.own_batch if told else job.batch
sampler = torchft.DistributedSampler(job.data, replica_rank=job.rank, num_replica_groups=job.world, group_rank=0, num_replicas=1,
                                     shuffle=True, seed=job.told["seed"])
loader = torch.utils.data.DataLoader(job.data, batch_size=batch, sampler=sampler, drop_last=True)
for epoch in itertools.count():
    sampler.set_epoch(epoch)
    for numbers, images, labels in loader:
        steps.zero_grad()
        before = manager.current_step()
        loss = torch.nn.functional.cross_entropy(parallel(images), labels)
        job.compute(len(images))
        (loss * (batch * job.world / job.total)).backward()
        steps.step()
        if manager.current_step() > before:  # it was committed
            job.stepped(numbers, model)
