"""What happened to frames, one event each."""

from __future__ import annotations

from typing import NamedTuple

from indexer.core.frames import FrameId


class Event(NamedTuple):
    """One frame that was made, reused or carried, or could not be."""

    action: str
    path: str
    type: str
    frame_id: FrameId | None
    because: str = ""
