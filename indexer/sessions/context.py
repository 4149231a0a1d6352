"""Workspace context in a session: data in a fence of its own, replaced by what came after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from indexer.compiler.preview import escape_controls
from indexer.core.fence import fenced, unfenced
from indexer.core.frames import FRAME_ATTRIBUTE, GENERATED_AGENT_PREFIX
from indexer.sessions.content import text_of
from indexer.sessions.effective import Effective
from indexer.sessions.node import Node

NODE_TYPE: Final = "cb:context"
KIND: Final = "context"
PATH: Final = "merkle:path"
TYPE: Final = "merkle:type"
AGENT: Final = "merkle:agent"
SYMBOL: Final = "merkle:symbol"
CONTENT_ID: Final = "merkle:content_id"
"""The content id of the file whose own text a block shows, where it shows no frame."""
FRESHNESS: Final = "merkle:freshness"
BECAUSE: Final = "merkle:because"
FRESH: Final = "fresh"
LONGEST_REASON: Final = 200

RULES: Final = 2
"""The number of the rules by which a session is compiled and written out; it changes whenever the
same blocks would give other bytes. By rules 1 a later note of an agent took an earlier one's place,
and results that came one by one stayed messages of their own in every form."""


class Label(NamedTuple):
    """Whether what a block shows still holds, and why not."""

    freshness: str
    because: str | None = None


@dataclass(frozen=True, slots=True)
class ContextNote:
    """What became of one block of context when a session was compiled."""

    id: str
    path: str | None
    type: str | None
    action: str
    """`kept`, `labelled`, or `replaced`, by the block that came after it."""
    freshness: str
    because: str | None = None
    replaced_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The note as a JSON value."""
        return {
            "id": self.id,
            "path": self.path,
            "type": self.type,
            "action": self.action,
            "freshness": self.freshness,
            "because": self.because,
            "replaced_by": self.replaced_by,
        }


def is_context(node: Node) -> bool:
    """Whether a block shows something of the workspace, and so speaks for nobody."""
    return node.node_type == NODE_TYPE


def resolved(
    items: Sequence[Effective], labels: Mapping[str, Label], rules: int = RULES
) -> tuple[list[Effective], list[ContextNote]]:
    """The blocks with their context fenced and labelled, without what a later one replaces.

    Of two different frames of one place, type and generator the one that came later counts.
    Notes accumulate: one is replaced only by itself, pulled again in other words.
    """
    newest: dict[tuple[Any, ...], Effective] = {}
    for item in items:
        if is_context(item.node):
            known = newest.get(_place(item.node, rules))
            if known is None or known.commit.seq < item.commit.seq:
                newest[_place(item.node, rules)] = item
    kept: list[Effective] = []
    notes: list[ContextNote] = []
    for item in items:
        if not is_context(item.node):
            kept.append(item)
            continue
        later = newest[_place(item.node, rules)]
        if later.commit.content_hash != item.commit.content_hash:
            notes.append(_note(item.node, "replaced", "stale", None, later.node.id))
            continue
        freshness, because = labels.get(item.node.id) or _recorded(item.node)
        action = "kept" if freshness == FRESH else "labelled"
        notes.append(_note(item.node, action, freshness, because, None))
        reason = f": {escape_controls(because)[:LONGEST_REASON]}" if because else ""
        kept.append(
            in_fence(item, "" if freshness == FRESH else f"; no longer true, {freshness}{reason}")
        )
    return kept, notes


def all_fenced(items: Sequence[Effective]) -> list[Effective]:
    """The blocks with their context fenced, and nothing left out."""
    return [in_fence(item) if is_context(item.node) else item for item in items]


def in_fence(item: Effective, label: str = "") -> Effective:
    """A block of context with its text in a fence."""
    text = fenced(unfenced(text_of(item.content)), label)
    return replace(item, content={"content_type": "dialogue", "role": "user", "text": text})


def _recorded(node: Node) -> Label:
    """What was known of a block when it was pulled."""
    given = node.attributes.get(FRESHNESS, FRESH)
    return Label(str(given), node.attributes.get(BECAUSE))


def _place(node: Node, rules: int) -> tuple[Any, ...]:
    """What a block is about; of two blocks with the same the later one counts."""
    named = tuple(node.attributes.get(key) for key in (PATH, TYPE, AGENT, SYMBOL))
    agent = node.attributes.get(AGENT)
    if rules > 1 and isinstance(agent, str) and not agent.startswith(GENERATED_AGENT_PREFIX):
        named += (node.attributes.get(FRAME_ATTRIBUTE, node.id),)
    # A block that names nothing is only ever itself.
    return named if any(name is not None for name in named) else (node.id,)


def _note(
    node: Node, action: str, freshness: str, because: str | None, later: str | None
) -> ContextNote:
    path, kind = node.attributes.get(PATH), node.attributes.get(TYPE)
    return ContextNote(node.id, path, kind, action, freshness, because, later)
