"""The paths that a request draws on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from indexer.compose.request import (
    BELOW,
    NODE,
    PARENTS,
    RELATED,
    SIBLINGS,
    WORKSPACE,
    Request,
)
from indexer.core import paths


@dataclass(frozen=True, slots=True)
class Scope:
    """Single paths, and folders with everything below them; the root folder is everything."""

    single: frozenset[str]
    folders: tuple[str, ...]

    @property
    def everything(self) -> bool:
        """Whether no path is outside."""
        return paths.ROOT in self.folders

    def within(self, path: str) -> bool:
        """Whether a path lies in one of the folders."""
        return any(paths.is_within(path, folder) for folder in self.folders)


def scope_of(request: Request, children: Callable[[str], Iterable[str]]) -> Scope:
    """The paths a request draws on; `children` tells the names in a folder."""
    single: set[str] = set()
    folders: list[str] = []
    for source in request.sources:
        if source == WORKSPACE:
            folders.append(paths.ROOT)
        elif source == RELATED:
            single.update(request.related)
        elif source == NODE:
            single.update(request.nodes)
        elif source == BELOW:
            folders += request.nodes
        elif source == PARENTS:
            single.update(above for node in request.nodes for above in paths.ancestors(node))
        elif source == SIBLINGS:
            for node in request.nodes:
                if node != paths.ROOT:
                    parent = paths.split(node)[0]
                    single.update(paths.join(parent, name) for name in children(parent))
    return Scope(frozenset(single), tuple(dict.fromkeys(folders)))


def looked_at(request: Request) -> str:
    """The folder that holds everything whose freshness a request may ask for."""
    if WORKSPACE in request.sources or PARENTS in request.sources:
        return paths.ROOT
    tops = [*request.nodes, *request.related]
    if SIBLINGS in request.sources:
        tops = [paths.split(node)[0] if node else node for node in tops]
    return _common(tops)


def _common(tops: Iterable[str]) -> str:
    """The nearest path at or above all of these."""
    shared: list[str] | None = None
    for top in tops:
        names = top.split("/") if top else []
        if shared is None:
            shared = names
        else:
            equal = 0
            while equal < min(len(shared), len(names)) and shared[equal] == names[equal]:
                equal += 1
            shared = shared[:equal]
    return "/".join(shared or [])
