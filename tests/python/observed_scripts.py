"""Scripts that a test observes: written into files of their own, and never changed by that."""

#: In the form of torchvision's reference script: helper functions, a metric that is reduced over all, an evaluation and a checkpoint
#: an epoch. Member 1 is three times slower, by waiting for each sample.
TORCHVISION = '''
import hashlib, os, sys, time
import torch
import torch.distributed
import torch.utils.data
from torch import nn


def init_distributed_mode():
    torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()
    return torch.distributed.get_rank()


def train_one_epoch(model, criterion, optimizer, data_loader, rank):
    model.train()
    for image, target in data_loader:
        output = model(image)
        loss = criterion(output, target)
        time.sleep(len(image) * (0.0015 if rank else 0.0005))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


def evaluate(model, criterion, data_loader):
    model.eval()
    total = torch.zeros(1)
    with torch.inference_mode():
        for image, target in data_loader:
            total += criterion(model(image), target)
    torch.distributed.all_reduce(total)
    return float(total)


def main(epochs):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank = init_distributed_mode()
    samples = torch.randn(1600, 32)
    dataset = torch.utils.data.TensorDataset(samples, torch.randint(4, (1600,)))
    train_sampler = torch.utils.data.distributed.DistributedSampler(dataset)
    data_loader = torch.utils.data.DataLoader(dataset, batch_size=32, sampler=train_sampler)
    data_loader_test = torch.utils.data.DataLoader(torch.utils.data.Subset(dataset, range(64)), batch_size=32)
    model = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model = torch.nn.parallel.DistributedDataParallel(model)
    lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for epoch in range(epochs):
        train_sampler.set_epoch(epoch)
        train_one_epoch(model, criterion, optimizer, data_loader, rank)
        lr_scheduler.step()
        evaluate(model, criterion, data_loader_test)
        if rank == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pth")
    parameters = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    # One write: each part that print() writes by itself may come behind the other process's.
    os.write(1, f"parameters {rank} {hashlib.sha256(parameters.numpy().tobytes()).hexdigest()}\\n".encode())
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]))
'''


def joined(script):
    """The same with the two lines (and without what they replace), between decisions shared by the workers' paces."""
    changed = script.replace("import torch.distributed\n", "import torch.distributed\nimport dynamix\n", 1)
    changed = changed.replace("    lr_scheduler = ", "    run = dynamix.join(model, optimizer, rule=\"constant\", balance=True)\n    lr_scheduler = ")
    return changed.replace("    data_loader = torch.utils.data.DataLoader(dataset, batch_size=32, sampler=train_sampler)\n", "").replace(
        "    for epoch in range(epochs):\n",
        "    data_loader = run.loader(dataset, batch_size=32, lowest_batch=4)\n    for epoch in range(epochs):\n")


ACCELERATE = '''
import time
import torch
from accelerate import Accelerator

torch.set_num_threads(1)
torch.manual_seed(1)
accelerator = Accelerator(gradient_accumulation_steps=2)
dataset = torch.utils.data.TensorDataset(torch.randn(1600, 32), torch.randint(4, (1600,)))
loader = torch.utils.data.DataLoader(dataset, batch_size=16, shuffle=True)
model = torch.nn.Linear(32, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            time.sleep(len(inputs) * (0.0015 if accelerator.process_index else 0.0005))
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
accelerator.end_training()
'''

#: Ends by an error before its second epoch.
FAILING = TORCHVISION.replace("        train_one_epoch(", "        if epoch == 1 and rank == 1:\n            raise ValueError(\"no more\")\n        train_one_epoch(")
