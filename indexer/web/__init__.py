"""The web page of a running service: server-rendered, loopback only, reads and nothing else."""
