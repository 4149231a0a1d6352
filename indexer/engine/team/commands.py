"""`shared status`, `push`, `pull` and `gc`: what a person asks of the team's store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import AMOUNT, Shape
from indexer.core.clock import iso_utc
from indexer.core.frames import MemoKey
from indexer.core.progress import Progress, begin
from indexer.core.tree import Tree
from indexer.engine.frames.freshness import fresh_in
from indexer.engine.frames.recipe import memo_key
from indexer.engine.settings import TRUST, load_settings
from indexer.engine.team.exchange import PUSH, Exchange, membership
from indexer.engine.team.notes import (
    SETTING,
    Given,
    Taken,
    as_note,
    due_notes,
    note_exchange,
    shares_notes,
    store_name,
)
from indexer.errors import UsageError
from indexer.shared.base import COARSE_SECONDS, Entry, ReadOnlyError, SharedError
from indexer.shared.client import Client
from indexer.shared.masking import masked
from indexer.shared.seal import TEAM_KEY
from indexer.store.frames import FrameBatch
from indexer.store.share_queue import ShareQueue

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache
    from indexer.engine.frames.opened import Frames
    from indexer.engine.frames.types import DeclaredTypes
    from indexer.engine.workspace import Engine

WITHOUT_KEY: Final = (
    f"no team key is set ({TEAM_KEY}): only accidents are detected, not rows that somebody"
    " changed on purpose"
)
WITH_KEY: Final = "rows without a valid seal of the team key are refused"


class NoTeamError(UsageError):
    """This workspace shares nothing."""

    code = "no_team"


class SharedStatusDocument(TypedDict):
    """Result of `shared status`; null where there is no team, or it cannot be reached."""

    configured: bool
    url: str | None
    namespace: str
    read_only: bool
    team_key: bool
    detects: str | None
    reachable: bool | None
    problem: str | None
    entries: int | None
    bodies: int | None
    bytes: int | None
    leases: int | None
    pending: int
    refused: int
    notes_due: int | None
    """Notes that the team has yet to be given; null where notes are not shared."""
    notes_exchanged_at: str | None
    """When notes last went or came; null where they never did."""


def shared_status(engine: Engine) -> SharedStatusDocument:
    """Whether the team's store can be reached, and what it holds.

    And what it still has to get.
    """
    settings = load_settings(engine.root)
    # The journal may know of answers that are due and that the database has yet to learn of.
    _ = engine.records
    member, queue = membership(settings), ShareQueue(engine.database)
    document: SharedStatusDocument = {
        "configured": member is not None,
        "url": None,
        "namespace": str(settings.values["shared.namespace"]),
        "read_only": bool(settings.values["shared.read_only"]),
        "team_key": bool(member and member.team_key),
        "detects": None,
        "reachable": None,
        "problem": None,
        "entries": None,
        "bodies": None,
        "bytes": None,
        "leases": None,
        "pending": queue.count(),
        "refused": queue.refused(),
        "notes_due": None,
        "notes_exchanged_at": None,
    }
    if member is None:
        return document
    if settings.values[SETTING] and member.team_key:
        standing, store = queue.notes_standing(store_name(member)), engine.frames.store
        document["notes_due"] = 0 if member.read_only else len(due_notes(store, standing.given)[0])
        document["notes_exchanged_at"] = iso_utc(standing.at_ns) if standing.at_ns else None
    document |= {"url": masked(member.url), "detects": WITH_KEY if member.team_key else WITHOUT_KEY}
    # A connection of its own: the writer's may be in use on another thread.
    with contextlib.closing(Client(member)) as client:
        try:
            usage = client.usage()
        except SharedError as error:
            return {**document, "reachable": False, "problem": error.message}
    return {
        **document,
        "reachable": True,
        "entries": usage.entries,
        "bodies": usage.bodies,
        "bytes": usage.bytes,
        "leases": usage.leases,
    }


class PushedDocument(TypedDict):
    """Result of `shared push`."""

    pushed: int
    offered: int
    pending: int
    notes: int
    """Notes that the team did not have."""
    withheld: int
    """Notes that were not sent because they look like they hold a secret."""


def shared_push(engine: Engine, *, progress: Progress | None = None) -> PushedDocument:
    """Give the team what it lacks.

    That is all that is due, and the results behind the present frames; with `notes` under
    [shared] also the notes, signed.
    """
    exchange = _exchange(engine.frames.declared, lambda: engine.exchange)
    client = exchange.client
    if not client.may_write:
        raise ReadOnlyError(
            "this member only reads the team's store",
            hint="take `read_only` out of [shared] to share what is computed here",
        )
    with_notes = shares_notes(engine.frames.declared.settings, client.member)
    before = exchange.tally.pushed
    exchange.catch_up()
    _raise_problem(client)
    keys = list(_present_keys(engine.frames, engine.tree))
    begin(progress, "giving to the team", "results", len(keys))
    for at in range(0, len(keys), PUSH):
        group = keys[at : at + PUSH]
        entries = client.lacking(exchange.entries(group))
        if entries:
            exchange.tally.pushed += client.put(entries)
        if progress is not None:
            progress(len(group))
    begin(progress, "giving notes to the team")
    given = note_exchange(engine, client).give(everything=True) if with_notes else Given(0, 0)
    return {
        "pushed": exchange.tally.pushed - before,
        "offered": len(keys),
        "pending": ShareQueue(engine.database).count(),
        "notes": given.sent,
        "withheld": given.withheld,
    }


class PulledDocument(TypedDict):
    """Result of `shared pull`."""

    pulled: int
    known: int
    refused: int
    reasons: dict[str, int]
    notes: int
    """Notes of others that were not known here."""


def shared_pull(engine: Engine, *, progress: Progress | None = None) -> PulledDocument:
    """Bring here what the team has.

    Every result of the namespace that is not known, for work without the server; with `notes`
    under [shared] also the notes of others, as theirs.
    """
    exchange = _exchange(engine.frames.declared, lambda: engine.exchange)
    client = exchange.client
    with_notes = shares_notes(engine.frames.declared.settings, client.member)
    before = dict(client.refused)
    after: bytes | None = b""
    pulled = seen = 0
    # How many the store has is known when its last page has come.
    begin(progress, "taking from the team", "results")
    while after is not None:
        read, after = client.page(after, PUSH)
        noted = {entry.key for entry in read if as_note(entry) is not None}
        entries = [entry for entry in read if entry.key not in noted]
        if with_notes:
            client.enter_notes(sorted(noted))
        fresh = [entry for entry in entries if _is_news(engine.frames.heads, entry)]
        _store(engine.frames.heads, fresh)
        pulled += len(fresh)
        seen += len(entries)
        if progress is not None:
            progress(len(entries))
    taken = note_exchange(engine, client).take(everything=True) if with_notes else Taken(0, 0)
    exchange.note_refused()
    refused = {
        reason: count - before.get(reason, 0)
        for reason, count in sorted(client.refused.items())
        if count > before.get(reason, 0)
    }
    if taken.unsound:
        refused["note"] = taken.unsound
    return {
        "pulled": pulled,
        "known": seen - pulled,
        "refused": sum(refused.values()),
        "reasons": refused,
        "notes": taken.added,
    }


UNUSED: Final = Shape(
    f"{COARSE_SECONDS:g} seconds or more, or 0: uses are noted once a day",
    {
        "type": "number",
        "exclusiveMaximum": 10**12,
        "anyOf": [{"const": 0}, {"minimum": COARSE_SECONDS}],
    },
    lambda value: AMOUNT.fits(value) and not 0 < value < COARSE_SECONDS,
)
Unused = Annotated[float, UNUSED]


class SweptDocument(TypedDict):
    """Result of `shared gc`."""

    dropped: int
    bodies: int
    dry_run: bool


def shared_gc(engine: Engine, unused_seconds: Unused, *, dry_run: bool = False) -> SweptDocument:
    """Drop from the team's store what nobody has used for so long.

    The store's own clock counts. Uses are noted once a day, so a time is a day or more; 0 drops
    everything that nobody computes just now.
    """
    client = _exchange(engine.frames.declared, lambda: engine.exchange).client
    if not client.may_write:
        raise ReadOnlyError(
            "this member only reads the team's store", hint="let a member who may write do it"
        )
    dropped = client.sweep(unused_seconds, dry_run=dry_run)
    return {"dropped": dropped.entries, "bodies": dropped.bodies, "dry_run": dry_run}


def _exchange(declared: DeclaredTypes, exchange_now: Callable[[], Exchange | None]) -> Exchange:
    declared.refresh()
    exchange = exchange_now()
    if exchange is None:
        if "shared.url" in declared.settings.refused:
            raise NoTeamError(
                "this workspace shares nothing: its merkle.toml is not trusted with an address",
                hint=f"{TRUST}; or set MERKLE_SHARED_URL",
            )
        raise NoTeamError(
            "this workspace shares nothing: no team's store is set",
            hint="set MERKLE_SHARED_URL, or `url` under [shared] in merkle.toml and trust it",
        )
    return exchange


def _raise_problem(client: Client) -> None:
    """What regeneration bears silently is what a person who asks has to be told."""
    if client.problem is not None:
        raise client.problem


def _present_keys(frames: Frames, tree: Tree) -> Iterator[MemoKey]:
    """The keys behind the present frames of the types that are shared."""
    seen: set[MemoKey] = set()
    is_fresh = fresh_in(frames, tree)
    for declared in frames.types.values():
        if not declared.share:
            continue
        for path, entry in tree.walk(paths.ROOT):
            rules = declared.rules
            if not rules.wants(entry) or not rules.covers(path):
                continue
            if frames.heads.head(path, declared.name, rules.agent_for(entry)) is None:
                continue
            key = memo_key(frames, declared, path, entry, is_fresh)
            if key is not None and key not in seen:
                seen.add(key)
                yield key


def _is_news(heads: HeadCache, entry: Entry) -> bool:
    generation, content = heads.memo(entry.key)
    return entry.generation > generation or (content is None and entry.generation == generation)


def _store(heads: HeadCache, entries: list[Entry]) -> None:
    """Store results of others like an imported pack's."""
    if entries:
        batch = FrameBatch()
        for entry in entries:
            batch.memo[entry.key] = (entry.generation, entry.content)
            batch.bodies[entry.content] = entry.body
        heads.add(batch)
