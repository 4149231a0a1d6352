"""Sessions in a workspace: kept through restarts, damage and loss; refusals leave nothing."""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from indexer.core.clock import ManualClock
from indexer.engine.durable.repair import repair
from indexer.engine.sessions import open_sessions as session_desk
from indexer.errors import CorruptError, MerkleError, UsageError
from indexer.sessions import Session
from indexer.sessions.session import replay_state
from indexer.store.database import Database, DatabaseError, UnwrittenError
from indexer.store.frames import FrameStore
from indexer.store.migrations import MIGRATIONS
from indexer.store.pack import read_pack, write_pack
from tests.sessions.test_session_stored import everything
from tests.support.space import Space, python

NOW = 1_700_000_000_000_000_000


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space(clock=ManualClock(NOW))
    yield made
    made.close()


@cache
def _prepared(prepare: Callable[[Space], object]) -> Path:
    made = Space(clock=ManualClock(NOW))
    prepare(made)
    made.engine.close()
    atexit.register(shutil.rmtree, made.base, ignore_errors=True)
    return made.root


@contextlib.contextmanager
def after(prepare: Callable[[Space], object]) -> Iterator[Space]:
    """A workspace of a test's own as a function leaves it, which is called once in a process."""
    made = Space(copy_of=_prepared(prepare), clock=ManualClock(NOW))
    yield made
    made.close()


@pytest.fixture
def talked() -> Iterator[Space]:
    """A workspace with one conversation of three turns."""
    with after(talk) as made:
        yield made


@pytest.fixture
def talked_twice() -> Iterator[Space]:
    """A workspace with that conversation and a second one."""
    with after(talk_twice) as made:
        yield made


@pytest.fixture
def talked_shortly() -> Iterator[Space]:
    """A workspace with one conversation of two turns."""
    with after(talk_shortly) as made:
        yield made


def talk(space: Space, name: str = "talk", turns: int = 3) -> None:
    """A conversation with something of everything."""
    engine = space.engine
    engine.session_new(name, budget=10_000, max_nodes=30, protect_turns=1)
    engine.session_append(name, type="instruction", text="Be brief.", id=f"{name}-law")
    for number in range(turns):
        said = engine.session_append(name, type="dialogue", role="user", text=f"question {number}")
        engine.session_append(
            name, type="tool_io", label="grep", payload={"hits": number}, ttl=2, offset=1
        )
        engine.session_append(name, type="dialogue", role="assistant", text="the same answer")
        engine.session_edit(name, said["id"], text=f"better question {number}")
        engine.session_attempt(name, f"a{number}", status="running", provider="p", model="m")
        engine.session_attempt(name, f"a{number}", status="completed", provider="p", model="m")
        engine.session_commit(name)
    engine.session_annotate(name, f"{name}-law", "pinned")
    engine.session_group(name, offset=1, id=f"{name}-box")
    engine.session_append(name, type="output", text="unsealed \u202e text", parent=f"{name}-box")


def talk_twice(space: Space) -> None:
    talk(space)
    talk(space, "second", 2)


def talk_shortly(space: Space) -> None:
    talk(space, turns=2)


def exported(space: Space, name: str = "talk") -> str:
    return str(space.engine.session_export(name)["data"])


def all_of(space: Space, name: str = "talk") -> dict[str, Any]:
    """Everything a reader can get of a session."""
    engine = space.engine
    cycles = engine.session_show(name)["cycle"]
    return {
        "export": exported(space, name),
        "render": [engine.session_render(name, snapshot=f"@c{c}") for c in range(cycles + 1)],
        "work": engine.session_render(name, snapshot="@w"),
        "compile": engine.session_compile(name, stage="FROZEN"),
        "select": engine.session_select(name, "@* .cb"),
        "range": engine.session_select(name, "@t-9..@t0 .cb", include_content=True),
        "show": engine.session_show(name, tree=True),
    }


def journal_length(space: Space) -> int:
    return space.engine.records.journal.last


def test_a_session_comes_back_after_a_restart_without_a_replay(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Written here: what comes back is compared with what never left memory.
    talk(space)
    before = all_of(space)
    kept = space.engine.sessions.open("talk").session.state
    replayed = replay_state(list(kept.records))
    assert everything(kept) == everything(replayed)
    space.reopen()
    monkeypatch.setattr(Session, "replay", None)
    monkeypatch.setattr("indexer.engine.sessions.open_sessions.replay_state", None)
    assert everything(space.engine.sessions.open("talk").session.state) == everything(replayed)
    assert all_of(space) == before


def test_contents_are_stored_once(talked: Space) -> None:
    talk(talked, "other")
    rows = talked.engine.database.rows("SELECT content FROM session_blobs")
    assert len(rows) == len({row[0] for row in rows})
    same = [row for row in rows if "the same answer" in row[0]]
    assert len(same) == 1
    named = talked.engine.database.rows("SELECT count(*) FROM session_records WHERE holds")
    assert named[0][0] > len(rows)


def test_a_commit_adds_its_own_rows_and_touches_no_other(space: Space) -> None:
    engine = space.engine
    engine.session_new("flat")
    grown = []
    for number in range(30):
        engine.session_append("flat", type="dialogue", text=f"line {number}")
        before = _rows(space)
        engine.session_commit("flat")
        grown.append(_rows(space) - before)
    assert len(set(grown[1:])) == 1


def _rows(space: Space) -> int:
    tables = ("session_records", "session_versions", "session_blobs", "session_heads")
    return sum(
        int(space.engine.database.rows(f"SELECT count(*) FROM {table}")[0][0]) for table in tables
    )


def test_a_snapshot_is_a_range_predicate(space: Space) -> None:
    talk(space, turns=5)
    for cycle in range(1, 6):
        rows = space.engine.database.rows(
            "SELECT id FROM session_nodes WHERE session = 'talk' AND born <= ?"
            " AND (gone IS NULL OR gone > ?)",
            [cycle, cycle],
        )
        found = space.engine.session_select("talk", f"@c{cycle} *")["ids"]
        assert {row[0] for row in rows} == set(found)


REFUSED: list[Callable[[Space], object]] = [
    lambda s: s.engine.session_new("talk"),
    lambda s: s.engine.session_new(""),
    lambda s: s.engine.session_new("a\nb"),
    lambda s: s.engine.session_new("\ud800"),
    lambda s: s.engine.session_new("x" * 300),
    lambda s: s.engine.session_new("new", on_budget="reject"),
    lambda s: s.engine.session_new("new", budget=1, on_budget="callback"),
    lambda s: s.engine.session_new("new", protect_turns=1),
    lambda s: s.engine.session_append("nobody", type="output", text="x"),
    lambda s: s.engine.session_append("talk", type="poem", text="x"),
    lambda s: s.engine.session_append("talk", type="output"),
    lambda s: s.engine.session_append("talk", type="output", text="x", payload={"a": 1}),
    lambda s: s.engine.session_append("talk", type="output", text="lone \ud800"),
    lambda s: s.engine.session_append("talk", type="freeform", payload={"a": float("nan")}),
    lambda s: s.engine.session_append("talk", type="output", text="x" * (2 << 20)),
    lambda s: s.engine.session_append("talk", type="output", text="x", region="seq"),
    lambda s: s.engine.session_append("talk", type="output", text="x", parent="nowhere"),
    lambda s: s.engine.session_append("talk", type="output", text="x", ttl=-1),
    lambda s: s.engine.session_append("talk", type="output", text="x", offset=1 << 70),
    lambda s: s.engine.session_append("talk", type="output", text="x", id="talk-law"),
    lambda s: s.engine.session_append("talk", type="output", text="x", id="^mine"),
    lambda s: s.engine.session_append("talk", type="output", text="x", node_type="bad type"),
    lambda s: s.engine.session_append("talk", type="output", text="x", references=["gone"]),
    lambda s: s.engine.session_append("talk", type="output", text="x", attributes={"a": 1}),
    lambda s: s.engine.session_append("talk", type="dialogue", role="pope", text="x"),
    lambda s: s.engine.session_append("talk", type="output", text="a word " * 20_000),
    lambda s: s.engine.session_edit("talk", "nothing", text="x"),
    lambda s: s.engine.session_annotate("talk", "talk-law", "loud"),
    lambda s: s.engine.session_annotate("talk", "nothing", "skip"),
    lambda s: s.engine.session_move("talk", "talk-law", "nowhere"),
    lambda s: s.engine.session_remove("talk", "^sys"),
    lambda s: s.engine.session_group("talk", node_type="mt"),
    lambda s: s.engine.session_attempt(
        "talk", "a0", status="completed", provider="p", model="m"
    ),
    lambda s: s.engine.session_attempt("talk", "b", status="odd", provider="p", model="m"),
    lambda s: s.engine.session_import(name="new", data="no json"),
    lambda s: s.engine.session_import(name="new", data="[" * 100_000),
    lambda s: s.engine.session_import(name="new", data='{"root": 1}'),
    lambda s: s.engine.session_import(name="new", data='{"records": [NaN], "records_sha256": ""}'),
    lambda s: s.engine.session_import(name="new", data='[{"content": "no role"}]'),
    lambda s: s.engine.session_import(name="new", data="[]", form="telex"),
    lambda s: s.engine.session_import(name="new", file=Path("/nowhere.json")),
    lambda s: s.engine.session_import(name="new"),
    lambda s: s.engine.session_import(name="talk", data='{"root": {}}'),
    lambda s: s.engine.session_import(
        name="new", data=json.dumps({**json.loads(exported(s)), "cycle": 9})
    ),
    lambda s: s.engine.session_select("talk", ".cb["),
    lambda s: s.engine.session_select("talk", ".cb", content_mode="odd"),
    lambda s: s.engine.session_diff("talk", "@c99", "@t0"),
    lambda s: s.engine.session_render("talk", snapshot="@c99"),
    lambda s: s.engine.session_compile("talk", up_to="nothing"),
    lambda s: s.engine.session_compile("talk", as_of="yesterday"),
    lambda s: s.engine.session_compile("talk", as_of="2026-01-01", up_to="talk-law"),
    lambda s: s.engine.session_compile("talk", stage="THAWED"),
    lambda s: s.engine.session_export("talk", form="telex"),
    lambda s: s.engine.session_export("talk", snapshot="@c99"),
]  # fmt: skip


def test_a_refusal_changes_nothing(space: Space) -> None:
    space.engine.session_new("talk", budget=500, on_budget="reject")
    space.engine.session_append("talk", type="instruction", text="Be brief.", id="talk-law")
    for status in ("running", "error"):
        space.engine.session_attempt("talk", "a0", status=status, provider="p", model="m")
    space.engine.session_commit("talk")
    before, length, rows = all_of(space), journal_length(space), _rows(space)
    for refused in REFUSED:
        with pytest.raises(MerkleError) as caught:
            refused(space)
        assert isinstance(caught.value, UsageError | CorruptError), caught.value
        assert caught.value.message
        assert (journal_length(space), _rows(space)) == (length, rows), caught.value
    assert all_of(space) == before
    space.reopen()
    assert all_of(space) == before


def test_a_budget_warns_or_rejects(space: Space) -> None:
    engine = space.engine
    engine.session_new("warned", budget=2)
    engine.session_new("strict", budget=2, on_budget="reject")
    assert engine.session_append("warned", type="output", text="one")["warnings"] == []
    told = engine.session_append("warned", type="output", text="one two three")
    assert "its budget is 2" in told["warnings"][0]
    with pytest.raises(UsageError, match="budget is 2"):
        engine.session_append("strict", type="output", text="one two three")
    space.reopen()
    with pytest.raises(UsageError, match="budget is 2"):
        space.engine.session_append("strict", type="output", text="one two three")


def test_time_and_place_select_what_is_compiled(space: Space) -> None:
    engine, clock = space.engine, space._clock
    assert isinstance(clock, ManualClock)
    engine.session_new("s")
    first = engine.session_append("s", type="dialogue", text="first")
    clock.advance(10)
    engine.session_edit("s", first["id"], text="changed")
    engine.session_append("s", type="dialogue", text="second")
    clock.advance(10)
    engine.session_annotate("s", first["id"], "skip")

    def said(**options: Any) -> list[str]:
        return [m["content"] for m in space.engine.session_compile("s", **options)["messages"]]

    for _ in range(2):
        assert said() == ["second"]
        assert said(as_of="2023-11-14T22:13:25Z") == ["first"]
        assert said(as_of="2023-11-14T22:13:35Z") == ["changed\n\nsecond"]
        assert said(up_to=first["commit"][:10]) == []
        space.reopen()


def test_pruning_goes_on_after_a_restart(space: Space) -> None:
    engine = space.engine
    engine.session_new("small", max_nodes=3)
    for number in range(6):
        space.engine.session_append("small", type="dialogue", text=f"line {number}")
        space.engine.session_commit("small")
        space.reopen()
    blocks = space.engine.session_select("small", "@t0 .mt .cb")["ids"]
    assert len(blocks) == 3
    assert json.loads(space.engine.session_render("small")["thread"])[-1]["content"] == "line 5"


def test_repair_without_the_database_gives_the_same_bytes(space: Space) -> None:
    talk(space, turns=2)
    talk(space, "second", 2)
    space.engine.session_import(name="copy", data=exported(space))
    before = {name: all_of(space, name) for name in ("talk", "second", "copy")}
    space.engine.close()
    for path in (space.root / ".merkle").glob("*.duckdb*"):
        path.unlink()
    done = repair(space.root)
    assert done["records"] > 0
    space.open()
    assert {name: all_of(space, name) for name in before} == before
    assert space.engine.validate()["errors"] == []


def test_a_write_that_the_database_refuses_never_was(
    talked: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = exported(talked)

    def refuses(*arguments: Any) -> None:
        raise DatabaseError("it does not fit")

    with monkeypatch.context() as patched:
        patched.setattr(FrameStore, "record", refuses)
        with pytest.raises(DatabaseError):
            talked.engine.session_commit("talk")
    assert exported(talked) == before
    talked.reopen()
    assert exported(talked) == before


def test_a_write_whose_commit_fails_is_redone(
    talked: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = len(json.loads(exported(talked))["records"])
    real = FrameStore.record

    def fails(store: FrameStore, batch: Any, seq: int, before_commit: Any) -> None:
        if before_commit is not None:
            before_commit()
        raise UnwrittenError("no room")

    monkeypatch.setattr(FrameStore, "record", fails)
    with pytest.raises(DatabaseError):
        talked.engine.session_commit("talk")
    with pytest.raises(DatabaseError):
        talked.engine.session_import(name="copy", data=exported(talked))
    monkeypatch.setattr(FrameStore, "record", real)
    # In the journal it was, so it counts; the import never got that far.
    talked.engine.session_append("talk", type="output", text="after")
    log = json.loads(exported(talked))["records"]
    assert [r.get("op", r.get("operation")) for r in log[records:]] == ["seal", "append"]
    assert [s["name"] for s in talked.engine.session_list()["sessions"]] == ["talk"]
    before = all_of(talked)
    talked.reopen()
    assert all_of(talked) == before
    talked.engine.scan()
    assert talked.engine.validate()["errors"] == []


DAMAGE = {
    "content": "UPDATE session_blobs SET content = replace(content, 'same', 'other')",
    "lost content": "DELETE FROM session_blobs WHERE contains(content, 'same')",
    "record": "UPDATE session_records SET record = replace(record, 'talk-law', 'talk-lax')",
    "record field": "UPDATE session_records SET node_id = 'x' WHERE node_id = 'talk-law'",
    "lost record": "DELETE FROM session_records WHERE seq = 4",
    "lost log": "DELETE FROM session_records",
    "hash": "UPDATE session_records SET record = replace(record, 'commit_hash\":\"',"
    " 'commit_hash\":\"0')",
    "node": "UPDATE session_versions SET node = replace(node, '\"priority\":0', '\"priority\":1')",
    "node's parent": "UPDATE session_versions SET parent = '^sys' WHERE id = 'talk-box'",
    "node's end": "UPDATE session_versions SET gone = 2 WHERE id = 'talk-law'",
    "lost node": "DELETE FROM session_versions WHERE id = 'talk-law'",
    "counter": "UPDATE session_heads SET working = working + 1",
    "lost heads": "DELETE FROM session_heads",
}


def test_validate_finds_every_damage(talked_shortly: Space) -> None:
    database = talked_shortly.engine.layout.database
    talked_shortly.engine.close()
    whole = database.read_bytes()
    for kind, statement in DAMAGE.items():
        database.write_bytes(whole)
        with duckdb.connect(str(database)) as connection:
            connection.execute(statement)
        talked_shortly.open()
        found = talked_shortly.engine.validate()["errors"]
        assert found, kind
        assert {each["code"].split("_")[0] for each in found} == {"session"}, kind
        talked_shortly.engine.close()
    database.write_bytes(whole)
    talked_shortly.open()
    assert talked_shortly.engine.validate()["errors"] == []


@pytest.mark.parametrize("kind", ["record", "lost node"])
def test_repair_heals_damage(talked_shortly: Space, kind: str) -> None:
    before = all_of(talked_shortly)
    talked_shortly.engine.close()
    with duckdb.connect(str(talked_shortly.engine.layout.database)) as connection:
        connection.execute(DAMAGE[kind])
    assert repair(talked_shortly.root)["repaired"]
    talked_shortly.open()
    assert all_of(talked_shortly) == before
    assert talked_shortly.engine.validate()["errors"] == []


def _damage_journal(space: Space, share: float) -> None:
    """Change a byte somewhere in the journal."""
    (segment,) = sorted(space.engine.layout.journal.glob("*.log"))
    raw = bytearray(segment.read_bytes())
    place = raw.index(b"\n", int(len(raw) * share)) - 10
    raw[place] ^= 1
    segment.write_bytes(raw)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_damaged_journal_is_made_whole_from_the_database(
    talked_twice: Space, share: float
) -> None:
    before = {name: all_of(talked_twice, name) for name in ("talk", "second")}
    talked_twice.engine.close()
    _damage_journal(talked_twice, share)
    assert repair(talked_twice.root)["repaired"]
    talked_twice.open()
    assert {name: all_of(talked_twice, name) for name in before} == before
    assert talked_twice.engine.session_append("talk", type="output", text="goes on")["id"]


def test_without_both_a_session_ends_before_the_damage_and_that_is_said(talked: Space) -> None:
    whole = json.loads(exported(talked))["records"]
    talked.engine.close()
    _damage_journal(talked, 0.6)
    for path in (talked.root / ".merkle").glob("*.duckdb*"):
        path.unlink()
    done = repair(talked.root)
    assert any("session 'talk' from its record" in gone for gone in done["gone"])
    talked.open()
    left = json.loads(exported(talked))["records"]
    assert 0 < len(left) < len(whole)
    assert left == whole[: len(left)]
    assert talked.engine.validate()["errors"] == []


def test_packs_carry_sessions_and_bring_them_further(talked: Space) -> None:
    talked.engine.scan()
    file = talked.base / "a.pack"
    talked.engine.export_pack(file)
    other = Space(clock=ManualClock(1_700_000_000_000_000_000))
    try:
        first = other.engine.import_pack(file)
        assert first["added"] == 1
        assert all_of(other) == all_of(talked)
        assert other.engine.import_pack(file)["added"] == 0
        talked.engine.session_commit("talk")
        talked.engine.export_pack(file)
        assert other.engine.import_pack(file)["added"] == 1
        assert all_of(other) == all_of(talked)
        other.engine.session_append("talk", type="output", text="mine")
        talked.engine.session_append("talk", type="output", text="yours")
        talked.engine.export_pack(file)
        before = all_of(other)
        assert other.engine.import_pack(file)["diverged"] == ["talk"]
        assert all_of(other) == before
        other.reopen()
        assert all_of(other) == before
    finally:
        other.close()


def test_a_pack_with_a_forged_session_is_refused(talked: Space) -> None:
    file = talked.base / "a.pack"
    talked.engine.export_pack(file)
    records = list(read_pack(file))
    (forged,) = [record for record in records if record["kind"] == "session"]
    forged["records"][2]["content_hash"] = "0" * 64
    file.unlink()
    write_pack(file, records)
    other = Space()
    try:
        length = journal_length(other)
        with pytest.raises(UsageError, match="session does not hold"):
            other.engine.import_pack(file)
        assert journal_length(other) == length
        assert other.engine.session_list() == {"sessions": []}
    finally:
        other.close()


def test_memory_is_bounded_by_what_was_used_last(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_desk, "KEPT", 3)
    names = [f"s{number}" for number in range(8)]
    for name in names:
        space.engine.session_new(name)
        space.engine.session_append(name, type="output", text=name)
    desk = space.engine.sessions
    assert list(desk._open) == [desk.names.sid(name) for name in names[-3:]]
    for name in names:
        assert name in space.engine.session_render(name, snapshot="@w")["thread"]
    assert len(desk._open) == 3
    monkeypatch.setattr(session_desk, "KEPT_RECORDS", 3)
    space.engine.session_commit("s7")
    assert list(desk._open) == [desk.names.sid("s7")]
    space.engine.session_append("s0", type="output", text="again")
    space.reopen()
    assert "again" in space.engine.session_render("s0", snapshot="@w")["thread"]


def test_chat_logs_go_in_and_come_out(space: Space) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
    ]
    space.engine.session_import(name="chat", data=json.dumps(chat), form="openai")
    out = space.engine.session_export("chat", form="openai")
    assert json.loads(out["data"]) == chat
    other = json.loads(space.engine.session_export("chat", form="anthropic")["data"])
    assert other == {"system": "Be brief.", "messages": chat[1:]}
    space.engine.session_import(name="again", data=json.dumps(other), form="anthropic")
    assert json.loads(space.engine.session_export("again", form="openai")["data"]) == chat


def test_an_older_index_gets_the_tables_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    before = next(n for n, step in enumerate(MIGRATIONS) if "session_names" in step)
    space = Space()
    try:
        space.engine.close()
        database = space.engine.layout.database
        database.unlink()
        with monkeypatch.context() as patch:
            patch.setattr("indexer.store.database.MIGRATIONS", MIGRATIONS[:before])
            Database(database).close()
        space.open()
        space.write("a.py", python())
        space.engine.scan()
        talk(space, turns=1)
        space.valid()
    finally:
        space.close()


def test_a_request_that_is_made_again_is_done_once(space: Space) -> None:
    def ask(once: str, again: bool, method: str, *arguments: Any, **options: Any) -> Any:
        with space.engine.sessions.requested(once, again):
            return getattr(space.engine, method)(*arguments, **options)

    requests: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("session_new", ("s",), {}),
        ("session_append", ("s",), {"type": "output", "text": "said", "id": "x"}),
        ("session_edit", ("s", "x"), {"text": "said better"}),
        ("session_annotate", ("s", "x", "pinned"), {}),
        ("session_commit", ("s",), {}),
        ("session_import", (), {"name": "t", "data": '[{"role": "user", "content": "hello"}]'}),
    ]
    for number, (method, arguments, options) in enumerate(requests):
        first = ask(f"r{number}", False, method, *arguments, **options)
        length = journal_length(space)
        for _ in range(2):
            assert ask(f"r{number}", True, method, *arguments, **options) == first
            assert journal_length(space) == length
            space.reopen()
    # A request that never arrived is carried out when it is made again.
    before = space.engine.session_show("s")["cycle"]
    assert ask("lost", True, "session_commit", "s")["cycle"] == before + 1
