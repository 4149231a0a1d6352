"""A frame that may be shown, and what there is to know of it before its body is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from indexer.compose.rendering import numbered
from indexer.core.frames import BodyHash, FrameId, Freshness
from indexer.core.ids import ContentId


class Candidate(NamedTuple):
    """One head. Candidates sort by when their frame was stored, then by what and who."""

    seq: int
    path: str
    type: str
    agent: str
    frame_id: FrameId
    content: BodyHash


class Loaded(NamedTuple):
    """A candidate with its text and its freshness now; no text where none is stored."""

    candidate: Candidate
    body: str | None
    freshness: Freshness
    because: str
    symbol: str | None = None
    """The symbol of its file that a note is about."""
    line: int | None = None
    """The line at which that symbol begins now."""
    lines: tuple[int, ...] = ()
    """Where the symbols of an outline begin now, as `numbered` puts that into its text."""

    @property
    def text(self) -> str:
        """What is shown of it."""
        return numbered(self.body or "", self.lines)


def digest(candidates: Iterable[Candidate]) -> hashlib._Hash:
    """SHA-256 of the candidates' FrameIDs in sequence order, to which `sealed` adds the rest."""
    return hashlib.sha256(b"".join([candidate[4] for candidate in candidates]))


def sealed(
    base: hashlib._Hash,
    labels: Sequence[tuple[FrameId, str]],
    sources: Sequence[tuple[str, ContentId]] = (),
) -> str:
    """The hash of all that decides what the messages say, which `base` has begun.

    Besides the candidates these are the labels of frames that are not fresh or whose lines are
    shown, because labels are shown and can leave a frame out, and the contents of files that may
    be shown.
    """
    made = base.copy()
    for frame_id, label in sorted(labels):
        made.update(frame_id + label.encode() + b"\0")
    for path, content_id in sources:
        made.update(b"source\0" + path.encode() + b"\0" + content_id)
    return made.hexdigest()
