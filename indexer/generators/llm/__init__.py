"""Frames that a language model writes: prompts, requests cut to a window, calls within a budget."""
