"""What a pass wants from a model, and how it learns what the model wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from indexer.core.frames import Action, MemoKey
from indexer.engine.make.item import Source
from indexer.regenerate.plan import Step

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache


class Answers(Protocol):
    """Where a pass turns to for what only a model can write."""

    def want(self, key: MemoKey, step: Step, source: Source) -> None:
        """There is no answer for this key yet."""
        ...

    def action(self, key: MemoKey) -> Action:
        """How a frame with the answer of this key came about."""
        ...


class NoAnswers:
    """Asks nobody: what is known is used, and the rest stays stale."""

    def want(self, key: MemoKey, step: Step, source: Source) -> None:
        """Nobody is asked: the frame stays stale."""

    def action(self, key: MemoKey) -> Action:
        """Whatever is known was known before this pass."""
        return Action.REUSED


def about_model(shelf: HeadCache, key: MemoKey) -> dict[str, Any]:
    """What is kept beside a frame whose content a model wrote."""
    written = shelf.model(key)
    return {} if written is None else {"model": json.loads(written.meta)}
