"""The process that a service keeps ready for commands: started beside it, ended with it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from indexer.service.address import bind, socket_path
from indexer.service.whose_socket import ready_address

_LONGEST_END: Final = 1.0
"""Seconds that commands under way may take to end when the service does."""


class ReadyProcess:
    """A process of its own, handed a socket; it lives as long as this holds the other end."""

    def __init__(self, root: Path, command: Sequence[str]) -> None:
        self._path = Path(ready_address(str(socket_path(root))))
        with bind(self._path) as listener:
            number = listener.fileno()
            self._process = subprocess.Popen(
                [*command, str(number)], cwd="/", stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[number],
                start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        """Let it end what it does and go; nobody new finds it."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LONGEST_END)
