"""A pool of candidates without a workspace."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from indexer.compose.candidates import Candidate, Loaded
from indexer.core.frames import BodyHash, FrameId, Freshness


def candidate(number: int, *, path: str | None = None, seq: int | None = None) -> Candidate:
    """A candidate that is like no other."""
    frame_id = FrameId(hashlib.sha256(b"%d" % number).digest())
    content = BodyHash(hashlib.sha256(b"body %d" % number).digest())
    where = f"src/f{number}.py" if path is None else path
    return Candidate(number if seq is None else seq, where, "outline", "ann", frame_id, content)


def loaded(rows: Sequence[Candidate], texts: dict[FrameId, str | None]) -> list[Loaded]:
    """The candidates with the texts they have."""
    return [Loaded(row, texts[row.frame_id], Freshness.FRESH, "") for row in rows]
