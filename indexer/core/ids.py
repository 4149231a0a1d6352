"""One type per kind of id, so that a FrameID cannot be passed for a NodeID."""

from __future__ import annotations

import re
from typing import Final, NewType

ContentId = NewType("ContentId", bytes)
"""What a node holds, wherever it stands."""

NodeId = NewType("NodeId", bytes)
"""What a node holds and where it stands; unique in one tree."""

MIN_PREFIX: Final = 6
"""Fewest hexadecimal digits that may stand for an id."""

_HEX: Final = re.compile(r"[0-9a-f]+")


def is_id_prefix(text: str) -> bool:
    """Whether the text could be the beginning of an id."""
    return len(text) >= MIN_PREFIX and _HEX.fullmatch(text) is not None
