"""What one clone has computed, no other computes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.engine.team import exchange as sharing
from tests.support.team import TYPES, Member, files, ran, sizes

OUTLINES = '[types.outline]\nfile = "outline"\nfolder = "summarize"\n'


@sizes(12, 40)
def test_a_second_clone_computes_nothing(
    any_url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    content = {**files(count), "a.py": "def a(x):\n    pass\n"}
    first, second = (Member(content, TYPES + OUTLINES) for _ in "12")
    members += [first, second]
    made = first.full_pass()
    assert made["regenerated"] > max(40, 2 * count)
    assert made["shared"]["pushed"] == made["shared"]["computed"] == made["regenerated"]
    before = ran(counted)
    assert set(before.values()) == {1}
    again = second.full_pass()
    assert again["regenerated"] == 0
    assert {event["action"] for event in again["events"]} == {"reused"}
    assert again["shared"]["computed"] == 0
    assert again["shared"]["fetched"] == made["shared"]["computed"]
    assert ran(counted) == before
    assert second.bodies() == first.bodies()
    assert second.bodies("outline") == first.bodies("outline")
    assert second.open().validate()["valid"]
    # And it is in the second's own database now: no server is needed to go on.
    second.end()
    monkeypatch.setenv("MERKLE_SHARED_URL", "sqlite:///no/such/folder/team.db")
    (second.root / "d0").rename(second.root / "renamed")
    moved = second.full_pass()
    assert {event["path"] for event in moved["events"] if event["action"] == "generated"} == {""}
    assert "cannot be used" in moved["shared"]["problem"]


def test_an_edit_asks_for_its_path_only(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (Member(files(12)) for _ in "12")
    members += [first, second]
    for member in members:
        member.full_pass()
    counted.write_text("")
    for member in members:
        member.write("d0/e0/f0.txt", "edited")
    assert first.full_pass()["shared"]["computed"] == 4
    assert second.full_pass()["shared"] == {
        "fetched": 4, "computed": 0, "pushed": 0, "refused": 0, "problem": None,
    }  # fmt: skip
    assert len(ran(counted)) == 4


@sizes(60, 120)
def test_a_chunk_is_looked_up_in_one_conversation_per_level(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (Member(files(count)) for _ in "12")
    members += [first, second]
    first.full_pass()
    engine = second.open()
    exchange = engine.exchange
    assert exchange is not None
    asked: list[int] = []
    get = exchange.client.get
    monkeypatch.setattr(
        exchange.client, "get", lambda wanted: (asked.append(len(wanted)), get(wanted))[1]
    )
    second.full_pass()
    # All files, then the folders by height: e0 and e1 in each of three, those three, the root.
    assert asked == [count + 1, 6, 3, 1]


def test_a_type_that_is_not_shared_stays_here(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (Member(files(4), TYPES + "share = false\n") for _ in "12")
    members += [first, second]
    made = first.full_pass()
    assert made["shared"]["pushed"] == 0
    assert first.open().shared_push()["pushed"] == 0
    assert first.open().shared_status()["entries"] == 0
    assert second.full_pass()["regenerated"] == made["regenerated"]


def test_namespaces_do_not_see_each_other(
    any_url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    for namespace in ("one", "two", "one"):
        monkeypatch.setenv("MERKLE_SHARED_NAMESPACE", namespace)
        members.append(Member(files(6)))
        members[-1].full_pass()
        members[-1].open().shared_status()
    runs = ran(counted)
    assert set(runs.values()) == {2}
    assert members[0].open().shared_status()["entries"] == len(runs)


def test_the_highest_generation_wins(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second, third = (Member({"a.txt": "a"}) for _ in "123")
    members += [first, second, third]
    first.full_pass()
    second.full_pass()
    counted.write_text("")
    # Past the memo, also past the team's.
    first.open().invalidate("a.txt")
    assert first.full_pass()["shared"]["computed"] == 1
    assert len(ran(counted)) == 1
    # Who invalidates the same finds that it has been done.
    second.open().invalidate("a.txt")
    assert second.full_pass()["shared"]["fetched"] == 1
    # A newcomer gets the newest, and knows of which generation it is.
    third.full_pass()
    assert third.open().shared_push()["pushed"] == 0
    assert len(ran(counted)) == 1
    rows = third.open().database.rows("SELECT max(generation) FROM memo")
    assert rows == [(1,)]


def test_what_was_computed_before_there_was_a_team_is_pushed(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Member(files(9)) for _ in "12")
    members += [first, second]
    made = first.full_pass()
    assert "shared" not in made
    first.end()
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    pushed = first.open().shared_push()
    assert pushed == {
        "pushed": made["regenerated"], "offered": made["regenerated"], "pending": 0,
        "notes": 0, "withheld": 0,
    }  # fmt: skip
    assert first.open().shared_push()["pushed"] == 0
    assert second.full_pass()["regenerated"] == 0


def test_pull_brings_all_for_work_without_the_server(
    any_url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    monkeypatch.setattr("indexer.engine.team.commands.PUSH", 7)
    first, second = (Member(files(20)) for _ in "12")
    members += [first, second]
    total = first.full_pass()["regenerated"]
    assert second.open().shared_pull() == {
        "pulled": total, "known": 0, "refused": 0, "reasons": {}, "notes": 0,
    }  # fmt: skip
    assert second.open().shared_pull()["pulled"] == 0
    second.end()
    monkeypatch.delenv("MERKLE_SHARED_URL")
    assert second.full_pass()["regenerated"] == 0


@sizes(40, 140)
def test_small_chunks_and_portions_give_the_same(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    alone = Member(files(count))
    members.append(alone)
    alone.full_pass()
    # Also so small that bodies at hand are let go of in the middle.
    monkeypatch.setattr("indexer.engine.make.one_pass.CHUNK", 5)
    monkeypatch.setattr(sharing, "PORTION", 3)
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    for _ in "12":
        members.append(Member(files(count)))
        members[-1].full_pass()
        assert members[-1].bodies() == alone.bodies()
    assert set(ran(counted).values()) == {2}


def test_a_failing_file_fails_for_everybody_and_leaves_no_lease(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    for _ in "12":
        member = Member(files(3))
        members.append(member)
        (member.root / "odd.bin").write_bytes(b"\xff\xfe")
        made = member.full_pass()
        assert [one["path"] for one in made["failed"]] == ["odd.bin"]
        assert member.open().shared_status()["leases"] == 0
