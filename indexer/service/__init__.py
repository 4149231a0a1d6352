"""The loop that keeps the index true while files change, and the socket others talk to it by."""
