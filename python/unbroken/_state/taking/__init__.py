"""Taking the state of objects: a capture, and what it may take over from the one before."""
