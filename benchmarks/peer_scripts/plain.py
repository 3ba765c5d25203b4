"""Plain DistributedDataParallel, as in PyTorch's tutorial: equal batches. With `told`, batches set by hand for the true speeds at the
start, which no system knows: then the loss is weighted so that the gradient is that of the joined batch."""
import itertools
import sys

import bench
import torch
from torch.nn.parallel import DistributedDataParallel

told = sys.argv[1:] == ["told"]
torch.distributed.init_process_group("gloo")
job = bench.Job()
model = DistributedDataParallel(job.model())
optimizer = job.optimizer(model)
batch = job.own_batch if told else job.batch
if told:  # a share of the data as large as the share of the batch, so that all take as many steps
    first = sum(job.told["batches"][:job.rank]) * len(job.data) // job.total
    share = range(first, first + batch * len(job.data) // job.total)
    data = torch.utils.data.Subset(job.data, share)
    sampler = torch.utils.data.RandomSampler(data, generator=torch.Generator().manual_seed(job.told["seed"]))
else:
    data, sampler = job.data, torch.utils.data.DistributedSampler(job.data, seed=job.told["seed"])
loader = torch.utils.data.DataLoader(data, batch_size=batch, sampler=sampler, drop_last=True)
for epoch in itertools.count():
    if not told:
        sampler.set_epoch(epoch)
    for numbers, images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        job.compute(len(images))
        (loss * (batch * job.world / job.total)).backward()
        optimizer.step()
        job.stepped(numbers, model)
