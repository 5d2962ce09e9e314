"""How a process of a run ends: by itself, and on a signal."""
