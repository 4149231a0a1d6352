"""What is not believed: rows that were tampered with, broken or malformed; who may not write."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core.frames import MemoKey, body_hash
from indexer.shared.base import Entry, ReadOnlyError, Row
from indexer.shared.seal import Refusal, Seal
from tests.support.team import Member, files, ran

ENTRY = Entry(MemoKey(b"k" * 32), 3, body_hash("text"), "text")
OTHER = hashlib.sha256(b"other").digest()


def refusal(seal: Seal, row: Row) -> str | None:
    try:
        assert seal.opened(row) == ENTRY
    except Refusal as error:
        return str(error)
    return None


# -- the seal itself


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"key": b"x" * 32}, "seal"),
        ({"generation": 4}, "seal"),
        ({"content": OTHER, "body": b"other"}, "seal"),
        ({"body": b"other"}, "hash"),
        ({"content": OTHER}, "hash"),
        ({"mac": b""}, "seal"),
        ({"mac": b"m" * 32}, "seal"),
        ({"body": None}, "malformed"),
        ({"key": b"short"}, "malformed"),
        ({"content": b"short"}, "malformed"),
        ({"generation": -1}, "malformed"),
        ({"generation": 1 << 31}, "malformed"),
        ({"generation": None}, "malformed"),
        ({"mac": None}, "malformed"),
    ],
)
def test_every_field_takes_part(changed: dict[str, Any], why: str) -> None:
    seal = Seal("team", "a secret")
    assert refusal(seal, seal.row(ENTRY)) is None
    assert refusal(seal, seal.row(ENTRY)._replace(**changed)) == why


def test_namespace_and_key_take_part_and_nothing_else_is_needed() -> None:
    row = Seal("team", "a secret").row(ENTRY)
    assert refusal(Seal("other", "a secret"), row) == "seal"
    assert refusal(Seal("team", "another"), row) == "seal"
    # Without a key only accidents are found; a sealed row is as good as any.
    assert refusal(Seal("team", None), row) is None
    assert refusal(Seal("team", "a secret"), Seal("team", None).row(ENTRY)) == "seal"
    assert Seal("team", None).row(ENTRY).mac == b""


def test_a_body_that_is_no_text_is_malformed() -> None:
    raw = b"\xff\xfe"
    row = Row(ENTRY.key, 0, hashlib.sha256(raw).digest(), b"", raw)
    assert refusal(Seal("team", None), row) == "malformed"


@given(st.binary(max_size=40), st.integers(0, 9), st.binary(max_size=40), st.binary(max_size=40))
def test_no_two_different_rows_share_a_seal(
    key: bytes, n: int, content: bytes, body: bytes
) -> None:
    seal = Seal("team", "a secret")
    base = seal._mac(b"k" * 32, 1, b"c" * 32, b"body")
    assert (seal._mac(key, n, content, body) == base) == (
        (key, n, content, body) == (b"k" * 32, 1, b"c" * 32, b"body")
    )


# -- through a whole pass


def tamper(url: str, statement: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement).rowcount


BOTH = """
    WITH changed AS (
        UPDATE merkle_bodies SET body = convert_to('forged', 'UTF8'),
               sha256 = sha256(convert_to('forged', 'UTF8'))
        WHERE body = convert_to('TEXT NUMBER 3', 'UTF8') RETURNING sha256
    )
    UPDATE merkle_entries SET content = changed.sha256 FROM changed
    WHERE content = sha256(convert_to('TEXT NUMBER 3', 'UTF8'))
"""


def test_a_tampered_row_is_refused_with_a_team_key_and_mended(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_TEAM_KEY", "only the team knows")
    first, second, third = (Member(files(6)) for _ in "123")
    members += [first, second, third]
    first.full_pass()
    # A forger who can write to the database, and makes hash and body agree.
    assert tamper(url, BOTH) == 1
    counted.write_text("")
    made = second.full_pass()
    assert made["shared"]["refused"] == 1
    assert made["shared"]["computed"] == 1
    assert [one.split()[1] for one in ran(counted)] == ["f3.txt"]
    assert second.bodies() == first.bodies()
    status = second.open().shared_status()
    assert (status["refused"], status["team_key"]) == (1, True)
    # It put right what it found wrong.
    again = third.full_pass()
    assert (again["shared"]["refused"], again["regenerated"]) == (0, 0)


def test_without_a_key_the_same_forgery_passes_and_status_says_so(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (Member(files(6)) for _ in "12")
    members += [first, second]
    first.full_pass()
    assert tamper(url, BOTH) == 1
    second.full_pass()
    assert "forged" in second.bodies().values()
    status = second.open().shared_status()
    assert status["team_key"] is False
    assert "only accidents are detected" in status["detects"]


def test_rows_from_before_the_key_are_refused(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first, second = (Member({"a.txt": "a"}) for _ in "12")
    members += [first, second]
    first.full_pass()
    monkeypatch.setenv("MERKLE_TEAM_KEY", "new")
    made = second.full_pass()
    assert made["shared"]["refused"] > 0
    assert made["shared"]["fetched"] == 0
    assert made["regenerated"] == 3


@pytest.mark.parametrize("key", [None, "team secret"])
def test_a_body_with_a_wrong_hash_is_refused_always(
    key: str | None,
    url: str,
    counted: Path,
    members: list[Member],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    if key:
        monkeypatch.setenv("MERKLE_TEAM_KEY", key)
    first, second, third = (Member(files(6)) for _ in "123")
    members += [first, second, third]
    first.full_pass()
    assert tamper(url, "UPDATE merkle_bodies SET body = body || '\\x00'::bytea") == 17
    # One by one, each level is computed again: it is not known otherwise what to ask for next.
    made = second.full_pass()
    assert made["shared"]["refused"] == 17
    assert made["regenerated"] == 17
    assert second.bodies() == first.bodies()
    pulled = third.open().shared_pull()
    assert (pulled["refused"], pulled["pulled"]) == (0, 17)


MALFORMED = [
    "DELETE FROM merkle_bodies",
    "UPDATE merkle_entries SET content = '\\x00'::bytea",
    "UPDATE merkle_entries SET generation = -5",
    "UPDATE merkle_entries SET generation = 4611686018427387904",
    "UPDATE merkle_entries SET content = ''::bytea, mac = ''::bytea",
]


def test_malformed_rows_are_refused_and_counted(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first = Member({"a.txt": "a"})
    members.append(first)
    first.full_pass()
    for damage in MALFORMED:
        # What the one before has mended is damaged again.
        second, third = (Member({"a.txt": "a"}) for _ in "12")
        members += [second, third]
        assert tamper(url, damage) > 0
        pulled = third.open().shared_pull()
        assert pulled["pulled"] == 0, damage
        assert pulled["reasons"] == {"malformed": 3}, damage
        assert third.open().shared_status()["refused"] == 3, damage
        made = second.full_pass()
        assert made["regenerated"] == 3, damage
        assert third.full_pass()["regenerated"] == 0, damage
        assert second.bodies() == first.bodies() == third.bodies(), damage


# -- who may not write


def test_a_member_that_is_set_to_read_only_gives_nothing(
    any_url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    writer, reader = Member(files(4)), Member({**files(4), "more.txt": "mine"})
    members += [writer, reader]
    held = writer.full_pass()["regenerated"]
    monkeypatch.setenv("MERKLE_SHARED_READ_ONLY", "true")
    made = reader.full_pass()
    # Its own file and the root above it.
    assert made["regenerated"] == 2
    assert made["shared"]["pushed"] == 0
    status = reader.open().shared_status()
    assert (status["entries"], status["pending"], status["leases"]) == (held, 0, 0)
    for refused in (reader.open().shared_push, lambda: reader.open().shared_gc(0)):
        with pytest.raises(ReadOnlyError, match="only reads"):
            refused()
    assert writer.open().shared_status()["entries"] == held


def test_a_server_that_refuses_writes_is_read_from(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    writer, reader = Member(files(4)), Member({**files(4), "more.txt": "mine"})
    members += [writer, reader]
    writer.full_pass()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS merkle_guest")
        connection.execute("CREATE ROLE merkle_guest LOGIN PASSWORD 'guest-word'")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO merkle_guest")
    guest = url.replace(url.partition("://")[2].partition("@")[0], "merkle_guest:guest-word", 1)
    monkeypatch.setenv("MERKLE_SHARED_URL", guest)
    try:
        made = reader.full_pass()
        assert made["regenerated"] == 2
        assert made["shared"]["pushed"] == 0
        assert "does not let this member write" in made["shared"]["problem"]
        assert "guest-word" not in str(made)
        with pytest.raises(ReadOnlyError):
            reader.open().shared_push()
        # They are due still: whoever gives it the right to write gets them.
        assert reader.open().shared_status()["pending"] == 2
    finally:
        reader.end()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY merkle_guest; DROP ROLE merkle_guest")
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    assert reader.open().shared_push()["pending"] == 0
