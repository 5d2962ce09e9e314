"""NVRx's queue with its persistent process, and our copy into shared buffers: its own copy needs CUDA."""

from race import machine
from rivals.base import Buffers, alone
from rivals.torch_save import TorchSave


def written(state, folder):
    """In its process: durable when it is done."""
    import torch

    torch.save(state, folder / "state.pt")
    machine.sync_tree(folder)


class Nvrx(TorchSave):
    package = "nvidia-resiliency-ext"

    def __init__(self, folder, state):
        super().__init__(folder, state)
        from nvidia_resiliency_ext.checkpointing.async_ckpt import core

        alone()
        self.core, self.queue, self.buffers = core, core.AsyncCallsQueue(persistent=True), Buffers(state, is_shared=True)

    def start(self, folder):
        request = self.core.AsyncRequest(async_fn=written, async_fn_args=(self.buffers.copy(), folder), finalize_fns=[])
        self.queue.schedule_async_request(request)

    def after_step(self):
        self.queue.maybe_finalize_async_calls(blocking=False, no_dist=True)

    def is_busy(self):
        return self.queue.get_num_unfinalized_calls() > 0

    def wait(self):
        self.queue.maybe_finalize_async_calls(blocking=True, no_dist=True)

    def close(self):
        self.queue.close()
