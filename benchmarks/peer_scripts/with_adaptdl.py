"""AdaptDL, as in its tutorial (mnist_step_5.py): one global batch for all, the same for each replica."""
import os

import numpy

numpy.int = int  # it uses a name that numpy has dropped
os.environ.update(ADAPTDL_REPLICA_RANK=os.environ["RANK"], ADAPTDL_NUM_REPLICAS=os.environ["WORLD_SIZE"], ADAPTDL_MASTER_ADDR="127.0.0.1",
                  ADAPTDL_MASTER_PORT=str(int(os.environ["MASTER_PORT"]) + 1))

import adaptdl.torch as adl
import bench
import torch

adl.init_process_group("gloo")
job = bench.Job()
model = job.model()
optimizer = job.optimizer(model)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1.0)
loader = adl.AdaptiveDataLoader(job.data, batch_size=job.total, shuffle=True, drop_last=True)
loader.autoscale_batch_size(8 * job.total, local_bsz_bounds=(8, 256))
model = adl.AdaptiveDataParallel(model, optimizer, scheduler)
for epoch in adl.remaining_epochs_until(10**6):
    for numbers, images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        job.compute(len(images))
        loss.backward()
        optimizer.step()
        job.stepped(numbers, model)
    scheduler.step()
