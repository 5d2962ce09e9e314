"""What of a checkpoint differs from what is here, beside the bytes that a plan puts in their place."""
