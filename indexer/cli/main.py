"""The console entry point."""

from __future__ import annotations

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
    from indexer.cli.group import cli

    cli.main(prog_name="merkle")
