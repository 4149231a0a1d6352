"""Bodies made or read in a pass that a folder above may still need."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.core import paths
from indexer.core.frames import BodyHash, ChildBody, body_hash
from indexer.core.secrets import mask
from indexer.engine.frames.heads import HeadCache
from indexer.errors import CorruptError
from indexer.store.frames import FrameBatch
from indexer.synthesis.base import ChildInput


class Bodies:
    """Texts by hash, read from the store where they are not at hand."""

    def __init__(self, heads: HeadCache) -> None:
        self._heads = heads
        self.texts: dict[BodyHash, str] = {}

    def of(self, content: BodyHash) -> str:
        """A body that must be stored."""
        known = self.texts.get(content)
        if known is None:
            self.read([content])
            known = self.texts.get(content)
        if known is None:
            raise CorruptError(
                f"the body {content.hex()[:12]} of a head is not stored",
                hint="run `merkle repair`: what is generated is made again from the files",
            )
        return known

    def read(self, wanted: Iterable[BodyHash]) -> None:
        """Read some bodies into memory, in one query."""
        missing = [content for content in wanted if content not in self.texts]
        self.texts.update(self._heads.bodies(missing))

    def add(self, body: str, batch: FrameBatch) -> BodyHash:
        """A new body, for a batch and for what is made after it; its secrets are masked.

        Everything that generators and policies make comes in here, custom ones included.
        """
        body = mask(body)
        content = body_hash(body)
        batch.bodies[content] = self.texts[content] = body
        return content

    def shrink(self, limit: int, batch: FrameBatch) -> None:
        """When there are very many, let go of those that are in the store."""
        if len(self.texts) > limit:
            # In place: whoever puts more here holds this very mapping.
            self.texts.clear()
            self.texts.update(batch.bodies)

    def inputs_of(self, bodies: Iterable[ChildBody]) -> list[ChildInput]:
        """A folder's children as a policy sees them."""
        return [
            ChildInput(paths.bytes_to_text(name), kind, self.of(body) if body else None)
            for name, kind, body in bodies
        ]
