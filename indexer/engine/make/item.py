"""A frame to be made: what it is made from, what came of that, and its place in a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from indexer.core.frames import (
    Action,
    BasisHash,
    BodyHash,
    ChildBody,
    Frame,
    Head,
    HeadKey,
    MemoKey,
)
from indexer.core.frames import frame_id as frame_id_of
from indexer.core.tree import Tree
from indexer.engine.frames.freshness import fresh_head, fresh_in
from indexer.engine.frames.recipe import file_basis, file_key, folder_recipe
from indexer.engine.frames.types import FrameType
from indexer.engine.make.events import Event
from indexer.engine.make.workers import FileSource
from indexer.regenerate.plan import Step
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

_ACTION_ALONE: Final = {action: json.dumps({"action": action.value}) for action in Action}


class TextSource(NamedTuple):
    """The frame that is read in place of a file."""

    path: str
    content: BodyHash


class FolderSource(NamedTuple):
    """The children of a folder."""

    bodies: tuple[ChildBody, ...]


Source = FileSource | TextSource | FolderSource


class Item(NamedTuple):
    """One frame to be made, with everything that decides what it will be."""

    step: Step
    key: MemoKey
    """Under which its result is known, here or in the team."""
    source: Source
    basis: BasisHash
    current: bool = True
    """Whether everything it is made from is current."""
    inputs: dict[str, Any] | None = None
    """Its list of inputs, where there is more to know than node and fingerprint."""


class Result(NamedTuple):
    """What came of an item: a content and how it came about, or why there is none."""

    content: BodyHash | None
    action: Action = Action.REUSED
    problem: str = ""
    about: Mapping[str, object] = {}


def items_of(
    frames: Frames,
    tree: Tree,
    declared: FrameType,
    steps: Iterable[Step],
    new: Mapping[HeadKey, Head],
    *,
    patient: bool,
) -> tuple[list[Item], list[Event]]:
    """What each frame is made from, with the heads that a batch is about to store.

    Files that cannot be made now are told of; folders that have to wait are left out. Where a
    model writes it, and otherwise where the pass is `patient`, a folder waits until everything
    below it is current.
    """
    is_fresh = fresh_in(frames, tree)
    items, failed = list[Item](), list[Event]()
    for step in steps:
        path, entry = step
        if entry.folder is None:
            one = _file_item(frames, declared, step)
            if isinstance(one, Event):
                failed.append(one)
            else:
                items.append(one)
            continue
        assert declared.folder is not None
        waits = patient or declared.folder.writer is not None
        made_from = folder_recipe(frames, declared, path, entry, is_fresh, new, waits=waits)
        if made_from is not None:
            key, basis, bodies, current, inputs = made_from
            items.append(Item(step, key, FolderSource(bodies), basis, current, inputs))
    return items, failed


def _file_item(frames: Frames, declared: FrameType, step: Step) -> Item | Event:
    path, entry = step
    if declared.input is None:
        key = file_key(declared, path, entry.content_id)
        basis = file_basis(frames.algorithm, declared, path, entry, None)
        return Item(step, key, FileSource(path, entry.content_id, entry.size), basis)
    below = fresh_head(frames, path, entry, declared.input)
    if below is None:
        return Event("failed", path, declared.name, None, "its input frame is not fresh")
    basis = file_basis(frames.algorithm, declared, path, entry, below.frame_id)
    key = file_key(declared, path, below.content)
    return Item(step, key, TextSource(path, below.content), basis)


def place(
    frames: Frames,
    tree: Tree,
    declared: FrameType,
    item: Item,
    result: Result,
    batch: FrameBatch,
    asked_by: str | None,
) -> list[Event]:
    """Put a frame and its head into a batch, or only a new proof, and tell what that changes."""
    (path, entry), kind = item.step, declared.name
    if result.content is None:
        return [Event("failed", path, kind, None, result.problem)]
    agent, action = declared.rules.agent_for(entry), result.action
    identity = frame_id_of(item.basis, kind, agent, result.content)
    verified = entry.content_id if item.current else None
    key = (path, kind, agent)
    old = frames.heads.head(*key)
    config = declared.rules.config_for(entry)
    head = Head(identity, item.basis, result.content, verified, config, action)
    if old is not None and old.frame_id == identity:
        # The same frame again: only the proof of its freshness can be new.
        again = head._replace(action=old.action)
        if again != old:
            batch.heads[key] = again
        ran = action is Action.GENERATED
        return [Event(action.value, path, kind, identity)] if ran else []
    inputs = None
    if item.inputs is not None:
        inputs = frames.input_chains.add(key, item.inputs, batch)
    batch.frames.append(
        Frame(
            identity,
            path,
            kind,
            agent,
            item.basis,
            result.content,
            tree.node_id(path, entry),
            inputs,
            _meta(action, result.about, asked_by),
            frames.clock.now_ns(),
        )
    )
    batch.heads[key] = head
    return [Event(action.value, path, kind, identity)]


def _meta(action: Action, about: Mapping[str, object], asked_by: str | None) -> str:
    """What is kept beside a frame, as JSON."""
    if not about and asked_by is None:
        return _ACTION_ALONE[action]
    asked = {} if asked_by is None else {"asked_by": asked_by}
    return json.dumps({"action": action.value, **about, **asked})
