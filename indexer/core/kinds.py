"""What a node can be."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """The three kinds of node; the number is what the store keeps, the label what people read."""

    FILE = 1
    DIRECTORY = 2
    LINK = 3

    @property
    def label(self) -> str:
        """The word for it in hashes, JSON and on screen."""
        return _LABELS[self]


_LABELS = {Kind.FILE: "file", Kind.DIRECTORY: "directory", Kind.LINK: "link"}
