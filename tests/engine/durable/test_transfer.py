"""Packs go round, damaged or foreign ones change nothing; compaction drops only what it may."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.clock import ManualClock
from indexer.engine.durable.packs import PackContentError
from indexer.errors import UsageError
from indexer.store.pack import read_pack, write_pack
from tests.support.space import Space, prepared, python


def contents(space: Space) -> dict[str, Any]:
    """Heads, history and agents as they are served."""
    return {
        "agents": space.engine.list_agents(),
        "heads": space.engine.sql(
            "SELECT path, type, agent, frame_id FROM heads ORDER BY 1, 2, 3, 4"
        )["rows"],
        "notes": space.engine.sql(
            "SELECT path, type, agent, frame_id, meta FROM frames"
            " WHERE NOT starts_with(agent, 'merkle:') ORDER BY 4"
        )["rows"],
    }


def write_notes(space: Space) -> None:
    space.note("src/one/a.py", "first", meta={"k": "v"})
    space.note("src/one/a.py", "second")
    space.note("src/two", "of a folder", agent="bob", frame_type="todo")
    space.move("src/two/c.py", "src/two/d.py")
    space.settle()


@pytest.fixture
def noted(template: Path) -> Iterator[Space]:
    made = prepared(write_notes, template)
    yield made
    made.close()


def test_export_and_import_round_trip(noted: Space) -> None:
    pack = noted.base / "all.pack"
    written = noted.engine.export_pack(pack)
    clone = noted.clone()
    try:
        clone.engine.scan()
        taken = clone.engine.import_pack(pack, trust=True)
        assert taken["added"] == taken["records"] == written["records"] - 1
        assert {action for action, _ in clone.events()} == {"reused"}
        assert contents(clone)["notes"] == contents(noted)["notes"]
        assert contents(clone)["agents"] == contents(noted)["agents"]
        assert said(clone) == {"first", "second"}
        again = clone.engine.import_pack(pack, trust=True)
        assert again["added"] == 0
        clone.valid()
        # What was taken in is as durable as what was written here.
        clone.engine.close()
        (clone.root / ".merkle/index.duckdb").unlink()
        clone.open()
        clone.engine.scan()
        assert contents(clone)["notes"] == contents(noted)["notes"]
        other = clone.base / "again.pack"
        clone.engine.import_pack(pack, trust=True)
        clone.engine.export_pack(other)
        assert other.read_bytes() == pack.read_bytes()
    finally:
        clone.close()


def test_a_pack_of_some_nodes_holds_what_belongs_to_them(noted: Space) -> None:
    pack = noted.base / "some.pack"
    noted.engine.export_pack(pack, ["src/one"])
    frames = [record for record in read_pack(pack) if record["kind"] == "frame"]
    assert {record["path"] for record in frames} == {"src/one/a.py"}
    clone = noted.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(pack, trust=True)
        log = clone.events("src/one")
        assert {action for action, _ in log} == {"reused"}
    finally:
        clone.close()


def test_a_damaged_pack_changes_nothing(noted: Space) -> None:
    pack = noted.base / "all.pack"
    noted.engine.export_pack(pack)
    data = pack.read_bytes()
    clone = noted.clone()
    try:
        clone.engine.scan()
        clone.engine.add_agent("own", "writer")
        before, last = contents(clone), clone.engine.records.journal.last
        for number in range(0, len(data), len(data) // 12):
            pack.write_bytes(data[:number] + bytes([data[number] ^ 4]) + data[number + 1 :])
            with pytest.raises(UsageError):
                clone.engine.import_pack(pack, trust=True)
        for size in (0, 10, len(data) // 2, len(data) - 1):
            pack.write_bytes(data[:size])
            with pytest.raises(UsageError):
                clone.engine.import_pack(pack, trust=True)
        assert contents(clone) == before
        assert clone.engine.records.journal.last == last
        assert any(action == "generated" for action, _ in clone.events())
    finally:
        clone.close()


def test_a_pack_of_another_hash_is_refused(noted: Space) -> None:
    pack = noted.base / "all.pack"
    noted.engine.export_pack(pack)
    other = Space(hash_name="sha256")
    try:
        other.write("a.py", python())
        other.engine.scan()
        with pytest.raises(PackContentError, match="xxh3_128"):
            other.engine.import_pack(pack)
    finally:
        other.close()


def changed(kind: str, /, **values: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda record: {**record, **values} if record["kind"] == kind else record


FORGERIES = [
    changed("frame", body="forged"),
    changed("frame", agent="merkle:outline"),
    changed("frame", path="src//one/a.py"),
    changed("frame", inputs={"/on": "content", "/kind": "nonsense", "/content_id": "00"}),
    changed("frame", meta={"k": 1}),
    changed("frame", node_id="zz"),
    changed("frame", created_ns="now"),
    changed("memo", body="forged"),
    changed("memo", generation=-1),
    changed("memo", key="00"),
    changed("agent", role="king"),
    changed("agent", id="merkle:me"),
    changed("agent", can=["read", "rule"]),
    changed("frame", kind="surprise"),
    changed("pack", format=99),
]


def test_a_pack_with_a_forged_record_changes_nothing(project: Space) -> None:
    project.note("src/one/a.py", "a note")
    pack = project.base / "whole.pack"
    project.engine.export_pack(pack)
    records = list(read_pack(pack))
    clone = project.clone()
    try:
        clone.engine.scan()
        for number, change in enumerate(FORGERIES):
            forged = project.base / f"forged-{number}.pack"
            write_pack(forged, [change(record) for record in records])
            with pytest.raises(UsageError):
                clone.engine.import_pack(forged)
        assert clone.engine.list_agents()["agents"] == []
        assert clone.engine.sql("SELECT count(*) FROM frames")["rows"] == [[0]]
        assert clone.engine.records.journal.last == 1
        assert clone.engine.import_pack(pack, trust=True)["added"] == len(records) - 1
    finally:
        clone.close()


def said(space: Space) -> set[str]:
    """What the notes about a file say that count."""
    found = space.engine.get_node("src/one/a.py", frame_type="note")["frames"]
    return {frame["content"] for frame in found}


def test_imported_notes_join_ones_own(noted: Space) -> None:
    pack = noted.base / "all.pack"
    clone = noted.clone()
    try:
        clone.engine.scan()
        noted.engine.export_pack(pack)
        clone.engine.import_pack(pack, trust=True)
        clone.note("src/one/a.py", "third, here")
        noted.note("src/one/a.py", "third, there")
        noted.engine.export_pack(pack)
        clone.engine.import_pack(pack, trust=True)
        assert said(clone) == {"first", "second", "third, here", "third, there"}
        clone.engine.close()
        (clone.root / ".merkle/index.duckdb").unlink()
        clone.open()
        clone.engine.scan()
        assert said(clone) == {"first", "second", "third, here", "third, there"}
        clone.valid()
    finally:
        clone.close()


def test_an_older_note_said_again_is_the_head_elsewhere_too(noted: Space) -> None:
    noted.note("src/one/a.py", "first")
    pack = noted.base / "all.pack"
    noted.engine.export_pack(pack)
    clone = noted.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(pack, trust=True)
        (head,) = clone.engine.get_head("src/one/a.py", frame_type="note")["heads"]
        assert clone.engine.get_frame(head["frame_id"])["content"] == "first"
    finally:
        clone.close()


def test_an_imported_successor_of_ones_own_note_takes_its_place(noted: Space) -> None:
    pack = noted.base / "all.pack"
    clone = noted.clone()
    try:
        clone.engine.scan()
        noted.engine.export_pack(pack)
        clone.engine.import_pack(pack, trust=True)
        noted.note("src/one/a.py", "third, there", replace_mine=True)
        noted.engine.export_pack(pack)
        assert clone.engine.import_pack(pack, trust=True)["added"] == 1
        assert said(clone) == {"third, there"}
        clone.valid()
    finally:
        clone.close()


# -- growth


@pytest.fixture
def old(template: Path) -> Any:
    clock = ManualClock(time.time_ns())
    space = Space(copy_of=template, clock=clock)
    space.note("src/one/a.py", "of the first version")
    for args in ("x", "x, y"):
        space.write("src/one/a.py", python("a", args=args))
        space.settle()
        clock.advance(86400)
    yield space, clock
    space.close()


def test_compaction_drops_only_what_it_may(old: tuple[Space, ManualClock]) -> None:
    space, _ = old
    rows = space.engine.sql("SELECT count(*) FROM frames")["rows"]
    shown = {path: space.frame(path)["content"] for path in ("", "src", "src/one/a.py")}
    assert space.engine.compact(3 * 86400)["dropped"] == 0
    told = space.engine.compact(0)
    assert told["dropped"] > 0
    assert space.engine.sql("SELECT count(*) FROM frames")["rows"] == rows
    assert {path: space.frame(path)["content"] for path in shown} == shown
    assert set(space.labels().values()) == {"fresh"}
    assert space.engine.compact(0)["dropped"] == 0
    space.valid()


def test_compaction_takes_only_rows_that_nothing_is_read_from(
    old: tuple[Space, ManualClock],
) -> None:
    space, _ = old
    space.declare('[types.outline]\nfile = "outline"\nfolder = "summarize"\n'
                  '[types.note]\nfolder = "concatenate"\n')  # fmt: skip
    # There and back, declared anew, proofs taken back and given again, a folder that goes.
    for args in ("z", "x", "z", "x"):
        space.write("src/one/a.py", python("a", args=args))
        space.note("src/one/a.py", f"on {args}")
        space.settle()
    space.engine.invalidate("src")
    space.settle()
    shutil.rmtree(space.root / "src" / "two")
    space.settle()

    def told() -> Any:
        engine, paths = space.engine, [path for path, _ in space.engine.tree.walk()]
        heads = dict(engine.frames.store.each_head())
        return (
            heads,
            {
                key: engine.frames.store.head_before(key, head.frame_id)
                for key, head in heads.items()
            },
            # Symbols are facts of contents, and compacting forgets those of contents that are gone.
            [
                {**engine.diff(f"@-{number}", "@-0"), "symbols": None}
                for number in range(len(engine.log()["roots"]))
            ],
            [engine.list_frames(path) for path in (*paths, "src/two")],
            [engine.explain(path) for path in paths],
            [engine.get_head(path) for path in paths],
            engine.sql("SELECT * FROM heads ORDER BY ALL")["rows"],
            engine.sql("SELECT * FROM notes ORDER BY ALL")["rows"],
            engine.frames.store.next_seq(),
        )

    def rows() -> int:
        count: int = space.engine.database.rows("SELECT count(*) FROM head_log")[0][0]
        return count

    before, had = told(), rows()
    dropped = space.engine.compact(1000 * 86400)["repeated_heads"]
    assert rows() == had - dropped < had
    assert told() == before
    space.reopen()
    assert told() == before
    assert space.engine.compact(1000 * 86400)["repeated_heads"] == 0
    space.valid()
    space.write("src/one/a.py", python("a", args="w"))
    space.settle()
    assert set(space.labels().values()) == {"fresh"}


def test_notes_stay_readable_after_compaction(old: tuple[Space, ManualClock]) -> None:
    space, _ = old
    space.note("src/one/a.py", "of the last version")
    space.engine.compact(0)
    history = space.engine.list_frames("src/one/a.py", frame_type="note", content=True)["frames"]
    assert [frame["content"] for frame in history] == [
        "of the last version", "of the first version",
    ]  # fmt: skip
    assert all(frame["has_body"] for frame in history)


def test_an_old_frame_says_that_its_content_was_dropped(old: tuple[Space, ManualClock]) -> None:
    space, _ = old
    space.engine.compact(0)
    history = space.engine.list_frames("src/one/a.py", frame_type="outline", content=True)
    assert [(frame["has_body"], frame["content"] is None) for frame in history["frames"]] == [
        (True, False), (False, True), (False, True),
    ]  # fmt: skip


def test_what_was_dropped_is_made_again_when_it_is_wanted(old: tuple[Space, ManualClock]) -> None:
    space, _ = old
    space.engine.compact(0)
    space.write("src/one/a.py", python("a", args="x"))
    assert ("generated", "src/one/a.py") in space.events()
    assert "a(x)" in space.frame("src/one/a.py")["content"]
    space.reopen()
    assert "a(x)" in space.frame("src/one/a.py")["content"]
    space.valid()


def test_compaction_does_not_bring_an_invalidated_result_back(
    old: tuple[Space, ManualClock],
) -> None:
    space, _ = old
    space.engine.invalidate("src/one/a.py")
    space.events()
    space.write("src/one/a.py", python("a", args="other"))
    space.events()
    space.engine.compact(0)
    space.write("src/one/a.py", python("a", args="x, y"))
    assert ("generated", "src/one/a.py") in space.events()
    space.valid()


def test_a_pack_after_compaction_can_be_taken_in(old: tuple[Space, ManualClock]) -> None:
    space, _ = old
    space.engine.compact(0)
    pack = space.base / "all.pack"
    space.engine.export_pack(pack)
    clone = space.clone()
    try:
        clone.engine.scan()
        clone.engine.import_pack(pack, trust=True)
        assert {action for action, _ in clone.events()} == {"reused"}
        clone.valid()
    finally:
        clone.close()
