"""What the next commit has to look at: expiring nodes, references, blocks, emptied containers."""

from __future__ import annotations

from indexer.sessions.node import Node


class Liveness:
    """Indexes over the working tree, kept so that a commit need not look at all of it."""

    def __init__(self) -> None:
        # Dictionaries stand for ordered sets throughout: iteration must not depend on hashing.
        self.expiring: dict[int, dict[str, None]] = {}
        """The nodes that expire with each cycle."""
        self.deferred: dict[str, None] = {}
        """Nodes that have expired and stay because something refers to them."""
        self.released: dict[str, None] = {}
        """Those of them that something no longer refers to."""
        self.referrers: dict[str, dict[str, None]] = {}
        """For each node, those that refer to it."""
        self.blocks: dict[str, None] = {}
        self.touched: dict[str, None] = {}
        """Removable nodes that may be empty, because they are new or have lost a child."""

    def add(self, node: Node, working: int) -> None:
        """A node entered the working tree."""
        if node.expires is not None:
            self.expiring.setdefault(max(node.expires, working), {})[node.id] = None
        for target in node.references:
            self.referrers.setdefault(target, {})[node.id] = None
        if node.content is not None:
            self.blocks[node.id] = None
        if node.removable:
            self.touched[node.id] = None

    def drop(self, node: Node, parent: str | None, working: int) -> None:
        """A node left the working tree."""
        if node.expires is not None:
            self.expiring.get(max(node.expires, working), {}).pop(node.id, None)
        for target in node.references:
            referrers = self.referrers.get(target, {})
            referrers.pop(node.id, None)
            if not referrers:
                self.referrers.pop(target, None)
            if target in self.deferred:
                self.released[target] = None
        for index in (self.blocks, self.deferred, self.released, self.touched):
            index.pop(node.id, None)
        if parent is not None:
            self.touched[parent] = None

    def retime(self, old: Node, new: Node, working: int) -> None:
        """A node of the working tree got another ttl."""
        if old.expires is not None:
            self.expiring.get(max(old.expires, working), {}).pop(old.id, None)
        for index in (self.deferred, self.released):
            index.pop(old.id, None)
        if new.expires is not None:
            self.expiring.setdefault(max(new.expires, working), {})[new.id] = None

    def candidates(self, cycle: int) -> dict[str, None]:
        """Nodes that the commit of a cycle should expire, if nothing protects them."""
        # Sorted, because the order in which they were entered must not show.
        return dict.fromkeys(sorted({*self.expiring.get(cycle, {}), *self.released}))

    def sealed(self, cycle: int, deferred: dict[str, None], kept_empty: dict[str, None]) -> None:
        """The cycle is over; what was protected stays on the list until it is released."""
        self.expiring.pop(cycle, None)
        self.released.clear()
        self.deferred.update(deferred)
        self.touched = dict(kept_empty)
