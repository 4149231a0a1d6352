"""Where in the tree each content stands, and which file an import means."""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

from indexer.core import paths
from indexer.core.changes import tree_changes
from indexer.core.code import FactsKey, Import
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.engine.code.known import FactsNumbers
from indexer.generators.facts import facts_key

_SCRIPTS = ("javascript", "typescript", "tsx")
_SCRIPT_ENDING = re.compile(r"\.(?:[cm]?[jt]sx?|vue|svelte)$")
_OF_FOLDER = re.compile(
    r"(?:^|/)(?:__init__\.pyi?|index\.(?:[cm]?[jt]sx?|vue|svelte)|(?:mod|lib|main)\.rs)$"
)
"""Files that stand for their folder."""
_BY_FOLDER = frozenset(("go", "java", "kotlin", "scala", "swift", "c#"))
"""Languages whose files see what the others of their folder have."""
_SEPARATORS = str.maketrans({"/": ".", "\\": ".", ":": "."})


class Places:
    """The files of a tree by content and by name, following the tree by what changed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._tree: Tree | None = None
        self._by_key: dict[FactsKey, list[str]] = {}
        self._by_name: dict[str, list[str]] = {}
        """By the last part of the name under which it is imported."""
        self._by_folder: dict[str, list[str]] = {}
        """By the name of the folder that it stands in."""
        self._modules: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def bring_up_to_date(self, tree: Tree) -> None:
        """Follow the tree; costs what changed since the last time."""
        with self.lock:
            if tree is self._tree:
                return
            if self._tree is None:
                for path, entry in tree.walk():
                    self._add(path, entry)
            else:
                for path, was, now in tree_changes(self._tree, tree):
                    self._remove(path, was)
                    self._add(path, now)
            self._tree = tree
            self._modules.clear()

    def _add(self, path: str, entry: Entry | None) -> None:
        if entry is not None and entry.kind is Kind.FILE:
            self._by_key.setdefault(facts_key(path, entry.content_id), []).append(path)
            self._by_name.setdefault(module_name(path), []).append(path)
            self._by_folder.setdefault(_folder_name(path), []).append(path)

    def _remove(self, path: str, entry: Entry | None) -> None:
        if entry is not None and entry.kind is Kind.FILE:
            _take_out(self._by_key, facts_key(path, entry.content_id), path)
            _take_out(self._by_name, module_name(path), path)
            _take_out(self._by_folder, _folder_name(path), path)

    def having(self, key: FactsKey) -> list[str]:
        """The files that have a content, in order."""
        return sorted(self._by_key.get(key, ()), key=paths.sort_key)

    def number(self, path: str, numbers: FactsNumbers) -> int | None:
        """The number of the facts that a file has."""
        entry = self._tree.get(path) if self._tree is not None else None
        return None if entry is None else numbers.get(facts_key(path, entry.content_id))

    def module(self, language: str, path: str, module: str) -> tuple[str, ...]:
        """The files that an import of a module in a file may mean, the likeliest first."""
        folder = paths.split(path)[0]
        known = (language, folder, module)
        if known not in self._modules:
            self._modules[known] = tuple(self._find(language, folder, module))
        return self._modules[known]

    def _find(self, language: str, folder: str, module: str) -> Iterable[str]:
        if language == "python":
            dots = len(module) - len(module.lstrip("."))
            if dots:
                base = folder.split("/") if folder else []
                above = len(base) - (dots - 1)
                if above < 0:
                    return ()
                return self._exactly([*base[:above], *filter(None, module[dots:].split("."))])
            return self._ending(module.split("."), folder, least=len(module.split(".")))
        if language in _SCRIPTS:
            if module.startswith("."):
                return self._exactly(_script(posixpath.join(folder, module)).split("/"))
            return self._ending(_script(module.lstrip("@~/")).split("/"), folder, least=2)
        if language in ("c", "c++"):
            near = posixpath.normpath(posixpath.join(folder, module))
            tail = "/" + module.lstrip("./")
            found = self._by_name.get(module_name(module), ())
            matching = [one for one in found if one == near or ("/" + one).endswith(tail)]
            return _nearest(matching, folder)
        if module == "crate":
            return self._crate(folder)
        parts = [part for part in module.translate(_SEPARATORS).split(".") if part]
        parts = [part for part in parts if part not in ("crate", "self", "super")]
        return self._ending(parts, folder, least=1)

    def _crate(self, folder: str) -> list[str]:
        """The files that the modules in and around a folder are part of."""
        for above in (folder, *paths.ancestors(folder)):
            whole = (paths.join(above, name) for name in ("lib.rs", "main.rs"))
            found = [path for path in whole if self._tree is not None and self._tree.get(path)]
            if found:
                return found
        return []

    def _exactly(self, parts: list[str]) -> Iterator[str]:
        whole = "/".join(parts)
        for path in sorted(self._by_name.get(parts[-1] if parts else "", ())):
            if _module_path(path) == whole:
                yield path

    def _ending(self, parts: list[str], folder: str, least: int) -> list[str]:
        """The files, or the files of a folder, whose place ends with as many parts as can be."""
        for first in range(max(1, len(parts) - least + 1)):
            tail = "/" + "/".join(parts[first:])
            named = self._by_name.get(parts[-1] if parts else "", ())
            found = [path for path in named if ("/" + _module_path(path)).endswith(tail)]
            if not found:
                beside = self._by_folder.get(parts[-1] if parts else "", ())
                found = [path for path in beside if ("/" + paths.split(path)[0]).endswith(tail)]
            if found:
                return _nearest(found, folder)
        return []

    def packaged(self, language: str, path: str, other: str) -> bool:
        """Whether a file sees what another one has without bringing it in."""
        return language in _BY_FOLDER and paths.split(path)[0] == paths.split(other)[0]


_Key = TypeVar("_Key")


def _take_out(lists: dict[_Key, list[str]], key: _Key, path: str) -> None:
    found = lists.get(key, [])
    if path in found:
        found.remove(path)
        if not found:
            del lists[key]


def _script(module: str) -> str:
    """A module of a script as the place of what it means, without the name that may be left out."""
    place = _SCRIPT_ENDING.sub("", posixpath.normpath(module))
    folder, name = paths.split(place)
    return folder if name == "index" else place


def _without_ending(path: str) -> str:
    folder, name = paths.split(path)
    stem, dot, ending = name.rpartition(".")
    return paths.join(folder, stem) if dot and stem and len(ending) <= 4 else path


def _module_path(path: str) -> str:
    """A file as a module: without its ending, and as its folder where it stands for that."""
    return paths.split(path)[0] if _OF_FOLDER.search(path) else _without_ending(path)


def _folder_name(path: str) -> str:
    return paths.split(paths.split(path)[0])[1] if "/" in path else ""


def module_name(path: str) -> str:
    """The last part of what a file is called as a module."""
    return paths.split(_module_path(path))[1]


def _nearest(found: Iterable[str], folder: str) -> list[str]:
    """Paths in order: those that share most of their way with a folder first, then the shortest."""

    def near(path: str) -> tuple[int, int, str]:
        shared = posixpath.commonpath([folder or ".", paths.split(path)[0] or "."])
        return -len(shared), path.count("/"), path

    return sorted(found, key=near)


def called_here(imports: Iterable[Import]) -> dict[str, list[Import]]:
    """What a file brings in, by what it calls it; under `*` what comes without a name."""
    found: dict[str, list[Import]] = {}
    for one in imports:
        found.setdefault("*" if one.name == "*" else one.alias or one.name, []).append(one)
    return found
