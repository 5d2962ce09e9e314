"""torch.distributed.checkpoint: save, load and the ways to stage async_save."""

from rivals.base import Rival, alone


class Dcp(Rival):
    """`stager`: the four options of a DefaultStager that is kept (pinned, shared, in a thread, not blocking), or none.
    `cached`: a FileSystemWriter that stages into pinned memory of its own."""

    def __init__(self, folder, state, stager=None, process=False, cached=False):
        super().__init__(folder, state)
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint import staging, state_dict_saver

        self.dcp, self.cached, self.writer, self.response = dcp, cached, None, None
        self.options = {} if process else {"no_dist": True}
        if stager is not None:
            self.options["async_stager"] = staging.DefaultStager(staging.StagingOptions(*stager))
        if process:
            alone()
            self.options["async_checkpointer_type"] = state_dict_saver.AsyncCheckpointerType.PROCESS

    def write(self, folder):
        self.dcp.save(self.state, checkpoint_id=folder, no_dist=True)

    def load(self, folder):
        self.dcp.load(self.state, checkpoint_id=folder, no_dist=True)
        return self.state

    def begin(self, folder):
        where = {"checkpoint_id": folder}
        if self.cached:
            self.writer = self.writer or self.dcp.FileSystemWriter(folder, cache_staged_state_dict=True)
            self.writer.reset(folder)
            where["storage_writer"] = self.writer
        self.response = self.dcp.async_save(self.state, **where, **self.options)
        return getattr(self.response, "upload_completion", self.response).result

    def before_update(self):
        staged = getattr(self.response, "staging_completion", None)
        if staged is not None:
            staged.result()
