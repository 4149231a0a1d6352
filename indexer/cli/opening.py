"""From the global options to the workspace they mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from indexer.cli.options import Globals
from indexer.cli.progress import bar, is_terminal
from indexer.core.progress import Progress
from indexer.engine.settings import load_settings
from indexer.errors import LockedError, UsageError
from indexer.service.client import connect
from indexer.service.whose_socket import MARKERS
from indexer.service.workspace import Workspace, find_workspace
from indexer.store.layout import Layout
from indexer.store.lock import holder


class _Opened(Workspace):
    """A workspace whose work is shown by a bar, and that remembers how large it is."""

    may_fork = True
    options: Globals

    def _meter(self) -> AbstractContextManager[Progress | None]:
        return bar(self.options)

    def close(self) -> None:
        if self._engine is not None and is_terminal():
            head = self._engine.trees.head()
            self.files = 0 if head is None else head.totals.files
        super().close()


# Held until the process ends, so that nothing is taken apart object by object before that.
_opened: list[_Opened] = []


def opened_here() -> Iterator[tuple[Path, int]]:
    """The workspaces that this process had to open itself, with how many files each has."""
    return ((each.root, each.files) for each in _opened if not each.is_remote)


def open_workspace(options: Globals) -> Workspace:
    """The workspace that is meant, with the waiting time that is set for it."""
    root = root_of(options)
    workspace = _Opened.open(root, wait=load_settings(root).wait_s)
    workspace.options = options
    _opened.append(workspace)
    return workspace


def root_of(options: Globals) -> Path:
    """The workspace folder that is meant, whether or not it has been initialised."""
    if options.directory is None:
        return find_workspace()
    root = Path(os.path.abspath(options.directory))
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder", hint="name an existing folder")
    return root


def refuse_accidental_root(options: Globals) -> None:
    """Raise before the whole machine, or a whole home folder, is indexed by accident."""
    if options.directory is not None:
        return
    root = find_workspace()
    if any((root / marker).exists() for marker in MARKERS):
        return
    if root in (Path("/"), Path(os.path.expanduser("~"))):
        raise UsageError(
            f"{root} is no project, and nothing marks it as a workspace; it was not indexed",
            hint="go to a project's folder or name one with -C; `merkle init` here if you mean it",
        )


def refuse_beside_service(root: Path) -> None:
    """Raise when a service runs: it has the index open, and must not find it changed."""
    if connect(root) is None:
        return
    who = holder(Layout(root).lock)
    named, stop = (f"process {who[0]}", f"`kill {who[0]}`") if who else ("a process", "Ctrl-C")
    raise LockedError(
        f"the service, {named}, is using this index", hint=f"stop it first ({stop}), then try again"
    )
