"""What a run is made of: collected into tensors and a tree, and put back in place."""
