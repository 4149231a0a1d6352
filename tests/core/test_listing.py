"""The stat cache's byte strings, and packed stats."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core import filestat, listing, paths
from indexer.core.changes import tree_changes
from indexer.core.hashing import HASHES
from indexer.core.kinds import Kind
from indexer.core.listing import ListedFolder, Listing
from indexer.core.tree import Entry, Folder, Tree
from indexer.errors import CorruptError

SECOND = 1_000_000_000


def leaf(algorithm: Any, content: bytes, kind: Kind = Kind.FILE, ino: int = 7) -> Entry:
    stat = filestat._STAT.pack(ino, len(content), -5, 1 << 60)
    return Entry(kind, algorithm.of_file(content), len(content), stat)


NAMES = st.binary(min_size=1, max_size=255).map(
    lambda raw: paths.bytes_to_text(raw.replace(b"\0", b"n").replace(b"/", b"s"))
)
CONTENTS = st.dictionaries(
    NAMES, st.tuples(st.sampled_from(list(Kind)), st.binary(max_size=4)), max_size=6
)


@pytest.mark.parametrize("name", sorted(HASHES))
@given(contents=CONTENTS)
def test_a_listing_reads_back_as_it_was(name: str, contents: dict[str, Any]) -> None:
    algorithm = HASHES[name]
    entries = {
        name: Folder.of(algorithm, {}).as_entry()
        if kind is Kind.DIRECTORY
        else leaf(algorithm, content, kind)
        for name, (kind, content) in contents.items()
    }
    folder = Folder.of(algorithm, entries)
    read = list(listing.decode(listing.encode(folder), algorithm.size))
    assert [(x.name, x.kind, x.content_id, x.stat) for x in read] == [
        (name, entry.kind, entry.content_id, entry.stat) for name, entry in folder.entries.items()
    ]


@pytest.mark.parametrize("length", [1, 255, 256, 765, 1024])
def test_names_as_long_as_any_file_system_has_them(length: int) -> None:
    algorithm = HASHES["xxh3_128"]
    folder = Folder.of(algorithm, {"n" * length: leaf(algorithm, b"1")})
    read = list(listing.decode(listing.encode(folder), algorithm.size))
    assert [each.name for each in read] == ["n" * length]


def two_entries() -> Listing:
    algorithm = HASHES["xxh3_128"]
    entries = {"file": leaf(algorithm, b"1"), "folder": Folder.of(algorithm, {}).as_entry()}
    return listing.encode(Folder.of(algorithm, entries))


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_a_shortened_listing_is_damage(cut: int) -> None:
    whole = two_entries()
    shortened = [
        whole._replace(stats=whole.stats[:-cut]),
        whole._replace(ids=whole.ids[:-cut]),
    ]
    for each in shortened:
        with pytest.raises(CorruptError):
            list(listing.decode(each, 16))


def test_an_unknown_kind_is_damage() -> None:
    whole = two_entries()
    with pytest.raises(CorruptError):
        list(listing.decode(whole._replace(stats=b"\x09" + whole.stats[1:]), 16))


def test_only_folders_that_are_other_objects_are_listed_again() -> None:
    algorithm = HASHES["xxh3_128"]

    def folder(**entries: Any) -> Entry:
        made = {n: e if isinstance(e, Entry) else leaf(algorithm, e) for n, e in entries.items()}
        return Folder.of(algorithm, made).as_entry()

    same = folder(x=b"1")
    old = folder(same=same, gone=folder(deep=folder(y=b"2")), moved=folder(z=b"3"), f=b"4").folder
    new = folder(same=same, new=folder(q=b"5"), moved=folder(z=b"6"), gone=b"now a file").folder
    assert old is not None
    assert new is not None
    found = listing.changed(old, new)
    assert found.keys() == {"", "new", "moved", "gone", "gone/deep"}
    assert found["gone"] is None
    assert found["gone/deep"] is None
    assert found[""] == listing.encode(new)
    assert listing.changed(old, old) == {}
    assert listing.changed(None, new).keys() == {"", "same", "new", "moved"}
    assert set(listing.changed(new, None).values()) == {None}


# -- trees out of listings


def three_levels() -> Tree:
    algorithm = HASHES["xxh3_128"]
    many = {f"f{number:03}": leaf(algorithm, b"%d" % number) for number in range(300)}
    unread = leaf(algorithm, b"x")._replace(stat=filestat.unreadable(1, 13))
    deep = Folder.of(algorithm, {"many": Folder.of(algorithm, many).as_entry(), "x": unread})
    root = {"deep": deep.as_entry(), "empty": Folder.of(algorithm, {}).as_entry()}
    return Tree(algorithm, Folder.of(algorithm, root))


def listed(tree: Tree, **other: Listing) -> Tree:
    found = {path: listing.encode(folder) for path, folder in tree.folders()}
    return Tree(tree.algorithm, ListedFolder(tree.algorithm, {**found, **other}, "", None))


def undecoded(tree: Tree) -> list[str]:
    """The folders that nobody has looked into, as far as one can get without doing so."""
    root = tree.root
    assert isinstance(root, ListedFolder)
    return [path for path in ("deep", "deep/many", "empty") if root.listing_of(path) is not None]


def test_a_folder_is_decoded_when_it_is_looked_into() -> None:
    made = three_levels()
    read = listed(made)
    assert read.root_id == made.root_id
    assert (read.root.totals, read.root.unreadable) == (made.root.totals, 1)
    assert undecoded(read) == ["deep", "deep/many", "empty"]
    assert read.get("deep/x") == made.get("deep/x")
    assert undecoded(read) == ["deep/many", "empty"]
    # One that is changed is looked into, and one beside it is not.
    entry = leaf(made.algorithm, b"new")
    updates = {"deep/many": {"f000": entry}}
    assert read.with_updates(updates).root_id == made.with_updates(updates).root_id
    assert undecoded(read) == ["empty"]
    assert [path for path, _ in read.walk()] == [path for path, _ in made.walk()]
    assert undecoded(read) == []
    assert listing.changed(None, read.root) == listing.changed(None, made.root)


def test_entries_that_were_read_are_those_that_were_written_also_after_changes() -> None:
    made = three_levels()
    read = listed(made)
    for path, folder in made.folders():
        there = read.folder(path)
        assert there is not None
        assert {name: entry[:4] for name, entry in there.entries.items()} == {
            name: entry[:4] for name, entry in folder.entries.items()
        }
        assert list(there.entries) == list(folder.entries)
    changes = {"deep/many": {"f007": leaf(made.algorithm, b"new")}}
    first = read.with_updates(changes)
    second = first.with_updates({"deep/many": {"f008": leaf(made.algorithm, b"newer")}})
    assert [change.path for change in tree_changes(read, second)] == [
        "", "deep", "deep/many", "deep/many/f007", "deep/many/f008",
    ]  # fmt: skip
    # What was copied stays as it was.
    assert read.root_id == made.root_id
    assert read.get("deep/many/f007") == made.get("deep/many/f007")
    assert first.root_id == made.with_updates(changes).root_id
    assert "nothing" not in first.root.entries
    assert first.root.entries.get("nothing") is None


def test_several_threads_that_look_into_a_folder_see_the_same_one() -> None:
    read = listed(three_levels())
    start, seen = threading.Barrier(4), []

    def look() -> None:
        start.wait()
        found = list(read.walk("deep"))
        seen.append((found, [id(entry.folder and entry.folder.entries) for _, entry in found]))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each == seen[0] for each in seen)


def test_a_folder_that_is_not_what_its_parent_says_is_damage() -> None:
    made = three_levels()
    other = listing.encode(Folder.of(made.algorithm, {"y": leaf(made.algorithm, b"y")}))
    read = listed(made, **{"deep/many": other})
    assert read.get("deep/x") is not None
    for _ in range(2):
        with pytest.raises(CorruptError):
            read.get("deep/many/y")


def test_a_folder_without_a_listing_is_damage() -> None:
    made = three_levels()
    found = {path: listing.encode(folder) for path, folder in made.folders()}
    del found["deep/many"]
    read = Tree(made.algorithm, ListedFolder(made.algorithm, found, "", None))
    with pytest.raises(CorruptError):
        read.get("deep/x")
    with pytest.raises(CorruptError):
        ListedFolder(made.algorithm, {}, "", None)
    short = listing.encode(made.root)._replace(totals=b"1")
    with pytest.raises(CorruptError):
        ListedFolder(made.algorithm, {"": short}, "", None)


# -- stats


def stat_of(path: Path, *, mtime_ns: int | None = None) -> os.stat_result:
    path.write_bytes(b"content")
    if mtime_ns is not None:
        os.utime(path, ns=(mtime_ns, mtime_ns))
    return path.stat()


def test_a_packed_stat_tells_inode_size_and_times_apart(tmp_path: Path) -> None:
    one = stat_of(tmp_path / "one", mtime_ns=10 * SECOND)
    packed = filestat.pack(one)
    assert len(packed) == filestat.PACKED_SIZE
    assert filestat.size_of(packed) == 7
    assert packed == filestat.pack((tmp_path / "one").stat())
    other = stat_of(tmp_path / "two", mtime_ns=10 * SECOND)
    assert filestat.pack(other) != packed, "another inode"
    os.utime(tmp_path / "one", ns=(10 * SECOND, 10 * SECOND + 1))
    assert filestat.pack((tmp_path / "one").stat()) != packed, "another time"


def test_an_unvouched_stat_equals_none_on_disk(tmp_path: Path) -> None:
    stat = stat_of(tmp_path / "one", mtime_ns=0)
    assert filestat.unvouched(stat.st_size) != filestat.pack(stat)
    assert filestat.size_of(filestat.unvouched(1 << 40)) == 1 << 40


class FakeStat:
    """The fields that stats are made of."""

    def __init__(self, mtime: int, ctime: int) -> None:
        self.st_ino, self.st_size, self.st_mtime_ns, self.st_ctime_ns = 1, 2, mtime, ctime


@pytest.mark.parametrize("times", [(-(1 << 62), 5), (1 << 63, 5), (5, 1 << 64), (1 << 64, 1 << 63)])
def test_times_far_away_can_be_packed(times: tuple[int, int]) -> None:
    """ext4 keeps times up to the year 2446; 64 bits of nanoseconds end in 2262."""
    stat: Any = FakeStat(*times)
    assert len(filestat.pack(stat)) == filestat.PACKED_SIZE
    # A stand-in with the fields used.
    assert filestat.pack(stat) != filestat.pack(FakeStat(times[0] + 1, times[1]))  # type: ignore[arg-type]


NOW = 1_700_000_000 * SECOND + 123_456_789


@pytest.mark.parametrize(
    ("mtime", "ctime", "racy"),
    [
        (NOW - 10 * SECOND, NOW - 10 * SECOND, False),
        (NOW, NOW, True),
        (NOW + SECOND, NOW + SECOND, True),
        (NOW - 19_000_000, NOW - 10 * SECOND, True),
        (NOW - 10 * SECOND, NOW - 19_000_000, True),
        (NOW - 21_000_000, NOW - 21_000_000, False),
        # Whole seconds only: a file system that does not know better.
        (NOW // SECOND * SECOND, NOW // SECOND * SECOND, True),
        (NOW // SECOND * SECOND - SECOND, NOW // SECOND * SECOND - SECOND, True),
        (NOW // SECOND * SECOND - 3 * SECOND, NOW // SECOND * SECOND - 3 * SECOND, False),
    ],
)
def test_what_is_too_young_to_be_trusted(mtime: int, ctime: int, racy: bool) -> None:
    stat: Any = FakeStat(mtime, ctime)
    assert filestat.is_racy(stat, NOW) is racy


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(0, 5), max_size=4)))
def test_the_largest_files_are_found_without_looking_into_every_folder(
    sizes: dict[str, list[int]],
) -> None:
    algorithm = HASHES["xxh3_128"]
    folders = {
        name: Folder.of(
            algorithm, {str(place): leaf(algorithm, b"x" * size) for place, size in enumerate(each)}
        ).as_entry()
        for name, each in sizes.items()
    }
    made = Tree(algorithm, Folder.of(algorithm, folders))
    files = [(-entry.size, path) for path, entry in made.walk() if entry.folder is None]
    for limit in (1, 2, 5):
        assert listed(made).largest(limit) == [path for _, path in sorted(files)][:limit]


def test_a_folder_without_one_of_the_largest_files_is_not_decoded() -> None:
    algorithm = HASHES["xxh3_128"]
    large = Folder.of(algorithm, {"file": leaf(algorithm, b"x" * 100)})
    small = {f"f{number:03}": leaf(algorithm, b"x" * 10) for number in range(50)}
    root = {"deep": large.as_entry(), "empty": Folder.of(algorithm, small).as_entry()}
    read = listed(
        Tree(algorithm, Folder.of(algorithm, {**root, "top": leaf(algorithm, b"x" * 200)}))
    )
    assert read.largest(1) == ["top"]
    assert undecoded(read) == ["deep", "empty"]
    # It has more in it than the other one, but no file as large.
    assert read.largest(2) == ["top", "deep/file"]
    assert undecoded(read) == ["deep", "empty"]


def test_listings_are_read_whole_while_another_thread_looks_into_a_folder() -> None:
    made = three_levels()

    class Interrupted(dict[str, Listing]):
        """Lets another thread look into the root's folders as soon as somebody goes through it."""

        def items(self) -> Any:
            for one in super().items():
                if not looking.ident:
                    looking.start()
                    looking.join(0.2)
                yield one

    found = {path: listing.encode(folder) for path, folder in made.folders()}
    root = ListedFolder(made.algorithm, Interrupted(found), "", None)
    deep = root.entries["deep"].folder
    assert deep is not None
    looking = threading.Thread(target=lambda: deep.entries)
    assert listing.below("deep", deep) == {path: found[path] for path in ("deep", "deep/many")}
    looking.join()
