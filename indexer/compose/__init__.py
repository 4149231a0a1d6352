"""Composition: which frames an agent is shown, in which order, within which limits; purely."""
