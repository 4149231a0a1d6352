"""`regenerate`, `synthesize` and `invalidate`: which passes to run, and what to tell of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from indexer.core import paths
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    HeadKey,
    MemoKey,
    key_of_file,
    key_of_folder,
)
from indexer.core.tree import Entry
from indexer.engine.documents import JsonObject
from indexer.engine.frames.agents import check_writer
from indexer.engine.frames.freshness import parts_of
from indexer.engine.frames.types import (
    DEFAULT_TOKENIZER,
    FrameType,
    bystanders,
    folder_config,
    folder_maker,
    undeclared_type,
)
from indexer.engine.make.blocked import HINT, NAMED
from indexer.engine.make.events import Event
from indexer.engine.make.plan import Plan
from indexer.engine.make.run import Limits, Run
from indexer.engine.tree.resolve import resolve_node
from indexer.engine.tree.scan import all_of
from indexer.errors import UsageError
from indexer.regenerate.plan import sources_of
from indexer.synthesis.base import Tokens

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


_IN_RECORD: Final = 2000
"""Keys or heads in one journal record."""


def _chosen(engine: Engine, frame_type: str | None) -> list[FrameType]:
    if frame_type is None:
        return list(engine.types.values())
    if frame_type not in engine.types:
        raise UsageError(
            f"type {frame_type} is not declared",
            hint=f"declared are: {', '.join(engine.types) or 'none'}; see merkle.toml",
        )
    return [engine.types[frame_type]]


def _with_sources(engine: Engine, chosen: list[FrameType]) -> list[FrameType]:
    """The chosen types, each after the types whose frames it reads."""
    inputs = _inputs(engine)
    names = dict.fromkeys(name for one in chosen for name in sources_of(inputs, one.name))
    return [engine.types[name] for name in names]


def _sources(engine: Engine, declared: FrameType) -> list[FrameType]:
    return _with_sources(engine, [declared])[:-1] if declared.name in engine.types else []


def _inputs(engine: Engine) -> dict[str, str | None]:
    return {name: declared.input for name, declared in engine.types.items()}


def _look(engine: Engine, path: str) -> None:
    """Record what is on disk at and below a path, before frames are made from it."""
    if engine.trees.head() is None:
        engine.scan()
    elif not engine.served:
        engine.reconcile(all_of(engine.root, path))


def regenerate(
    engine: Engine,
    node: str,
    *,
    frame_type: str | None,
    recursive: bool,
    plan: bool,
    agent: str | None,
    limits: Limits,
    progress: Callable[[int], None] | None,
) -> Run | PlanRun:
    """Begin to make what is stale again, in declared scopes only; `plan` only tells."""
    engine.refresh_types()
    if agent is not None and not plan:
        check_writer(engine, agent)
    chosen = _with_sources(engine, _chosen(engine, frame_type))
    path = resolve_node(engine, node)["path"] if node else paths.ROOT
    if plan:
        tree = engine.tree_as_on_disk(path)
        return PlanRun(Plan(engine, tree, chosen, path, recursive, ask_team=True))
    _look(engine, path)
    return Run(
        engine, path, chosen, recursive=recursive, limits=limits, progress=progress,
        asked_by=agent, result=regeneration_document,
    )  # fmt: skip


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


class PlanRun:
    """A plan as a run has it: collected at once, counted wherever its document is made."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def step(self) -> bool:
        """There is nothing to do."""
        return True

    def wait(self) -> None:
        """There is nothing to wait for."""

    def leave(self) -> None:
        """There is nothing under way."""

    def close(self) -> None:
        """There is nothing to let go of."""

    def document(self) -> JsonObject:
        """What would be made, because of what, and what it would cost."""
        entries, totals = self._plan.document()
        return {
            "regenerated": 0,
            "reused": 0,
            "failed": [_failure(event) for event in self._plan.held_up],
            "unchanged": not entries and not self._plan.held_up,
            "plan": entries,
            "totals": totals.document(),
        }


def synthesize(
    engine: Engine,
    node: str,
    *,
    frame_type: str,
    policy: str | None,
    agent: str | None,
    limits: Limits,
    progress: Callable[[int], None] | None,
) -> Run:
    """Begin to make the frames of a type for a folder and everything below, on request."""
    engine.refresh_types()
    if agent is not None:
        check_writer(engine, agent, "synthesize")
    path = resolve_node(engine, node)["path"]
    if frame_type in engine.types:
        declared = engine.types[frame_type]
    else:
        declared = undeclared_type(frame_type, path, policy, _tokens(engine))
    _look(engine, path)
    entry = engine.tree.get(path)
    if entry is None or entry.folder is None:
        raise UsageError(
            f"{paths.on_screen(path)} is not a folder", hint="synthesize works on folders"
        )
    if policy is not None and not (declared.folder and declared.folder.policy.name == policy):
        declared = _with_policy(engine, declared, policy)
    chosen = [_reaching(one, path) for one in (*_sources(engine, declared), declared)]

    def document(run: Run) -> JsonObject:
        head = engine.shelf.head(path, frame_type, declared.rules.folder_agent)
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
        engine, path, chosen, recursive=True, limits=limits, progress=progress, asked_by=agent,
        result=document,
    )  # fmt: skip


def _reaching(declared: FrameType, path: str) -> FrameType:
    """A type in a scope that has the folder it was asked for."""
    if declared.rules.covers(path):
        return declared
    return replace(declared, rules=replace(declared.rules, scopes=(path,)))


def _tokens(engine: Engine) -> Tokens:
    return Tokens(DEFAULT_TOKENIZER, engine.count_tokens)


def _with_policy(engine: Engine, declared: FrameType, policy: str) -> FrameType:
    made = folder_maker(policy, {}, _tokens(engine))
    rules = declared.rules
    rules = replace(
        rules,
        folder_agent=GENERATED_AGENT_PREFIX + made.policy.name,
        has_folder_frames=True,
        folder_config=folder_config(rules.file_config, made, rules.size_limit),
    )
    return replace(declared, folder=made, rules=rules)


def invalidate(engine: Engine, node: str, *, frame_type: str | None) -> JsonObject:
    """Bump the memo generation of the frames at a node and below, and take back their proof."""
    engine.refresh_types()
    path = resolve_node(engine, node)["path"]
    _look(engine, path)
    keys: dict[str, int] = {}
    heads: list[HeadKey] = []
    fallen: dict[HeadKey, None] = {}
    for declared in _chosen(engine, frame_type):
        rules = declared.rules
        found: list[HeadKey] = []
        for where, entry in engine.tree.walk(path):
            agent = rules.agent_for(entry)
            head = engine.shelf.head(where, declared.name, agent)
            if head is None or not rules.wants(entry) or not rules.covers(where):
                continue
            key = memo_key(engine, declared, where, entry)
            if key is not None:
                keys[key.hex()] = engine.shelf.memo(key)[0] + 1
            found.append((where, declared.name, agent))
        others = bystanders(engine.types, declared.name)
        fallen.update(dict.fromkeys(engine.shelf.unproved(found, rules, others)))
        heads += found
    engine.journal_and_apply(_invalidations(keys, list(dict.fromkeys((*heads, *fallen)))))
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


def memo_key(engine: Engine, declared: FrameType, path: str, entry: Entry) -> MemoKey | None:
    """The key under which a node's present frame was or would be computed."""
    if entry.folder is None:
        if declared.file is None:
            return None
        raw = paths.text_to_bytes(paths.split(path)[1])
        if declared.input is not None:
            read = engine.types[declared.input]
            below = engine.shelf.head(path, read.name, read.rules.agent_for(entry))
            if below is None:
                return None
            return key_of_file(declared.file.print, declared.name, raw, below.content)
        return key_of_file(declared.file.print, declared.name, raw, entry.content_id)
    if declared.folder is None:
        return None
    parts = parts_of(engine, engine.tree, declared, path, entry)
    bodies = [part.body for part in parts]
    return key_of_folder(declared.folder.print, declared.name, bodies)
