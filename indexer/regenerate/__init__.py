"""What has to be made again: pure planning over a tree and its heads."""
