"""The console entry point."""

from __future__ import annotations

import gc
import os
import sys

from indexer import __version__


def main() -> None:
    """Run `merkle` with the arguments of this process."""
    if sys.argv[1:] == ["--version"]:
        # Asked by scripts and prompts all the time; not worth loading the option parser.
        print(f"merkle {__version__}")
        return
    if sys.getfilesystemencoding() != "utf-8":
        # Under another locale Python would decode names differently, and every id with them.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    # A command is short: collecting cycles would walk the whole tree again and again.
    gc.disable()
    from indexer.cli.group import cli

    try:
        cli.main(prog_name="merkle")
    except SystemExit as leaving:
        _leave(leaving.code)


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
