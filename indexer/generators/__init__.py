"""Generators of file frames: what a file says, from its name and bytes alone."""

from __future__ import annotations

from indexer.generators.base import FileInput, Generator, verified
from indexer.generators.registry import custom_policy, generator_names, make_generator

__all__ = [
    "FileInput",
    "Generator",
    "custom_policy",
    "generator_names",
    "make_generator",
    "verified",
]
