"""`compose` and `replay`: gather candidates, rank, select, freeze, and record on request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, cast

from indexer.compiler import compile_stages
from indexer.compose.candidates import Candidate, Loaded, digest, sealed
from indexer.compose.filters import Filters
from indexer.compose.manifest import (
    ManifestProblem,
    make_manifest,
    manifest_id,
    replay_messages,
)
from indexer.compose.ordering import Ordering, custom_ordering, in_order
from indexer.compose.relevance import Statistics, make_question
from indexer.compose.rendering import Message
from indexer.compose.request import NODE, RELEVANCE, Request, RequestError, make_request
from indexer.compose.selection import Group, Omitted, Selection, select
from indexer.compose.sources import Scope, looked_at, scope_of
from indexer.core.arguments import Count
from indexer.core.frames import REPEATING_AGENTS, FrameId, Freshness, body_hash, is_generated
from indexer.core.paths import on_screen
from indexer.core.progress import Progress
from indexer.core.roles import Role
from indexer.core.tree import Tree
from indexer.engine.code.outlines import lines_of
from indexer.engine.documents import JsonObject
from indexer.engine.frames.freshness import Judged, Place, judge, place_of
from indexer.engine.search.corpus import (
    LESS_RELEVANT,
    NO_MATCH,
    POOL,
    Corpora,
    Corpus,
    index_what_is_left,
)
from indexer.engine.search.manifests import bodies_of, find_manifest, manifest_record
from indexer.engine.search.ranking import READ, FileHit
from indexer.engine.search.source import SourceText
from indexer.engine.sessions.policies import agreed_plugins
from indexer.engine.tree.resolve import resolve_node
from indexer.engine.tree.scan import look_at_files, tree_as_on_disk
from indexer.errors import CorruptError, UncheckedError
from indexer.store.frames import FrameStore

TOKENS_PER_FILE: Final = 400
"""One more file is read for what its parts are worth for each so many tokens of a budget."""

USUAL_TOKENS: Final = 40
"""Tokens of an item: files beyond those that a budget could show at that size are not ranked."""

_LOOKS: Final = 5
"""How often a composition is made anew because a file that it shows is another meanwhile."""

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine
    from indexer.store.trees import TreeStore


class NothingRecordedError(UncheckedError):
    """There is no index to compose from yet."""

    code = "never_scanned"


@dataclass(slots=True)
class _Gathered:
    """What a request draws on: how much, in which order, by which statistics."""

    count: int
    base: hashlib._Hash
    """The hash of all candidates' FrameIDs, to which labels are added."""
    statistics: Statistics | None
    without: list[tuple[Candidate, str]]
    """The first of those that a query does not find, which are counted but not yet named."""
    groups: list[Group]
    """What is offered in order, path by path where source stands between."""
    hits: dict[str, FileHit]
    """The files whose source may be shown."""
    scores: dict[FrameId, int]
    parts: dict[FrameId, dict[str, int]]


class ContextDocument(TypedDict):
    """Result of `compose` and `replay`."""

    manifest_id: str
    candidates_sha256: str
    root: str
    budget: int
    tokens: int
    items: list[JsonObject]
    omitted: JsonObject
    messages: list[Message]
    candidates: int
    tokenizer: str
    request: JsonObject
    hashes: JsonObject
    recorded: bool
    freshness_as_of: str
    missing: int | None
    why: list[JsonObject] | None
    """For each item what its score is made of, where that was asked for."""


class _Composed(NamedTuple):
    """What of a tree is shown, its manifest, and what its order rests on."""

    manifest: JsonObject
    selection: Selection
    gathered: _Gathered
    changed: set[str]
    """Files that were not what the tree says when they were read."""


def compose(
    engine: Engine,
    nodes: Sequence[str] = (),
    *,
    query: str | None = None,
    budget: Count | None = None,
    max_frames: Count | None = None,
    sources: Sequence[str] = (),
    order: str | None = None,
    require_fresh: bool = False,
    record: bool = False,
    types: Sequence[str] = (),
    agents: Sequence[str] = (),
    only: bool = False,
    paths: Sequence[str] = (),
    related: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    source: bool = True,
    tests: bool = False,
    docs: bool = False,
    why: bool = False,
    progress: Progress | None = None,
) -> ContextDocument:
    """A bounded selection of frames and source as messages, with its manifest.

    Without nodes the whole workspace is the source. Without a budget it is 8,000 tokens.
    For a query the best files' own text is shown too, unless `source` is false. Tests and
    documents weigh less than the code they are about, unless `tests` or `docs` is true or the
    query asks for them. `why` tells what each score is made of.
    The manifest is stored only on request. Types, and agents, leave out all others; where they
    give the order they leave out nothing, unless `only` says so.
    """
    if engine.trees.head() is None:
        raise NothingRecordedError("nothing has been recorded yet", hint="run `merkle scan`")
    frames = engine.frames
    frames.declared.refresh()
    request = make_request(
        {
            "nodes": _resolved(engine.tree, engine.trees, nodes),
            "related": _resolved(engine.tree, engine.trees, related),
            "query": query,
            "budget": budget,
            "max_frames": max_frames,
            "sources": tuple(sources),
            "order": order,
            "require_fresh": require_fresh,
            "types": tuple(dict.fromkeys(types)),
            "agents": tuple(dict.fromkeys(agents)),
            "only": only,
            "paths": tuple(dict.fromkeys(paths)),
            "since": since,
            "until": until,
            "source": source,
            "tests": tests,
            "docs": docs,
        }
    )
    if request.query is not None:
        index_what_is_left(frames.heads, engine.on_writing_thread, progress)
    for _ in range(_LOOKS):
        tree = tree_as_on_disk(engine, looked_at(request))
        composed = _selected(engine.corpora, tree, request)
        shown = {item.path for item in composed.selection.items} | composed.changed
        moved = engine.served and look_at_files(engine, shown)
        if not moved and not (composed.changed and not engine.served):
            break
    manifest, selection, gathered, _ = composed
    if record:
        _record(frames, engine.records, manifest, selection)
    document = _document(manifest_id(manifest), manifest, selection.messages(), record, "now")
    document["missing"] = sum(frames.missing.of(tree).values())
    if why:
        document["why"] = _why(selection, gathered)
    return document


def _selected(corpora: Corpora, tree: Tree, request: Request) -> _Composed:
    """What of a tree is shown, and its manifest."""
    frames, counter, omitted = corpora.frames, corpora.frames.counter, Omitted()
    custom = custom_ordering(request.order)
    filters = Filters(request, _in_time(frames.store, request))
    texts = SourceText(frames.root, tree.algorithm, tree)
    with corpora.of(tree, searched=request.query is not None) as corpus:
        gathered = _gather(corpus, request, tree, filters, omitted, custom, texts)
    hits = gathered.hits
    selection = select(
        gathered.groups,
        request,
        lambda chunk: load(frames, tree, chunk),
        counter,
        omitted,
        (lambda path, room, again: texts.pieces(hits, path, room, again)) if hits else None,
        lambda loaded: lines_of(frames, tree, loaded),
    )
    omitted.name(gathered.without)
    shown = sum(item.source is not None for item in selection.items)
    sources = [(path, entry.content_id) for path in hits if (entry := tree.get(path)) is not None]
    manifest = make_manifest(
        root=tree.root_id.hex(),
        request=request,
        tokenizer=counter.encoding_name,
        candidates=gathered.count + shown + selection.left_sources,
        candidates_sha256=sealed(gathered.base, selection.labels, sources),
        statistics=gathered.statistics,
        selection=selection,
        omitted=omitted,
    )
    return _Composed(manifest, selection, gathered, texts.changed)


def _why(selection: Selection, gathered: _Gathered) -> list[JsonObject]:
    """For each item that is shown, what its score is made of."""
    told: list[JsonObject] = []
    for item in selection.items:
        if item.source is not None:
            hit = gathered.hits[item.path]
            units = {
                hit.symbols.symbols[one.place]: one.worth for one in hit.units if one.place >= 0
            }
            parts = {**hit.parts, "symbol": units.get(item.source.symbol or "", 0)}
            told.append({"path": item.path, "score": hit.worth, "parts": parts})
        else:
            assert item.loaded is not None
            frame_id = item.loaded.candidate.frame_id
            score = gathered.scores.get(frame_id, 0)
            parts = gathered.parts.get(frame_id, {})
            told.append({"path": item.path, "score": score, "parts": parts})
    return told


def _resolved(tree: Tree, trees: TreeStore, nodes: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(resolve_node(tree, trees, node)["path"] for node in nodes))


def _in_time(store: FrameStore, request: Request) -> set[FrameId] | None:
    if request.since is None and request.until is None:
        return None
    return store.frames_between(_moment(request.since), _moment(request.until))


def _moment(text: str | None) -> int | None:
    """Nanoseconds of a date or a time in ISO 8601; without a zone it is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            f"{on_screen(text)!r} is no date", hint="write 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _gather(
    corpus: Corpus,
    request: Request,
    tree: Tree,
    filters: Filters,
    omitted: Omitted,
    custom: Ordering | None,
    texts: SourceText,
) -> _Gathered:
    """Sources, then filters, then the order."""
    scope = scope_of(request, lambda folder: _names(tree, folder))
    everything = scope.everything and filters.empty
    members = corpus.everything() if scope.everything else _members(corpus, scope)
    if not filters.empty:
        members, left = filters.split(members)
        omitted.add_each(left)
    base = corpus.digest() if everything else digest(members)
    candidates: Sequence[Candidate] = members
    scores: dict[FrameId, int] = {}
    parts: dict[FrameId, dict[str, int]] = {}
    hits: dict[str, FileHit] = {}
    statistics = None
    without: list[tuple[Candidate, str]] = []
    if request.order == RELEVANCE and request.query is not None:
        pool = max(POOL, request.budget // USUAL_TOKENS)
        within = None if everything else members
        asked = [Role.TEST] * request.tests + [Role.DOCUMENT] * request.docs
        question = make_question(request.query, asked)
        read = max(READ, request.budget // TOKENS_PER_FILE)
        ranked = corpus.rank(question, within, texts.of, request.nodes, pool, read)
        scores, statistics, parts = ranked.scores, ranked.statistics, ranked.parts
        candidates = ranked.pool + [
            row
            for row in corpus.at(sorted(scope.single))
            if row.frame_id not in scores and (everything or filters.reason(row) is None)
        ]
        if request.source and filters.has_source:
            hits = {
                hit.path: hit
                for hit in ranked.files[:read]
                if hit.worth > 0
                and not hit.stale
                and (scope.everything or hit.path in scope.single or scope.within(hit.path))
                and filters.is_named(hit.path)
                and texts.of(hit.path) is not None
            }
        named = {row.frame_id for row in candidates}
        without = [pair for pair in ranked.without if pair[0].frame_id not in named]
        if hits:
            # Where source takes its part, what only repeats a file further down has no chance.
            further = {hit.path for hit in ranked.files[read:]}
            candidates = [
                row
                for row in candidates
                if row.agent not in REPEATING_AGENTS
                or row.path not in further
                or row.frame_id not in scores
            ]
        less = len(named) - len(candidates) + ranked.less
        _leave_out(members, candidates, min(less, len(members) - len(candidates)), omitted)
    ordered = in_order(candidates, request, scores, custom)
    if custom is not None and len(ordered) < len(candidates):
        kept = {row.frame_id for row in ordered}
        omitted.add([row for row in candidates if row.frame_id not in kept], "ordering")
    groups = _by_path(ordered, request, scores, hits) if hits else [Group("", ordered)]
    return _Gathered(len(members), base, statistics, without, groups, hits, scores, parts)


def _by_path(
    ordered: Sequence[Candidate],
    request: Request,
    scores: Mapping[FrameId, int],
    hits: Mapping[str, FileHit],
) -> list[Group]:
    """What is offered path by path: a file's source behind what was written about it."""
    named = frozenset(request.nodes if NODE in request.sources else ())
    best = {path: hit.worth for path, hit in hits.items()}
    rows: dict[str, list[Candidate]] = {path: [] for path in hits}
    for row in ordered:
        rows.setdefault(row.path, []).append(row)
        best[row.path] = max(best.get(row.path, 0), scores.get(row.frame_id, 0))
    return [
        Group(
            path,
            [row for row in rows[path] if row.agent not in REPEATING_AGENTS],
            path in hits,
            [row for row in rows[path] if row.agent in REPEATING_AGENTS],
        )
        for path in sorted(rows, key=lambda one: (one not in named, -best[one], one))
    ]


def _names(tree: Tree, folder: str) -> list[str]:
    found = tree.folder(folder)
    return list(found.entries) if found else []


def _members(corpus: Corpus, scope: Scope) -> list[Candidate]:
    found = {row.frame_id: row for row in corpus.at(scope.single)}
    if scope.folders:
        found.update((row.frame_id, row) for row in corpus.everything() if scope.within(row.path))
    return sorted(found.values())


def _leave_out(
    members: Sequence[Candidate], kept: Sequence[Candidate], less: int, omitted: Omitted
) -> None:
    """Count what a query does not find, and what others are found before."""
    unmatched = len(members) - len(kept) - less
    if less:
        omitted.counts[LESS_RELEVANT] += less
    if unmatched > 0:
        omitted.counts[NO_MATCH] += unmatched


def load(frames: Frames, tree: Tree, chunk: Sequence[Candidate]) -> list[Loaded]:
    """Bodies and freshness of some candidates, each read in one query."""
    heads = frames.heads
    heads.load_heads(row.path for row in chunk)
    bodies = heads.texts.of(row.content for row in chunk)
    stored = heads.stored_frames([row.frame_id for row in chunk])
    notes = [row for row in chunk if not is_generated(row.agent)]
    frames.load_notes(tree, ((row.path, row.frame_id) for row in notes))
    loaded = []
    for row in chunk:
        head = heads.live_frame((row.path, row.type, row.agent), row.frame_id)
        body = bodies.get(row.content) if row.frame_id in stored else None
        if head is None:
            # It moved while this was put together; what was gathered is shown as what it is now.
            judged = Judged(Freshness.STALE, "a later frame took its place")
        else:
            judged = judge(frames, tree, row.path, row.type, row.agent, head)
        place = Place()
        if not is_generated(row.agent):
            place = place_of(frames, row.path, tree.get(row.path), row.frame_id)
        loaded.append(Loaded(row, body, judged.freshness, judged.because, *place))
    return loaded


def _record(frames: Frames, records: Records, manifest: JsonObject, selection: Selection) -> None:
    """Store a manifest with what it shows; the same one again changes nothing."""
    if frames.store.manifests(manifest_id(manifest)):
        return
    bodies = {}
    for item in selection.items:
        if item.source is not None:
            bodies[body_hash(item.source.body).hex()] = item.source.body
        elif item.loaded is not None:
            bodies[item.loaded.candidate.content.hex()] = item.loaded.body or ""
    records.write([manifest_record(manifest, bodies, frames.clock.now_ns())])


def _document(
    identity: str, manifest: JsonObject, messages: list[Message], recorded: bool, as_of: str
) -> ContextDocument:
    return {
        "manifest_id": identity,
        "candidates_sha256": manifest["candidates_sha256"],
        "root": manifest["root"],
        "budget": manifest["request"]["budget"],
        "tokens": manifest["tokens"],
        "items": manifest["items"],
        "omitted": manifest["omitted"],
        "messages": messages,
        "candidates": manifest["candidates"],
        "tokenizer": manifest["tokenizer"],
        "request": manifest["request"],
        "hashes": manifest["hashes"],
        "recorded": recorded,
        "freshness_as_of": as_of,
        # Told of the present only.
        "missing": None,
        "why": None,
    }


def replay(engine: Engine, manifest: str) -> ContextDocument:
    """The messages of a recorded manifest again.

    They are the same byte for byte, with the freshness as it was then.
    """
    identity, found = find_manifest(engine.frames.store, manifest)
    try:
        messages = replay_messages(found, bodies_of(engine.frames.store, found))
    except ManifestProblem as problem:
        raise CorruptError(
            f"the manifest {identity[:12]} cannot be replayed: {problem}",
            hint="run `merkle validate`, then `merkle repair`",
        ) from problem
    return _document(identity, found, messages, True, "recorded")


class StagesDocument(TypedDict):
    """Result of `compile`: the stages, and SHA-256 of the first three."""

    hashes: dict[str, str]
    schema_version: str
    stages: JsonObject


def compile_events(
    engine: Engine, events: Sequence[object], policy: Mapping[str, object] | None = None
) -> StagesDocument:
    """The staged compiler on a stream of events.

    It needs nothing of the workspace, as `indexer.compile_stages` shows.
    """
    plugins = agreed_plugins(engine.root, policy)
    return cast(StagesDocument, compile_stages(events, policy, plugins=plugins).to_json())
