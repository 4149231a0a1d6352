"""`regenerate`, `synthesize` and `invalidate`: which passes to run, and what to tell of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    ChildBody,
    MemoKey,
    fingerprint,
    key_of_file,
    key_of_folder,
)
from indexer.core.tree import Entry
from indexer.engine.agents import check_writer
from indexer.engine.documents import JsonObject
from indexer.engine.freshness import judge
from indexer.engine.regeneration import Outcome, Regeneration
from indexer.engine.resolve import resolve_node
from indexer.engine.types import DEFAULT_TOKENIZER, FolderMaker, FrameType
from indexer.errors import UsageError
from indexer.regenerate.plan import stale_steps
from indexer.synthesis.base import Tokens
from indexer.synthesis.registry import make_policy

if TYPE_CHECKING:
    from indexer.engine.engine import Engine


def _chosen(engine: Engine, frame_type: str | None) -> list[FrameType]:
    if frame_type is None:
        return list(engine.types.values())
    if frame_type not in engine.types:
        raise UsageError(
            f"type {frame_type} is not declared",
            hint=f"declared are: {', '.join(engine.types) or 'none'}; see merkle.toml",
        )
    return [engine.types[frame_type]]


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
    chosen = _chosen(engine, frame_type)
    path = resolve_node(engine, node)["path"] if node else paths.ROOT
    if plan:
        return _plan(engine, path, chosen, recursive)
    if not engine.served:
        engine.reconcile([(path, True)])
    outcome = Outcome()
    for declared in chosen:
        Regeneration(engine, engine.tree, declared, outcome, progress).run(
            path, recursive=recursive
        )
    engine.publish_frames(outcome.events)
    return regeneration_document(outcome)


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
    if agent is not None:
        check_writer(engine, agent, "synthesize")
    (declared,) = _chosen(engine, frame_type)
    path = resolve_node(engine, node)["path"]
    if not engine.served:
        engine.reconcile([(path, True)])
    entry = engine.tree.get(path)
    if entry is None or entry.folder is None:
        raise UsageError(
            f"{paths.on_screen(path)} is not a folder", hint="synthesize works on folders"
        )
    if policy is not None:
        declared = _with_policy(engine, declared, policy)
    if not declared.rules.covers(path):
        declared = replace(declared, rules=replace(declared.rules, scopes=(path,)))
    outcome = Outcome()
    Regeneration(engine, engine.tree, declared, outcome, progress).run(path)
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


def _with_policy(engine: Engine, declared: FrameType, policy: str) -> FrameType:
    made = make_policy(policy, {}, tokens=Tokens(DEFAULT_TOKENIZER, engine.count_tokens))
    prints = fingerprint(made.fingerprint_parts())
    rules = replace(
        declared.rules,
        folder_agent=GENERATED_AGENT_PREFIX + made.name,
        has_folder_frames=True,
        config=declared.rules.config + prints,
    )
    return replace(declared, folder=FolderMaker(made, prints), rules=rules)


def invalidate(engine: Engine, node: str, *, frame_type: str | None) -> JsonObject:
    """Bump the memo generation of the frames at a node and below, and take back their proof."""
    path = resolve_node(engine, node)["path"]
    keys: dict[str, int] = {}
    heads: list[list[str]] = []
    for declared in _chosen(engine, frame_type):
        for where, entry in engine.tree.walk(path):
            agent = declared.rules.agent_for(entry)
            head = engine.shelf.head(where, declared.name, agent)
            if head is None or not declared.rules.wants(entry):
                continue
            key = memo_key(engine, declared, where, entry)
            if key is not None:
                keys[key.hex()] = engine.shelf.memo(key)[0] + 1
            heads.append([where, declared.name, agent])
    if heads:
        engine.journal_and_apply([{"kind": "invalidate", "keys": keys, "heads": heads}])
    return {"invalidated": len(heads)}


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
    bodies = []
    for name, child in entry.folder.entries.items():
        head = None
        if declared.rules.wants(child):
            agent = declared.rules.agent_for(child)
            head = engine.shelf.head(paths.join(path, name), declared.name, agent)
        raw = paths.text_to_bytes(name)
        bodies.append(ChildBody(raw, child.kind.label, head.content if head else None))
    return key_of_folder(declared.folder.print, declared.name, bodies)
