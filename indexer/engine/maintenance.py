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
from indexer.engine.agents import check_writer
from indexer.engine.documents import JsonObject
from indexer.engine.freshness import judge, parts_of
from indexer.engine.regeneration import Outcome, Regeneration
from indexer.engine.resolve import resolve_node
from indexer.engine.scanning import all_of
from indexer.engine.types import (
    DEFAULT_TOKENIZER,
    FrameType,
    bystanders,
    folder_config,
    folder_maker,
    undeclared_type,
)
from indexer.errors import UsageError
from indexer.regenerate.plan import sources_of, stale_steps
from indexer.synthesis.base import Tokens

if TYPE_CHECKING:
    from indexer.engine.engine import Engine


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
    progress: Callable[[int], None] | None,
) -> JsonObject:
    """Make what is stale again, in declared scopes only; `plan` only tells."""
    engine.refresh_types()
    chosen = _with_sources(engine, _chosen(engine, frame_type))
    path = resolve_node(engine, node)["path"] if node else paths.ROOT
    if plan:
        return _plan(engine, path, chosen, recursive)
    _look(engine, path)
    outcome = Outcome()
    try:
        for declared in chosen:
            Regeneration(engine, engine.tree, declared, outcome, progress).run(
                path, recursive=recursive
            )
    finally:
        # What was stored before something went wrong is stored.
        engine.publish_frames(outcome.events)
    document = regeneration_document(outcome)
    if engine.framing.exchange is not None:
        document["shared"] = engine.framing.exchange.report()
    return document


def regeneration_document(outcome: Outcome) -> JsonObject:
    """What a pass did."""
    failed = [event for event in outcome.events if event.action == "failed"]
    return {
        "regenerated": outcome.count("generated"),
        "reused": outcome.count("reused"),
        "failed": [{"path": event.path, "reason": event.because} for event in failed],
        "unchanged": not outcome.events,
        "events": [
            {"action": event.action, "path": event.path, "type": event.type}
            for event in outcome.events[:1000]
        ],
        "plan": [],
    }


def _plan(engine: Engine, path: str, chosen: list[FrameType], recursive: bool) -> JsonObject:
    """What a pass would make, and because of what."""
    tree = engine.tree_as_on_disk(path)
    entries = []
    for declared in chosen:
        rules = declared.rules
        head_of = engine.shelf.heads_of(rules.type)
        for step in stale_steps(tree, rules, head_of, path, recursive=recursive):
            agent = rules.agent_for(step.entry)
            head = engine.shelf.head(step.path, rules.type, agent)
            because = "it has no frame yet"
            if head is not None:
                because = judge(engine, tree, step.path, rules.type, agent, head).because
            known = _is_memoised(engine, declared, step.path, step.entry)
            entries.append(
                {
                    "path": step.path,
                    "type": rules.type,
                    "action": "reuse" if known else "generate",
                    "because": because,
                    "tokens": 0,
                }
            )
    return {"regenerated": 0, "reused": 0, "failed": [], "unchanged": not entries, "plan": entries}


def _is_memoised(engine: Engine, declared: FrameType, path: str, entry: Entry) -> bool:
    """Whether a file's result is known; a folder's depends on what its children turn into."""
    if entry.folder is not None or declared.file is None or declared.input is not None:
        return False
    name = paths.text_to_bytes(paths.split(path)[1])
    key = key_of_file(declared.file.print, declared.name, name, entry.content_id)
    return engine.shelf.memo(key)[1] is not None


def synthesize(
    engine: Engine,
    node: str,
    *,
    frame_type: str,
    policy: str | None,
    agent: str | None,
    progress: Callable[[int], None] | None,
) -> JsonObject:
    """Frames of a type for a folder and everything below, on explicit request."""
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
    outcome = Outcome()
    try:
        for one in (*_sources(engine, declared), declared):
            if not one.rules.covers(path):
                one = replace(one, rules=replace(one.rules, scopes=(path,)))
            Regeneration(engine, engine.tree, one, outcome, progress, agent).run(path)
    finally:
        engine.publish_frames(outcome.events)
    head = engine.shelf.head(path, frame_type, declared.rules.folder_agent)
    return {
        "frame_id": head.frame_id.hex() if head else None,
        "generated": outcome.count("generated"),
        "reused": outcome.count("reused"),
        "frames": len(outcome.events),
        "events": [
            {"action": event.action, "path": event.path, "type": event.type}
            for event in outcome.events[:1000]
        ],
    }


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
