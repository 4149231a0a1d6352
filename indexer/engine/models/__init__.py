"""Frames that language models write: questions under way, and what becomes of answers."""
