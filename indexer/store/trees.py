"""The tree in the database: what changed in every batch, the roots, and the stat cache."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.changes import Change, Node, node_of
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId, NodeId
from indexer.core.kinds import Kind
from indexer.core.listing import ListedFolder, Listing
from indexer.core.tree import Entry, Totals, Tree
from indexer.errors import CorruptError
from indexer.store.database import (
    Database,
    DatabaseError,
    ReadOnlyError,
    Row,
    append_rows,
    put_meta,
)
from indexer.store.driver import duckdb
from indexer.store.noted import LostRoots, Noted
from indexer.store.roots import Remarks, Root
from indexer.store.tree_rows import GONE, kind_of, tree_from_rows, vouched

_PIECE: Final = 20_000
"""Rows that are copied at once."""

OF_TREES: Final = {"meta", "root_log", "node_log", "listings", "remarks", "lost_roots"}
"""The tables that hold all there is before anything but files is known."""

_FROM: Final = "history_from"
"""What the meta table says the oldest recorded root is, once older ones were forgotten."""


class Listings(NamedTuple):
    """An update of the stat cache: folders whose listing changed (None: gone)."""

    changed: Mapping[str, Listing | None] = MappingProxyType({})
    everything: bool = False
    """Whether these are all there are, and whatever else is stored goes."""


class Batch(NamedTuple):
    """One step from a recorded tree to the next, to be stored whole or not at all."""

    tree: Tree
    changes: Sequence[Change]
    cause: str
    at_ns: int
    added: int
    modified: int
    removed: int
    renamed: int
    remarks: Remarks | None = None
    """None leaves the remarks of the last full scan in place."""
    listings: Listings | None = None
    """None leaves the stat cache behind, to be refreshed later."""
    nodes: Sequence[Node] | None = None
    """What the log gets, where everything is new; None where that follows from the changes."""


class TreeStore:
    """Reads and writes trees of one workspace."""

    def __init__(
        self, database: Database, algorithm: WorkspaceHash, noted: Noted | None = None
    ) -> None:
        self._database = database
        self._noted = noted
        self._algorithm = algorithm
        self._head: list[Root | None] = []
        """The newest root or that there is none, once that was asked for."""
        self._lost: list[LostRoots] | None = None
        self.relisted = False
        """Whether the stat cache is another one than when this was opened, or lags behind."""
        self._listings: dict[str, Listing] | None = None
        """The stat cache, where all of it was written last."""

    # -- reading

    def head(self) -> Root | None:
        """The newest root, None before the first scan."""
        # Only the owner writes roots, and this object is how: what it wrote last is the newest.
        if not self._head:
            rows = self._database.rows("SELECT * FROM root_log ORDER BY seq DESC LIMIT 1")
            self._head = [_root(rows[0]) if rows else None]
        return self._head[0]

    def roots(self, limit: int) -> list[Root]:
        """Recorded roots, newest first."""
        rows = self._database.rows("SELECT * FROM root_log ORDER BY seq DESC LIMIT ?", [limit])
        return [_root(row) for row in rows]

    def lost(self) -> list[LostRoots]:
        """What was recorded within the history and is gone, oldest first."""
        if self._lost is None:
            rows = self._database.rows("SELECT * FROM lost_roots ORDER BY first")
            self._lost = [LostRoots(*row) for row in rows]
        return self._lost

    def root_before(self, steps: int) -> Root | None:
        """The root that was the newest one so many recorded roots ago."""
        rows = self._database.rows(
            "SELECT * FROM root_log ORDER BY seq DESC LIMIT 1 OFFSET ?", [steps]
        )
        return _root(rows[0]) if rows else None

    def count_roots(self) -> int:
        """How many roots are recorded."""
        return int(self._database.rows("SELECT count(*) FROM root_log")[0][0])

    def root_at(self, seq: int) -> Root | None:
        """The root recorded as number `seq`."""
        rows = self._database.rows("SELECT * FROM root_log WHERE seq = ?", [seq])
        return _root(rows[0]) if rows else None

    def roots_by_prefix(self, prefix: str) -> list[Root]:
        """Recorded roots whose id begins so, newest first, each id once."""
        rows = self._database.rows(
            "SELECT * FROM root_log WHERE starts_with(lower(hex(root)), ?)"
            " QUALIFY row_number() OVER (PARTITION BY root ORDER BY seq DESC) = 1"
            " ORDER BY seq DESC",
            [prefix],
        )
        return [_root(row) for row in rows]

    def nodes_by_prefix(self, prefix: str, limit: int = 10) -> list[tuple[str, NodeId, bool]]:
        """Paths that have or had a NodeID beginning so, with whether it is the present one."""
        rows = self._database.rows(
            "WITH hit AS (SELECT path, node_id, max(seq) AS seq FROM node_log"
            "  WHERE starts_with(lower(hex(node_id)), ?) GROUP BY path, node_id),"
            " now AS (SELECT path, max(seq) AS seq FROM node_log"
            "  WHERE path IN (SELECT path FROM hit) GROUP BY path)"
            " SELECT hit.path, hit.node_id, hit.seq = now.seq"
            " FROM hit JOIN now USING (path) ORDER BY 3 DESC, hit.seq DESC, 1 LIMIT ?",
            [prefix, limit],
        )
        return [(path, NodeId(node_id), bool(current)) for path, node_id, current in rows]

    def node_ids(self, path: str, prefix: str) -> list[NodeId]:
        """The NodeIDs beginning so that a path has or had."""
        rows = self._database.rows(
            "SELECT DISTINCT node_id FROM node_log WHERE path = ?"
            " AND starts_with(lower(hex(node_id)), ?) ORDER BY 1",
            [path, prefix],
        )
        return [NodeId(row[0]) for row in rows]

    def tree_with_node(self, path: str, prefix: str) -> tuple[NodeId, Tree] | None:
        """The newest recorded tree in which a path had a NodeID beginning so."""
        rows = self._database.rows(
            "SELECT node_id, seq FROM node_log WHERE path = ?"
            " AND starts_with(lower(hex(node_id)), ?) ORDER BY seq DESC LIMIT 1",
            [path, prefix],
        )
        if not rows:
            return None
        # What is older than the history was so when it begins.
        return NodeId(rows[0][0]), self.tree_at(max(rows[0][1], self.oldest_seq()))

    def listings(self, *, top: bool = False) -> dict[str, Listing] | None:
        """The stat cache, or None when it lags behind the newest root.

        With `top` only that of the root and of the folders in it.
        """
        head = self.head()
        listed = self._database.rows("SELECT value FROM meta WHERE key = 'listed_seq'")
        if head is None or not listed or int(listed[0][0]) != head.seq:
            return None
        if self._listings is not None and not top:
            return dict(self._listings)
        where = " WHERE NOT contains(path, '/')" if top else ""
        rows = self._database.rows(f"SELECT path, stats, ids, totals FROM listings{where}")
        return {path: Listing(stats, ids, totals) for path, stats, ids, totals in rows}

    def tree(self, listings: Mapping[str, Listing] | None = None) -> Tree:
        """The present tree, from the stat cache where it is complete, else from the log.

        From the stat cache a folder is decoded when it is looked into.
        """
        if listings is None:
            listings = self.listings()
        if listings is not None:
            # Copied: what is decoded is taken out.
            root = ListedFolder(self._algorithm, dict(listings), paths.ROOT, None)
            return Tree(self._algorithm, root)
        head = self.head()
        if head is None:
            return Tree.empty(self._algorithm)
        rows = self._database.rows("SELECT path, stats, ids FROM listings")
        listed = {path: Listing(stats, ids, b"") for path, stats, ids in rows}
        return self.tree_at(head.seq, vouched(listed, self._algorithm.size))

    def tree_at(self, seq: int, stats: Mapping[tuple[str, bytes], bytes] | None = None) -> Tree:
        """The tree as recorded at `seq`."""
        rows = self._database.rows(
            "SELECT path, kind, content_id, size FROM node_log WHERE seq <= ?"
            " QUALIFY row_number() OVER (PARTITION BY path ORDER BY seq DESC) = 1",
            [seq],
        )
        return tree_from_rows(self._algorithm, rows, stats or {})

    def entries_at(self, seq: int, path: str) -> list[tuple[str, Kind]]:
        """The paths and kinds of what a folder held in the root recorded at `seq`."""
        prefix = f"{path}/" if path else ""
        rows = self._database.rows(
            "SELECT path, kind FROM (SELECT path, kind FROM node_log WHERE seq <= $1"
            "  AND starts_with(path, $2) AND path <> ''"
            "  AND NOT contains(substr(path, length($2) + 1), '/')"
            "  QUALIFY row_number() OVER (PARTITION BY path ORDER BY seq DESC) = 1)"
            " WHERE kind <> 0 ORDER BY path",
            [seq, prefix],
        )
        return [(where, Kind(kind)) for where, kind in rows]

    def changes_between(self, old_seq: int, new_seq: int) -> list[Change]:
        """What differs between two recorded roots; cost grows with what changed between them."""
        low, high = sorted((old_seq, new_seq))
        rows = self._database.rows(
            "WITH touched AS (SELECT DISTINCT path FROM node_log WHERE seq > $1 AND seq <= $2),"
            " seen AS (SELECT * FROM node_log SEMI JOIN touched USING (path) WHERE seq <= $2)"
            " SELECT path,"
            "  arg_max(kind, seq) FILTER (seq <= $1), arg_max(content_id, seq) FILTER (seq <= $1),"
            "  arg_max(size, seq) FILTER (seq <= $1),"
            "  arg_max(kind, seq), arg_max(content_id, seq), arg_max(size, seq)"
            " FROM seen GROUP BY path ORDER BY path",
            [low, high],
        )
        found = []
        for path, *sides in rows:
            old, new = _side(*sides[:3]), _side(*sides[3:])
            if old_seq > new_seq:
                old, new = new, old
            if (old and old[:2]) != (new and new[:2]):
                found.append(Change(path, old, new))
        return found

    def tree_with_ids(self, seq: int) -> tuple[Tree, dict[str, tuple[bytes, bytes]]]:
        """The tree as recorded at `seq`; content id and NodeID of every path, as written."""
        nodes = self.nodes_at(seq)
        rows = ((path, kind, content_id, size) for path, kind, content_id, _, size in nodes)
        tree = tree_from_rows(self._algorithm, rows, {})
        return tree, {path: (content_id, node_id) for path, _, content_id, node_id, _ in nodes}

    def nodes_at(self, seq: int) -> list[Row]:
        """The nodes as recorded at `seq`, each as the log has it, in no order."""
        return self._database.rows(
            "SELECT path, kind, content_id, node_id, size FROM (SELECT * FROM node_log"
            "  WHERE seq <= ? QUALIFY row_number() OVER (PARTITION BY path ORDER BY seq DESC) = 1)"
            " WHERE kind <> 0",
            [seq],
        )

    def log_problems(self) -> list[tuple[int, str]]:
        """Recorded roots that are missing, doubled, or do not match the root's own log row."""
        rows = self._database.rows(
            "SELECT coalesce(r.seq, n.seq), r.seq IS NULL, n.seq IS NULL, r.root <> n.node_id"
            " FROM root_log r FULL JOIN (SELECT * FROM node_log WHERE path = '') n"
            "  ON r.seq = n.seq"
            " WHERE r.seq IS NULL OR n.seq IS NULL OR r.root <> n.node_id ORDER BY 1"
        )
        problems = [(seq, "is not matched by the log of nodes") for seq, *_ in rows]
        gaps = self._database.rows("SELECT max(seq), count(*), count(DISTINCT seq) FROM root_log")
        newest, total, distinct = gaps[0]
        first = self.oldest_seq()
        known = sum(
            min(lost.last, newest) - max(lost.first, first) + 1
            for lost in self.lost()
            if total and lost.first <= newest and lost.last >= first
        )
        if total and not newest - first + 1 - known == total == distinct:
            problems.append((newest, f"{total} roots recorded, numbered {first} to {newest}"))
        return problems

    def oldest_seq(self) -> int:
        """The number of the oldest root that is not forgotten."""
        return self._number(_FROM) or 1

    def applied_record(self) -> int:
        """The number of the last record of the journal that the database has; 0: none."""
        return self._number("journal") or 0

    def _number(self, key: str) -> int | None:
        rows = self._database.rows("SELECT value FROM meta WHERE key = ?", [key])
        return int(rows[0][0]) if rows else None

    def first_seq_since(self, at_ns: int) -> int | None:
        """The number of the first root that was recorded at a time or after it."""
        rows = self._database.rows("SELECT min(seq) FROM root_log WHERE at_ns >= ?", [at_ns])
        return None if rows[0][0] is None else int(rows[0][0])

    def largest(self, limit: int, seq: int) -> list[str]:
        """The paths of the largest files recorded at `seq`, largest first."""
        return self.tree_at(seq).largest(limit)

    def remarks(self) -> Remarks:
        """What the last full scan left out or could not read."""
        rows = self._database.rows("SELECT path, reason, kind FROM remarks ORDER BY kind, path")
        return Remarks(
            tuple((path, reason) for path, reason, kind in rows if kind == "skipped"),
            tuple((path, reason) for path, reason, kind in rows if kind == "unreadable"),
        )

    # -- writing

    def record(self, batch: Batch) -> Root:
        """Store a batch in one transaction and return the new root."""
        self.relisted = True
        seq = self._next_seq()
        tree, totals = batch.tree, batch.tree.root.totals
        root = Root(
            seq, tree.root_id, tree.root.content_id, batch.at_ns, batch.cause, totals,
            batch.added, batch.modified, batch.removed, batch.renamed,
        )  # fmt: skip
        with self._database.transaction() as connection:
            append_rows(connection, "node_log", _log_rows(seq, batch))
            append_rows(connection, "root_log", [(*root[:5], *totals, *root[6:])])
            if batch.remarks is not None:
                _replace_remarks(connection, batch.remarks)
            if batch.listings is not None:
                _replace_listings(connection, batch.listings)
                put_meta(connection, "listed_seq", str(seq))
        self._head, self._listings = [root], _whole(batch.listings)
        if self._noted is not None:
            self._noted.note_root(seq, root.root)
        return root

    def _next_seq(self) -> int:
        """The number of the next root; that of a lost one is not given again."""
        head = self.head()
        return max([head.seq if head else 0, *(lost.last for lost in self.lost())]) + 1

    def find_loss(self, at_ns: int) -> LostRoots | None:
        """Which roots are gone, where more were recorded than are here or known to be lost."""
        noted = self._noted.read() if self._noted is not None else None
        if noted is None or noted.seq < self._next_seq():
            return None
        return LostRoots(self._next_seq(), noted.seq, noted.root, at_ns)

    def notice_loss(self, at_ns: int) -> None:
        """Record which roots are gone, where any are."""
        found = self.find_loss(at_ns)
        if found is None:
            return
        self._lost = [*self.lost(), found]
        # Where nothing can be written it is told all the same, and recorded when that can be done.
        refusals = contextlib.suppress(DatabaseError, ReadOnlyError)
        with refusals, self._database.transaction() as connection:
            append_rows(connection, "lost_roots", [found])

    def forget_before(self, seq: int) -> int:
        """Forget the roots before a recorded one, with what only they held; gives their number."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM node_log WHERE rowid IN (SELECT rowid FROM node_log WHERE seq <= ?"
                " QUALIFY kind = 0"
                "  OR row_number() OVER (PARTITION BY path ORDER BY seq DESC) > 1)",
                [seq],
            )
            forgotten = connection.execute("DELETE FROM root_log WHERE seq < ?", [seq]).fetchone()
            connection.execute("DELETE FROM lost_roots WHERE last < ?", [seq])
            self._lost = None
            put_meta(connection, _FROM, str(seq))
        return int(forgotten[0]) if forgotten else 0

    def take_history(self, source: TreeStore) -> bool:
        """Store what another store has recorded, here where nothing is; False where it has nothing.

        Raises where the other one cannot be read to its end or contradicts itself.
        """
        head = source.head()
        if head is None:
            return False
        tree = source.tree_at(head.seq)
        if (tree.root_id, tree.root.totals) != (head.root, head.totals) or source.log_problems():
            raise CorruptError("the recorded roots and nodes contradict each other")
        self.relisted = True
        with self._database.transaction() as connection:
            for table in ("node_log", "root_log", "lost_roots"):
                rows = source._database.stream(f"SELECT * FROM {table} ORDER BY rowid")
                while piece := list(islice(rows, _PIECE)):
                    append_rows(connection, table, piece)
            put_meta(connection, _FROM, str(source.oldest_seq()))
        self._head, self._lost = [], None
        return True

    def put_remarks(self, remarks: Remarks) -> None:
        """Replace the remarks alone."""
        with self._database.transaction() as connection:
            _replace_remarks(connection, remarks)

    def refresh(self, listings: Listings, seq: int, remarks: Remarks | None = None) -> None:
        """Bring the stat cache up to root `seq` where only stats moved or writing had waited."""
        self.relisted = True
        with self._database.transaction() as connection:
            _replace_listings(connection, listings)
            put_meta(connection, "listed_seq", str(seq))
            if remarks is not None:
                _replace_remarks(connection, remarks)
        self._listings = _whole(listings)


def _whole(listings: Listings | None) -> dict[str, Listing] | None:
    if listings is None or not listings.everything:
        return None
    return {path: found for path, found in listings.changed.items() if found}


def _root(row: Row) -> Root:
    seq, root, content_id, at_ns, cause = row[:5]
    return Root(
        seq, NodeId(root), ContentId(content_id), at_ns, cause, Totals(*row[5:9]), *row[9:13]
    )


def _log_rows(seq: int, batch: Batch) -> list[Row]:
    nodes = batch.nodes
    if nodes is None:
        nodes = [
            (path, GONE, None, None, None)
            if new is None
            else node_of(batch.tree.algorithm, path, new)
            for path, _, new in batch.changes
        ]
    return [(seq, *node) for node in nodes]


def _replace_listings(connection: duckdb.DuckDBPyConnection, listings: Listings) -> None:
    if listings.everything:
        connection.execute("DELETE FROM listings")
    elif listings.changed:
        connection.execute(
            "DELETE FROM listings WHERE path IN (SELECT unnest(?::VARCHAR[]))",
            [list(listings.changed)],
        )
    rows = [(path, *found) for path, found in listings.changed.items() if found]
    append_rows(connection, "listings", rows)


def _replace_remarks(connection: duckdb.DuckDBPyConnection, remarks: Remarks) -> None:
    connection.execute("DELETE FROM remarks")
    rows = [(path, reason, "skipped") for path, reason in remarks.skipped]
    rows += [(path, reason, "unreadable") for path, reason in remarks.unreadable]
    append_rows(connection, "remarks", rows)


def _side(kind: int | None, content_id: bytes | None, size: int | None) -> Entry | None:
    if not kind or content_id is None:
        return None
    return Entry(kind_of(kind), ContentId(content_id), size or 0)
