"""The blocks of a session as they read now: the newest edit of each, without skipped ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from indexer.sessions.content import PINNED, SKIP, TOOL_IO
from indexer.sessions.node import Node
from indexer.sessions.records import EDIT, CommitRecord
from indexer.sessions.state import State
from indexer.sessions.view import View, blocks


@dataclass(frozen=True, slots=True)
class Effective:
    """A block as it reads now: its node, the commit it came with and the content that counts."""

    node: Node
    commit: CommitRecord
    content: Mapping[str, Any]
    edited: bool
    pinned: bool = False

    @property
    def direction(self) -> str | None:
        """Whether it is a tool's call or its result; None where it is neither."""
        return self.content["direction"] if self.content["content_type"] == TOOL_IO else None


def effective_blocks(state: State, view: View, notes: State) -> Iterator[Effective]:
    """Blocks in reading order, with the latest edit of each, and without skipped ones."""
    found = [(node, state.log.of_node(node.id)) for node, _ in blocks(view)]
    edits: dict[str, CommitRecord] = {}
    for _, commit in found:
        if commit is not None and commit.operation == EDIT and commit.reply_to is not None:
            known = edits.get(commit.reply_to)
            if known is None or known.seq < commit.seq:
                edits[commit.reply_to] = commit
    for node, commit in found:
        if commit is None or commit.operation == EDIT:
            continue
        priority = notes.log.priority(commit)
        if priority != SKIP:
            shown = state.log.shown(commit)
            source = max(shown, edits.get(commit.commit_hash, shown), key=lambda c: c.seq)
            content = state.log.content(source)
            yield Effective(node, commit, content, source is not commit, priority == PINNED)
