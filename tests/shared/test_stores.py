"""The two kinds of store behave alike, whatever is asked of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from indexer.core.frames import MemoKey
from indexer.shared.base import Row, SharedError, SharedStore, UnreachableError
from indexer.shared.client import Client, Membership
from indexer.shared.opening import open_store
from indexer.shared.postgres import PostgresStore
from indexer.shared.sqlite import SqliteStore

KEYS = [MemoKey(bytes([n]) * 32) for n in range(6)]
CONTENTS = [bytes([200 + n]) * 32 for n in range(3)]
HOLDERS = ["ann", "bob"]
rows = st.builds(
    Row,
    st.sampled_from(KEYS),
    st.integers(0, 3),
    st.sampled_from(CONTENTS),
    st.sampled_from([b"", b"m" * 32]),
    st.binary(max_size=3),
)
some_keys = st.lists(st.sampled_from(KEYS), max_size=6)
# Run out at once, or not in this life: no test waits for a clock.
spans = st.sampled_from([0.0, 1e6])


class Both(RuleBasedStateMachine):
    """The same calls to both; whatever one answers, the other answers."""

    stores: tuple[SharedStore, SharedStore]
    wipe: Any

    def __init__(self) -> None:
        super().__init__()
        type(self).wipe()

    def same(self, method: str, *arguments: Any, **options: Any) -> None:
        first, second = (getattr(store, method)(*arguments, **options) for store in self.stores)
        if isinstance(first, list):
            first, second = sorted(first), sorted(second)
        assert first == second

    @rule(given=st.lists(rows, max_size=6), mend=st.sets(st.sampled_from(KEYS)))
    def put(self, given: list[Row], mend: set[bytes]) -> None:
        self.same("put_many", given, mend=mend)

    @rule(given=st.lists(rows, max_size=6), mend=st.sets(st.sampled_from(KEYS)))
    def note(self, given: list[Row], mend: set[bytes]) -> None:
        self.same("put_many", given, mend=mend, notes=True)

    @rule(since=st.integers(0, 20), limit=st.integers(1, 9))
    def log(self, since: int, limit: int) -> None:
        first, second = (store.note_log(since, limit) for store in self.stores)
        # Tokens are drawn.
        assert [(m.number, key) for m, key in first] == [(m.number, key) for m, key in second]

    @rule(keys=some_keys)
    def enter(self, keys: list[MemoKey]) -> None:
        self.same("enter_notes", keys)

    @rule(keys=some_keys)
    def look(self, keys: list[MemoKey]) -> None:
        self.same("has_many", keys)
        self.same("get_many", keys)

    @rule(after=st.sampled_from([b"", *KEYS]), limit=st.integers(1, 4))
    def page(self, after: bytes, limit: int) -> None:
        self.same("page", after, limit)

    @rule(keys=some_keys, holder=st.sampled_from(HOLDERS), seconds=spans)
    def lease(self, keys: list[MemoKey], holder: str, seconds: float) -> None:
        self.same("lease", keys, holder, seconds)

    @rule(keys=some_keys, holder=st.sampled_from(HOLDERS))
    def renew(self, keys: list[MemoKey], holder: str) -> None:
        self.same("renew", keys, holder, 1e6)

    @rule(keys=some_keys, holder=st.sampled_from(HOLDERS))
    def release(self, keys: list[MemoKey], holder: str) -> None:
        self.same("release", keys, holder)

    @rule(unused=spans, dry_run=st.booleans())
    def sweep(self, unused: float, dry_run: bool) -> None:
        self.same("sweep", unused, dry_run=dry_run)

    @precondition(lambda self: True)
    @rule()
    def usage(self) -> None:
        self.same("usage")


@pytest.fixture
def both(url: str, tmp_path: Path) -> Iterator[type[Both]]:
    file = tmp_path / "team.db"
    pair = (PostgresStore(url, "team", 5), SqliteStore(file, "team", 5))
    # Another namespace in both that nothing may ever touch.
    strangers = (PostgresStore(url, "strangers", 5), SqliteStore(file, "strangers", 5))
    for store in strangers:
        store.put_many([Row(KEYS[0], 9, CONTENTS[0], b"", b"theirs")])
        store.lease(KEYS[1:2], "zoe", 1e6)

    def wipe() -> None:
        for store in pair:
            for holder in HOLDERS:
                store.release(KEYS, holder)
            store.sweep(0.0, dry_run=False)

    yield type("BothHere", (Both,), {"stores": pair, "wipe": staticmethod(wipe)})
    for store in strangers:
        assert store.get_many(KEYS) == [Row(KEYS[0], 9, CONTENTS[0], b"", b"theirs")]
        assert store.usage().leases == 1
    for store in (*pair, *strangers):
        store.close()


def test_both_answer_alike(both: type[Both]) -> None:
    run_state_machine_as_test(
        both, settings=settings(max_examples=25, stateful_step_count=20, deadline=None)
    )


@pytest.mark.soak
def test_both_answer_alike_for_long(both: type[Both]) -> None:
    run_state_machine_as_test(
        both, settings=settings(max_examples=200, stateful_step_count=40, deadline=None)
    )


# -- each of them


@pytest.fixture
def store(any_url: str) -> Iterator[SharedStore]:
    opened = open_store(any_url, "team", 5)
    yield opened
    opened.close()


def test_what_is_put_is_there_for_others(any_url: str, store: SharedStore) -> None:
    row = Row(KEYS[0], 0, CONTENTS[0], b"", b"\x00 bytes of any kind \xff")
    assert store.put_many([row, row]) == 1
    other = open_store(any_url, "team", 5)
    try:
        assert other.get_many(KEYS) == [row]
        assert other.has_many(KEYS) == {KEYS[0]: 0}
    finally:
        other.close()


def test_a_lease_goes_to_one_and_runs_out(store: SharedStore) -> None:
    assert store.lease(KEYS, "ann", 1e6) == set(KEYS)
    assert store.lease(KEYS, "bob", 1e6) == set()
    # Asking again is no offence.
    assert store.lease(KEYS[:2], "ann", 0.0) == set(KEYS[:2])
    assert store.lease(KEYS, "bob", 1e6) == set(KEYS[:2])
    assert store.renew(KEYS, "ann", 1e6) == len(KEYS) - 2
    store.release(KEYS, "ann")
    assert store.lease(KEYS, "bob", 1e6) == set(KEYS)


def test_only_the_leases_of_the_keys_that_are_named_are_renewed(store: SharedStore) -> None:
    assert store.lease(KEYS, "ann", 1e6) == set(KEYS)
    # For no time at all: it has run out at once, and no other has.
    assert store.renew(KEYS[:1], "ann", 0.0) == 1
    assert store.lease(KEYS, "bob", 1e6) == set(KEYS[:1])
    assert store.renew(KEYS, "ann", 1e6) == len(KEYS) - 1


def test_gc_spares_what_is_being_computed_and_what_is_in_use(store: SharedStore) -> None:
    store.put_many([Row(key, 0, CONTENTS[0], b"", b"body") for key in KEYS])
    store.lease(KEYS[:2], "ann", 1e6)
    assert store.sweep(1e6, dry_run=False) == (0, 0)
    would = store.sweep(0.0, dry_run=True)
    assert store.usage().entries == len(KEYS)
    assert store.sweep(0.0, dry_run=False) == would == (len(KEYS) - 2, 0)
    assert set(store.has_many(KEYS)) == set(KEYS[:2])
    assert store.usage().leases == 2
    store.release(KEYS, "ann")
    assert store.sweep(0.0, dry_run=True) == (2, 1)


def test_a_use_is_noted_once_a_day(url: str) -> None:
    store = PostgresStore(url, "team", 5)
    store.put_many([Row(key, 0, CONTENTS[0], b"", b"body") for key in KEYS[:3]])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE merkle_entries SET used_at = now() - interval '40 days'")
    store.get_many(KEYS[:1])
    month = 30 * 86400.0
    assert store.sweep(month, dry_run=False).entries == 2
    assert store.has_many(KEYS) == {KEYS[0]: 0}
    store.close()


def test_a_newer_schema_is_refused(any_url: str) -> None:
    open_store(any_url, "team", 5).close()
    if any_url.startswith("sqlite"):
        import sqlite3

        raw = sqlite3.connect(any_url.removeprefix("sqlite://"))
        raw.execute("PRAGMA user_version = 99")
        raw.close()
    else:
        with psycopg.connect(any_url, autocommit=True) as connection:
            connection.execute("INSERT INTO merkle_schema (version) VALUES (99)")
    with pytest.raises(SharedError, match="schema 99") as refused:
        open_store(any_url, "team", 5)
    assert refused.value.hint == "upgrade merkle"


def test_a_file_that_is_no_store_is_said_to_be_none() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "team.db").write_bytes(b"not a database, but long enough " * 200)
        with pytest.raises(SharedError, match="damaged"):
            open_store(f"sqlite://{folder}/team.db", "team", 1)
        with pytest.raises(UnreachableError):
            open_store(f"sqlite://{folder}/nowhere/team.db", "team", 1)


def test_leases_that_could_not_be_given_back_are_with_the_next_connection(tmp_path: Path) -> None:
    url, now = f"sqlite:///{tmp_path / 'team.db'}", [0.0]
    reachable = [True]

    class Flaky(SqliteStore):
        def release(self, keys: Sequence[MemoKey], holder: str) -> None:
            if not reachable[0]:
                raise UnreachableError("the connection is gone")
            super().release(keys, holder)

    def opener(url: str, namespace: str, timeout: float) -> SharedStore:
        if not reachable[0]:
            raise UnreachableError("nobody there")
        return Flaky(tmp_path / "team.db", namespace, timeout)

    client = Client(Membership(url, "team"), opener=opener, clock=lambda: now[0])
    other = SqliteStore(tmp_path / "team.db", "team", 5.0)
    try:
        assert client.lease(KEYS) == set(KEYS)
        reachable[0] = False
        client.release(KEYS[:2])
        # Nor is what comes while there is no connection forgotten.
        client.release(KEYS[2:3])
        assert other.lease(KEYS, "bob", 1e6) == set()
        reachable[0], now[0] = True, 1000.0
        client.has(KEYS)
        assert other.lease(KEYS, "bob", 1e6) == set(KEYS[:3])
    finally:
        client.close()
        other.close()
