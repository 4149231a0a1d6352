"""Frames: which are kept, what each is bound to, and whether it still holds."""
