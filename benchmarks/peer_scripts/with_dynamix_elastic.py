"""Dynamix, elastic, as in docs/sdk.md: members die and come back."""
import itertools

import bench
import dynamix
import torch

job = bench.Job()
model = job.model()
optimizer = job.optimizer(model)
store = torch.distributed.TCPStore("127.0.0.1", job.told["port"], None, False)
run = dynamix.join(model, optimizer, elastic=store, agent="off")
loader = run.loader(job.data, batch_size=job.batch, seed=job.told["seed"])
for epoch in itertools.count(run.epoch):
    for numbers, images, labels in loader:
        numbers, before = numbers[:run.counted], run.status.step
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        job.compute(len(numbers))
        loss.backward()
        run.average_gradients()
        optimizer.step()
        if run.status.step > before:  # it was not dropped
            job.stepped(numbers, model)
