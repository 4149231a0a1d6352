"""Notes about a symbol: bound to its text, shown at its line, carried, journalled, checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.fence import unfenced
from indexer.core.frames import basis_of_symbol
from indexer.engine.code.symbols import UnknownSymbolError
from indexer.engine.durable.records import PackContentError, checked, note_records
from indexer.engine.frames.notes import FrameRefusedError
from tests.support.space import Space, settled

READ = "    def read(self):\n        return self.value\n"
WRITE = "    def write(self, value):\n        self.value = value\n"
APP = f"class Gauge:\n{READ}\n{WRITE}\n\ndef main():\n    return Gauge().read()\n"
NODE = "src/app.py::Gauge.read"
TWICE = "def load(a):\n    return a\n\n\ndef load(a, b):\n    return b\n"


@pytest.fixture
def app() -> Iterator[Space]:
    made = settled({"src/app.py": APP, "src/twice.py": TWICE, "README.md": "# A\n\n## B\n\nb\n"})
    yield made
    made.close()


def note_at(space: Space, path: str = "src/app.py") -> Any:
    return space.frame(path, "note")


def test_path_takes_part_in_a_symbol_basis() -> None:
    assert len({basis_of_symbol(path, "a.b", b"t") for path in (b"p", b"q")}) == 2


def test_name_takes_part_in_a_symbol_basis() -> None:
    assert len({basis_of_symbol(b"p", name, b"t") for name in ("a.b", "a.c")}) == 2


def test_text_takes_part_in_a_symbol_basis() -> None:
    assert len({basis_of_symbol(b"p", "a.b", text) for text in (b"t", b"u")}) == 2


def test_fields_of_a_symbol_basis_do_not_run_together() -> None:
    assert basis_of_symbol(b"p", "ab", b"t") != basis_of_symbol(b"pa", "b", b"t")


def test_a_symbol_basis_is_the_documented_hash() -> None:
    import hashlib

    fields = (b"basis:symbol", b"src/app.py", b"Gauge.read", b"h" * 32)
    text = b"".join(len(field).to_bytes(8, "big") + field for field in fields)
    assert basis_of_symbol(*fields[1:2], "Gauge.read", b"h" * 32) == hashlib.sha256(text).digest()


def test_a_note_stays_fresh_when_the_rest_of_the_file_changes(app: Space) -> None:
    written = app.note(NODE)
    assert (written["freshness"], written["path"]) == ("fresh", "src/app.py")
    assert (written["symbol"], written["line"]) == ("Gauge.read", 2)
    app.write("src/app.py", APP.replace("return Gauge()", "print(1)\n    return Gauge()"))
    assert note_at(app)["freshness"] == "fresh"


def test_a_note_follows_a_move_within_the_file(app: Space) -> None:
    app.note(NODE)
    app.write("src/app.py", "# first\n\n" + f"class Gauge:\n{WRITE}\n{READ}")
    found = note_at(app)
    assert (found["freshness"], found["symbol"], found["line"]) == ("fresh", "Gauge.read", 7)
    assert app.engine.list_frames("src/app.py", frame_type="note")["frames"][0]["line"] == 7
    assert app.engine.get_frame(found["frame_id"])["line"] == 7


def test_a_note_goes_stale_with_the_symbol_and_comes_back_with_it(app: Space) -> None:
    app.note(NODE)
    app.write("src/app.py", APP.replace("return self.value", "return 2 * self.value"))
    found = note_at(app)
    assert (found["freshness"], found["because"]) == ("stale", "the text of Gauge.read changed")
    assert found["line"] == 2
    (link,) = app.engine.explain("src/app.py", frame_type="note")["chain"]
    assert link["input"] == "::Gauge.read"
    assert link["old"] != link["new"]
    app.write("src/app.py", "import os\n" + APP)
    assert (note_at(app)["freshness"], note_at(app)["line"]) == ("fresh", 3)


def test_a_symbol_that_is_gone_says_so_and_a_file_that_is_gone_orphans(app: Space) -> None:
    app.note(NODE)
    app.write("src/app.py", APP.replace(READ, ""))
    found = note_at(app)
    assert (found["freshness"], found["line"]) == ("stale", None)
    assert found["because"] == "the symbol Gauge.read is gone"
    (app.root / "src/app.py").unlink()
    app.engine.scan()
    (listed,) = app.engine.list_frames("src/app.py", frame_type="note")["frames"]
    assert (listed["freshness"], listed["symbol"], listed["line"]) == (
        "orphaned", "Gauge.read", None,
    )  # fmt: skip


def test_the_end_of_a_name_is_enough_where_it_is_only_one(app: Space) -> None:
    assert app.note("src/app.py::read")["symbol"] == "Gauge.read"
    app.write("src/app.py", APP + f"\n\nclass Other:\n{READ}")
    with pytest.raises(FrameRefusedError, match=r"may be: Gauge\.read, Other\.read"):
        app.note("src/app.py::read", "more")
    with pytest.raises(UnknownSymbolError, match="has no symbol 'nothing'"):
        app.note("src/app.py::nothing")
    with pytest.raises(UnknownSymbolError):
        app.note("src/app.py::")


def test_of_several_of_one_name_the_first_is_meant_and_any_of_them_keeps_it(app: Space) -> None:
    assert app.note("src/twice.py::load")["line"] == 1
    first, second = TWICE.split("\n\n\n")
    app.write("src/twice.py", f"{second}\n\n{first}\n")
    found = note_at(app, "src/twice.py")
    assert (found["freshness"], found["line"]) == ("fresh", 5)
    app.write("src/twice.py", TWICE.replace("return a", "return None"))
    found = note_at(app, "src/twice.py")
    assert found["because"] == "the text of load changed (the file has 2 of that name)"


def test_headings_are_symbols_too(app: Space) -> None:
    assert app.note("README.md::B")["symbol"] == "A > B"
    app.write("README.md", "# A\n\nMore.\n\n## B\n\nb\n")
    assert (note_at(app, "README.md")["freshness"], note_at(app, "README.md")["line"]) == (
        "fresh", 5,
    )  # fmt: skip


def test_a_note_is_bound_to_the_version_that_was_read(app: Space) -> None:
    read = app.engine.get_node("src/app.py")["node_id"]
    app.write("src/app.py", APP.replace("return self.value", "return 0"))
    late = app.note(NODE, "about what I read", seen=read)
    assert (late["freshness"], late["because"]) == ("stale", "the text of Gauge.read changed")
    app.write("src/app.py", APP + "\n# more\n")
    assert note_at(app)["freshness"] == "fresh"


def test_what_was_read_long_ago_and_is_not_known_is_refused(space: Space) -> None:
    space.write("a.py", APP)
    space.engine.scan()
    read = space.engine.get_node("a.py")["node_id"]
    space.write("a.py", APP + "# more\n")
    with pytest.raises(FrameRefusedError, match="not known as they were read"):
        space.note("a.py::main", seen=read)


def test_a_symbol_is_bound_to_its_text_and_to_nothing_else(app: Space) -> None:
    for node, on in ((NODE, "content"), ("src/app.py", "::Gauge.read")):
        with pytest.raises(FrameRefusedError, match="bound to that symbol's text"):
            app.note(node, on=on)
    with pytest.raises(UnknownSymbolError):
        app.note("src::Gauge")


def test_a_name_with_colons_is_a_path_where_there_is_one(app: Space) -> None:
    app.write("src/app.py::Gauge.read", "a file\n")
    app.engine.scan()
    assert app.note(NODE)["symbol"] is None


def test_a_note_is_carried_with_a_renamed_file(app: Space) -> None:
    app.note(NODE)
    app.move("src/app.py", "lib/gauge.py")
    app.engine.scan()
    found = note_at(app, "lib/gauge.py")
    assert (found["freshness"], found["symbol"], found["line"]) == ("fresh", "Gauge.read", 2)
    app.write("lib/gauge.py", APP.replace("return self.value", "return 0"))
    assert note_at(app, "lib/gauge.py")["freshness"] == "stale"


def test_a_file_without_facts_is_read_for_its_symbols(space: Space) -> None:
    space.write("a.py", APP)
    space.engine.scan()
    assert space.note("a.py::main")["freshness"] == "fresh"
    space.write("a.py", "# above\n" + APP)
    assert (note_at(space, "a.py")["freshness"], note_at(space, "a.py")["line"]) == ("fresh", 10)


def test_judging_reads_the_symbols_of_that_file_only(
    app: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.note(NODE)
    asked: list[str] = []
    of = app.engine.frames.code.symbols
    monkeypatch.setattr(
        app.engine.frames.code, "symbols", lambda key: (asked.append(key[0].hex()), of(key))[1]
    )
    app.write("src/app.py", APP + "# more\n")
    app.write("src/twice.py", "# other\n" + TWICE)
    app.engine.scan()
    assert app.engine.status()["types"]["note"]["fresh"] == 1
    new = app.engine.get_node("src/app.py")["content_id"]
    assert asked.count(new) == 1
    assert len(set(asked)) <= 2


def test_the_journal_and_a_pack_hold_it(app: Space, tmp_path: Path) -> None:
    app.note(NODE, "kept")
    pack = tmp_path / "pack"
    app.engine.export_pack(pack)
    other = app.clone()
    try:
        other.settle()
        other.engine.import_pack(pack)
        found = note_at(other)
        assert (found["content"], found["symbol"], found["line"]) == ("kept", "Gauge.read", 2)
        assert found["freshness"] == "fresh"
        other.valid()
    finally:
        other.close()
    app.valid()


IMPOSSIBLE = [
    ("::", "00" * 32, "about no symbol"),
    ("::a\nb", "00" * 32, "about no symbol"),
    ("::" + "a" * 1001, "00" * 32, "about no symbol"),
    ("::a\x1b[0m", "00" * 32, "about no symbol"),
    ("::a", "00" * 31, "bound to no text"),
    ("::a", "AB" * 32, "bound to no text"),
    ("::a", "00" * 32, "not what its id says"),
]


def test_a_pack_with_an_impossible_binding_is_refused(app: Space) -> None:
    app.note(NODE)
    (record,) = note_records(app.engine.frames.store)
    for on, sha256, said in IMPOSSIBLE:
        record["inputs"] = {"/on": on, "/sha256": sha256}
        with pytest.raises(PackContentError, match=said):
            checked(app.engine.algorithm, record)


def test_validate_finds_a_note_whose_basis_does_not_follow(app: Space) -> None:
    app.note(NODE)
    frames = app.engine.frames
    (identity,) = [head.frame_id for _, head in frames.heads.notes_at("src/app.py")]
    frames.remember_inputs(identity, {"/on": "::Gauge.write", "/sha256": "00" * 32})
    assert [one["code"] for one in app.engine.validate()["errors"]] == ["basis"]


def test_a_composition_shows_the_symbol_and_its_line_and_replays(app: Space) -> None:
    app.note(NODE, "mind the unit")
    asked = {"nodes": ["src/app.py"], "types": ["note"], "record": True}
    made = app.engine.compose(**asked)
    (item,) = made["items"]
    assert (item["symbol"], item["line"]) == ("Gauge.read", 2)
    heading = "src/app.py::Gauge.read (note by ann, line 2)\n\nmind the unit"
    assert heading in made["messages"][0]["content"]
    app.write("src/app.py", "# above\n" + APP)
    moved = app.engine.compose(**asked)
    said = unfenced(moved["messages"][0]["content"])
    assert said.startswith("src/app.py::Gauge.read (note by ann, line 3")
    assert moved["candidates_sha256"] != made["candidates_sha256"]
    assert app.engine.replay(made["manifest_id"])["messages"] == made["messages"]
    app.write("src/app.py", APP.replace("return self.value", "return 0"))
    stale = app.engine.compose(**asked)["messages"][0]["content"]
    assert "\nsrc/app.py::Gauge.read (note by ann, line 2, stale)\n" in stale


def test_a_difference_tells_which_symbol_notes_a_change_made_stale(app: Space) -> None:
    app.note(NODE)
    app.note("src/app.py::main")
    before = app.engine.log()["roots"][0]["root"]
    app.write("src/app.py", APP.replace("return self.value", "return 0"))
    app.engine.scan()
    (told,) = app.engine.diff(before, "@-0")["notes"]
    assert (told["change"], told["path"], told["symbol"]) == ("stale", "src/app.py", "Gauge.read")


def test_events_tell_of_the_symbols_note_alone(app: Space) -> None:
    app.note(NODE)
    main = app.note("src/app.py::main")
    told: list[Any] = []
    app.engine.frame_subscribers.append(told.extend)
    app.write("src/app.py", APP.replace("return Gauge()", "return 2 * Gauge()"))
    app.engine.scan()
    stale = [one for one in told if one.type == "note"]
    assert [(one.action, one.frame_id.hex()) for one in stale] == [("stale", main["frame_id"])]


def test_many_notes_are_judged_with_one_question_to_the_store(
    app: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node in (NODE, "src/app.py::main", "src/twice.py::load", "README.md::B"):
        app.note(node)
    app.reopen()
    store, asked = app.engine.frames.code.store, list[int]()
    declared = store.declared

    def counted(wanted: Any) -> Any:
        asked.append(len(pairs := list(wanted)))
        return declared(pairs)

    monkeypatch.setattr(store, "declared", counted)
    monkeypatch.setattr(store, "symbols", lambda numbers: pytest.fail("one by one"))
    assert app.engine.status()["types"]["note"]["fresh"] == 4
    assert asked == [4]
    lines = [one["line"] for one in app.engine.notes()["notes"]]
    assert lines == [3, 2, 9, 1]
