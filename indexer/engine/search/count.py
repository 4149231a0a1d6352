"""`count`: what texts cost, for clients that have no tokenizer of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


class CountDocument(TypedDict):
    """Result of `count`: the tokens of each text, by the tokenizer of that name."""

    tokens: list[int]
    tokenizer: str


def count(engine: Engine, texts: Sequence[str]) -> CountDocument:
    """Tokens of some texts, as budgets are counted."""
    counter = engine.counter
    return {
        "tokens": [counter.count_text(text) for text in texts],
        "tokenizer": counter.encoding_name,
    }
