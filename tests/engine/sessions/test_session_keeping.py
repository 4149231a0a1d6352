"""Sessions as they are kept: branches, names, authors; through restarts, damage, packs, loss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from indexer.core.clock import ManualClock
from indexer.engine.durable.repair import repair
from indexer.engine.frames.roles import AgentError
from indexer.engine.sessions import packs
from indexer.engine.sessions.names import SessionTakenError, SessionUnknownError
from indexer.engine.sessions.write import SessionContentError, SessionNameError
from indexer.errors import UsageError
from indexer.sessions.placement import SealedError
from indexer.store.pack import read_pack, write_pack
from tests.engine.sessions.test_sessions import (
    NOW,
    _damage_journal,
    after,
    all_of,
    exported,
    journal_length,
    talk,
)
from tests.support.space import Space

SECRET = "AKIA" + "QWERTYUIOPASDFGH"


@pytest.fixture
def space() -> Iterator[Space]:
    made = Space(clock=ManualClock(NOW))
    yield made
    made.close()


@pytest.fixture
def talked() -> Iterator[Space]:
    """A workspace with one conversation of three turns."""
    with after(talk) as made:
        yield made


@pytest.fixture
def full() -> Iterator[Space]:
    """A workspace with something of everything."""
    with after(kept) as made:
        yield made


def turn(space: Space, name: str, text: str, **more: Any) -> None:
    space.engine.session_append(name, type="dialogue", text=text, **more)
    space.engine.session_commit(name)


def names(space: Space, deleted: bool = False) -> list[str]:
    return [one["name"] for one in space.engine.session_list(deleted=deleted)["sessions"]]


def everything(space: Space) -> dict[str, Any]:
    found = {name: all_of(space, name) for name in names(space)}
    return {"live": found, "deleted": sorted(names(space, deleted=True))}


def kept(space: Space) -> None:
    """Something of everything: branches, a merge, another name, one gone and one back."""
    talk(space)
    engine = space.engine
    engine.session_fork("talk", "branch", at="@t-1")
    turn(space, "branch", "elsewhere")
    engine.session_commit("talk")
    engine.session_merge("talk", "branch")
    engine.session_rename("branch", "twig")
    turn(space, "twig", "further")
    engine.session_fork("twig", "leaf", at="@w")
    engine.session_new("gone")
    turn(space, "gone", "will be missed")
    engine.session_delete("gone")
    engine.session_new("gone")
    turn(space, "gone", "another of that name")
    engine.session_delete("twig")
    engine.session_restore("twig", new="bough")
    engine.session_set("leaf", engine.session_append("leaf", type="output", text="a")["id"], ttl=3)


def test_all_of_it_comes_back_after_a_restart(space: Space) -> None:
    # Written here: what comes back is compared with what never left memory.
    kept(space)
    before = everything(space)
    assert names(space) == ["talk", "bough", "leaf", "gone"]
    assert before["deleted"] == ["gone"]
    space.reopen()
    assert everything(space) == before
    assert space.engine.validate()["errors"] == []


def test_all_of_it_comes_back_from_the_journal(full: Space) -> None:
    before = everything(full)
    full.engine.close()
    for path in (full.root / ".merkle").glob("*.duckdb*"):
        path.unlink()
    repair(full.root)
    full.open()
    assert everything(full) == before
    assert full.engine.validate()["errors"] == []


@pytest.mark.parametrize(
    "share",
    [0.02, 0.6, *(pytest.param(share, marks=pytest.mark.soak) for share in (0.3, 0.75, 0.95))],
)
def test_a_damaged_journal_is_made_whole_from_the_database(full: Space, share: float) -> None:
    before = everything(full)
    full.engine.close()
    _damage_journal(full, share)
    assert repair(full.root)["repaired"]
    full.open()
    assert everything(full) == before
    full.engine.session_append("leaf", type="output", text="goes on")
    full.reopen()
    assert full.engine.validate()["errors"] == []


def test_a_fork_copies_no_content(space: Space) -> None:
    space.engine.session_new("talk")
    said = "x" * 50_000
    turn(space, "talk", said)
    before = space.engine.layout.journal
    size = sum(each.stat().st_size for each in before.glob("*.log"))
    space.engine.session_fork("talk", "branch")
    assert sum(each.stat().st_size for each in before.glob("*.log")) - size < 1000
    rows = space.engine.database.rows("SELECT count(*) FROM session_blobs")
    assert rows == [(1,)]
    held = space.engine.database.rows(
        "SELECT max(length(record)) FROM session_records UNION ALL"
        " SELECT max(length(node)) FROM session_versions"
    )
    assert all(length < 2000 for (length,) in held)
    assert said in space.engine.session_render("branch")["thread"]


def test_a_branch_is_apart_until_it_is_merged(talked: Space) -> None:
    forked = talked.engine.session_fork("talk", "branch", at="@t-2")
    assert (forked["cycle"], forked["of"]) == (1, "talk")
    assert forked["left_out"] > 0
    before = exported(talked)
    turn(talked, "branch", "elsewhere")
    assert exported(talked) == before
    talked.engine.session_commit("talk")
    cycle = talked.engine.session_show("talk")["cycle"]
    told = talked.engine.session_merge("talk", "branch", check=True)
    assert (told["turns"], told["checked_only"]) == (1, True)
    assert talked.engine.session_show("talk")["cycle"] == cycle
    told = talked.engine.session_merge("talk", "branch")
    assert (told["turns"], told["cycle"], told["conflicts"]) == (1, cycle + 1, [])


def test_a_name_is_one_sessions_only(space: Space) -> None:
    for name in ("a", "b"):
        space.engine.session_new(name)
    length = journal_length(space)
    for work in (
        lambda: space.engine.session_rename("a", "b"),
        lambda: space.engine.session_fork("a", "b"),
        lambda: space.engine.session_rename("a", "a"),
    ):
        with pytest.raises(SessionTakenError):
            work()
    for bad in ("", "two\nlines", "x" * 201):
        with pytest.raises(SessionNameError):
            space.engine.session_rename("a", bad)
    with pytest.raises(SessionUnknownError):
        space.engine.session_rename("nobody", "c")
    assert journal_length(space) == length
    space.engine.session_rename("a", "c")
    space.engine.session_rename("b", "a")
    assert names(space) == ["c", "a"]


def test_what_is_deleted_can_be_brought_back_until_compact(space: Space) -> None:
    space.engine.scan()
    for text in ("first", "second"):
        space.engine.session_new("talk")
        turn(space, "talk", text)
        space.engine.session_delete("talk")
    with pytest.raises(SessionUnknownError, match="no session") as caught:
        space.engine.session_show("talk")
    assert "session restore talk" in caught.value.hint
    assert names(space) == []
    assert space.engine.session_restore("talk")["name"] == "talk"
    assert "second" in space.engine.session_render("talk")["thread"]
    with pytest.raises(SessionTakenError):
        space.engine.session_restore("talk")
    assert space.engine.session_restore("talk", new="older")["name"] == "older"
    assert "first" in space.engine.session_render("older")["thread"]
    space.engine.session_delete("older")
    assert space.engine.compact()["purged_sessions"] == 1
    with pytest.raises(SessionUnknownError, match="no deleted session"):
        space.engine.session_restore("older")
    rows = space.engine.database.rows("SELECT content FROM session_blobs")
    assert ["first" in text for (text,) in rows] == [False]
    space.engine.close()
    for path in (space.root / ".merkle").glob("*.duckdb*"):
        path.unlink()
    repair(space.root)
    space.open()
    assert (names(space), names(space, deleted=True)) == (["talk"], [])
    assert space.engine.validate()["errors"] == []


def test_a_service_with_time_on_its_hands_purges_nothing(space: Space) -> None:
    from indexer.engine.durable.compact import Compaction

    space.engine.scan()
    space.engine.session_new("talk")
    space.engine.session_delete("talk")
    compaction = Compaction(space.engine.frames, space.engine.trees)
    while not compaction.step():
        pass
    assert names(space, deleted=True) == ["talk"]


def test_what_a_branch_shares_outlives_what_it_left(space: Space) -> None:
    space.engine.scan()
    talk(space)
    space.engine.session_fork("talk", "branch", at="@t-1")
    before = all_of(space, "branch")
    space.engine.session_delete("talk")
    space.engine.compact()
    assert all_of(space, "branch") == before
    space.reopen()
    assert all_of(space, "branch") == before
    assert space.engine.validate()["errors"] == []


def test_packs_carry_all_of_it_and_bring_it_further(full: Space) -> None:
    full.engine.scan()
    file = full.base / "a.pack"
    full.engine.export_pack(file)
    other = Space(clock=ManualClock(1_700_000_000_000_000_000))
    try:
        assert other.engine.import_pack(file)["diverged"] == []
        assert everything(other) == everything(full)
        assert other.engine.import_pack(file)["added"] == 0
        engine = full.engine
        engine.session_rename("leaf", "blossom")
        turn(full, "blossom", "spring")
        engine.session_delete("bough")
        engine.session_restore("gone", new="found")
        engine.export_pack(file)
        assert other.engine.import_pack(file)["diverged"] == []
        assert everything(other) == everything(full)
        other.reopen()
        assert everything(other) == everything(full)
        assert other.engine.validate()["errors"] == []
    finally:
        other.close()


def test_a_name_that_is_taken_elsewhere_is_told(space: Space) -> None:
    space.engine.session_new("a")
    file = space.base / "a.pack"
    space.engine.export_pack(file)
    other = Space(clock=ManualClock(1_800_000_000_000_000_000))
    try:
        other.engine.import_pack(file)
        other.engine.session_new("b")
        before = everything(other)
        space.engine.session_rename("a", "b")
        space.engine.export_pack(file)
        assert other.engine.import_pack(file)["diverged"] == ["b"]
        assert everything(other) == before
    finally:
        other.close()


def test_a_log_in_many_pieces_keeps_its_names(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "_PIECE", 400)
    kept(space)
    file = space.base / "a.pack"
    space.engine.export_pack(file)
    other = Space(clock=ManualClock(1_700_000_000_000_000_000))
    try:
        other.engine.import_pack(file)
        assert everything(other) == everything(space)
        other.reopen()
        assert everything(other) == everything(space)
    finally:
        other.close()


def test_every_record_can_have_an_author(space: Space) -> None:
    engine = space.engine
    engine.agent_add("ann", "writer")
    engine.agent_add("eve", "reader")
    engine.session_new("talk", agent="ann")
    said = engine.session_append("talk", type="dialogue", text="a", agent="ann", message="why")
    engine.session_set("talk", said["id"], priority=2, agent="ann")
    engine.session_edit("talk", said["id"], text="b", agent="ann")
    engine.session_annotate("talk", said["id"], "pinned", reason="it matters", agent="ann")
    engine.session_group("talk", id="box", offset=1, agent="ann")
    engine.session_move("talk", "box", "ah", offset=2, agent="ann")
    engine.session_remove("talk", "box", agent="ann")
    engine.session_attempt("talk", "a1", status="running", provider="p", model="m", agent="ann")
    engine.session_commit("talk", agent="ann")
    engine.session_fork("talk", "branch", agent="ann")
    engine.session_rename("talk", "trunk", agent="ann")
    engine.session_delete("trunk", agent="ann")
    engine.session_restore("trunk", agent="ann")
    engine.session_append("branch", type="output", text="c", agent="ann")
    engine.session_commit("branch", agent="ann")
    engine.session_merge("trunk", "branch", agent="ann")
    space.reopen()
    for name in ("trunk", "branch"):
        told = space.engine.session_log(name)["records"]
        assert {record["author"] for record in told} == {"ann"}
    told = {record["op"]: record for record in space.engine.session_log("trunk")["records"]}
    assert told["annotate"]["reason"] == "it matters"
    assert told["append"]["message"] == "why"
    assert told["rename"]["to"] == "trunk"
    assert told["merge"]["turns"] == 1
    length = journal_length(space)
    for agent in ("eve", "nobody"):
        with pytest.raises(AgentError):
            space.engine.session_commit("trunk", agent=agent)
    assert journal_length(space) == length


def test_a_log_is_read_in_parts(talked: Space) -> None:
    whole = talked.engine.session_log("talk", limit=1000)
    assert whole["total"] == len(whole["records"]) == len(json.loads(exported(talked))["records"])
    assert [record["seq"] for record in whole["records"]] == list(range(whole["total"]))[::-1]
    first = talked.engine.session_log("talk", limit=5)["records"]
    second = talked.engine.session_log("talk", limit=5, before=first[-1]["seq"])["records"]
    assert first + second == whole["records"][:10]


def test_secrets_are_refused_in_reasons_and_in_what_is_set(space: Space) -> None:
    engine = space.engine
    engine.session_new("talk")
    said = engine.session_append("talk", type="dialogue", text="a")["id"]
    length = journal_length(space)
    for work in (
        lambda **more: engine.session_annotate("talk", said, "skip", reason=SECRET, **more),
        lambda **more: engine.session_set("talk", said, text=f"key {SECRET}", **more),
        lambda **more: engine.session_set("talk", said, attributes={"data_k": SECRET}, **more),
    ):
        with pytest.raises(SessionContentError):
            work()
        assert journal_length(space) == length
        work(allow_secrets=True)
        length = journal_length(space)


def test_setting_headers_and_words_at_once(space: Space) -> None:
    engine = space.engine
    engine.session_new("talk")
    said = engine.session_append(
        "talk", type="tool_io", role="assistant", label="grep", payload={"q": "a"}, id="call"
    )
    done = engine.session_set(
        "talk", said["commit"], payload={"q": "b"}, ttl=2, priority=5, attributes={"data_n": 1}
    )
    assert done["id"] == "call"
    assert (done["ttl"], done["expires"], done["priority"]) == (2, 3, 5)
    node = json.loads(engine.session_export("talk", "@w")["data"])
    block = node["root"]["children"][2]["children"][0]["children"][0]
    assert (block["kind"], block["content"]["payload"], block["data_n"]) == ("call", {"q": "b"}, 1)
    assert engine.session_set("talk", "call", no_ttl=True)["expires"] is None
    engine.session_commit("talk")
    with pytest.raises(SealedError):
        engine.session_set("talk", "call", priority=1)
    for nothing in ({}, {"ttl": 1, "no_ttl": True}):
        with pytest.raises(UsageError):
            engine.session_set("talk", "call", **nothing)
    before = all_of(space)
    space.reopen()
    assert all_of(space) == before
    assert space.engine.validate()["errors"] == []


def test_a_request_that_is_made_again_is_done_once(talked: Space) -> None:
    talked.engine.session_commit("talk")
    requests: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("session_fork", ("talk", "branch"), {}),
        ("session_append", ("branch",), {"type": "output", "text": "x", "id": "x"}),
        ("session_set", ("branch", "x"), {"priority": 3, "text": "y"}),
        ("session_commit", ("branch",), {}),
        ("session_merge", ("talk", "branch"), {}),
        ("session_rename", ("branch", "twig"), {}),
        ("session_delete", ("twig",), {}),
        ("session_restore", ("twig",), {"new": "bough"}),
    ]
    for number, (method, arguments, options) in enumerate(requests):
        answers = []
        for again in (False, True, True):
            with talked.engine.sessions.requested(f"r{number}", again):
                answers.append(getattr(talked.engine, method)(*arguments, **options))
            if not again:
                length = journal_length(talked)
            assert journal_length(talked) == length
            talked.reopen()
        assert answers[1:] == answers[:1] * 2


def test_a_pack_with_an_author_whom_nobody_knows_is_refused(space: Space) -> None:
    space.engine.agent_add("ann", "writer")
    space.engine.session_new("talk", agent="ann")
    file = space.base / "a.pack"
    space.engine.export_pack(file)
    other = Space()
    try:
        other.engine.import_pack(file)
        assert other.engine.session_log("talk")["records"][0]["author"] == "ann"
    finally:
        other.close()
    records = [record for record in read_pack(file) if record["kind"] != "agent"]
    file.unlink()
    write_pack(file, records)
    other = Space()
    try:
        with pytest.raises(UsageError, match="whom neither"):
            other.engine.import_pack(file)
        assert names(other) == []
    finally:
        other.close()
