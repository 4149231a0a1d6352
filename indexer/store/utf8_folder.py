"""A folder by a name that is UTF-8, for a database library that takes no other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from indexer.core import paths
from indexer.errors import UncheckedError

_BY_DESCRIPTOR: Final = Path("/proc/self/fd")
"""Where Linux gives every open folder a name."""


class UnnameableError(UncheckedError):
    """The database cannot be reached by any name that its library takes."""

    code = "unnameable"


class Utf8Folder:
    """A folder whose `path` is UTF-8 text for as long as this is open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._descriptor: int | None = None
        try:
            os.fspath(folder).encode()
        except UnicodeEncodeError:
            self.path = self._renamed(folder)

    def close(self) -> None:
        """Give the name up; harmless to repeat."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _renamed(self, folder: Path) -> Path:
        shown = paths.on_screen(paths.bytes_to_text(os.fsencode(folder)))
        try:
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UncheckedError(f"cannot open {shown}: {error.strerror or error}") from error
        renamed = _BY_DESCRIPTOR / str(self._descriptor)
        if not renamed.exists():
            self.close()
            raise UnnameableError(
                f"the database library cannot open {shown}: its name is not UTF-8",
                hint="rename the workspace's folder, or the one above it, to a name in UTF-8;"
                " the index was left untouched",
            )
        return renamed
