"""Notes as lines in a file: sorted, without a clock, merged as lines, and hostile until checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.engine.durable.records import PackContentError
from indexer.errors import MerkleError
from tests.support.space import Space, settled

FILES = {"a.py": "def a():\n    return 1\n", "b.py": "def b():\n    return 2\n"}


@pytest.fixture
def two() -> Iterator[tuple[Space, Space]]:
    """Two clones of the same files."""
    one, other = settled(FILES), settled(FILES)
    yield one, other
    one.close()
    other.close()


def said(space: Space) -> list[tuple[str, str | None, str, str | None, str]]:
    return [
        (one["path"], one["symbol"], one["agent"], one["content"], one["freshness"])
        for one in space.engine.notes()["notes"]
    ]


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def write(file: Path, lines: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return file


def test_notes_go_through_a_file_and_stay_their_authors(
    two: tuple[Space, Space], tmp_path: Path
) -> None:
    one, other = two
    one.note("b.py", "whole", agent="bob")
    one.note("a.py::a", "part", agent="ann")
    first, again = tmp_path / "merkle.notes", tmp_path / "again"
    assert one.engine.export_notes(first)["notes"] == 2
    done = other.engine.import_notes(first)
    assert (done["notes"], done["added"], done["registered"]) == (2, 2, ["ann", "bob"])
    assert said(other) == said(one) != []
    other.valid()
    assert other.engine.import_notes(first)["added"] == 0
    other.engine.export_notes(again)
    assert again.read_bytes() == first.read_bytes()
    assert [one["path"] for one in lines_of(first)] == ["a.py", "b.py"]
    assert b"created" not in first.read_bytes()
    assert one.engine.export_notes(first, "b.py")["notes"] == 1


def test_replaced_and_withdrawn_notes_count_no_longer_where_they_are_known(
    two: tuple[Space, Space], tmp_path: Path
) -> None:
    one, other = two
    file = tmp_path / "merkle.notes"
    old = one.note("a.py", "first")
    wrong = one.note("b.py", "wrong")
    one.engine.export_notes(file)
    other.engine.import_notes(file)
    second = one.note("a.py", "second", replaces=[old["frame_id"]])
    one.note("a.py", "third", replaces=[second["frame_id"]])
    one.engine.withdraw_note(wrong["frame_id"], agent="ann")
    kept = lines_of(file)
    assert one.engine.export_notes(file)["notes"] == 1
    # As a merge that keeps the lines of both sides would have it, in any order.
    write(file, [*lines_of(file), *kept])
    other.engine.import_notes(file)
    assert [one[3] for one in said(other)] == ["third"]
    fresh = settled(FILES)
    try:
        fresh.engine.import_notes(file)
        assert [one[3] for one in said(fresh)] == ["third"]
        fresh.valid()
    finally:
        fresh.close()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"body": "other words"}, "not what its id says"),
    ({"agent": "eve"}, "not what its id says"),
    ({"path": "b.py"}, "not what its id says"),
    ({"agent": "merkle:outline"}, "cannot be an agent's id"),
    ({"body": "  "}, "empty note"),
    ({"body": 3}, "text"),
    ({"kind": "agent"}, "is no note"),
    ({"head": False}, "is no note"),
    ({"created_ns": 1}, "is no note"),
    ({"meta": {"a": 1}}, "metadata"),
    ({"replaces": ["x"]}, "malformed|replaces"),
    ({"inputs": {"/on": "::a", "/sha256": "00" * 32}}, "not what its id says"),
    ({"node_id": "zz"}, "malformed|about no node"),
]


def test_a_line_that_does_not_hold_stops_the_whole_file(
    two: tuple[Space, Space], tmp_path: Path
) -> None:
    one, other = two
    one.note("a.py", "fine")
    one.note("b.py", "fine too")
    file = tmp_path / "merkle.notes"
    one.engine.export_notes(file)
    first, second = lines_of(file)
    for change, match in WRONG:
        with pytest.raises(MerkleError, match=match):
            other.engine.import_notes(write(file, [second, {**first, **change}]))
        assert said(other) == [], change
        assert other.engine.list_agents()["agents"] == [], change


def test_what_is_no_line_is_refused(space: Space, tmp_path: Path) -> None:
    space.engine.scan()
    for text in ("<<<<<<< ours\n", "[1]\n", '{"agent": 1}\n', "\xff", "{" * 9999):
        (tmp_path / "f").write_text(text, "latin-1")
        with pytest.raises(PackContentError, match="line 1 of"):
            space.engine.import_notes(tmp_path / "f")


def test_a_secret_is_refused_and_a_readers_note_counts_for_nothing(
    two: tuple[Space, Space], tmp_path: Path
) -> None:
    one, other = two
    file = tmp_path / "merkle.notes"
    one.note("a.py", "key AKIA" + "QX7ZK2MB4NR6TL3W", allow_secrets=True)
    one.engine.export_notes(file)
    with pytest.raises(MerkleError, match="secret"):
        other.engine.import_notes(file)
    other.engine.add_agent("ann", "reader")
    assert other.engine.import_notes(file, allow_secrets=True)["added"] == 1
    assert said(other) == []


def test_a_file_that_cannot_be_read_or_written_is_told(space: Space, tmp_path: Path) -> None:
    space.engine.scan()
    for call in (space.engine.import_notes, space.engine.export_notes):
        with pytest.raises(MerkleError, match="cannot be"):
            call(tmp_path / "no" / "such")
