"""From file system events to a bounded set of paths worth looking at."""
