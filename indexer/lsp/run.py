"""Serving an editor over the process's own streams."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from pathlib import Path

from indexer.lsp.server import Server


def run_stdio(root: Path | None, agent: str | None, wait: float | None) -> None:
    """Serve one editor on standard input and output until it leaves.

    Without a root the workspace is the one that the editor has open.
    """
    # The command line holds the cycle collector back; what runs for days needs it.
    gc.enable()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    # Who asked is told why something was refused; here it would only be repeated.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    # There is nothing to save here, and a thread that reads its input cannot be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    # Whatever else is printed must not end up between two messages.
    os.dup2(2, 1)
    server = Server(root, agent, wait)
    try:
        server.start_io(incoming, outgoing)
    finally:
        server.stop_following()
