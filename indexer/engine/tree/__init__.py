"""The tree: looking at the disk, recording it, and what can be told of it."""
