"""Sessions of an open workspace: which are open, who writes, and what is read."""
