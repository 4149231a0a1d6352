"""How many tokens a session holds now: what a reader of the working tree would be given."""

from __future__ import annotations

from indexer.sessions.content import SKIP
from indexer.sessions.log import Log
from indexer.sessions.records import EDIT, CommitRecord


class LiveTokens:
    """The tokens of the blocks that are there, each by its newest edit, without skipped ones.

    Kept as blocks come and go, so that nothing has to be summed up to check a budget.
    """

    def __init__(self, log: Log) -> None:
        self.total = 0
        self._log = log
        # For each block, by its own commit: the commits in the working tree that are it or edit it.
        self._there: dict[str, dict[str, CommitRecord]] = {}
        self._counted: dict[str, int] = {}

    def enter(self, commit: CommitRecord) -> None:
        """A block or an edit is in the working tree."""
        block = _block_of(commit)
        self._there.setdefault(block, {})[commit.commit_hash] = commit
        self.count(block)

    def leave(self, commit: CommitRecord) -> None:
        """A block or an edit is no longer in the working tree."""
        block = _block_of(commit)
        there = self._there.get(block, {})
        there.pop(commit.commit_hash, None)
        self.count(block)
        if not there:
            self._there.pop(block, None)

    def replaced_by(self, commit: CommitRecord) -> int:
        """The tokens that an edit takes the place of."""
        return self._counted.get(_block_of(commit), 0)

    def count(self, block: str) -> None:
        """Count a block anew, named by its own commit: it came, went, was edited or annotated."""
        there = self._there.get(block, {})
        own = there.get(block)
        tokens = 0
        if own is not None and self._log.priority(own) != SKIP:
            tokens = max(there.values(), key=lambda commit: commit.seq).token_count
        self.total += tokens - self._counted.pop(block, 0)
        if tokens:
            self._counted[block] = tokens


def _block_of(commit: CommitRecord) -> str:
    edits = commit.operation == EDIT and commit.reply_to is not None
    return str(commit.reply_to) if edits else commit.commit_hash
