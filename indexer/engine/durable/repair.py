"""`repair`: put aside what is damaged, rebuild from the files and the journal, say what is gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from indexer.core.hashing import WorkspaceHash, workspace_hash
from indexer.core.progress import Progress
from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import aside_record
from indexer.engine.durable.salvage import (
    applied_number,
    due_results,
    missing_records,
    note_applied,
    restore_history,
    whole_sessions,
    with_due,
)
from indexer.engine.durable.validate import validate
from indexer.engine.tree.lost import lost_text
from indexer.engine.tree.scan import record_everything
from indexer.engine.workspace import Engine
from indexer.errors import CorruptError, NoWorkspaceError
from indexer.store import journal
from indexer.store.layout import (
    DamagedFormatError,
    Format,
    Layout,
    NewerFormatError,
    noted_format,
    read_format,
    record_format,
)
from indexer.store.lock import OwnerLock
from indexer.store.own_folder import PRIVATE_FOLDER
from indexer.store.share_queue import ShareQueue


class RepairedDocument(TypedDict):
    """Result of `repair`."""

    repaired: bool
    done: list[str]
    gone: list[str]
    quarantined: list[str]
    records: int
    due: int
    root: str
    nodes: int


@dataclass(slots=True)
class _Told:
    """What a repair has to tell of itself."""

    done: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """What was acknowledged once and is nowhere any more."""
    quarantined: list[str] = field(default_factory=list)
    """The files that were put aside."""


def repair(root: Path, *, progress: Progress | None = None) -> RepairedDocument:
    """Check the journal and the database; rebuild what does not hold. Never deletes anything."""
    layout = Layout(root)
    told = _Told()
    form = _known_format(root)
    algorithm = workspace_hash(form.hash_name)
    lock = OwnerLock(layout.lock, "repair")
    lock.acquire(wait=10.0)
    try:
        _repair_format(root, form, told)
        _repair_journal(layout, algorithm, told)
    finally:
        lock.release()
    aside: dict[int, str] = {}
    records, problem = _database_problem(root, aside)
    if problem is not None:
        lock.acquire(wait=10.0)
        try:
            moved = quarantine_database(layout)
        finally:
            lock.release()
        told.quarantined += [str(path) for path in moved]
        told.done.append(f"the database was put aside: {problem}")
        told.gone.append("older deterministic frames")
        aside.clear()
        restored = restore_history(root, moved)
        told.done += ["the history of roots came from the database"] if restored else []
        with Engine(root, role="repair") as engine:
            engine.aside = aside
            records = engine.records.redone
            told.gone += [lost_text(lost.first, lost.last) for lost in engine.trees.lost()]
    if aside:
        lock.acquire(wait=10.0)
        try:
            _put_aside(layout, aside, told)
        finally:
            lock.release()
    with Engine(root, role="repair") as engine:
        due = ShareQueue(engine.database).count()
        scanned = record_everything(engine, "scan", progress=progress)
        if problem is not None:
            told.done.append(f"rebuilt from a scan and {records} journal records")
        if told.done and due:
            told.done.append(
                f"{due} results are due to the team; the next push gives those that it lacks"
            )
        return {
            "repaired": bool(told.done),
            "done": told.done,
            "gone": told.gone,
            "quarantined": told.quarantined,
            "records": records,
            "due": due,
            "root": scanned["root"],
            "nodes": scanned["nodes"],
        }


def _known_format(root: Path) -> Format:
    """What the index says of itself or, where that is damaged, what was noted of it."""
    try:
        return read_format(root)
    except (DamagedFormatError, NewerFormatError, NoWorkspaceError):
        noted = noted_format(root) if Layout(root).folder.exists() else None
        if noted is None:
            raise
        return noted


def _repair_format(root: Path, known: Format, told: _Told) -> None:
    """Let the index say again what it is, where it does not."""
    layout = Layout(root)
    try:
        read_format(root)
    except (DamagedFormatError, NewerFormatError, NoWorkspaceError) as error:
        if layout.format_file.exists():
            moved = free_place(layout, "format")
            moved.mkdir(mode=PRIVATE_FOLDER)
            os.rename(layout.format_file, moved / layout.format_file.name)
            told.quarantined.append(str(moved / layout.format_file.name))
        told.done.append(f"{layout.format_file.name} was written anew: {error.message}")
        record_format(root, known)


def _repair_journal(layout: Layout, algorithm: WorkspaceHash, told: _Told) -> None:
    """Write the journal anew when it is damaged, or lacks what the database still has."""
    problems: list[object] = ["it is missing"]
    saved = journal.Salvage([], [], [])
    if layout.journal.exists():
        problems = list(journal.check(layout.journal))
        saved = journal.salvage(layout.journal)
    all_kept = [record for _, record in saved.records]
    found = missing_records(layout, algorithm, saved.records)
    kept, sessions, lost = whole_sessions(layout, all_kept)
    found += sessions
    if not found and not problems:
        return
    if layout.journal.exists() and kept == all_kept and not lost:
        applied = applied_number(layout)
        if applied is not None:
            _renumber(layout, saved, found, applied, told)
            return
    # The database goes too, and with it the queue of what the team is still to be given.
    due = due_results(layout, algorithm)
    if not found and not due and not layout.journal.exists():
        return
    layout.journal.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    written = with_due((*kept, *found), due)
    _write_anew(layout, saved, written, len(found), told)
    told.gone += lost
    # The numbers moved, so what the database applied cannot be compared any more.
    if layout.database.exists():
        told.quarantined += [str(path) for path in quarantine_database(layout)]
        told.done.append("the database was put aside, to be rebuilt from the new journal")


def _renumber(
    layout: Layout, saved: journal.Salvage, found: list[JsonObject], applied: int, told: _Told
) -> None:
    """Write the journal anew under a database that stays: it has all but what comes last."""
    behind = [record for number, record in saved.records if number <= applied]
    ahead = [record for number, record in saved.records if number > applied]
    # After a crash in between the numbers fit neither journal: everything is rebuilt then.
    note_applied(layout, None)
    written = [*behind, *found, *ahead]
    _write_anew(layout, saved, written, len(found), told)
    note_applied(layout, len(behind) + len(found))


def _write_anew(
    layout: Layout, saved: journal.Salvage, records: list[JsonObject], found: int, told: _Told
) -> None:
    """Put a journal of these records in the place of the one there is, and say so."""
    told.quarantined.append(str(journal.replace(layout.journal, records, layout.quarantine)))
    reason = saved.damaged[0] if saved.damaged else "it ends before what the database has applied"
    told.done.append(f"the journal was put aside and written anew: {reason}")
    if found:
        told.done.append(f"{found} records that the journal lost came from the database")
    for numbers in saved.gone:
        told.gone.append(f"journal records {numbers.start} to {numbers.stop - 1}")


def _put_aside(layout: Layout, aside: Mapping[int, str], told: _Told) -> None:
    """Write the journal anew without the records that cannot be applied; the old one is kept.

    Each leaves a mark in its place, so that the numbers stay what the database knows.
    """
    records = [
        aside_record(record, aside[number]) if number in aside else record
        for number, record in journal.salvage(layout.journal).records
    ]
    told.quarantined.append(str(journal.replace(layout.journal, records, layout.quarantine)))
    told.done.append(f"{len(aside)} journal records that cannot be applied were put aside")
    told.gone += [f"journal record {number}: {reason}" for number, reason in sorted(aside.items())]


def _database_problem(root: Path, aside: dict[int, str]) -> tuple[int, str | None]:
    """How many records the database lacked, and why it cannot be kept; None when it holds."""
    try:
        with Engine(root, role="repair") as engine:
            engine.aside = aside
            redone = engine.records.redone
            found = validate(engine)
    except CorruptError as error:
        return 0, error.message
    if found["errors"]:
        first = found["errors"][0]
        return redone, f"{len(found['errors'])} findings, first: {first['message']}"
    return redone, None


def quarantine_database(layout: Layout) -> list[Path]:
    """Move the database file and its WAL, as far as they exist, into a folder of the quarantine."""
    # The WAL first: a crash in between must not leave it beside a database that is not its own.
    sources = [each for each in (layout.wal, layout.database) if each.exists()]
    if not sources:
        return []
    target = free_place(layout, "database")
    target.mkdir(mode=PRIVATE_FOLDER)
    for source in sources:
        shutil.move(os.fspath(source), target / source.name)
    return [target / source.name for source in sources]


def free_place(layout: Layout, name: str) -> Path:
    """A name in the quarantine that nothing has yet."""
    layout.quarantine.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    number = 1
    while (target := layout.quarantine / f"{name}-{number}").exists():
        number += 1
    return target
