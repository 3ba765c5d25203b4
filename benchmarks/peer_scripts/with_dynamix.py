"""Dynamix, as in docs/sdk.md: the two lines. With `alone` without agents (what joining costs)."""
import itertools
import sys

import bench
import dynamix
import torch
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("gloo")
job = bench.Job()
model = DistributedDataParallel(job.model())
optimizer = job.optimizer(model)
run = dynamix.join(model, optimizer, agent="off" if "alone" in sys.argv else "auto")
loader = run.loader(job.data, batch_size=job.batch, seed=job.told["seed"])
for epoch in itertools.count():
    for numbers, images, labels in loader:
        numbers, counted = numbers[:run.counted], run.counted
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        job.compute(counted)
        loss.backward()
        optimizer.step()
        job.stepped(numbers, model)
