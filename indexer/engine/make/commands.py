"""`regenerate`, `synthesize` and `invalidate`: which passes to run, and what to tell of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from indexer.core import paths
from indexer.core.arguments import Amount, Count
from indexer.core.frames import GENERATED_AGENT_PREFIX, HeadKey
from indexer.core.progress import Progress
from indexer.engine.documents import ExchangedDocument, JsonObject
from indexer.engine.frames.agents import check_writer
from indexer.engine.frames.freshness import fresh_in
from indexer.engine.frames.proofs import unproved
from indexer.engine.frames.recipe import memo_key
from indexer.engine.frames.types import (
    FrameType,
    folder_config,
    folder_maker,
    others_than,
    undeclared_type,
)
from indexer.engine.long_work import LongWork
from indexer.engine.make.blocked import HINT, NAMED
from indexer.engine.make.events import Event
from indexer.engine.make.plan import Plan, PlannedDocument, TotalsDocument
from indexer.engine.make.run import Limits, Run, UsageDocument
from indexer.engine.tree.resolve import resolve_node
from indexer.engine.tree.scan import bring_up_to_date, scan, tree_as_on_disk
from indexer.errors import ArgumentsError, UsageError
from indexer.regenerate.plan import sources_of
from indexer.synthesis.base import Tokens

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


TOLD: Final = 1000
"""Events that a document lists."""

_IN_RECORD: Final = 2000
"""Keys or heads in one journal record."""


Types = Mapping[str, FrameType]


class UndeclaredTypeError(UsageError):
    """No such type is declared in this workspace."""

    code = "undeclared_type"


class NotAFolderError(UsageError):
    """What is asked for is made for folders only."""

    code = "not_a_folder"


def _chosen(types: Types, frame_type: str | None) -> list[FrameType]:
    if frame_type is None:
        return list(types.values())
    if frame_type not in types:
        raise UndeclaredTypeError(
            f"type {frame_type} is not declared",
            hint=f"declared are: {', '.join(types) or 'none'}; see merkle.toml",
        )
    return [types[frame_type]]


def _with_sources(types: Types, chosen: list[FrameType]) -> list[FrameType]:
    """The chosen types, each after the types whose frames it reads."""
    inputs = {name: declared.input for name, declared in types.items()}
    names = dict.fromkeys(name for one in chosen for name in sources_of(inputs, one.name))
    return [types[name] for name in names]


def _look(engine: Engine, path: str) -> None:
    """Record what is on disk at and below a path, before frames are made from it."""
    if engine.trees.head() is None:
        scan(engine)
    elif not engine.as_scanned:
        bring_up_to_date(engine, path)


class _FailureDocument(TypedDict):
    path: str
    type: str
    message: str
    reason: str


class FailureDocument(_FailureDocument, total=False):
    """A frame that could not be made; for a folder that waits, what it waits for."""

    stale: list[str]
    """The first children."""
    stale_count: int
    hint: str


class MadeDocument(TypedDict):
    """What was done about one frame."""

    action: str
    path: str
    type: str


class _FramesDocument(TypedDict):
    regenerated: int
    reused: int
    failed: list[FailureDocument]
    unchanged: bool
    events: list[MadeDocument]
    plan: list[PlannedDocument]


class _RunDocument(_FramesDocument, UsageDocument):
    pass


class RegeneratedDocument(_RunDocument, total=False):
    """Result of `regenerate`; with `shared` in a team."""

    shared: ExchangedDocument


class PlanDocument(TypedDict):
    """Result of `regenerate --plan`."""

    regenerated: int
    reused: int
    failed: list[FailureDocument]
    unchanged: bool
    plan: list[PlannedDocument]
    totals: TotalsDocument


def regenerate(
    engine: Engine,
    node: str = "",
    *,
    frame_type: str | None = None,
    recursive: bool = True,
    plan: bool = False,
    agent: str | None = None,
    max_calls: Count | None = None,
    max_cost: Amount | None = None,
    yes: bool = False,
    models: bool = True,
    progress: Progress | None = None,
) -> LongWork[RegeneratedDocument | PlanDocument]:
    """Make again what is stale at a node, or only tell what that would be.

    Calls of models are limited by `max_calls` and `max_cost`; without either, a large run
    has to be agreed to with `yes`. Without `models` none is asked.
    """
    frames = engine.frames
    frames.declared.refresh()
    if agent is not None and not plan:
        check_writer(frames.store, agent)
    chosen = _with_sources(frames.types, _chosen(frames.types, frame_type))
    path = resolve_node(engine.tree, engine.trees, node)["path"] if node else paths.ROOT
    if plan:
        tree = tree_as_on_disk(engine, path)
        return PlanRun(Plan(frames, tree, chosen, path, recursive, exchange=engine.exchange))
    _look(engine, path)
    return Run(
        engine,
        path,
        chosen,
        recursive=recursive,
        limits=Limits(max_calls, max_cost, yes, models),
        progress=progress,
        asked_by=agent,
        result=regeneration_document,
    )


def regeneration_document(run: Run[Any]) -> RegeneratedDocument:
    """What a run did."""
    events = run.outcome.events
    made: _RunDocument = {
        "regenerated": run.outcome.count("generated"),
        "reused": run.outcome.count("reused"),
        "failed": [_failure(event) for event in events if event.action == "failed"],
        "unchanged": not events,
        "events": _made(events),
        "plan": [],
        **run.usage(),
    }
    document, shared = cast(RegeneratedDocument, made), run.shared()
    if shared is not None:
        document["shared"] = shared
    return document


def _made(events: Sequence[Event]) -> list[MadeDocument]:
    return [
        {"action": event.action, "path": event.path, "type": event.type} for event in events[:TOLD]
    ]


def _failure(event: Event) -> FailureDocument:
    failed: FailureDocument = {
        "path": event.path,
        "type": event.type,
        "message": event.because,
        "reason": event.because,
    }
    if event.stale:
        stale, count = list(event.stale[:NAMED]), len(event.stale)
        failed |= {"stale": stale, "stale_count": count, "hint": HINT}
    return failed


class PlanRun(LongWork[PlanDocument]):
    """A plan as a run has it: collected at once, counted wherever its document is made."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def step(self) -> bool:
        """A plan is complete when it is made."""
        return True

    def document(self) -> PlanDocument:
        """What would be made, because of what, and what it would cost."""
        entries, totals = self._plan.document()
        return {
            "regenerated": 0,
            "reused": 0,
            "failed": [_failure(event) for event in self._plan.blocked],
            "unchanged": not entries and not self._plan.blocked,
            "plan": entries,
            "totals": totals.document(),
        }


class _SynthesizedDocument(TypedDict):
    frame_id: str | None
    generated: int
    reused: int
    frames: int
    failed: list[FailureDocument]
    events: list[MadeDocument]


class SynthesizedDocument(_SynthesizedDocument, UsageDocument):
    """Result of `synthesize`."""


def synthesize(
    engine: Engine,
    node: str,
    *,
    frame_type: str,
    policy: str | None = None,
    options: Mapping[str, object] | None = None,
    agent: str | None = None,
    max_calls: Count | None = None,
    max_cost: Amount | None = None,
    yes: bool = False,
    progress: Progress | None = None,
) -> LongWork[SynthesizedDocument]:
    """Frames of a type for a folder, children first.

    By the declared policy, or by another with `options` of its own. Calls of models are limited
    as in `regenerate`.
    """
    frames = engine.frames
    frames.declared.refresh()
    types, tokens = frames.types, frames.declared.tokens
    if agent is not None:
        check_writer(frames.store, agent, "synthesize")
    path = resolve_node(engine.tree, engine.trees, node)["path"]
    if frame_type in types:
        declared = types[frame_type]
    else:
        declared = undeclared_type(frame_type, path, policy, options or {}, tokens)
    _look(engine, path)
    entry = engine.tree.get(path)
    if entry is None or entry.folder is None:
        raise NotAFolderError(
            f"{paths.on_screen(path)} is not a folder", hint="synthesize works on folders"
        )
    if frame_type in types and (policy is not None or options):
        declared = _with_policy(declared, policy, options or {}, tokens)
    read = _with_sources(types, [declared])[:-1] if declared.name in types else []
    chosen = [_reaching(one, path) for one in (*read, declared)]

    def document(run: Run[Any]) -> SynthesizedDocument:
        head = frames.heads.head(path, frame_type, declared.rules.folder_agent)
        events = run.outcome.events
        return {
            "frame_id": head.frame_id.hex() if head else None,
            "generated": run.outcome.count("generated"),
            "reused": run.outcome.count("reused"),
            "frames": len(events),
            "failed": [_failure(event) for event in events if event.action == "failed"],
            "events": _made(events),
            **run.usage(),
        }

    return Run(
        engine,
        path,
        chosen,
        recursive=True,
        limits=Limits(max_calls, max_cost, yes),
        progress=progress,
        asked_by=agent,
        result=document,
    )


def _reaching(declared: FrameType, path: str) -> FrameType:
    """A type in a scope that has the folder it was asked for."""
    if declared.rules.covers(path):
        return declared
    return declared._replace(rules=declared.rules._replace(scopes=(path,)))


def _with_policy(
    declared: FrameType, policy: str | None, options: Mapping[str, object], tokens: Tokens
) -> FrameType:
    """A declared type by another policy, whose frames stand beside what is declared."""
    kept = declared.folder
    if kept is not None and policy in (None, kept.policy.name):
        if options and dict(options) != dict(kept.options):
            raise ArgumentsError(
                f"type {declared.name} is kept by {kept.policy.name} with the options that are"
                " declared",
                hint="change them in merkle.toml, or name another policy",
            )
        return declared
    if policy is None:
        raise ArgumentsError(
            f"type {declared.name} keeps no frames of folders", hint="name a policy for them"
        )
    made = folder_maker(policy, options, tokens)
    rules = declared.rules
    rules = rules._replace(
        folder_agent=GENERATED_AGENT_PREFIX + made.policy.name,
        has_folder_frames=True,
        folder_config=folder_config(rules.file_config, made, rules.size_limit),
    )
    return declared._replace(folder=made, rules=rules)


class InvalidatedDocument(TypedDict):
    """Result of `invalidate`."""

    invalidated: int


def invalidate(
    engine: Engine, node: str, *, frame_type: str | None = None, agent: str | None = None
) -> InvalidatedDocument:
    """Make generated frames run again next time, past the memo.

    The generation of their memo keys moves, and their proofs are taken back. Who asked for it,
    an agent that may write, is kept in the journal.
    """
    frames = engine.frames
    frames.declared.refresh()
    if agent is not None:
        check_writer(frames.store, agent)
    path = resolve_node(engine.tree, engine.trees, node)["path"]
    _look(engine, path)
    tree = engine.tree
    is_fresh = fresh_in(frames, tree)
    keys: dict[str, int] = {}
    heads: list[HeadKey] = []
    fallen: dict[HeadKey, None] = {}
    for declared in _chosen(frames.types, frame_type):
        rules = declared.rules
        found: list[HeadKey] = []
        for where, entry in tree.walk(path):
            kept_by = rules.agent_for(entry)
            head = frames.heads.head(where, declared.name, kept_by)
            if head is None or not rules.wants(entry) or not rules.covers(where):
                continue
            key = memo_key(frames, declared, where, entry, is_fresh)
            if key is not None:
                keys[key.hex()] = frames.heads.memo(key)[0] + 1
            found.append((where, declared.name, kept_by))
        others = others_than(frames.types, declared.name)
        fallen.update(dict.fromkeys(unproved(frames.heads, found, rules, others)))
        heads += found
    asked = {} if agent is None else {"asked_by": agent}
    records = _invalidations(keys, list(dict.fromkeys((*heads, *fallen))))
    engine.records.write([record | asked for record in records])
    because = "it was invalidated" if agent is None else f"{agent} invalidated it"
    invalidated = ((key, frames.heads.head(*key)) for key in sorted(heads))
    engine.publish_frames(
        [
            Event("invalidated", where, kind, head.frame_id, because)
            for (where, kind, _), head in invalidated
            if head is not None
        ]
    )
    return {"invalidated": len(heads)}


def _invalidations(keys: dict[str, int], heads: list[HeadKey]) -> list[JsonObject]:
    """Records of a bearable length, the keys before the heads that need them."""
    pairs = list(keys.items())
    records: list[JsonObject] = [
        {"kind": "invalidate", "keys": dict(pairs[at : at + _IN_RECORD]), "heads": []}
        for at in range(0, len(pairs), _IN_RECORD)
    ]
    records += [
        {
            "kind": "invalidate",
            "keys": {},
            "heads": [list(key) for key in heads[at : at + _IN_RECORD]],
        }
        for at in range(0, len(heads), _IN_RECORD)
    ]
    return records
