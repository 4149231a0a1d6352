"""The log of a team's notes: in the order of commits, found at the cost of what is new."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indexer.core.frames import MemoKey, body_hash
from indexer.shared.base import BEGINNING, Entry, Mark, SharedStore
from indexer.shared.client import Client, Membership
from indexer.shared.opening import open_store
from indexer.shared.postgres import PostgresStore
from indexer.shared.schema import NAMED
from indexer.shared.seal import Seal
from indexer.shared.sqlite import SqliteStore

Joins = Callable[[], Client]


@pytest.fixture
def joins(any_url: str) -> Iterator[Joins]:
    made: list[Client] = []

    def join() -> Client:
        made.append(Client(Membership(any_url, "team", team_key="key")))
        return made[-1]

    yield join
    for one in made:
        one.close()


def entry(name: str, *, note: bool = True, generation: int = 0) -> Entry:
    body = f'{{"agent":"{name}"' if note else f"outline of {name}"
    return Entry(MemoKey(body_hash(f"key of {name}")), generation, body_hash(body), body)


def named(entries: list[Entry]) -> list[str]:
    return [one.body.rpartition(":")[2].strip('"') for one in entries]


def test_what_is_new_comes_once_and_in_order(joins: Joins) -> None:
    giver, taker = joins(), joins()
    assert taker.news(BEGINNING, 10) == ([], BEGINNING, False, False)
    for name in "abc":
        assert giver.put([entry(name)], notes=True) == 1
    giver.put([entry("x", note=False)])
    first = taker.news(BEGINNING, 2)
    assert (named(first.entries), first.more, first.anew) == (["a", "b"], True, False)
    then = taker.news(first.mark, 2)
    assert (named(then.entries), then.more) == (["c"], False)
    assert taker.news(then.mark, 2) == ([], then.mark, False, False)
    # Given again it is no news; as a later generation of itself it is.
    giver.put([entry("a")], notes=True)
    assert taker.news(then.mark, 2).entries == []
    giver.put([entry("a", generation=1)._replace(content=body_hash("{"), body="{")], notes=True)
    assert [one.generation for one in taker.news(then.mark, 2).entries] == [1]


def test_a_store_of_an_older_release_goes_on_being_used_by_it(joins: Joins, any_url: str) -> None:
    older, newer = joins(), joins()
    # What a release does that knows no log: the same entry, and nothing else.
    older.put([entry("a"), entry("x", note=False)])
    before = newer.news(BEGINNING, 9)
    assert named(before.entries) == ["a"]
    older.put([entry("b")])
    assert newer.news(before.mark, 9).entries == []
    newer.enter_notes([entry("a").key, entry("b").key])
    assert named(newer.news(before.mark, 9).entries) == ["b"]
    if any_url.startswith("sqlite"):
        with sqlite3.connect(any_url.partition("://")[2]) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute("INSERT INTO entries VALUES ('n', x'00', 0, x'00', x'00', 0.0)")
    else:
        with psycopg.connect(any_url) as connection:
            ((version,),) = connection.execute("SELECT max(version) FROM merkle_schema").fetchall()
    assert version == (1 if any_url.startswith("sqlite") else 2)


def test_a_store_that_was_replaced_is_read_from_its_beginning(joins: Joins, any_url: str) -> None:
    giver, taker = joins(), joins()
    giver.put([entry("a"), entry("b")], notes=True)
    mark = taker.news(BEGINNING, 9).mark
    if any_url.startswith("sqlite"):
        for end in ("", "-wal", "-shm"):
            Path(any_url.partition("://")[2] + end).unlink(missing_ok=True)
    else:
        with psycopg.connect(any_url) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        giver.close()
        taker.close()
    empty = taker.news(mark, 9)
    assert (empty.entries, empty.mark, empty.anew) == ([], BEGINNING, True)
    # As many as before, so that the numbers alone would tell nothing.
    giver.put([entry("c")], notes=True)
    giver.put([entry("b")], notes=True)
    news = taker.news(mark, 9)
    assert (named(news.entries), news.anew) == (["c", "b"], True)


def test_an_older_copy_of_a_store_is_noticed(joins: Joins, any_url: str) -> None:
    giver, taker = joins(), joins()
    for name in "abc":
        giver.put([entry(name)], notes=True)
    mark = taker.news(BEGINNING, 9).mark
    table = "notes" if any_url.startswith("sqlite") else "merkle_notes"
    numbers = "note_numbers" if any_url.startswith("sqlite") else "merkle_note_numbers"
    back = (f"DELETE FROM {table} WHERE number > 1", f"UPDATE {numbers} SET newest = 1")
    if any_url.startswith("sqlite"):
        with sqlite3.connect(any_url.partition("://")[2]) as file:
            for statement in back:
                file.execute(statement)
        file.close()
    else:
        with psycopg.connect(any_url) as connection:
            for statement in back:
                connection.execute(statement)
    for name in "dc":
        giver.put([entry(name)], notes=True)
    news = taker.news(mark, 9)
    assert (named(news.entries), news.anew) == (["a", "d", "c"], True)


def test_what_was_mended_is_news_again(joins: Joins, any_url: str) -> None:
    giver, taker = joins(), joins()
    stranger = Client(Membership(any_url, "team", team_key="another key"))
    stranger.put([entry("a")], notes=True)
    stranger.close()
    news = taker.news(BEGINNING, 9)
    assert (news.entries, dict(taker.refused)) == ([], {"seal": 1})
    assert giver.news(BEGINNING, 9).entries == []
    lacking = giver.lacking([entry("a")])
    assert giver.put(lacking, notes=True) == 1
    assert named(taker.news(news.mark, 9).entries) == ["a"]


def test_sweeping_lets_the_log_go_and_nobody_begin_anew(joins: Joins) -> None:
    giver, taker = joins(), joins()
    giver.put([entry("a"), entry("b")], notes=True)
    mark = taker.news(BEGINNING, 9).mark
    giver.sweep(0, dry_run=False)
    assert taker.news(mark, 9) == ([], mark, False, False)
    assert taker.news(BEGINNING, 9) == ([], mark, False, False)
    giver.put([entry("a"), entry("b")], notes=True)
    assert sorted(named(taker.news(mark, 9).entries)) == ["a", "b"]


def test_a_number_is_seen_only_with_all_before_it(url: str) -> None:
    """Two connections: the one that was numbered first commits last."""
    slow, quick = PostgresStore(url, "team", 5), PostgresStore(url, "team", 5)
    taker = Client(Membership(url, "team", team_key="key"))
    mark = taker.news(BEGINNING, 9).mark
    seal = Seal("team", "key")
    done = threading.Event()

    def give() -> None:
        quick.put_many([seal.row(entry("quick"))], notes=True)
        done.set()

    with slow._connection.transaction():
        row = seal.row(entry("slow"))
        slow._put([row], mend=False)
        slow._enter(NAMED, [row.key])
        thread = threading.Thread(target=give)
        thread.start()
        assert not done.wait(0.3)
        news = taker.news(mark, 9)
        assert news.entries == []
    thread.join(10)
    assert done.is_set()
    assert named(taker.news(news.mark, 9).entries) == ["slow", "quick"]
    for store in (slow, quick):
        store.close()
    taker.close()


def test_whoever_follows_misses_none_of_many_givers(any_url: str, joins: Joins) -> None:
    taker, wanted = joins(), {f"{giver}-{n}" for giver in range(4) for n in range(15)}

    def give(giver: int) -> None:
        client = Client(Membership(any_url, "team", timeout=30, team_key="key"))
        for n in range(15):
            client.put([entry(f"{giver}-{n}")], notes=True)
        client.close()

    threads = [threading.Thread(target=give, args=[giver]) for giver in range(4)]
    for thread in threads:
        thread.start()
    mark, seen, deadline = BEGINNING, list[str](), time.monotonic() + 60
    while len(seen) < len(wanted) and time.monotonic() < deadline:
        news = taker.news(mark, 7)
        assert not news.anew
        seen += named(news.entries)
        mark = news.mark
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(wanted)


def test_a_look_costs_what_is_new(any_url: str, joins: Joins) -> None:
    """Rows that a server read, or steps that a file took: as many with four times the results."""
    giver = joins()
    store = open_store(any_url, "team", 5)
    taker = Client(Membership(any_url, "team", team_key="key"), opener=lambda *_: store)
    costs = []
    for size in (3000, 9000):
        giver.put([entry(f"{size} {n}", note=False) for n in range(size)])
        giver.put([entry(f"note {size} {n}") for n in range(size // 10)], notes=True)
        mark = BEGINNING
        while (news := taker.news(mark, 1000)).mark != mark:
            mark = news.mark
        idle = cost(store, lambda: taker.news(mark, 100), any_url)  # noqa: B023  # run at once
        giver.put([entry(f"last of {size}")], notes=True)
        one = cost(store, lambda: taker.news(mark, 100), any_url)  # noqa: B023  # run at once
        costs.append((idle, one))
    assert costs[0] == costs[1]
    taker.close()


def cost(store: SharedStore, work: Callable[[], Any], url: str) -> int:
    if isinstance(store, SqliteStore):
        steps = [0]

        def step() -> int:
            steps[0] += 1
            return 0

        store._connection.set_progress_handler(step, 1)
        work()
        store._connection.set_progress_handler(None, 1)
        return steps[0]
    assert isinstance(store, PostgresStore)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("ANALYZE")
        before = rows_read(store, other)
        work()
        return rows_read(store, other) - before


def rows_read(store: PostgresStore, other: psycopg.Connection[Any]) -> int:
    store._connection.execute("SELECT pg_stat_force_next_flush()")
    store._connection.execute("SELECT 1")
    question = (
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables"
    )
    return int(other.execute(question).fetchall()[0][0])


def test_waiting_ends_when_another_gives_or_a_descriptor_tells(any_url: str, joins: Joins) -> None:
    giver, taker = joins(), joins()
    reads, writes = os.pipe()
    taker.news(BEGINNING, 9)
    if any_url.startswith("postgresql"):
        # It begins to listen, and lets itself be looked at once more.
        taker.wait_for_notes(60, reads)
        giver.put([entry("x", note=False)])
        giver.put([entry("a")], notes=True)
        began = time.monotonic()
        taker.wait_for_notes(60, reads)
        # What it gave itself is no reason to look.
        taker.put([entry("b")], notes=True)
        taker.wait_for_notes(0.1, reads)
        assert time.monotonic() - began < 30
    os.write(writes, b"x")
    began = time.monotonic()
    taker.wait_for_notes(60, reads)
    assert time.monotonic() - began < 30
    os.close(reads)
    os.close(writes)


def test_whoever_may_only_read_follows_too(url: str) -> None:
    giver = Client(Membership(url, "team", team_key="key"))
    giver.put([entry("a")])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS note_reader")
        connection.execute("CREATE ROLE note_reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO note_reader")
        connection.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO note_reader")
    reader = Client(Membership(url.replace("merkle@", "note_reader@"), "team", team_key="key"))
    # It cannot make the log, and there is none yet.
    assert reader.news(BEGINNING, 9) == ([], BEGINNING, False, False)
    reader.enter_notes([entry("a").key])
    giver.put([entry("b")], notes=True)
    assert sorted(named(reader.news(BEGINNING, 9).entries)) == ["a", "b"]
    reader.close()
    giver.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY note_reader; DROP ROLE note_reader")


def test_a_store_too_large_to_look_through_begins_its_log_all_the_same(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(Membership(url, "team", team_key="key"))
    client.put([entry("a")])
    monkeypatch.setattr(
        "indexer.shared.postgres.BEGINS_AS_NOTE",
        "(SELECT true FROM pg_sleep(9)) AND %b <> ''::bytea",
    )
    store: Any = client._store
    store._connection.execute("SET statement_timeout = 200")
    assert client.news(BEGINNING, 9).entries == []
    client.enter_notes([entry("a").key])
    assert named(client.news(BEGINNING, 9).entries) == ["a"]
    client.close()


def test_a_mark_is_a_place_and_the_draw_that_made_it() -> None:
    assert Mark(0, b"") == BEGINNING
    assert Mark(3, b"a") != Mark(3, b"b")
