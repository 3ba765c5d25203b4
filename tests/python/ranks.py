"""Runs a function as the ranks of a Gloo group on loopback: a process per rank, forked, so that Torch is loaded once."""
import faulthandler
import multiprocessing
import os
import pathlib
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
PACKAGE = str(pathlib.Path(__file__).resolve().parents[2] / "python")
sys.path.insert(0, PACKAGE)

import torch
import torch._dynamo  # which each rank would load for its first optimiser, in a second of computing
import torch.distributed

SECONDS = float(os.environ.get("DYNAMIX_TEST_SECONDS", 120))


def store(port=0):
    """Where members of a run meet: served as long as it is kept, or the one at that port; as USE_LIBUV says, which a TCPStore does
    not read itself."""
    return torch.distributed.TCPStore("127.0.0.1", port, None, port == 0, use_libuv=os.environ.get("USE_LIBUV") != "0")


def _rank(function, rank, world, meeting, connection, arguments):
    status = 0
    faulthandler.dump_traceback_later(SECONDS * 0.9)  # where a rank hangs
    try:
        torch.set_num_threads(1)
        torch.manual_seed(1)
        if world > 1:
            torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
            torch.distributed.barrier()  # or one that ends its group at once would end it while others form it
        connection.send_bytes(pickle.dumps((True, function(rank, world, *arguments))))
        if world > 1:
            torch.distributed.barrier()
    except BaseException:
        status = 1
        try:
            connection.send_bytes(pickle.dumps((False, traceback.format_exc())))
        except OSError:
            traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Group:
    """Started ranks, whose processes a test may signal. They end with the block."""

    def __init__(self, function, world, *arguments):
        context = multiprocessing.get_context("fork")
        self._folder = tempfile.TemporaryDirectory()
        self.processes, self._ends = [], []
        for rank in range(world):
            ours, theirs = context.Pipe(duplex=False)
            meeting = os.path.join(self._folder.name, "store")
            process = context.Process(target=_rank, args=(function, rank, world, meeting, theirs, arguments))
            process.start()
            theirs.close()
            self.processes.append(process)
            self._ends.append(ours)
        self.limit = time.monotonic() + SECONDS

    def result(self, rank):
        """(True, value), or (False, why there is none)."""
        end = self._ends[rank]
        if not end.poll(max(0.0, self.limit - time.monotonic())):
            return False, f"no result within {SECONDS} s"
        try:
            return pickle.loads(end.recv_bytes())
        except EOFError:
            return False, "ended without a result"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.processes:
            process.join(0 if kind else 20)
            if process.is_alive():
                process.kill()
                process.join()
        self._folder.cleanup()


def run(function, world, *arguments):
    """What `function(rank, world, *arguments)` returns on each rank. Raises RuntimeError where one fails or none answers."""
    with Group(function, world, *arguments) as group:
        results = [group.result(rank) for rank in range(world)]
        problems = [f"rank {rank}:\n{text}" for rank, (good, text) in enumerate(results) if not good]
        if problems:
            raise RuntimeError("\n".join(problems))
        return [value for _, value in results]


def kill_amid(process, received):
    """Kills a process once another one has begun to fill `received`, memory of both, with ones, and before that is full."""
    def kill():
        while not received[3]:
            pass
        os.kill(process, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def trainer(run, model, optimizer):
    """A function that trains on one batch: its second tensor, by a plain model."""
    def train(batch):
        optimizer.zero_grad()
        model(batch[1]).square().mean().backward()
        run.average_gradients()
        optimizer.step()
    return train
