"""Stores that stand still, refuse, are damaged or get too much: work goes on all the same."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indexer.core.frames import BodyHash, MemoKey
from indexer.engine.team.exchange import Exchange
from indexer.shared.base import Entry, Row, SharedError, SharedStore
from indexer.shared.client import Client, Membership
from indexer.shared.opening import open_store
from indexer.shared.sqlite import SqliteStore
from tests.support.postgres import Postgres
from tests.support.team import Member, files


def entry(number: int, body: str, generation: int = 0) -> Entry:
    content = BodyHash(hashlib.sha256(body.encode()).digest())
    return Entry(MemoKey(number.to_bytes(32, "big")), generation, content, body)


# -- a server that stands still


def test_a_server_that_stands_still_stops_nobody(
    own_server: Postgres, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The connection is there, the kernel takes every byte, and no answer comes.
    monkeypatch.setattr("indexer.shared.connection.SLOWEST", 0.2)
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    monkeypatch.setenv("MERKLE_SHARED_TIMEOUT", "500ms")
    member = Member(files(4))
    members.append(member)
    assert member.full_pass()["shared"]["problem"] is None
    assert own_server._process is not None
    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'merkle'"
    standing = [own_server._process.pid, *(pid for (pid,) in own_server.execute(ours))]
    assert len(standing) > 1
    for pid in standing:
        os.kill(pid, signal.SIGSTOP)
    try:
        member.write("more.txt", "more")
        made = member.full_pass()
    finally:
        for pid in standing:
            os.kill(pid, signal.SIGCONT)
    assert made["failed"] == []
    assert made["regenerated"] == 2
    assert "cannot be reached" in made["shared"]["problem"]
    member.end()
    assert member.open().shared_push()["pending"] == 0


def test_a_transaction_that_a_server_forgets_about_is_given_up(own_server: Postgres) -> None:
    # Only this connection's process stands still: a new one finds the server well.
    client = Client(Membership(own_server.url, "team", timeout=0.5))
    assert client.put([entry(1, "one")]) == 1
    store: Any = client._store
    store._connection.longest_silence = 0.3
    pid = store._connection.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert client.put([entry(2, "two")]) == 1
        assert client.usage().entries == 2
    finally:
        os.kill(pid, signal.SIGCONT)
        client.close()


# -- hints that are meant for others


def test_a_busy_neighbour_wakes_nobody(url: str) -> None:
    ours, theirs, mate = (open_store(url, name, 5) for name in ("team", "neighbours", "team"))
    ours.wait(0.0)
    row = Row(b"k" * 32, 0, hashlib.sha256(b"b").digest(), b"", b"b")
    waiting = threading.Thread(target=ours.wait, args=(60.0,))
    waiting.start()
    theirs.put_many([row])
    waiting.join(0.3)
    assert waiting.is_alive()
    mate.put_many([row])
    waiting.join(30)
    assert not waiting.is_alive()
    for store in (ours, theirs, mate):
        store.close()


# -- leases of several runs


def test_one_run_that_ends_keeps_the_leases_of_another(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass of outlines between two steps of a run that waits for a model."""
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_SHARED_LEASE", "2s")
    member = Member(files(2))
    members.append(member)
    exchange = member.open().exchange
    assert isinstance(exchange, Exchange)
    asked = MemoKey(b"a" * 32)
    assert exchange.lease([asked]) == {asked}
    assert member.full_pass()["regenerated"] > 0
    with psycopg.connect(url, autocommit=True) as connection:

        def ends() -> Any:
            found = connection.execute(
                "SELECT expires_at, expires_at > now() FROM merkle_leases WHERE key = %b", (asked,)
            ).fetchone()
            assert found is not None
            return found

        first, held = ends()
        now = first
        while held and now == first:
            now, held = ends()
        assert now > first


# -- too much at once


class Listening:
    """A store that notes how much it is given at once."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self.given: list[int] = []

    def put_many(self, rows: Sequence[Row], **options: Any) -> int:
        self.given.append(sum(len(row.body or b"") for row in rows))
        return self._store.put_many(rows, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_long_results_are_given_in_portions_and_the_longest_not_at_all(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.shared.client.AT_ONCE", 100)
    monkeypatch.setattr("indexer.shared.client.LONGEST", 1000)
    opened: list[Listening] = []

    def opener(url: str, namespace: str, timeout: float) -> Any:
        opened.append(Listening(open_store(url, namespace, timeout)))
        return opened[-1]

    client = Client(Membership(any_url, "team"), opener=opener)
    lengths = [40, 40, 40, 0, 300, 1001, 1000, 60]
    entries = [entry(n, str(n) * length) for n, length in enumerate(lengths)]
    assert client.put(entries) == 7
    assert opened[0].given == [80, 40, 300, 1000, 60]
    found = client.get({one.key: 0 for one in entries})
    assert set(found.values()) == {one for one in entries if len(one.body) <= 1000}
    client.close()


# -- damaged and odd SQLite files


OF_OTHER_KINDS = [
    "UPDATE bodies SET body = CAST(body AS TEXT)",
    "UPDATE bodies SET body = 7",
    "UPDATE entries SET mac = 'none'",
    "UPDATE entries SET generation = 'first'",
    "UPDATE entries SET content = 'nothing'",
]


def test_rows_of_other_kinds_are_refused(
    tmp_path: Path, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", f"sqlite://{tmp_path}/team.db")
    first = Member({"a.txt": "a"})
    members.append(first)
    first.full_pass()
    for damage in OF_OTHER_KINDS:
        second, third = (Member({"a.txt": "a"}) for _ in "12")
        members += [second, third]
        with sqlite3.connect(tmp_path / "team.db") as connection:
            assert connection.execute(damage).rowcount > 0
        connection.close()
        made = second.full_pass()
        assert made["shared"]["refused"] == made["regenerated"] == 3, damage
        # What was computed instead has taken their place.
        assert third.full_pass()["regenerated"] == 0, damage
        assert second.bodies() == first.bodies() == third.bodies(), damage


def test_the_first_to_open_a_file_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "team.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waits: list[float] = []

    def ended(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            other.execute("COMMIT")

    monkeypatch.setattr("indexer.shared.sqlite.time.sleep", ended)
    store = SqliteStore(path, "team", 30.0)
    assert len(waits) == 3
    assert store.usage().entries == 0
    store.close()
    other.close()


def test_a_use_that_cannot_be_noted_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "team.db", "team", 1.0)
    row = Row(b"k" * 32, 0, hashlib.sha256(b"b").digest(), b"", b"b")
    store.put_many([row])
    connection = store._connection

    def interrupted(statement: str) -> None:
        if "used_at <" in statement:
            connection.interrupt()

    connection.set_trace_callback(interrupted)
    assert store.get_many([MemoKey(row.key)]) == [row]
    store.close()


# -- rights


@pytest.fixture
def guest(url: str) -> Iterator[str]:
    """A database user without any right, by its address."""
    name = f"merkle_guest_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'guest-word'")
    yield url.replace(url.partition("://")[2].partition("@")[0], f"{name}:guest-word", 1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {name}")
        connection.execute(f"DROP ROLE {name}")


def test_a_member_who_may_not_even_read_is_told_so(url: str, guest: str) -> None:
    open_store(url, "team", 5).close()
    client = Client(Membership(guest, "team"))
    with pytest.raises(SharedError, match="does not let this member read"):
        client.has([])
    assert client.is_resting


def test_a_store_without_tables_is_used_once_it_has_them(url: str, guest: str) -> None:
    now = [0.0]
    client = Client(Membership(guest, "team"), clock=lambda: now[0])
    with pytest.raises(SharedError, match="no tables yet"):
        client.lease([MemoKey(b"k" * 32)])
    # Not asked again at once: every chunk would open a connection in vain.
    assert client.is_resting
    open_store(url, "team", 5).close()
    with psycopg.connect(url, autocommit=True) as connection:
        name = guest.partition("://")[2].partition(":")[0]
        connection.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}"
        )
    now[0] = 10.0
    assert client.has([]) == {}
    assert client.problem is None
    assert client.lease([MemoKey(b"k" * 32)]) == {b"k" * 32}
    client.close()
