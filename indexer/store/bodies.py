"""The texts of frames, compared with their hashes whenever they are read."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.core.frames import BodyHash, body_hash
from indexer.errors import CorruptError
from indexer.store.database import Row


class WrongBodyError(CorruptError):
    """A stored text was changed behind the index."""

    code = "wrong_body"


def true_bodies(rows: Iterable[Row], *, salvaging: bool = False) -> dict[BodyHash, str]:
    """Texts by hash; one that was changed is refused, or left out where something is salvaged."""
    found = {}
    for sha256, content in rows:
        if body_hash(content) == sha256:
            found[BodyHash(sha256)] = content
        elif not salvaging:
            raise WrongBodyError(
                f"the stored text {sha256.hex()[:12]} is not what its hash says",
                hint="run `merkle repair`: it puts the database aside and makes it anew",
            )
    return found
