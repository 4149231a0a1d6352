"""How a session is kept, as records of its own log: branched off, merged, named, put away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from indexer.errors import UsageError
from indexer.sessions.node import text
from indexer.sessions.records import CommitRecord, LogCorruptError, OpRecord, Record
from indexer.sessions.state import State
from indexer.sessions.view import blocks

FORK: Final = "fork"
MERGE: Final = "merge"
RENAME: Final = "rename"
DELETE: Final = "delete"
RESTORE: Final = "restore"
PURGE: Final = "purge"
NAMING: Final = frozenset((RENAME, DELETE, RESTORE, PURGE))
"""Operations that say what a session is called, and whether it is there."""


class DeletedError(UsageError):
    """A deleted session takes nothing but its return."""

    code = "E_SESSION_DELETED"


class Named(NamedTuple):
    """What a session is called, and whether it is there."""

    name: str
    deleted_ns: int | None = None
    purged: bool = False

    def after(self, record: Record | Mapping[str, Any]) -> Named:
        """The name after a record.

        A log that was taken in under another name has renamings of a name it never had here;
        those are history.
        """
        data = _as_json(record)
        op = data.get("op") if data.get("kind") == "op" else None
        if op == RENAME and data["from"] == self.name:
            return self._replace(name=data["to"])
        if op == RESTORE:
            name = data["to"] if data["from"] == self.name else self.name
            return Named(name)
        if op == DELETE:
            return self._replace(deleted_ns=data["at_ns"])
        if op == PURGE:
            return self._replace(purged=True)
        return self

    def after_all(self, records: Iterable[Record | Mapping[str, Any]]) -> Named:
        """The name after some records."""
        named = self
        for record in records:
            named = named.after(record)
        return named


def _as_json(record: Record | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(record, CommitRecord):
        return {}
    return record.to_json() if isinstance(record, OpRecord) else record


def plan_naming(state: State, op: str, data: Mapping[str, Any], at_ns: int) -> OpRecord:
    """The record that renames a session, deletes it or brings it back."""
    check_naming(state, op, data)
    return OpRecord(state.next_seq, at_ns, op, dict(data))


def check_naming(state: State, op: str, data: Mapping[str, Any]) -> None:
    """Refuse a change of name or presence that the state does not allow."""
    if state.deleted != (op in (RESTORE, PURGE)):
        raise DeletedError("the session is deleted" if state.deleted else "it is not deleted")
    for key in ("from", "to") if op in (RENAME, RESTORE) else ():
        text(key, data[key])


def plan_fork(state: State, of: str, name: str, at_ns: int) -> OpRecord:
    """The record with which a branch leaves the log that it shares."""
    data = {"of": text("of", of), "name": text("name", name), "cycle": state.last_cycle}
    return OpRecord(state.next_seq, at_ns, FORK, data)


def identity(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The record that tells a session from all others: how it began, or left another one."""
    return next((r for r in reversed(records) if r.get("op") == FORK), records[0])


def shared_length(state: State, cycle: int | None) -> int:
    """How many records lead to the snapshot of a cycle; None stands for the work in progress."""
    if cycle is None:
        return len(state.records)
    state.at(cycle)
    if cycle > state.base_cycle:
        return state.seal_seq(cycle) + 1
    # The tree a session began with, and after it a commit for every block of it.
    return min(1 + sum(1 for _ in blocks(state.at(cycle))), len(state.records))


def verify_kept(state: State, record: OpRecord) -> None:
    """Refuse a record about the keeping of a session that does not hold."""
    data = record.data
    if record.op in NAMING:
        check_naming(state, record.op, data)
    elif record.op == FORK:
        if plan_fork(state, data["of"], data["name"], record.at_ns).data != data:
            raise LogCorruptError(record.seq, "this branch does not leave where it says")
    elif not 0 <= data["shared"] <= data["through"] or data["first"] > record.seq:
        raise LogCorruptError(record.seq, "this merge does not hold")
