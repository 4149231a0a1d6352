"""Sessions in packs, and in what is left of a damaged journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from indexer.engine.documents import JsonObject
from indexer.engine.durable.records import SESSION
from indexer.engine.sessions.write import check_name
from indexer.errors import MerkleError
from indexer.sessions import Session
from indexer.sessions.keeping import FORK, NAMING, PURGE, RESTORE, Named, identity
from indexer.sessions.log import checked_content
from indexer.store.sessions import SessionStore, journalled

_PIECE: Final = 4 << 20
"""Characters of one piece of a log: a long session takes several records of a journal or pack."""

Log = list[JsonObject]


class Kept(NamedTuple):
    """A session that a database has: what it was called first, what it is called now, its log."""

    first_name: str
    named: Named
    log: Log


def pieces(name: str, records: Sequence[Mapping[str, Any]]) -> Iterator[JsonObject]:
    """A log, or the rest of one, as journal records of bounded size.

    `name` is what the session is called before the first of them. A piece that begins a session
    has all its names, so that none of those it has given up is ever in the way of another one.
    """
    named = Named(name)
    whole = max((r["seq"] for r in records if r.get("op") in NAMING), default=0)
    piece: list[Mapping[str, Any]] = []
    size = 0
    for record in records:
        length = len(json.dumps(record))
        begins = bool(piece) and piece[0]["seq"] == 0
        if piece and size + length > _PIECE and not (begins and record["seq"] <= whole):
            yield {"kind": SESSION, "name": named.name, "records": piece}
            named = named.after_all(piece)
            piece, size = [], 0
        piece.append(record)
        size += length
    if piece:
        yield {"kind": SESSION, "name": named.name, "records": piece}


def kept_sessions(store: SessionStore, *, check: bool = False) -> Iterator[Kept]:
    """Every session that a database has, deleted ones too."""
    for sid, name, _, deleted_ns in store.names():
        log = [dict(record) for record in journalled(store.record_texts(sid))]
        for record in log if check else ():
            if "content" in record:
                checked_content(record["content"], record["content_hash"])
        yield Kept(store.first_name(sid), Named(name, deleted_ns), log)


def session_records(store: SessionStore) -> Iterator[JsonObject]:
    """Every session as a pack has it, whole: a branch with what it shares."""
    for kept in kept_sessions(store, check=True):
        yield from pieces(kept.first_name, kept.log)


def check_shape(record: Mapping[str, Any]) -> None:
    """Refuse what cannot be a piece of a session's log."""
    check_name(record["name"])
    records = record["records"]
    if not isinstance(records, list) or not records:
        raise ValueError("a session's records are a list")
    if not all(isinstance(item, dict) and type(item.get("seq")) is int for item in records):
        raise ValueError("a session's records are numbered objects")
    for item in records:
        if item.get("op") in NAMING:
            for key in {"from", "to"} & item.keys():
                check_name(item[key])
            if type(item["at_ns"]) is not int:
                raise ValueError("a session was named at no time")
    if "of" in record:
        check_name(record["of"])
        if type(record["shared"]) is not int or record["shared"] != records[0]["seq"]:
            raise ValueError("a branch begins where what it shares ends")


@dataclass(slots=True)
class Told:
    """What records of a journal or a pack say of one session."""

    first_name: str
    named: Named
    records: dict[int, JsonObject] = field(default_factory=dict)
    items: list[int] = field(default_factory=list)
    """Which of the records these were."""
    parent: Told | None = None
    shared: int = 0

    @property
    def log(self) -> Log:
        """The log from its beginning, as far as there is no gap."""
        found: Log = [] if self.parent is None else self.parent.log[: self.shared]
        while len(found) in self.records:
            found.append(self.records[len(found)])
        return found

    @property
    def last(self) -> int:
        """The number of the last record."""
        return max(self.records, default=-1)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is missing."""
        return len(self.log) == self.last + 1

    @property
    def is_purged(self) -> bool:
        """Whether it is gone for good."""
        return self.records[self.last].get("op") == PURGE if self.records else False


def told_sessions(records: Iterable[Mapping[str, Any]]) -> list[Told]:
    """Which records are of one session, whatever it was called meanwhile."""
    found: list[Told] = []
    live: dict[str, Told] = {}
    for number, item in enumerate(records):
        if item["kind"] != SESSION or not _has_shape(item):
            continue
        name, log = item["name"], item["records"]
        told = None
        if "of" not in item and log[0]["seq"] != 0:
            told = _going_on(found, live, name, log[0])
        if told is None:
            told = Told(name, Named(name))
            if "of" in item:
                told.parent, told.shared = live.get(item["of"]), item["shared"]
            found.append(told)
        elif live.get(told.named.name) is told:
            del live[told.named.name]
        told.records.update((record["seq"], record) for record in log)
        told.items.append(number)
        told.named = told.named.after_all(log)
        if told.named.deleted_ns is None:
            live[told.named.name] = told
    return found


def _has_shape(item: Mapping[str, Any]) -> bool:
    # What has none is put aside by whoever tries to apply it.
    try:
        check_shape(item)
    except (MerkleError, AttributeError, KeyError, TypeError, ValueError):
        return False
    return True


def _going_on(
    found: Sequence[Told], live: Mapping[str, Told], name: str, first: JsonObject
) -> Told | None:
    """The session whose log a record goes on with; of what is lost there is none."""
    if first.get("op") not in (RESTORE, PURGE):
        return live.get(name)
    gone = [t for t in found if t.named.deleted_ns is not None and t.named.name == name]
    fits = [t for t in gone if t.last + 1 == first["seq"]] or gone
    return max(fits, key=lambda told: told.named.deleted_ns or 0, default=None)


def plan_sessions(
    store: SessionStore, packed: Iterable[Mapping[str, Any]]
) -> tuple[list[JsonObject], list[str]]:
    """What of a pack's sessions is new here, and the names of those that went another way.

    A session that is here already, or here and further on, adds nothing; one that is here and
    not as far is brought as far as the pack has it, its name and whether it is deleted included.
    """
    here = list(kept_sessions(store))
    taken = {kept.named.name for kept in here if kept.named.deleted_ns is None}
    fresh: list[JsonObject] = []
    diverged: list[str] = []
    for told in told_sessions(packed):
        log = told.log
        if not told.is_whole:
            raise ValueError(f"records of session {told.named.name!r} are missing")
        Session.replay(log)
        mine = _nearest([k for k in here if identity(k.log) == identity(log)], log)
        known = mine.log if mine is not None else []
        begun = Named(told.first_name) if mine is None else mine.named
        shared = min(len(known), len(log))
        after = begun.after_all(log[shared:])
        others = taken - ({mine.named.name} if mine is not None else set())
        # What is there already needs no name.
        is_new = len(log) > shared
        in_the_way = is_new and after.deleted_ns is None and after.name in others
        if known[:shared] != log[:shared] or in_the_way:
            diverged.append(told.named.name)
        elif is_new and not after.purged:
            fresh += pieces(begun.name, log[shared:])
            taken = others | ({after.name} if after.deleted_ns is None else set())
    return fresh, diverged


def without_unsound(records: Sequence[JsonObject]) -> tuple[list[JsonObject], list[str]]:
    """The records without those of sessions that do not hold, and the names of these."""
    unsound = [t for t in told_sessions(records) if not t.is_whole or not _holds(t.log)]
    gone = {number for told in unsound for number in told.items}
    kept = [record for number, record in enumerate(records) if number not in gone]
    return kept, [told.named.name for told in unsound]


def complete_sessions(
    kept: Sequence[JsonObject], stored: Sequence[Kept]
) -> tuple[list[JsonObject], list[JsonObject], list[str]]:
    """Make the sessions of a salvaged journal whole again with what a database still has.

    Gives back the records to keep where they are, those to add behind them, and what is gone.
    """
    added: list[JsonObject] = []
    gone: list[str] = []
    dropped: set[int] = set()
    rebuilt: list[Told] = []
    waiting = list(stored)
    for told in told_sessions(kept):
        mine = _nearest([k for k in waiting if _is_same(told, k)], told.log)
        if mine is not None:
            waiting.remove(mine)
        elif told.is_purged and not told.is_whole:
            dropped.update(told.items)
            continue
        log = _longest(told, mine.log if mine is not None else [])
        if len(log) <= told.last:
            gone.append(f"session {told.named.name!r} from its record {len(log)} on")
        if told.is_whole and len(log) > told.last and told.parent not in rebuilt:
            added += pieces(told.named.name, log[told.last + 1 :])
        else:
            # Records that have no place any more must not stay where they are.
            rebuilt.append(told)
            dropped.update(told.items)
            added += pieces(mine.first_name if mine is not None else told.first_name, log)
    for one in waiting:
        added += pieces(one.first_name, one.log)
    return [r for number, r in enumerate(kept) if number not in dropped], added, gone


def _nearest(candidates: Sequence[Kept], log: Log) -> Kept | None:
    """The session that has most in common with a log; clocks can give two one beginning."""

    def shared(kept: Kept) -> int:
        pairs = zip(kept.log, log, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), len(log))

    return max(candidates, key=shared, default=None)


def _is_same(told: Told, kept: Kept) -> bool:
    """Whether a journal and a database speak of one session."""
    mark, first = identity(kept.log), min(told.records)
    begun = [r for _, r in sorted(told.records.items()) if r["seq"] == 0 or r.get("op") == FORK]
    if begun:
        return mark == begun[-1]
    # Its beginning is lost; what it does not share with others tells.
    return mark["seq"] < first < len(kept.log) and kept.log[first] == told.records[first]


def _longest(told: Told, stored: Log) -> Log:
    """The longest log without a gap that holds, from the journal's records and the database's."""
    mine = dict(enumerate(told.log)) | told.records
    both = {record["seq"]: record for record in stored} | mine
    for source in (both, mine):
        log: Log = []
        while len(log) in source:
            log.append(source[len(log)])
        if source is mine or _holds(log):
            return log
    return []


def _holds(log: Log) -> bool:
    try:
        Session.replay(log)
    except (MerkleError, KeyError, TypeError, ValueError):
        return False
    return True
