"""What a database still knows of things that only the journal should have to keep."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from indexer.core.hashing import WorkspaceHash, workspace_hash
from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import DUE, GROUP, KINDS, SESSION, holds, memo_record
from indexer.errors import MerkleError
from indexer.store.database import Database, put_meta
from indexer.store.frames import FrameStore
from indexer.store.layout import Layout, read_format
from indexer.store.sessions import SessionStore
from indexer.store.share_queue import ShareQueue
from indexer.store.trees import TreeStore

_UNKNOWN: Final = 1 << 62
"""Stands for the last applied record while a journal is written anew; no journal has so many."""


@contextlib.contextmanager
def _readable(layout: Layout) -> Iterator[Database | None]:
    """The database, or None where there is none that can be opened.

    Damage that is found while reading ends the reading: what was read before it counts.
    """
    database = None
    if layout.database.exists():
        with contextlib.suppress(MerkleError):
            database = Database(layout.database)
    try:
        with contextlib.suppress(MerkleError):
            yield database
    finally:
        if database is not None:
            database.close()


def missing_records(
    layout: Layout, algorithm: WorkspaceHash, kept: Iterable[tuple[int, Mapping[str, Any]]]
) -> list[JsonObject]:
    """What the database has of agents, notes, models and manifests, and the kept records lack.

    Nothing when the database cannot be read. Each record is taken only if its ids follow from it.
    Where a later record takes the place of an earlier one, the database has the later one if it
    has applied more of the journal than is left of it.
    """
    known: dict[str, dict[object, tuple[int, Mapping[str, Any]]]] = {}
    for number, record in kept:
        identity = KINDS[record["kind"]].identity if record["kind"] in KINDS else None
        if identity is not None:
            # One that is malformed is nobody's; it is put aside when it cannot be applied.
            with contextlib.suppress(LookupError, TypeError):
                known.setdefault(record["kind"], {})[identity(record)] = (number, record)
    found: list[JsonObject] = []
    kinds = iter([(name, kind, kind.identity) for name, kind in KINDS.items() if kind.identity])
    for first in kinds:
        # Damage ends the reading of one kind, and must not cost the others: both loops take from
        # the same iterator, so this one goes on behind that kind with the database opened again.
        with _readable(layout) as database:
            if database is None:
                break
            store = FrameStore(database, salvaging=True)
            applied = applied_number_in(store) or 0
            for name, kind, identify in itertools.chain([first], kinds):
                there = known.get(name, {})
                for record in kind.stored(store):
                    number, last = there.get(identify(record), (0, None))
                    is_newer = kind.replaces and number <= applied and record != last
                    if (last is None or is_newer) and holds(algorithm, record):
                        found.append(record)
    return found


def applied_number(layout: Layout) -> int | None:
    """The last journal record that the database has taken; None when nothing tells."""
    found = None
    with _readable(layout) as database:
        if database is not None:
            found = applied_number_in(FrameStore(database))
    return found


def applied_number_in(store: FrameStore) -> int | None:
    """The last journal record that a store has taken; None while the journal is written anew."""
    number = store.journal_number()
    return None if number == _UNKNOWN else number


def note_applied(layout: Layout, number: int | None) -> None:
    """Let the database know up to where it has what a journal that was written anew says."""
    known = _UNKNOWN if number is None else number
    with contextlib.closing(Database(layout.database)) as database, database.transaction() as rows:
        put_meta(rows, "journal", str(known))


def restore_history(root: Path, moved: Sequence[Path]) -> bool:
    """Give a new database the history that the one moved aside still has; False where it has none.

    All of it or nothing: what was recorded is a chain, and a root without its nodes is no root.
    """
    old = next((path for path in moved if path.name == Layout(root).database.name), None)
    if old is None:
        return False
    algorithm = workspace_hash(read_format(root).hash_name)
    try:
        with (
            contextlib.closing(Database(old)) as source,
            contextlib.closing(Database(Layout(root).database)) as target,
        ):
            return TreeStore(target, algorithm).take_history(TreeStore(source, algorithm))
    except MerkleError:
        return False


def due_results(layout: Layout, algorithm: WorkspaceHash) -> list[JsonObject]:
    """The results that the team is still to be given; none when the database cannot be read."""
    found: list[JsonObject] = []
    with _readable(layout) as database:
        if database is not None:
            for record in _due_records(FrameStore(database, salvaging=True), ShareQueue(database)):
                # One that is damaged must not cost those behind it.
                if holds(algorithm, record):
                    found.append(record)
    return found


def _due_records(store: FrameStore, queue: ShareQueue) -> Iterator[JsonObject]:
    """What the team is still to be given, as far as it is here."""
    keys, memo = list(queue.waiting()), store.memo()
    for start in range(0, len(keys), GROUP):
        group = [(key, *memo.get(key, (0, None))) for key in keys[start : start + GROUP]]
        bodies = store.bodies(content for _, _, content in group if content is not None)
        for key, generation, content in group:
            if content is not None and content in bodies:
                yield memo_record(key, generation, content, bodies[content]) | {DUE: True}


def with_due(records: Iterable[JsonObject], due: Iterable[JsonObject]) -> list[JsonObject]:
    """Records that say of themselves what is due, and behind them what none of them holds."""
    waiting = {(record["key"], record["generation"]): record for record in due}
    marked = []
    for record in records:
        if record["kind"] == "model":
            this = (record.get("key"), record.get("generation"))
            if waiting.pop(this, None) is not None:
                record = {**record, DUE: True}
        marked.append(record)
    return [*marked, *waiting.values()]


def whole_sessions(
    layout: Layout, kept: Sequence[JsonObject]
) -> tuple[list[JsonObject], list[JsonObject], list[str]]:
    """Kept records, those to add behind them, and what is gone, so that every session is whole."""
    # Imported late: most workspaces have no session.
    from indexer.engine.sessions import packs

    stored: list[packs.Kept] = []
    with _readable(layout) as database:
        if database is not None:
            with contextlib.suppress(ValueError):
                stored = list(packs.kept_sessions(SessionStore(database)))
    if not stored and not any(record["kind"] == SESSION for record in kept):
        return list(kept), [], []
    return packs.complete_sessions(kept, stored)
