"""`merkle watch`: own the workspace, let commands in, and serve until the end."""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from indexer.engine.workspace import Engine
from indexer.errors import UncheckedError
from indexer.service.address import Listening, socket_path
from indexer.service.client import connect
from indexer.store.database import ReadOnlyError
from indexer.store.layout import Layout, initialise, is_initialised
from indexer.store.lock import SERVICE_ROLE, holder, locked_by

if TYPE_CHECKING:
    from indexer.service.ahead import Ahead
    from indexer.service.serving import Page, Tell
    from indexer.watch.debounce import Timing

_COLLECTED: Final = (20_000, 20, 20)
"""When cycles are looked for: of what a question makes hardly anything is one, and by default one
question in twenty waited while everything that is held for a large tree was gone through."""


def run_service(
    root: Path,
    *,
    idle_exit: float | None = None,
    on_status: Tell | None = None,
    timing: Timing | None = None,
    rescan_every: float = 900.0,
    wait: float = 10.0,
    on_batch: Tell | None = None,
    page: Page | None = None,
    on_page: Tell | None = None,
    ready: Sequence[str] | None = None,
    ahead: Ahead | None = None,
) -> None:
    """Serve a workspace until SIGINT, SIGTERM, idleness, or a reason to stop by itself.

    With a page, its address is told once the workspace is owned. `ready` starts the process that
    is kept ready for commands. With `ahead` it is owned already, and being looked at.
    """
    if ahead is None and is_initialised(root) and connect(root) is not None:
        raise locked_by(holder(Layout(root).lock))
    initialise(root)
    with contextlib.ExitStack() as stack:
        owned = None if ahead is None else ahead.owned
        engine = stack.enter_context(Engine(root, role=SERVICE_ROLE, wait=wait, owned=owned))
        if engine.read_only:
            raise ReadOnlyError
        # What may be wrong with the index is found out before anybody is let in.
        engine.load()
        listening = stack.enter_context(contextlib.closing(_listen(root)))
        # From now on it ends politely: a signal is noted until there is who handles it.
        told_to_end: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: told_to_end.append(number))
        # Commands that come from now on wait here rather than at the lock.
        _announce(listening)
        # Imported late: those commands are loaded at the same time.
        import asyncio

        from indexer.service.ready_process import ReadyProcess
        from indexer.service.serving import serve

        # The command line holds the cycle collector back; what runs for days needs it. All that is
        # loaded stays to the end, and would be gone through while the first command waits.
        gc.freeze()
        gc.set_threshold(*_COLLECTED)
        gc.enable()

        def when_up() -> None:
            # Without it commands go the ordinary way, which is slower and as good.
            with contextlib.suppress(OSError):
                if ready is not None:
                    stack.enter_context(contextlib.closing(ReadyProcess(root, ready)))

        asyncio.run(
            serve(
                engine, listening, timing=timing, rescan_every=rescan_every, ahead=ahead,
                page=page, idle_exit=idle_exit, tell=on_status or (lambda text: None),
                show=on_page or (lambda url: None), when_up=when_up, on_batch=on_batch,
                told_to_end=told_to_end,
            )
        )  # fmt: skip


def _listen(root: Path) -> Listening:
    try:
        return Listening(root)
    except OSError as error:
        raise UncheckedError(
            f"cannot listen on {socket_path(root)}: {error.strerror or error}",
            hint="set XDG_RUNTIME_DIR to a folder that only you can enter, with a short path",
        ) from error


def _announce(listening: Listening) -> None:
    try:
        listening.announce()
    except OSError as error:
        raise UncheckedError(
            f"cannot write where clients look for the service: {error.strerror or error}",
            hint="make room in .merkle, and start it again",
        ) from error
