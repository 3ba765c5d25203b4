"""hivemind, as in its quickstart: peers accumulate until all together have the target batch."""
import itertools

import bench
import hivemind
import torch

job = bench.Job()
dht = hivemind.DHT(initial_peers=job.told["peers"] or None, start=True, host_maddrs=["/ip4/127.0.0.1/tcp/0"])
if job.rank == 0 and not job.told["peers"]:
    job.write(peers=[str(address) for address in dht.get_visible_maddrs()])
model = job.model()
optimizer = hivemind.Optimizer(dht=dht, run_id="peers", batch_size_per_step=job.batch, target_batch_size=2048,
                               optimizer=job.optimizer(model), use_local_updates=False, matchmaking_time=1.0, averaging_timeout=10.0)
shuffled = torch.utils.data.RandomSampler(job.data, generator=torch.Generator().manual_seed(job.told["seed"] * 97 + job.rank))
loader = torch.utils.data.DataLoader(job.data, batch_size=job.batch, sampler=shuffled, drop_last=True)
for epoch in itertools.count():
    for numbers, images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        job.compute(len(images))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        job.stepped(numbers, model)
