"""Frames that a language model writes: prompts, requests cut to a window, calls within a budget."""

MODEL = "llm"
"""What a declared type calls a model, where others name a generator or a policy."""
