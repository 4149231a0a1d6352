"""The console entry point."""

from __future__ import annotations

import gc
import io
import os
import sys

from indexer import __version__

# Not from `typing`, which takes longer to load than Python itself to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from indexer.service.ahead import Ahead

COMPLETE_VARIABLE = "_MERKLE_COMPLETE"
"""Set by a shell that asks what a line could go on with."""


def main() -> None:
    """Run `merkle` with the arguments of this process."""
    try:
        _run()
    except KeyboardInterrupt:
        # While modules are loaded: the command itself could not say yet how it ends.
        os._exit(128 + 2)


def _run() -> None:
    if sys.argv[1:] == ["--version"]:
        # Asked by scripts and prompts all the time; not worth loading the option parser.
        print(f"merkle {__version__}")
        return
    if sys.getfilesystemencoding() != "utf-8":
        # Under another locale Python would decode names differently, and every id with them.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    ahead = None
    if COMPLETE_VARIABLE not in os.environ:
        # Imported late: this is all that most commands need while a service runs.
        from indexer.cli.thin import hand_over, served_folder

        status = hand_over(sys.argv[1:])
        if status is not None:
            os._exit(status)
        served = served_folder(sys.argv[1:])
        ahead = None if served is None else _look_ahead(served)
    run_here(ahead)


def _look_ahead(root: str) -> Ahead | None:
    """Begin a service's first look, beside which the option parser and the rest are loaded."""
    gc.disable()
    # Imported late: only for a service.
    from pathlib import Path

    from indexer.service.ahead import Ahead

    return Ahead.begin(Path(root))


def run_here(ahead: Ahead | None = None) -> None:
    """Run the command line in this process, and end it."""
    # A command is short: collecting cycles would walk the whole tree again and again.
    gc.disable()
    _buffer_streams()
    from indexer.cli.group import cli

    try:
        cli.main(prog_name="merkle", ahead=ahead)
    except SystemExit as leaving:
        _leave(leaving.code)


def _buffer_streams() -> None:
    """Write everything or fail: Python under PYTHONUNBUFFERED drops what a pipe does not take."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # What a test puts in its place may have none.
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            whole = open(  # noqa: SIM115  # open until the process ends
                stream.fileno(), "w", buffering=1, encoding=stream.encoding,
                errors=stream.errors, closefd=False,
            )  # fmt: skip
            setattr(sys, name, whole)


def _leave(code: object) -> None:
    """End at once: taking 100,000 nodes apart one by one takes longer than leaving them."""
    status = code if isinstance(code, int) else int(code is not None)
    # A stream that was closed before the start is None.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            status = status or 1
    os._exit(status)
