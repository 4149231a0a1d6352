"""A folder that is asked for alone while frames below it are stale: not made, and told so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from indexer.core import paths
from indexer.core.tree import Tree
from indexer.engine.frames.freshness import stale_children
from indexer.engine.frames.types import FrameType
from indexer.engine.make.events import Event
from indexer.regenerate.plan import Step, stale_steps

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

NAMED: Final = 5
"""Children that are named; the others are counted."""

HINT: Final = "--recursive makes the frames below first"


def blocked(frames: Frames, declared: FrameType, step: Step) -> Event | None:
    """Why a folder's frame cannot be made current by itself; None where it can."""
    if step.entry.folder is None:
        return None
    below = [path for path, _, _ in stale_children(frames, declared, step.path, step.entry)]
    if not below:
        return None
    more = f" and {len(below) - NAMED:,} more" if len(below) > NAMED else ""
    because = f"frames below it are stale: {', '.join(below[:NAMED])}{more}"
    return Event("failed", step.path, declared.name, None, because, tuple(below))


def all_blocked(
    frames: Frames, tree: Tree, declared: FrameType, within: str = paths.ROOT
) -> Iterator[Event]:
    """What a run that enters no folder had to leave as it is."""
    head_of = frames.heads.heads_of(declared.name)
    for step in stale_steps(tree, declared.rules, head_of, within, recursive=False):
        event = blocked(frames, declared, step)
        if event is not None:
            yield event
