"""accelerate, as in its tutorial on migrating code."""
import itertools

import bench
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
job = bench.Job()
model = job.model()
optimizer = job.optimizer(model)
loader = torch.utils.data.DataLoader(job.data, batch_size=job.batch, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in itertools.count():
    for numbers, images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        job.compute(len(images))
        accelerator.backward(loss)
        optimizer.step()
        job.stepped(numbers, model)
