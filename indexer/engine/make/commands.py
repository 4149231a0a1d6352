"""`regenerate`, `synthesize` and `invalidate`: which passes to run, and what to tell of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import Amount, Count
from indexer.core.frames import GENERATED_AGENT_PREFIX, HeadKey
from indexer.engine.documents import JsonObject
from indexer.engine.frames.agents import check_writer
from indexer.engine.frames.freshness import fresh_in
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
from indexer.engine.make.plan import Plan
from indexer.engine.make.run import Limits, Run
from indexer.engine.tree.resolve import resolve_node
from indexer.engine.tree.scan import bring_up_to_date, scan, tree_as_on_disk
from indexer.errors import UsageError
from indexer.regenerate.plan import sources_of
from indexer.synthesis.base import Tokens

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


_IN_RECORD: Final = 2000
"""Keys or heads in one journal record."""


Types = Mapping[str, FrameType]


def _chosen(types: Types, frame_type: str | None) -> list[FrameType]:
    if frame_type is None:
        return list(types.values())
    if frame_type not in types:
        raise UsageError(
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
    else:
        bring_up_to_date(engine, path)


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
    progress: Callable[[int], None] | None = None,
) -> LongWork:
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


def regeneration_document(run: Run) -> JsonObject:
    """What a run did."""
    events = run.outcome.events
    return {
        "regenerated": run.outcome.count("generated"),
        "reused": run.outcome.count("reused"),
        "failed": [_failure(event) for event in events if event.action == "failed"],
        "unchanged": not events,
        "events": [
            {"action": event.action, "path": event.path, "type": event.type}
            for event in events[:1000]
        ],
        "plan": [],
        **run.usage(),
        **run.shared(),
    }


def _failure(event: Event) -> JsonObject:
    said: JsonObject = {"message": event.because, "reason": event.because}
    if event.stale:
        said |= {"stale": list(event.stale[:NAMED]), "stale_count": len(event.stale), "hint": HINT}
    return {"path": event.path, "type": event.type, **said}


class PlanRun(LongWork):
    """A plan as a run has it: collected at once, counted wherever its document is made."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def step(self) -> bool:
        """A plan is complete when it is made."""
        return True

    def document(self) -> JsonObject:
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


def synthesize(
    engine: Engine,
    node: str,
    *,
    frame_type: str,
    policy: str | None = None,
    agent: str | None = None,
    max_calls: Count | None = None,
    max_cost: Amount | None = None,
    yes: bool = False,
    progress: Callable[[int], None] | None = None,
) -> LongWork:
    """Frames of a type for a folder, children first.

    Calls of models are limited as in `regenerate`.
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
        declared = undeclared_type(frame_type, path, policy, tokens)
    _look(engine, path)
    entry = engine.tree.get(path)
    if entry is None or entry.folder is None:
        raise UsageError(
            f"{paths.on_screen(path)} is not a folder", hint="synthesize works on folders"
        )
    if policy is not None and not (declared.folder and declared.folder.policy.name == policy):
        declared = _with_policy(declared, policy, tokens)
    read = _with_sources(types, [declared])[:-1] if declared.name in types else []
    chosen = [_reaching(one, path) for one in (*read, declared)]

    def document(run: Run) -> JsonObject:
        head = frames.heads.head(path, frame_type, declared.rules.folder_agent)
        events = run.outcome.events
        return {
            "frame_id": head.frame_id.hex() if head else None,
            "generated": run.outcome.count("generated"),
            "reused": run.outcome.count("reused"),
            "frames": len(events),
            "failed": [_failure(event) for event in events if event.action == "failed"],
            "events": [
                {"action": event.action, "path": event.path, "type": event.type}
                for event in events[:1000]
            ],
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
    return replace(declared, rules=replace(declared.rules, scopes=(path,)))


def _with_policy(declared: FrameType, policy: str, tokens: Tokens) -> FrameType:
    made = folder_maker(policy, {}, tokens)
    rules = declared.rules
    rules = replace(
        rules,
        folder_agent=GENERATED_AGENT_PREFIX + made.policy.name,
        has_folder_frames=True,
        folder_config=folder_config(rules.file_config, made, rules.size_limit),
    )
    return replace(declared, folder=made, rules=rules)


class InvalidatedDocument(TypedDict):
    """Result of `invalidate`."""

    invalidated: int


def invalidate(engine: Engine, node: str, *, frame_type: str | None = None) -> InvalidatedDocument:
    """Make generated frames run again next time, past the memo.

    The generation of their memo keys moves, and their proofs are taken back.
    """
    frames = engine.frames
    frames.declared.refresh()
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
            agent = rules.agent_for(entry)
            head = frames.heads.head(where, declared.name, agent)
            if head is None or not rules.wants(entry) or not rules.covers(where):
                continue
            key = memo_key(frames, declared, where, entry, is_fresh)
            if key is not None:
                keys[key.hex()] = frames.heads.memo(key)[0] + 1
            found.append((where, declared.name, agent))
        others = others_than(frames.types, declared.name)
        fallen.update(dict.fromkeys(frames.heads.unproved(found, rules, others)))
        heads += found
    engine.records.write(_invalidations(keys, list(dict.fromkeys((*heads, *fallen)))))
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
