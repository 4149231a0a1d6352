"""Where the service listens: a short path in a folder that only its user can enter."""

from __future__ import annotations

import contextlib
import os
import socket
import stat as modes
import tempfile
from pathlib import Path

from indexer.errors import UncheckedError
from indexer.service.client import socket_name
from indexer.store.atomic import write_atomically
from indexer.store.layout import Layout
from indexer.store.own_folder import PRIVATE_FILE


def socket_path(root: Path) -> Path:
    """The socket of a workspace: hashed, because socket paths end at about 107 bytes."""
    return runtime_folder() / socket_name(root)


def runtime_folder() -> Path:
    """The user's runtime folder for merkle, made with mode 0700 and refused when it is not ours."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base):
        folder = Path(base) / "merkle"
    else:
        folder = Path(tempfile.gettempdir()) / f"merkle-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    stat = os.lstat(folder)
    if not modes.S_ISDIR(stat.st_mode) or stat.st_uid != os.getuid() or stat.st_mode & 0o077:
        raise UncheckedError(
            f"{folder} is not a private folder of this user",
            hint="remove it, or set XDG_RUNTIME_DIR to a folder that only you can enter",
        )
    return folder


class Listening:
    """The workspace's socket while the service listens on it."""

    def __init__(self, root: Path) -> None:
        self._note = Layout(root).socket
        self._path = socket_path(root)
        self._announced: tuple[int, int] | None = None
        self.socket = bind(self._path)
        self._bound = _identity(self._path)

    def announce(self) -> None:
        """Write the address where clients look for it."""
        address = os.fsencode(self._path) + b"\n"
        # A power cut ends the service as well, and what it leaves here is nobody's address.
        write_atomically(self._note, address, mode=PRIVATE_FILE, durable=False)
        self._announced = _identity(self._note)

    def close(self) -> None:
        """Take the address back and remove the socket, unless they are somebody else's by now."""
        self.socket.close()
        for path, ours in ((self._note, self._announced), (self._path, self._bound)):
            with contextlib.suppress(OSError):
                if ours is not None and _identity(path) == ours:
                    path.unlink()


def bind(path: Path) -> socket.socket:
    """A socket that listens; the caller owns the workspace, so one that is there is a leftover."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(os.fspath(path))
        finally:
            os.umask(before)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _identity(path: Path) -> tuple[int, int]:
    stat = os.lstat(path)
    return stat.st_dev, stat.st_ino
