"""Recorded manifests: the same bytes whatever happens to the workspace, or a clear refusal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from indexer.compose.manifest import manifest_id
from indexer.core.canonical import canonical_json
from indexer.core.clock import ManualClock
from indexer.engine.durable.packs import PackContentError
from indexer.engine.durable.repair import repair
from indexer.engine.search.manifests import UnknownManifestError
from indexer.engine.tree.history import UnknownRootError
from indexer.errors import CorruptError
from indexer.store.pack import read_pack, write_pack
from tests.support.copies import copy_workspace
from tests.support.engines import Engine
from tests.support.space import Space, python


@pytest.fixture
def recorded(project: Space) -> tuple[Space, dict[str, Any]]:
    """The project, with a note that is stale, and what was shown of it then."""
    project.note("src/one/a.py", "harbour of a")
    project.write("src/one/a.py", python("other"))
    return project, project.engine.compose(query="python harbour", record=True)


def move_on(space: Space) -> None:
    """Everything that was shown changes or goes."""
    space.write("src/one/a.py", python("third"))
    space.write("src/one/b.py", python("fourth", doc="Elsewhere."))
    shutil.rmtree(space.root / "src/two")
    space.settle()


def test_replay_gives_the_same_bytes_and_labels_after_the_workspace_moved_on(
    recorded: tuple[Space, dict[str, Any]],
) -> None:
    space, shown = recorded
    assert "stale" in {item["freshness"] for item in shown["items"]}
    move_on(space)
    again = space.engine.replay(shown["manifest_id"])
    assert canonical_json(again["messages"]) == canonical_json(shown["messages"])
    assert again == {**shown, "freshness_as_of": "recorded", "missing": None}
    assert space.engine.compose(query="python harbour")["messages"] != shown["messages"]
    assert space.engine.replay(shown["manifest_id"][:6]) == again
    assert space.engine.replay("manifest:" + shown["manifest_id"][:9]) == again
    space.valid()


LONG = python("a") + "\n\n" + "\n".join(f"# {n} of many words" for n in range(3000))
"""Too long to be shown whole, so that its outline is."""


def shown_of(answer: Any, path: str) -> str:
    """The one message that shows a frame of a path."""
    (item,) = [one for one in answer["items"] if one["path"] == path and one["frame_id"]]
    return str(answer["messages"][item["message"]]["content"])


def test_outlines_are_shown_with_lines_that_a_replay_gives_again(project: Space) -> None:
    project.write("src/one/a.py", LONG)
    project.settle()
    shown = project.engine.compose(["src/one/a.py"], sources=["node"], record=True)
    assert "1: def a(a) -- Does it." in shown_of(shown, "src/one/a.py")
    again = {**shown, "freshness_as_of": "recorded", "missing": None}
    # The outline stays as it is, its lines do not.
    project.write("src/one/a.py", "\n\n" + LONG)
    stale = project.engine.compose(["src/one/a.py"], sources=["node"])
    assert "\ndef a(a) -- Does it." in shown_of(stale, "src/one/a.py")
    project.settle()
    moved = project.engine.compose(["src/one/a.py"], sources=["node"])
    assert "3: def a(a) -- Does it." in shown_of(moved, "src/one/a.py")
    (before,), (after,) = shown["items"], moved["items"]
    assert before["content_sha256"] == after["content_sha256"]
    assert before["symbol_lines"] == [0, 1, 0]
    assert after["symbol_lines"] == [0, 3, 0]
    assert shown["candidates_sha256"] != moved["candidates_sha256"]
    assert project.engine.replay(shown["manifest_id"]) == again
    project.engine.compact(0)
    assert project.engine.replay(shown["manifest_id"]) == again
    # What the frame itself holds is kept as well: the manifest names it.
    assert (
        project.engine.get_frame(before["frame_id"])["content"]
        == project.frame("src/one/a.py")["content"]
    )
    project.valid()


def test_each_of_two_outlines_of_a_file_is_shown_as_it_is(project: Space) -> None:
    project.declare(
        '[types.outline]\nfile = "outline"\n'
        '[types.short]\nfile = { use = "outline", max_symbols = 1 }\n'
    )
    project.write("src/one/a.py", LONG + "\n\n" + python("b"))
    project.settle()
    shown = project.engine.compose(["src/one/a.py"], sources=["node"])
    texts = {item["type"]: shown["messages"][item["message"]]["content"] for item in shown["items"]}
    assert "1: def a(a)" in texts["outline"]
    assert "3007: def b(a)" in texts["outline"]
    assert "1: def a(a)" in texts["short"]
    assert "def b" not in texts["short"]
    read = project.frame("src/one/a.py", "short")
    assert "1: def a(a)" in read["lined"]
    assert "def b" not in read["lined"]


def test_the_manifest_is_what_the_staged_compiler_froze(
    recorded: tuple[Space, dict[str, Any]],
) -> None:
    space, shown = recorded
    ((identity, stored),) = space.engine.frames.store.manifests()
    manifest = json.loads(stored.document)
    assert identity == shown["manifest_id"] == manifest_id(manifest)
    frozen = manifest["frozen"]
    by_message = sorted(shown["items"], key=lambda item: item["message"])
    assert [m["id"] for m in frozen["messages"]] == [
        item["frame_id"] or "source:{}:{}-{}".format(item["path"], *item["lines"])
        for item in by_message
    ]
    assert {item["type"] for item in by_message} >= {"note", "source"}
    assert all("preview" not in message for message in frozen["messages"])
    assert manifest["hashes"] == shown["hashes"]
    assert manifest["tokenizer"] == "o200k_base"
    assert manifest["root"] == shown["root"]
    assert manifest["request"]["query"] == "python harbour"
    assert sum(item["tokens"] for item in manifest["items"]) + 3 == manifest["tokens"]
    words = manifest["corpus"]["words"]
    assert set(words) == {"python", "harbour"}


def test_it_survives_compact_repair_and_the_loss_of_the_database(
    recorded: tuple[Space, dict[str, Any]],
) -> None:
    space, shown = recorded
    again = {**shown, "freshness_as_of": "recorded", "missing": None}
    move_on(space)
    space.engine.compact(0)
    assert space.engine.replay(shown["manifest_id"]) == again
    space.engine.close()
    (space.root / ".merkle/index.duckdb").unlink()
    repair(space.root)
    space.open()
    assert space.engine.replay(shown["manifest_id"]) == again
    assert space.engine.validate()["errors"] == []
    # The journal lost, the database still there: what it knows is written anew.
    space.engine.close()
    shutil.rmtree(space.root / ".merkle/journal")
    repair(space.root)
    space.open()
    assert space.engine.replay(shown["manifest_id"]) == again


def test_what_compact_drops_otherwise_is_dropped(project: Space) -> None:
    clock = ManualClock(10**18)
    space = Space(clock=clock)
    try:
        space.fill({"a.py": python("a"), "b.py": python("b")})
        space.settle()
        shown = space.engine.compose(["a.py"], sources=["node"], record=True)
        for path in ("a.py", "b.py"):
            space.write(path, python("new"))
        space.settle()
        clock.advance(1000)
        dropped = space.engine.compact(1)
        # b's old outline and the folder's, but not a's, which the manifest shows.
        assert dropped["dropped"] == 2
        assert space.engine.replay(shown["manifest_id"])["messages"] == shown["messages"]
        space.valid()
        found = space.engine.compose(query="new")
        assert {item["path"] for item in found["items"]} >= {"a.py", "b.py"}
    finally:
        space.close()


def test_it_survives_a_crash_right_after_it_was_acknowledged(
    recorded: tuple[Space, dict[str, Any]],
) -> None:
    space, shown = recorded
    crashed = space.base / "crashed"
    copy_workspace(space.root, crashed)
    (crashed / ".merkle/index.duckdb.wal").unlink(missing_ok=True)
    with Engine(crashed) as engine:
        assert engine.replay(shown["manifest_id"])["messages"] == shown["messages"]


def test_a_pack_carries_it_to_another_workspace(
    recorded: tuple[Space, dict[str, Any]], tmp_path: Path
) -> None:
    space, shown = recorded
    space.engine.export_pack(tmp_path / "all.pack")
    other = Space()
    try:
        other.write("x.py", python())
        other.settle()
        added = other.engine.import_pack(tmp_path / "all.pack", trust=True)
        assert added["added"]
        assert other.engine.replay(shown["manifest_id"])["messages"] == shown["messages"]
        assert other.engine.import_pack(tmp_path / "all.pack", trust=True)["added"] == 0
        other.valid()
    finally:
        other.close()
    # A part of the workspace does not take along what shows more than that.
    space.engine.export_pack(tmp_path / "part.pack", ["src/two"])
    assert "manifest" not in {record["kind"] for record in read_pack(tmp_path / "part.pack")}


def test_a_pack_with_a_false_manifest_is_refused_whole(
    recorded: tuple[Space, dict[str, Any]], space: Space, tmp_path: Path
) -> None:
    recorded[0].engine.export_pack(tmp_path / "good.pack")
    for damage in ("id", "body", "item", "frozen", "missing", "order"):
        records = list(read_pack(tmp_path / "good.pack"))
        falsify(records, damage)
        write_pack(tmp_path / "bad.pack", iter(records))
        with pytest.raises(PackContentError):
            space.engine.import_pack(tmp_path / "bad.pack")
        assert space.engine.frames.store.manifests() == [], damage


def test_a_pack_with_false_lines_of_symbols_is_refused_whole(
    project: Space, space: Space, tmp_path: Path
) -> None:
    project.write("src/one/a.py", LONG)
    project.note("src/one/a.py", "harbour")
    project.settle()
    project.engine.compose(query="harbour words of a", record=True)
    project.engine.export_pack(tmp_path / "good.pack")
    lines = [0, 1, 0]
    false: list[tuple[str, str, object]] = [
        ("outline", "4", value)
        for value in (
            *([], [0, 1], [0, 1, 0, 0], [0, 2, 0], [0, -1, 0], [0, 1 << 60, 0], [0, 1.0, 0]),
            *([0, True, 0], [0, [1], 0], [0, "1", 0], "010", None, {"1": 1}, [1] * 100_000),
        )
    ]
    # Whoever makes a pack can make all of its hashes: where they fit, its form decides.
    false += [("outline", version, lines) for version in "123"]
    false += [("note", "4", [1]), ("source", "4", lines), ("note", "4", []), ("source", "4", [])]
    for kind, version, value in false:
        records = list(read_pack(tmp_path / "good.pack"))
        (record,) = [one for one in records if one["kind"] == "manifest"]
        manifest = record["manifest"]
        items = [one for one in manifest["items"] if one["type"] == kind]
        (item,) = [one for one in items if one["path"] == "src/one/a.py"][:1]
        manifest["schema_version"] = version
        item["symbol_lines"] = value
        record["id"] = manifest_id(manifest)
        write_pack(tmp_path / "bad.pack", iter(records))
        with pytest.raises(PackContentError):
            space.engine.import_pack(tmp_path / "bad.pack")
        assert space.engine.frames.store.manifests() == [], (kind, version, value)
    assert space.engine.import_pack(tmp_path / "good.pack", trust=True)["added"]


def falsify(records: list[dict[str, Any]], damage: str) -> None:
    """Let the manifest of a pack say what was not so."""
    (record,) = [one for one in records if one["kind"] == "manifest"]
    manifest = record["manifest"]
    if damage == "id":
        record["id"] = "0" * 64
    elif damage == "body":
        record["bodies"][next(iter(record["bodies"]))] = "something else"
    elif damage == "item":
        manifest["items"][0]["path"] = "elsewhere.py"
    elif damage == "frozen":
        manifest["frozen"]["messages"].pop()
    elif damage == "missing":
        record["bodies"].pop(next(iter(record["bodies"])))
    elif damage == "order":
        manifest["items"][0]["message"] = 99
    if damage not in ("id", "body", "missing"):
        record["id"] = manifest_id(manifest)


def test_validate_and_replay_tell_what_does_not_hold(
    recorded: tuple[Space, dict[str, Any]],
) -> None:
    space, shown = recorded
    space.valid()
    with space.engine.database.transaction() as connection:
        connection.execute(
            "UPDATE manifest_log SET document = replace(document, 'src/one', 'src/0ne')"
        )
    (found,) = [e for e in space.engine.validate()["errors"] if e["code"] == "manifest"]
    assert "not what its id says" in found["message"]
    with pytest.raises(CorruptError):
        space.engine.replay(shown["manifest_id"])
    space.engine.close()
    repair(space.root)
    space.open()
    assert space.engine.replay(shown["manifest_id"])["messages"] == shown["messages"]
    content = bytes.fromhex(shown["items"][0]["content_sha256"])
    with space.engine.database.transaction() as connection:
        connection.execute("UPDATE bodies SET content = NULL WHERE sha256 = ?", [content])
    messages = [e["message"] for e in space.engine.validate()["errors"] if e["code"] == "manifest"]
    assert len(messages) == 1
    assert "is not stored" in messages[0]
    with pytest.raises(CorruptError, match="cannot be replayed"):
        space.engine.replay(shown["manifest_id"])


def test_diff_compares_two_manifests(recorded: tuple[Space, dict[str, Any]]) -> None:
    space, shown = recorded
    move_on(space)
    now = space.engine.compose(query="python harbour", record=True)
    found = space.engine.diff(shown["manifest_id"][:10], "manifest:" + now["manifest_id"])
    assert (found["old"], found["new"]) == (shown["manifest_id"], now["manifest_id"])
    assert "src/two/c.py" in found["removed"]
    assert "src/one/b.py" in found["modified"]
    assert "src/one/a.py" in found["removed"] + found["added"]
    old, new = (
        {(item["path"], item["type"]): item for item in one["items"]} for one in (shown, now)
    )
    for frame in found["frames"]:
        place = (frame["path"], frame["type"])
        was, is_now = old.get(place), new.get(place)
        assert frame["old"] == (was and (was["frame_id"] or was["sha256"]))
        assert frame["new"] == (is_now and (is_now["frame_id"] or is_now["sha256"]))
    same = space.engine.diff(now["manifest_id"], now["manifest_id"])
    assert (same["frames"], same["added"], same["removed"], same["modified"]) == ([], [], [], [])
    with pytest.raises(UnknownRootError, match="is a manifest"):
        space.engine.diff("@-0", now["manifest_id"])
    with pytest.raises(UnknownManifestError):
        space.engine.diff("manifest:ffffffff", now["manifest_id"])


def test_ids_are_found_by_a_unique_beginning(recorded: tuple[Space, dict[str, Any]]) -> None:
    space, shown = recorded
    for wrong in ("", "12345", "zzzzzz", "ffffffff", shown["manifest_id"].upper()):
        with pytest.raises(UnknownManifestError):
            space.engine.replay(wrong)
    with space.engine.database.transaction() as connection:
        connection.execute(
            "INSERT INTO manifest_log SELECT seq, unhex(substr(lower(hex(id)), 1, 62) || '00'),"
            " at_ns, document, root, tokens, items FROM manifest_log"
        )
    with pytest.raises(UnknownManifestError, match="ambiguous"):
        space.engine.replay(shown["manifest_id"][:20])
