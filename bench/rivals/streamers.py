"""Loaders of safetensors files that others made; what is loaded was written by safetensors."""

from rivals.safe import SafeTensors


class Runai(SafeTensors):
    """The Run:ai streamer: its memory is used again, so each tensor is copied to where it belongs."""

    package = "runai-model-streamer"

    def load(self, folder):
        from runai_model_streamer import SafetensorsStreamer

        with SafetensorsStreamer() as streamer:
            streamer.stream_file(str(folder / "state.safetensors"))
            for name, tensor in streamer.get_tensors():
                self.state[name].copy_(tensor)
        return self.state


class FastSafeTensors(SafeTensors):
    """fastsafetensors without GPUDirect. Its tensors lie in memory that it keeps."""

    package = "fastsafetensors"
    opened = None

    def load(self, folder):
        import fastsafetensors

        self.opened = None
        loader = fastsafetensors.SafeTensorsFileLoader(None, "cpu", nogds=True)
        loader.add_filenames({0: [str(folder / "state.safetensors")]})
        self.opened = loader.copy_files_to_device()
        return {name: self.opened.get_tensor(name) for name in loader.get_keys()}
