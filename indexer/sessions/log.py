"""The hash chain of content commits with its blobs, priorities and attempts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from indexer.core.canonical import commit_hash, content_hash
from indexer.errors import CorruptError, UsageError
from indexer.sessions.content import CONTENT_TYPES, NORMAL
from indexer.sessions.records import EDIT, CommitRecord, LogCorruptError

PREFIX: Final = 6


class CommitNotFoundError(UsageError):
    """No commit of this session answers to that name."""

    code = "E_COMMIT_UNKNOWN"


class EditTargetError(UsageError):
    """An edit names nothing that can be edited."""

    code = "E_EDIT_TARGET"


class HashCollisionError(CorruptError):
    """Two contents have one hash, so neither may stand for the other."""

    code = "E_HASH_COLLISION"

    def __init__(self, hashed: str) -> None:
        logging.getLogger(__name__).error("two contents have the hash %s", hashed)
        super().__init__(
            f"another content of this session has the hash {hashed[:12]}",
            hint="say it in other words, and report this: it is not known to happen",
        )


class WrongContentError(CorruptError):
    """A content of a session was changed behind the index."""

    code = "wrong_content"


def checked_content(content: Any, hashed: str) -> Any:
    """A content as it was stored, refused where it is not what its hash says."""
    if content_hash(content) != hashed:
        raise WrongContentError(
            f"the session content {hashed[:12]} is not what its hash says",
            hint="run `merkle repair`: it puts the database aside and makes it anew",
        )
    return content


class Blobs(dict[str, Any]):
    """Contents by hash; what a store gave as text is checked and parsed when first asked for."""

    def __getitem__(self, key: str) -> Mapping[str, Any]:
        value = super().__getitem__(key)
        if isinstance(value, str):
            value = checked_content(json.loads(value), key)
            super().__setitem__(key, value)
        found: Mapping[str, Any] = value
        return found

    def find(self, key: str) -> Mapping[str, Any] | None:
        """The content of that hash, if it is there."""
        if key not in self:
            return None
        return self[key]


class Log:
    """Commits in chain order, each content once, and what was said about them since."""

    def __init__(self) -> None:
        self.commits: list[CommitRecord] = []
        self.blobs = Blobs()
        self.priorities: dict[str, str] = {}
        """What the last annotation of a commit says: pinned, normal or skip."""
        self.attempts: dict[str, dict[str, Any]] = {}
        self.total_tokens = 0
        self._by_hash: dict[str, CommitRecord] = {}
        # A block that was moved across regions lives on under another id.
        self._node_of: dict[str, str] = {}
        self._commit_of: dict[str, str] = {}
        # Commits that gave a block another content in its place, by the commit it came with.
        self._replaced: dict[str, list[CommitRecord]] = {}

    @property
    def head(self) -> str | None:
        """The newest commit's hash."""
        return self.commits[-1].commit_hash if self.commits else None

    def add(self, record: CommitRecord) -> None:
        """Append a commit that was checked before."""
        if record.content is not None:
            self.blobs[record.content_hash] = record.content
        self.commits.append(record)
        self._by_hash[record.commit_hash] = record
        self.total_tokens += record.token_count
        if self.replaces(record):
            assert record.reply_to is not None
            self._replaced.setdefault(record.reply_to, []).append(record)
            self._node_of[record.commit_hash] = record.node_id
        else:
            self.rename(record.commit_hash, record.node_id)

    def replaces(self, record: CommitRecord) -> bool:
        """Whether an edit shows in its target's own place, and not in a block beside it."""
        return record.reply_to is not None and self._node_of.get(record.reply_to) == record.node_id

    def shown(self, commit: CommitRecord) -> CommitRecord:
        """The commit whose content the block of a commit holds now."""
        return self.said(commit)[-1]

    def said(self, commit: CommitRecord) -> list[CommitRecord]:
        """The commits whose contents a block has held in its place, oldest first."""
        return [commit, *self._replaced.get(commit.commit_hash, ())]

    def rename(self, commit: str, node_id: str) -> None:
        """Bind a commit to the node that shows it now."""
        self._commit_of.pop(self._node_of.get(commit, ""), None)
        self._node_of[commit] = node_id
        self._commit_of[node_id] = commit

    def get(self, commit: str) -> CommitRecord | None:
        """The commit of that exact hash."""
        return self._by_hash.get(commit)

    def of_node(self, node_id: str) -> CommitRecord | None:
        """The commit that a node shows."""
        return self._by_hash.get(self._commit_of.get(node_id, ""))

    def node_of(self, commit: str) -> str:
        """The id of the node that shows a commit."""
        return self._node_of[commit]

    def content(self, commit: CommitRecord) -> Mapping[str, Any]:
        """The content of a commit."""
        return self.blobs[commit.content_hash]

    def resolve(self, name: str) -> CommitRecord:
        """A commit by hash, by the id of its node, or by a unique prefix of either."""
        found = self._by_hash.get(name) or self.of_node(name)
        if found is not None:
            return found
        hashes = {one for one in self._by_hash if one.startswith(name)}
        # Of the commits that a block had in its place one stands for it.
        hashes.update(commit for node, commit in self._commit_of.items() if node.startswith(name))
        matches = [self._by_hash[one] for one in hashes]
        if len(name) < PREFIX or len(matches) != 1:
            told = "is not unique" if matches and len(name) >= PREFIX else "is not in this session"
            raise CommitNotFoundError(
                f"commit {name!r} {told}", hint="give a commit hash or the id of a block"
            )
        return matches[0]

    def edit_target(self, name: str) -> CommitRecord:
        """The commit an edit may name: known, and no edit itself."""
        try:
            target = self.resolve(name)
        except CommitNotFoundError as error:
            raise EditTargetError(error.message, hint=error.hint) from None
        if target.operation == EDIT:
            raise EditTargetError(
                f"{name} is an edit and cannot be edited", hint=f"edit {target.reply_to} again"
            )
        return target

    def priority(self, commit: CommitRecord) -> str:
        """What the last annotation says, or the default of the content type."""
        said = self.priorities.get(commit.commit_hash)
        if said is not None:
            return said
        spec = CONTENT_TYPES.get(commit.content_type)
        return spec.priority if spec is not None else NORMAL

    def verify(self, record: CommitRecord) -> None:
        """Refuse a commit whose hashes, parent or target do not fit this chain."""
        known = self.blobs.find(record.content_hash)
        content = record.content if record.content is not None else known
        if content is None:
            raise LogCorruptError(record.seq, "its content is not in the log")
        if content_hash(dict(content)) != record.content_hash:
            raise LogCorruptError(record.seq, "its content does not have its content hash")
        if content.get("content_type") != record.content_type:
            raise LogCorruptError(record.seq, "its content is of another type")
        if record.parent_hash != self.head:
            raise LogCorruptError(record.seq, "its parent is not the commit before it")
        if record.operation == EDIT and record.reply_to is None:
            raise LogCorruptError(record.seq, "an edit without a target")
        if record.reply_to is not None:
            self.edit_target(record.reply_to)
        if chain_hash(record) != record.commit_hash:
            raise LogCorruptError(record.seq, "its fields do not have its commit hash")


def chain_hash(record: CommitRecord) -> str:
    """The hash a commit's own fields give."""
    return commit_hash(
        record.content_hash,
        record.parent_hash,
        record.content_type,
        record.operation,
        record.timestamp_iso,
        record.reply_to,
    )
