"""The ignore rules in force in each folder, kept for judging single paths."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from indexer.core import filestat, paths
from indexer.scan.ignore import RULE_FILE_NAMES, Rule, Scope, root_scope
from indexer.scan.reading import open_folder, read_bytes

RULE_FILES: Final = {os.fsdecode(name): name for name in RULE_FILE_NAMES}
INFO_EXCLUDE: Final = ".git/info/exclude"

# A rule file larger than this is not a rule file; git has no limit, but no real one comes near.
_RULE_FILE_LIMIT: Final = 1 << 20


class Scopes:
    """Scopes by folder, filled by walks and on demand, forgotten when a rule file changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, Scope] = {}
        self._exclude_stat: bytes | None = None

    def enter_root(self, descriptor: int, names: Iterable[str]) -> Scope:
        """The root's scope, with the rule files its listing shows."""
        scope = root_scope(
            _rule_files(descriptor, names), info_exclude=self._info_exclude(descriptor)
        )
        self._known = {paths.ROOT: scope}
        return scope

    def enter(
        self, parent: Scope, path: str, raw_name: bytes, descriptor: int, names: Iterable[str]
    ) -> Scope:
        """The scope of a folder below `parent`, with the rule files its listing shows."""
        scope = parent.child(raw_name, _rule_files(descriptor, names))
        self._known[path] = scope
        return scope

    def of(self, folder: str) -> Scope:
        """The scope of a folder, read from disk when it is not known yet."""
        # Events are judged on another thread than walks. What was read before rules were
        # forgotten goes into the dictionary of that time, never over what a walk has read since.
        known = self._known
        scope = known.get(folder)
        return scope or known.setdefault(folder, self._load(folder))

    def judge(self, path: str, is_folder: bool) -> Rule | None:
        """The rule that ignores a path, itself or by a folder around it; None when it is kept."""
        parts = path.split("/")
        folder = paths.ROOT
        for depth, name in enumerate(parts):
            raw = paths.text_to_bytes(name)
            last = depth == len(parts) - 1
            as_folder = is_folder or not last
            scope = self.of(folder)
            if scope.ignores(raw, as_folder):
                return scope.why(raw, as_folder)
            folder = paths.join(folder, name)
        return None

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Whether a path is left out of the tree."""
        return bool(path) and self.judge(path, is_folder) is not None

    def ignored_of(self, files: Iterable[str]) -> Iterator[str]:
        """The files that are left out; what is the same for a whole folder is found out once."""
        left_out: dict[str, bool] = {paths.ROOT: False}
        for folder, listed in groupby(files, key=lambda path: paths.split(path)[0]):
            if self._leaves_out(folder, left_out):
                yield from listed
                continue
            scope, names = self.of(folder), {paths.split(path)[1]: path for path in listed}
            doubtful = scope.doubtful(list(map(paths.text_to_os, names)))
            for name, path in names.items():
                is_doubtful = paths.text_to_os(name) in doubtful
                if is_doubtful and scope.ignores(paths.text_to_bytes(name), False):
                    yield path

    def _leaves_out(self, folder: str, known: dict[str, bool]) -> bool:
        if folder not in known:
            above, name = paths.split(folder)
            known[folder] = self._leaves_out(above, known) or self.of(above).ignores(
                paths.text_to_bytes(name), True
            )
        return known[folder]

    def surely_ignores(self, path: str, is_folder: bool) -> bool:
        """Whether rules that a walk has read leave a path out; False where none has been read.

        Reads nothing and keeps nothing, so any thread may ask.
        """
        known, folder = self._known, paths.ROOT
        parts = path.split("/")
        for depth, name in enumerate(parts):
            scope = known.get(folder)
            if scope is None:
                return False
            if scope.ignores(paths.text_to_bytes(name), is_folder or depth < len(parts) - 1):
                return True
            folder = paths.join(folder, name)
        return False

    def leave(self, folder: str) -> None:
        """Drop what is known of one folder that is about to be entered anew."""
        self._known.pop(folder, None)

    def forget(self, folder: str) -> None:
        """Drop what is known of a folder and everything below it."""
        known = list(self._known.items())
        self._known = {path: scope for path, scope in known if not paths.is_within(path, folder)}

    def _load(self, folder: str) -> Scope:
        with contextlib.ExitStack() as stack:
            try:
                descriptor = open_folder(self._root, folder)
            except OSError:
                descriptor = -1
            else:
                stack.callback(os.close, descriptor)
            if not folder:
                files = _rule_files(descriptor, RULE_FILES)
                return root_scope(files, info_exclude=self._info_exclude(descriptor))
            parent, name = paths.split(folder)
            files = _rule_files(descriptor, RULE_FILES)
            return self.of(parent).child(paths.text_to_bytes(name), files)

    def exclude_changed(self) -> bool:
        """Whether git's own exclude file, which no watch covers, changed since it was read."""
        if paths.ROOT not in self._known:
            return False
        stat = self._stat_exclude()
        return self._exclude_stat != (stat and filestat.pack(stat))

    def _stat_exclude(self) -> os.stat_result | None:
        try:
            return os.stat(self._root / INFO_EXCLUDE, follow_symlinks=False)
        except OSError:
            return None

    def _info_exclude(self, descriptor: int) -> bytes:
        if descriptor < 0:
            return b""
        now, stat = time.time_ns(), self._stat_exclude()
        self._exclude_stat = stat and filestat.vouching(stat, now)
        return read_bytes(INFO_EXCLUDE, descriptor, _RULE_FILE_LIMIT) or b""


def _rule_files(descriptor: int, names: Iterable[str]) -> dict[bytes, bytes]:
    if descriptor < 0:
        return {}
    found = {}
    for name, key in RULE_FILES.items():
        if name in names:
            content = read_bytes(name, descriptor, _RULE_FILE_LIMIT)
            if content is not None:
                found[key] = content
    return found
