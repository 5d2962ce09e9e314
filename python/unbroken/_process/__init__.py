"""How a life of a run begins: from a checkpoint of another run, and what is said of it."""
