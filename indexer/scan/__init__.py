"""From disk to tree: walking, ignoring, reading and hashing files."""
