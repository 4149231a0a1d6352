"""`init --adopt`: take over an index that was made elsewhere, as far as it can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from indexer.core.hashing import DEFAULT_HASH, WorkspaceHash, workspace_hash
from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import PackContentError, checked
from indexer.engine.durable.repair import quarantine_database
from indexer.engine.tree.scan import record_everything
from indexer.engine.workspace import Engine
from indexer.errors import NoWorkspaceError
from indexer.store import journal
from indexer.store.binding import refuse_tracked
from indexer.store.layout import (
    Format,
    Layout,
    record_format,
    recorded_format,
    refuse_other_hash,
)
from indexer.store.lock import OwnerLock

_FORMAT: Final = "format"


def adopt(root: Path, hash_name: str | None = None) -> JsonObject:
    """Check the journal record by record as a pack's, and make everything else anew.

    The database is not looked at: what it has beyond the journal can be computed again, or cannot
    be checked. It is put aside with the journal as it came. A crash leaves an index that is still
    not this folder's, and can be adopted again.
    """
    layout, recorded = Layout(root), _recorded(root, hash_name)
    refuse_tracked(layout.folder)
    with OwnerLock(layout.lock, "adopt") as lock:
        lock.acquire(wait=10.0)
        journal.finish_replacing(layout.journal)
        put_aside: list[Path] = []
        refused: list[str] = []
        if layout.journal.exists():
            kept, refused = _checked_records(layout.journal, workspace_hash(recorded.hash_name))
            head = {"kind": _FORMAT, "format": recorded.version, "hash": recorded.hash_name}
            put_aside.append(journal.replace(layout.journal, [head, *kept], layout.quarantine))
        put_aside += quarantine_database(layout)
        # The history that another folder had is not missed here.
        layout.noted.unlink(missing_ok=True)
        record_format(root, recorded)
    with Engine(root, role="adopt") as engine:
        taken = engine.records.redone
        scanned = record_everything(engine, "scan")
    return {
        "records": taken,
        "refused": refused,
        "quarantined": [str(path) for path in put_aside],
        "root": scanned["root"],
    }


def _recorded(root: Path, hash_name: str | None) -> Format:
    try:
        recorded = recorded_format(root)
    except NoWorkspaceError:
        # Its format is all that is missing.
        return Format(workspace_hash(hash_name or DEFAULT_HASH).name)
    refuse_other_hash(recorded, hash_name)
    return recorded


def _checked_records(folder: Path, algorithm: WorkspaceHash) -> tuple[list[JsonObject], list[str]]:
    """The records of a journal that hold by themselves, and what is left out and why."""
    # Imported late: most workspaces have no session.
    from indexer.engine.sessions.packs import without_unsound

    saved = journal.salvage(folder)
    kept, refused = [], list(saved.damaged)
    for number, record in saved.records:
        if record.get("kind") != _FORMAT:
            try:
                kept.append(checked(algorithm, record))
            except PackContentError as error:
                refused.append(f"journal record {number}: {error.message}")
    kept, unsound = without_unsound(kept)
    return kept, refused + [f"session {name!r} does not hold" for name in unsound]
