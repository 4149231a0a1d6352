"""One made frame on its way into a batch: a new frame and head, or only a new proof."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core.frames import Action, BasisHash, BodyHash, Frame, Head, frame_id
from indexer.core.ids import NodeId
from indexer.engine.frames.types import FrameType
from indexer.engine.make.events import Event
from indexer.regenerate.plan import Step
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames


_ACTION_ALONE: Final = {action: json.dumps({"action": action.value}) for action in Action}


class MadeFrame(NamedTuple):
    """What is known of a frame besides its place and type."""

    agent: str
    basis: BasisHash
    content: BodyHash
    action: Action
    node_id: NodeId
    current: bool
    """Whether everything it was made from is current."""
    document: dict[str, object] | None = None
    """Its inputs, where there is more to know than node and fingerprint."""
    about: Mapping[str, object] = {}


def place(
    frames: Frames,
    declared: FrameType,
    step: Step,
    made: MadeFrame,
    batch: FrameBatch,
    asked_by: str | None,
) -> list[Event]:
    """Put a frame into a batch, and tell what that changes."""
    kind, action = declared.name, made.action
    identity = frame_id(made.basis, kind, made.agent, made.content)
    verified = step.entry.content_id if made.current else None
    key = (step.path, kind, made.agent)
    old = frames.heads.head(*key)
    config = declared.rules.config_for(step.entry)
    head = Head(identity, made.basis, made.content, verified, config, action)
    if old is not None and old.frame_id == identity:
        # The same frame again: only the proof of its freshness can be new.
        again = head._replace(action=old.action)
        if again != old:
            batch.heads[key] = again
        ran = action is Action.GENERATED
        return [Event(action.value, step.path, kind, identity)] if ran else []
    inputs = None
    if made.document is not None:
        inputs = frames.input_chains.add(key, made.document, batch)
    batch.frames.append(
        Frame(
            identity, step.path, kind, made.agent, made.basis, made.content, made.node_id, inputs,
            _meta(action, made.about, asked_by), frames.clock.now_ns(),
        )
    )  # fmt: skip
    batch.heads[key] = head
    return [Event(action.value, step.path, kind, identity)]


def _meta(action: Action, about: Mapping[str, object], asked_by: str | None) -> str:
    """What is kept beside a frame, as JSON."""
    if not about and asked_by is None:
        return _ACTION_ALONE[action]
    asked = {} if asked_by is None else {"asked_by": asked_by}
    return json.dumps({"action": action.value, **about, **asked})
