"""The stale part of a declared type, leaves first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import NamedTuple

from indexer.core import paths
from indexer.core.frames import Head
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree


class Rules(NamedTuple):
    """What planning needs to know of a declared type."""

    type: str
    scopes: tuple[str, ...]
    file_config: bytes
    """Hash of everything declared that can change a file's frame."""
    folder_config: bytes
    """Hash of everything declared that can change a folder's frame, what is below it included."""
    size_limit: int
    has_file_frames: bool
    has_folder_frames: bool
    file_agent: str
    folder_agent: str
    gathers: str = ""
    """The type whose frames by agents a folder's frame is made from too; `*` means every type."""

    def covers(self, path: str) -> bool:
        """Whether a path lies in a declared scope."""
        return any(paths.is_within(path, scope) for scope in self.scopes)

    def wants(self, entry: Entry) -> bool:
        """Whether a node of this shape gets a frame."""
        if entry.kind is Kind.DIRECTORY:
            return self.has_folder_frames
        return self.has_file_frames and entry.kind is Kind.FILE and entry.size <= self.size_limit

    def agent_for(self, entry: Entry) -> str:
        """Whose head is kept at a node."""
        return self.folder_agent if entry.kind is Kind.DIRECTORY else self.file_agent

    def config_for(self, entry: Entry) -> bytes:
        """The configuration that a node's frame depends on."""
        return self.folder_config if entry.kind is Kind.DIRECTORY else self.file_config

    def is_current(self, head: Head | None, entry: Entry) -> bool:
        """Whether a head was shown to be fresh for exactly this content and configuration."""
        return (
            head is not None
            and head.verified == entry.content_id
            and head.config == self.config_for(entry)
        )

    def is_made(self, head_of: HeadOf, path: str, entry: Entry) -> bool:
        """Whether a node's own head is current."""
        return self.is_current(head_of(path, self.agent_for(entry)), entry)


class Step(NamedTuple):
    """One frame to make."""

    path: str
    entry: Entry


EVERY_TYPE = "*"
"""Stands for all frames of a child."""

HeadOf = Callable[[str, str], Head | None]
"""The head of a type at (path, agent)."""

Entering = Callable[[Sequence[str]], None]
"""Called with the paths whose heads are asked for next, so that many are loaded at once."""

CurrentBelow = MutableMapping[str, ContentId]
"""For folders, by path, the content id at which nothing below them was stale."""


def starts(rules: Rules, within: str) -> list[str]:
    """The paths to begin at: the declared scopes, cut to a part of the workspace."""
    found = set()
    for scope in rules.scopes:
        if paths.is_within(scope, within):
            found.add(scope)
        elif paths.is_within(within, scope):
            found.add(within)
    return sorted(path for path in found if found.isdisjoint(paths.ancestors(path)))


def stale_steps(
    tree: Tree,
    rules: Rules,
    head_of: HeadOf,
    within: str = paths.ROOT,
    *,
    recursive: bool = True,
    current_below: CurrentBelow | None = None,
    entering: Entering | None = None,
) -> Iterator[Step]:
    """Every frame that is missing or not current, children before parents.

    A folder whose head is current is not entered: its id vouches for everything below it. Where
    a type keeps no frames of folders, `current_below` does, which is read and added to.
    """
    for start in starts(rules, within):
        entry = tree.get(start)
        if entry is None:
            continue
        if recursive:
            if current_below is None or rules.has_folder_frames:
                yield from _below(rules, head_of, start, entry, entering)
            else:
                yield from _files_below(rules, head_of, start, entry, current_below)
        elif rules.wants(entry) and not rules.is_made(head_of, start, entry):
            yield Step(start, entry)


def _below(
    rules: Rules, head_of: HeadOf, path: str, entry: Entry, entering: Entering | None
) -> Iterator[Step]:
    stack: list[tuple[str, Entry, bool]] = [(path, entry, False)]
    while stack:
        path, entry, entered = stack.pop()
        if entered:
            yield Step(path, entry)
            continue
        wanted = rules.wants(entry)
        if wanted and rules.is_made(head_of, path, entry):
            continue
        if wanted:
            stack.append((path, entry, True))
        if entry.folder is not None:
            below = [
                (paths.join(path, name), child, False)
                for name, child in reversed(list(entry.folder.entries.items()))
                if child.kind is not Kind.LINK
            ]
            if entering is not None:
                entering([one[0] for one in below])
            stack += below


def _files_below(
    rules: Rules, head_of: HeadOf, path: str, entry: Entry, current_below: CurrentBelow
) -> Iterator[Step]:
    """The stale files, without entering folders in which none was stale at the same content."""
    found = 0
    stack: list[tuple[str, Entry, int | None]] = [(path, entry, None)]
    while stack:
        path, entry, before = stack.pop()
        if entry.folder is None:
            if rules.wants(entry) and not rules.is_made(head_of, path, entry):
                found += 1
                yield Step(path, entry)
        elif before is not None:
            if found == before:
                current_below[path] = entry.content_id
        elif current_below.get(path) != entry.content_id:
            stack.append((path, entry, found))
            stack.extend(
                (paths.join(path, name), child, None)
                for name, child in reversed(list(entry.folder.entries.items()))
            )


def count_wanted(tree: Tree, rules: Rules) -> int:
    """How many nodes a type keeps frames of."""
    found = 0
    stack = [entry for path in starts(rules, paths.ROOT) if (entry := tree.get(path)) is not None]
    while stack:
        entry = stack.pop()
        found += rules.wants(entry)
        if entry.folder is not None:
            stack += entry.folder.entries.values()
    return found


def chunks(steps: Iterator[Step], size: int) -> Iterator[list[Step]]:
    """Steps in groups that are stored together."""
    group: list[Step] = []
    for step in steps:
        group.append(step)
        if len(group) >= size:
            yield group
            group = []
    if group:
        yield group


def waves(steps: Sequence[Step]) -> list[list[Step]]:
    """Files first, then folders in groups that need nothing of each other, the lowest first."""
    heights: dict[str, int] = {}
    groups: dict[int, list[Step]] = {}
    for step in steps:
        # Children come before their parents, so what is below a folder has been seen.
        height = heights.get(step.path, 0) if step.entry.folder is not None else -1
        groups.setdefault(height, []).append(step)
        if step.path != paths.ROOT:
            parent = paths.split(step.path)[0]
            heights[parent] = max(heights.get(parent, 0), height + 1)
    return [groups[height] for height in sorted(groups)]


def readers_of(inputs: Mapping[str, str | None], source: str) -> list[str]:
    """The types that read a type's frames, directly or through another."""
    found: list[str] = []
    pending = [source]
    while pending:
        read = pending.pop()
        for name, reads in inputs.items():
            if reads == read and name not in found:
                found.append(name)
                pending.append(name)
    return found


def sources_of(inputs: Mapping[str, str | None], name: str) -> list[str]:
    """The types that a type's frames are made from, the first one first, and itself last."""
    found = [name]
    while (source := inputs.get(found[0])) is not None:
        found.insert(0, source)
    return found
