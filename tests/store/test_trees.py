"""Trees in the database: batches, roots, and every state that was ever recorded."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core import filestat, listing
from indexer.core.changes import count, first_changes, nodes_of, tree_changes
from indexer.core.hashing import HASHES
from indexer.core.ids import NodeId
from indexer.core.kinds import Kind
from indexer.core.recorded_nodes import add_up_to
from indexer.core.tree import Entry, Folder, Tree
from indexer.errors import CorruptError
from indexer.store import trees as module
from indexer.store.database import Database
from indexer.store.layout import Layout
from indexer.store.noted import LastKnown, LostRoots, Noted
from indexer.store.roots import Remarks, Root
from indexer.store.trees import Batch, Listings, TreeStore
from tests.support.space import with_index

XXH3 = HASHES["xxh3_128"]


def stat_of(content: bytes) -> bytes:
    return struct.pack(">QQqq", 7, len(content), 5, 5)


def folder(entries: dict[str, Any]) -> Folder:
    return Folder.of(
        XXH3,
        {
            name: folder(value).as_entry()
            if isinstance(value, dict)
            else Entry(Kind.FILE, XXH3.of_file(value), len(value), stat_of(value))
            for name, value in entries.items()
        },
    )


def tree_of(entries: dict[str, Any]) -> Tree:
    return Tree(XXH3, folder(entries))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(Layout(with_index(tmp_path)).database)
    yield opened
    opened.close()


@pytest.fixture
def store(database: Database) -> TreeStore:
    return TreeStore(database, XXH3)


def batch(old: Tree | None, new: Tree, **options: Any) -> Batch:
    changes = tree_changes(old, new) if old else first_changes(new)
    return Batch(new, changes, "scan", 5, *count(changes), **options)


def record(store: TreeStore, old: Tree | None, new: Tree, **options: Any) -> Root:
    return store.record(batch(old, new, **options))


def flat(tree: Tree) -> dict[str, tuple[Kind, bytes, int]]:
    return {path: (e.kind, e.content_id, e.size) for path, e in tree.walk()}


A = tree_of({"x": b"1", "d": {"y": b"2", "e": {}}})
B = tree_of({"x": b"new", "d": {"z": b"3"}})
C = tree_of({"d": b"a file now", "x": {"inside": b"1"}})


def test_nothing_recorded(store: TreeStore) -> None:
    assert store.head() is None
    assert store.roots(10) == []
    assert flat(store.tree()) == flat(Tree.empty(XXH3))
    assert store.listings() is None


def test_every_state_can_be_had_back(store: TreeStore) -> None:
    states = [A, B, A, C, Tree.empty(XXH3), A]
    for old, new in zip([None, *states], states, strict=False):
        record(store, old, new)
    for seq, wanted in enumerate(states, 1):
        assert flat(store.tree_at(seq)) == flat(wanted)
        root = store.root_at(seq)
        assert root is not None
        assert (root.root, root.totals) == (wanted.root_id, wanted.root.totals)
    assert flat(store.tree_at(0)) == flat(Tree.empty(XXH3))
    assert flat(store.tree()) == flat(A)


def test_what_lies_between_any_two(store: TreeStore) -> None:
    states = [A, B, A, C, Tree.empty(XXH3), A]
    for old, new in zip([None, *states], states, strict=False):
        record(store, old, new)
    for i, old in enumerate(states, 1):
        for j, new in enumerate(states, 1):
            told = {c.path: (c.old, c.new) for c in store.changes_between(i, j)}
            wanted = {c.path: (c.old, c.new) for c in tree_changes(old, new)}
            assert told.keys() == wanted.keys()
            for path, (was, now) in told.items():
                assert (was and was[:3]) == (wanted[path][0] and wanted[path][0][:3])
                assert (now and now[:3]) == (wanted[path][1] and wanted[path][1][:3])


def test_two_roots_with_the_same_id(store: TreeStore) -> None:
    record(store, None, A)
    record(store, A, B)
    record(store, B, A)
    hits = store.roots_by_prefix(A.root_id.hex()[:8])
    assert [hit.seq for hit in hits] == [3], "one id, the newest of it"
    assert [root.root for root in store.roots(10)] == [A.root_id, B.root_id, A.root_id]
    assert store.log_problems() == []


@pytest.mark.parametrize(
    "where", ["append_rows", "_replace_remarks", "_replace_listings", "put_meta"]
)
@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
def test_a_batch_is_stored_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, first: bool
) -> None:
    path = tmp_path / "index.duckdb"
    database = Database(path)
    store = TreeStore(database, XXH3)
    if not first:
        everything = Listings(listing.changed(None, A.root), everything=True)
        record(store, None, A, remarks=Remarks((("p", "fifo"),)), listings=everything)
    before = dump(database)
    real, calls = getattr(module, where), []

    def fail_late(*args: Any, **options: Any) -> None:
        real(*args, **options)
        calls.append(1)
        if where != "append_rows" or len(calls) == 2:
            raise RuntimeError("in the middle of it")

    with monkeypatch.context() as patch:
        patch.setattr(module, where, fail_late)
        old = None if first else A
        changed = listing.changed(old.root if old else None, B.root)
        with pytest.raises(RuntimeError):
            record(store, old, B, remarks=Remarks((("q", "socket"),)), listings=Listings(changed))
    assert dump(database) == before
    database.close()
    database = Database(path)
    assert dump(database) == before
    root = record(TreeStore(database, XXH3), None if first else A, B)
    assert root.seq == (1 if first else 2)
    database.close()


def dump(database: Database) -> dict[str, list[Any]]:
    tables = ("root_log", "node_log", "listings", "remarks", "meta")
    return {name: sorted(database.rows(f"SELECT * FROM {name}"), key=repr) for name in tables}


# -- the stat cache


def test_the_stat_cache_gives_the_tree_with_its_stats(store: TreeStore) -> None:
    record(store, None, A, listings=Listings(listing.changed(None, A.root), everything=True))
    listings = store.listings()
    assert listings is not None
    read = store.tree(listings)
    assert flat(read) == flat(A)
    stats = {path: e.stat for path, e in read.walk() if e.folder is None}
    assert stats == {"x": stat_of(b"1"), "d/y": stat_of(b"2")}


def test_a_stat_cache_that_lags_is_not_used(store: TreeStore) -> None:
    record(store, None, A, listings=Listings(listing.changed(None, A.root), everything=True))
    record(store, A, B)
    assert store.listings() is None
    read = store.tree()
    assert flat(read) == flat(B)
    # Nothing vouches for what changed since.
    stats = {path: e.stat for path, e in read.walk() if e.folder is None}
    assert stats == {"x": filestat.unvouched(3), "d/z": filestat.unvouched(1)}
    store.refresh(Listings(listing.changed(A.root, B.root)), 2)
    assert store.listings() is not None
    assert flat(store.tree()) == flat(B)


def test_what_lags_still_vouches_for_what_did_not_move(store: TreeStore) -> None:
    record(store, None, A, listings=Listings(listing.changed(None, A.root), everything=True))
    partly = A.with_updates({"": {"new": Entry(Kind.FILE, XXH3.of_file(b"n"), 1, stat_of(b"n"))}})
    record(store, A, partly)
    stats = {path: e.stat for path, e in store.tree().walk() if e.folder is None}
    assert stats["x"] == stats["d/y"] == stat_of(b"1")
    assert stats["new"] == filestat.unvouched(1)


def test_folders_that_went_leave_the_stat_cache(store: TreeStore) -> None:
    record(store, None, A, listings=Listings(listing.changed(None, A.root), everything=True))
    record(store, A, C, listings=Listings(listing.changed(A.root, C.root)))
    listings = store.listings()
    assert listings is not None
    assert listings.keys() == {"", "x"}


def test_a_stat_cache_with_a_hole_is_corrupt(store: TreeStore) -> None:
    listings = dict(listing.changed(None, A.root))
    assert None not in listings.values()
    for missing in ("", "d"):
        holey: Any = {path: found for path, found in listings.items() if path != missing}
        with pytest.raises(CorruptError):
            store.tree(holey)


# -- remarks and look-ups


def test_remarks_are_those_of_the_last_scan(store: TreeStore) -> None:
    remarks = Remarks((("p", "fifo"),), (("u", "permission denied"),))
    record(store, None, A, remarks=remarks)
    assert store.remarks() == remarks
    record(store, A, B)
    assert store.remarks() == remarks, "a batch of events leaves them"
    record(store, B, A, remarks=Remarks())
    assert store.remarks() == Remarks()


def test_the_largest_files(store: TreeStore) -> None:
    record(store, None, tree_of({"a": b"1", "b": b"333", "c": b"22", "d": {"e": b"4444"}}))
    assert store.largest(3, 1) == ["d/e", "b", "c"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("DELETE FROM root_log WHERE seq = 1", "not matched"),
        ("DELETE FROM node_log WHERE path = '' AND seq = 2", "not matched"),
        ("UPDATE root_log SET root = '\\x00'::BLOB WHERE seq = 2", "not matched"),
        ("INSERT INTO root_log SELECT * FROM root_log WHERE seq = 2", "roots recorded"),
    ],
)
def test_a_log_with_holes_is_noticed(
    store: TreeStore, database: Database, damage: str, says: str
) -> None:
    record(store, None, A)
    record(store, A, B)
    assert store.log_problems() == []
    with database.transaction() as connection:
        connection.execute(damage)
    assert any(says in problem for _, problem in store.log_problems())


def test_a_file_without_its_folder_is_corrupt(store: TreeStore, database: Database) -> None:
    record(store, None, tree_of({"d": {"e": {"f": b"1"}}}))
    with database.transaction() as connection:
        connection.execute("DELETE FROM node_log WHERE path = 'd'")
    with pytest.raises(CorruptError, match="folder around it"):
        store.tree_at(1)


def linked(tree: Tree) -> Tree:
    """A tree with a link, and with a name that no text has as it is."""
    link = Entry(Kind.LINK, XXH3.of_link(b"a"), 1, stat_of(b"a"))
    odd = Entry(Kind.FILE, XXH3.of_file(b"12"), 2, stat_of(b"12"))
    return tree.with_updates({"": {"link": link, "\\xff": odd, "\u00e9": odd}})


def add_up(store: TreeStore, root: Root) -> bool:
    return add_up_to(XXH3, store.nodes_at(root.seq), root.root, root.content_id, root.totals)


def test_what_is_recorded_adds_up(store: TreeStore) -> None:
    first = linked(tree_of({"d": {"e": {"f": b"1"}, "e.txt": b"2"}, "gone": b"3", "none": {}}))
    record(store, None, first)
    second = first.with_updates({"": {"gone": None}})
    root = record(store, first, second)
    nodes = store.nodes_at(root.seq)
    assert sorted(nodes) == sorted(nodes_of(XXH3, "", second.root))
    assert add_up(store, root)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE node_log SET content_id = '\\x00'::BLOB WHERE path = 'd/f'",
        "UPDATE node_log SET node_id = '\\x00'::BLOB WHERE path = 'd/f'",
        "UPDATE node_log SET content_id = (SELECT content_id FROM node_log WHERE path = 'd/g'),"
        " node_id = (SELECT node_id FROM node_log WHERE path = 'd/g') WHERE path = 'd/f'",
        "UPDATE node_log SET size = size + 1 WHERE path = 'd/f'",
        "UPDATE node_log SET kind = 3 WHERE path = 'd/f'",
        "UPDATE node_log SET kind = 9 WHERE path = 'd/f'",
        "UPDATE node_log SET kind = 0 WHERE path = 'd/f'",
        "DELETE FROM node_log WHERE path = 'd/f'",
        "DELETE FROM node_log WHERE path = 'd'",
        "DELETE FROM node_log WHERE path = 'none'",
        "DELETE FROM node_log WHERE path = ''",
        "DELETE FROM node_log",
        "INSERT INTO node_log SELECT seq, 'd/stray', kind, content_id, node_id, size FROM node_log"
        " WHERE path = 'd/f'",
        "INSERT INTO node_log SELECT seq, 'x/stray', kind, content_id, node_id, size FROM node_log"
        " WHERE path = 'd/f'",
        "UPDATE node_log SET content_id = '\\x00'::BLOB WHERE path = ''",
        "UPDATE root_log SET root = '\\x00'::BLOB",
        "UPDATE root_log SET content_id = '\\x00'::BLOB",
        "UPDATE root_log SET files = files + 1",
        "UPDATE root_log SET bytes = bytes + 1",
    ],
)
def test_what_does_not_hold_is_noticed_without_a_tree(
    store: TreeStore, database: Database, damage: str
) -> None:
    root = record(store, None, linked(tree_of({"d": {"f": b"1", "g": b"2"}, "none": {}})))
    assert add_up(store, root)
    with database.transaction() as connection:
        connection.execute(damage)
    head = TreeStore(database, XXH3).head()
    assert head is not None
    assert not add_up(store, head)


def test_the_stat_cache_that_was_just_written_is_what_is_stored(
    store: TreeStore, database: Database
) -> None:
    def is_stored() -> bool:
        found = TreeStore(database, XXH3).listings()
        return found is not None and found == store.listings()

    first = tree_of({"d": {"e": {"f": b"1"}}, "g": b"2", "h": {}})
    second = first.with_updates({"d/e": {"f": None}})
    third = second.with_updates({"": {"h": None}})
    record(store, None, first, listings=Listings(listing.below("", first.root), everything=True))
    assert is_stored()
    store.refresh(Listings(listing.changed(first.root, third.root)), 1)
    assert is_stored()
    store.refresh(Listings(listing.below("", first.root), everything=True), 1)
    record(store, first, second, listings=Listings(listing.changed(first.root, second.root)))
    assert is_stored()
    store.refresh(Listings(listing.below("", first.root), everything=True), 2)
    assert is_stored()
    top = store.listings(top=True)
    assert top is not None
    assert sorted(top) == ["", "d", "h"]
    store.refresh(Listings(listing.changed(first.root, second.root)), 2)
    assert is_stored()
    record(store, second, third)
    assert store.listings() is None, "it lags behind"
    store.refresh(Listings(listing.changed(second.root, third.root)), 3)
    assert is_stored()


def test_lost_roots_are_known_where_nothing_can_be_written(tmp_path: Path) -> None:
    layout = Layout(with_index(tmp_path))
    noted = Noted(layout.noted, LastKnown(1, XXH3.name, "0" * 32))
    with contextlib.closing(Database(layout.database)) as opened:
        record(TreeStore(opened, XXH3), None, A)
    noted.note_root(2, NodeId(b"2" * 16))
    noted.close()
    with contextlib.closing(Database(layout.database, read_only=True)) as opened:
        trees = TreeStore(opened, XXH3, Noted(layout.noted))
        trees.notice_loss(5)
        assert trees.lost() == [LostRoots(2, 2, NodeId(b"2" * 16), 5)]
