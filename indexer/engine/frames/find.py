"""Finding one stored frame by its id, or by the first digits of it."""

from __future__ import annotations

from typing import Final

from indexer.core import paths
from indexer.core.frames import FrameId
from indexer.core.ids import is_id_prefix
from indexer.errors import UsageError
from indexer.store.frames import FrameStore, StoredFrame

_WHOLE: Final = 64
"""Digits of a FrameID."""


class UnknownFrameError(UsageError):
    """No stored frame has that id."""

    code = "unknown_frame"


def find_frame(store: FrameStore, text: str) -> StoredFrame:
    """The one frame whose id begins with some digits."""
    if not is_id_prefix(text):
        raise UnknownFrameError(
            f"{paths.on_screen(text)!r} is no FrameID",
            hint="give 6 or more lower-case hexadecimal digits, as `merkle list-frames` shows them",
        )
    # A whole id is looked up; the beginning of one is compared with every id.
    whole = len(text) == _WHOLE
    found = [FrameId(bytes.fromhex(text))] if whole else store.frame_ids(text)
    if len(found) > 1:
        listed = ", ".join(one.hex()[:16] for one in found)
        raise UnknownFrameError(f"{text} is ambiguous: {listed}", hint="give more digits")
    stored = store.frame(found[0]) if found else None
    if stored is None:
        raise UnknownFrameError(
            f"no frame has an id that begins with {text}",
            hint="`merkle list-frames NODE` lists the frames of a file or folder",
        )
    return stored
