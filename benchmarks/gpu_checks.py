"""What a rank of gpu_check does. Each check yields a row for each of its cases; "wrong" in it says what is not as it has to be."""
import contextlib
import copy
import hashlib
import logging
import math
import os
import pathlib
import resource
import time

import torch

import dynamix
import gpu_models
from gpu_models import Data, loss_of, model_of, together

WARM_UP = 20  # steps: the gradients of the first 16 are measured
LEARNING_RATE = 2.0**-7  # its products are exact, whether a device adds them in the same operation or not
STEADY = 2**20  # steps from one measurement of the noise to the next
#: Of the largest gradient; under autocast so many times the error that the precision itself makes on the joined batch.
MOST_ERROR, MOST_OF_PRECISION = 1e-4, 3.0
WAITS = {"cuda": ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy"), "cpu": ("aten::_local_scalar_dense",)}
TARGETS = {"lenet": 1.02, "resnet50": 1.01, "transformer-124m": 1.01}  # joined over plain


def _digest(tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().numpy().tobytes())
    return found.hexdigest()


def _median(values):
    return sorted(values)[len(values) // 2]


class Worker:
    """A rank of a check."""

    def __init__(self, check, device, scale):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        kind = device if check != "mixed" or self.rank == 0 else "cpu"
        self.device, self.scale, self.sizes = torch.device(kind, 0) if kind == "cuda" else torch.device("cpu"), scale, gpu_models.SIZES[scale]
        self.back_end = "nccl" if kind == "cuda" and self.world == 1 else "gloo"
        torch.set_num_threads(1 if kind == "cpu" else 4)
        if kind == "cuda":
            torch.cuda.set_device(self.device)
        torch.distributed.init_process_group(self.back_end, init_method=f"file://{os.environ['GPU_CHECK_STORE']}", rank=self.rank,
                                             world_size=self.world)

    def autocast(self, precision):
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        return torch.autocast(self.device.type, kinds[precision]) if precision in kinds else contextlib.nullcontext()

    def scaler_of(self, precision):
        return torch.amp.GradScaler(self.device.type, init_scale=1024.0) if precision in ("fp16", "scaled") else None

    def train(self, net, name, steps, joined, precision="fp32", noise_interval=0, see_run=None, see_step=None):
        """Trains so many steps behind WARM_UP of them. Returns the seconds of each, by the device's events where it has them, and
        those of the wall clock of all together. `see_step` is called ahead of each step with its number, and behind the last."""
        batch = self.sizes[name]["batch"]
        model = torch.nn.parallel.DistributedDataParallel(net)
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE), self.scaler_of(precision)
        data, run = Data(name, batch * self.world * (WARM_UP + steps), self.scale), None
        if joined:
            run = dynamix.join(model, optimizer, agent="off", rule="constant", scaler=scaler, noise_interval=noise_interval)
            loader = run.loader(data, batch_size=batch, collate_fn=together)
        else:
            loader = torch.utils.data.DataLoader(data, batch, collate_fn=together, sampler=torch.utils.data.DistributedSampler(data))
        if see_run is not None:
            see_run(run)
        marks, began = [], 0.0
        for number, (_, inputs, labels) in enumerate(loader):
            if number == WARM_UP:
                self.synchronize()
                began = time.perf_counter()
                marks.append(self.mark())
            if see_step is not None:
                see_step(number)
            inputs, labels = inputs.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
            self.step(model, optimizer, scaler, precision, inputs, labels)
            marks.append(self.mark())
        self.synchronize()
        wall = time.perf_counter() - began
        if see_step is not None:
            see_step(WARM_UP + steps)
        if joined:
            run.close(again=True)
        marks = marks[WARM_UP:]
        return [self.between(*pair) for pair in zip(marks, marks[1:])], wall

    def step(self, model, optimizer, scaler, precision, inputs, labels):
        optimizer.zero_grad()
        with self.autocast(precision):
            loss = loss_of(model(inputs), labels)
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def mark(self):
        if self.device.type == "cpu":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first, last):
        return last - first if self.device.type == "cpu" else first.elapsed_time(last) / 1000

    # The checks

    def hook(self, case):
        """Milliseconds of the median step, plain and joined in turns; `plain_again` is the plain one of the last turn beside the first."""
        name, precision = case.split()
        net, rounds = model_of(name, self.scale).to(self.device), []
        for _ in range(self.sizes["rounds"]):
            rounds.append([1000 * _median(self.train(net, name, self.sizes["steps"][name], joined, precision)[0]) for joined in (False, True)])
        plain, joined = (_median([each[which] for each in rounds]) for which in (0, 1))
        return {"batch": self.sizes[name]["batch"], "parameters": sum(each.numel() for each in net.parameters()), "plain_ms": plain,
                "joined_ms": joined, "ratio": joined / plain, "plain_again": rounds[-1][0] / rounds[0][0], "target": TARGETS[name],
                "met": joined / plain <= TARGETS[name]}

    def agreement(self, case):
        """The largest error of a weighted gradient, of the largest one: unequal batches of all ranks, beside one process on the joined
        batch in float64; and whether all ranks have the same bits, of gradients and then of parameters."""
        name, precision = case.split()
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        net = model_of(name, self.scale).to(self.device)
        model = torch.nn.parallel.DistributedDataParallel(net)
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE), self.scaler_of(precision)
        run = dynamix.join(model, optimizer, agent="off", rule="constant", scaler=scaler)
        data = Data(name, {"lenet": 30}.get(name, 12) * self.world, self.scale)
        worst, allowed, digests, sizes = 0.0, MOST_ERROR, [], []
        for numbers, inputs, labels in run.loader(data, batch_size=3 + 5 * self.rank, collate_fn=together):
            everyones = self.gathered(numbers.tolist()[:run.counted])
            sizes.append([len(each) for each in everyones])
            joined = [number for part in everyones for number in part]
            true = self.gradient(net, data, joined, self.device, torch.float64, "fp32")
            largest = max(float(each.abs().max()) for each in true)
            if precision in ("bf16", "fp16"):
                rounded = self.gradient(net, data, joined, self.device, torch.float32, precision)
                allowed = max(allowed, MOST_OF_PRECISION * _error(rounded, true) / largest)
            optimizer.zero_grad()
            with self.autocast(precision):
                loss = loss_of(model(inputs.to(self.device)), labels.to(self.device))
            (loss if scaler is None else scaler.scale(loss)).backward()
            if scaler is not None:
                scaler.unscale_(optimizer)
            worst = max(worst, _error([each.grad for each in net.parameters()], true) / largest)
            digests.append(_digest(each.grad for each in net.parameters()))
            (optimizer if scaler is None else scaler).step(*([] if scaler is None else [optimizer]))
            if scaler is not None:
                scaler.update()
        digests.append(_digest(net.parameters()))
        run.close(again=True)
        devices = self.gathered(self.device.type)
        row = {"devices": "+".join(devices), "back_end": self.back_end, "batches": "+".join(map(str, sizes[0])), "steps": len(sizes),
               "largest_error": worst, "allowed": allowed, "equal_bits": len(set(map(tuple, self.gathered(digests)))) == 1}
        if not worst <= allowed:
            row["wrong"] = f"a gradient is wrong by {worst:g} of the largest one"
        elif not row["equal_bits"]:
            row["wrong"] = "the ranks' gradients or parameters differ"
        return row

    nccl = mixed = agreement

    def gathered(self, own):
        found = [None] * self.world
        torch.distributed.all_gather_object(found, own)
        return found

    def gradient(self, net, data, numbers, device, dtype, precision):
        """Of one process on the joined batch."""
        reference = copy.deepcopy(net).to(device, dtype)
        _, inputs, labels = data.__getitems__(numbers)
        inputs = inputs.to(device, dtype if inputs.is_floating_point() else None)
        reference.zero_grad()
        with self.autocast(precision):
            outputs = reference(inputs)
        outputs = outputs if dtype == torch.float64 else outputs.float()
        torch.nn.functional.cross_entropy(outputs.flatten(0, -2), labels.to(device).flatten()).backward()
        return [parameter.grad for parameter in reference.parameters()]

    def times(self, case):
        """Milliseconds of a step that the run was told, beside those of the device's events and of the wall clock."""
        told = []

        def see_run(run):
            complete = run._step.client.complete
            run._step.client.complete = lambda step: (told.append((step.iteration_seconds, step.exchange_seconds, step.data_seconds)),
                                                      complete(step))[1]

        steps = self.sizes["steps"][case]
        seconds, wall = self.train(model_of(case, self.scale).to(self.device), case, steps, True, see_run=see_run)
        known = [each for each in told[WARM_UP:] if math.isfinite(each[0]) and each[0] > 0]
        if not known:
            return {"steps": steps, "wrong": "no step's time was known"}
        means = [1000 * sum(each) / len(known) for each in zip(*known)]
        events = 1000 * sum(seconds) / len(seconds)
        row = {"steps": steps, "known": len(known), "told_ms": means[0], "told_median_ms": 1000 * _median([each[0] for each in known]),
               "events_ms": events, "events_median_ms": 1000 * _median(seconds), "wall_ms": 1000 * wall / steps, "waits_ms": means[1],
               "data_ms": means[2]}
        if self.device.type == "cuda" and not 0.8 < row["told_median_ms"] / row["events_median_ms"] < 1.25:
            row["wrong"] = "the run was told other times than the device's events show"
        return row

    def waits(self, case):
        """How often steps wait for the device, by torch's profiler: plain, joined, and joined where the noise is measured as by default."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        steps, counts = self.sizes["steps"][case], []
        for joined, interval in ((False, 0), (True, STEADY), (True, 0)):
            profile = torch.profiler.profile(activities=kinds)

            def see_step(number):
                if number == WARM_UP:
                    profile.start()
                elif number == WARM_UP + steps - 1:  # the end of `train` waits, too
                    profile.stop()

            self.train(model_of(case, self.scale).to(self.device), case, steps, joined, noise_interval=interval, see_step=see_step)
            counts.append(sum(event.count for event in profile.key_averages() if event.key in WAITS[self.device.type]))
        row = dict(zip(("steps", "plain", "joined", "joined_measuring"), (steps - 1, *counts)))
        if self.device.type == "cuda" and row["joined"] > row["plain"]:
            row["wrong"] = f"{steps - 1} steps wait for the device {row['joined']} times, and {row['plain']} times without dynamix"
        return row

    def memory(self, case):
        """The largest batch: trials, what training with it uses of the memory, and how often that ran out behind the search."""
        net, few = model_of(case, self.scale).to(self.device), 4
        optimizer = torch.optim.AdamW(net.parameters())
        run = dynamix.join(net, optimizer, agent="off", rule="constant")
        data = Data(case, 64, self.scale)
        loader = run.loader(data, batch_size=few, collate_fn=together)
        _, inputs, labels = (tensor.to(self.device) for tensor in data.__getitems__(list(range(few))))
        calls, failures = [], []

        def mean_loss(values, wanted):
            calls.append(len(values))
            try:
                return loss_of(net(values), wanted)
            except (RuntimeError, MemoryError):
                failures.append(len(values))
                raise

        began = time.perf_counter()
        found = run.find_batch(mean_loss, inputs, labels, highest=self.sizes["highest"])
        row = {"largest": found, "trials": len(set(calls)), "refused": len(failures), "seconds": time.perf_counter() - began}
        failures.clear()
        places = torch.arange(found, device=self.device) % few
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        for _ in zip(range(5), loader):
            run.backward(mean_loss, inputs[places], labels[places])
            optimizer.step()
        if self.device.type == "cuda":
            row["of_memory"] = torch.cuda.max_memory_reserved(self.device) / torch.cuda.get_device_properties(self.device).total_memory
        run.close(again=True)
        row["out_of_memory_after"] = len(failures)
        if failures:
            row["wrong"] = "the batch that was found does not fit"
        return row

    def lack(self, case):
        """A batch that memory does not hold is caught and trained in parts, with the gradient of the whole."""
        size, lines, parts = self.sizes["wide"], [], []
        net = model_of("wide", self.scale).to(self.device)
        optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
        data = Data("wide", size["batch"], self.scale)
        _, inputs, labels = data.__getitems__(list(range(size["batch"])))
        inputs, labels = inputs.to(self.device), labels.to(self.device)
        for first in range(0, len(inputs), 16):  # by hand
            (loss_of(net(inputs[first:first + 16]), labels[first:first + 16]) * len(inputs[first:first + 16]) / len(inputs)).backward()
        true = [parameter.grad.clone() for parameter in net.parameters()]
        run = dynamix.join(net, optimizer, agent="off", rule="constant")
        loader = run.loader(data, batch_size=size["batch"], collate_fn=together)
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: lines.append(record.getMessage())
        logging.getLogger("dynamix").addHandler(handler)
        self.limit_memory(size["more_bytes"])
        for numbers, values, wanted in loader:
            values, wanted = values.to(self.device), wanted.to(self.device)
            run.backward(lambda *part: (parts.append(len(part[0])), loss_of(net(part[0]), part[1]))[1], values, wanted)
            error = _error([parameter.grad for parameter in net.parameters()], true) / max(float(each.abs().max()) for each in true)
            optimizer.step()
        caught = sum("memory does not hold" in line for line in lines)
        row = {"rows": size["batch"], "caught": caught, "at_once": parts[-1], "largest_error": error}
        run.close(again=True)
        if not caught:
            row["wrong"] = "memory did not run out, so this shows nothing"
        elif not error <= MOST_ERROR:
            row["wrong"] = f"the gradient of the parts is wrong by {error:g} of the largest one"
        return row

    def limit_memory(self, more):
        """This process gets so many bytes more."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            total = torch.cuda.get_device_properties(self.device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved(self.device) + more) / total), self.device)
        else:
            has = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (has + more,) * 2)


def _error(found, true):
    """NaN counts."""
    errors = [float((mine.detach().cpu().double() - other.detach().cpu().double()).abs().max()) for mine, other in zip(found, true)]
    return math.nan if any(map(math.isnan, errors)) else max(errors)
