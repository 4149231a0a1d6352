"""What a service does once its workspace is open: keep it true, answer on its sockets, end.

Loading this takes as long as starting a command that asks; both are done at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import uvicorn
from starlette.types import ASGIApp

from indexer.core.progress import Reading
from indexer.engine.make.processes import kill_helpers
from indexer.engine.workspace import Engine
from indexer.service.address import Listening
from indexer.service.ahead import Ahead
from indexer.service.batch_lines import BatchLines
from indexer.service.events import Broadcast
from indexer.service.health import Health
from indexer.service.server import Api
from indexer.service.writing_thread import WritingThread
from indexer.watch.debounce import Timing

Tell = Callable[[str], None]
"""Shows people one line."""

TERM_ANSWERS: Final = 0.5
"""Seconds that answers of models are waited for after SIGTERM; Ctrl-C waits longer."""

TERM_LONGEST: Final = 1.5
"""Seconds after SIGTERM in which everything may end in good order."""


class Page(Protocol):
    """What the service's process shows to browsers of this machine, beside the socket."""

    @property
    def url(self) -> str:
        """Where it can be opened."""
        ...

    @property
    def listener(self) -> socket.socket:
        """The bound socket it is served on."""
        ...

    def application(self, api: Api) -> ASGIApp:
        """The application that answers requests to it."""
        ...


class _Server(uvicorn.Server):
    """uvicorn without signal handlers and ticks of its own: the service decides when to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leave = asyncio.Event()

    def leave(self) -> None:
        """Stop accepting, let running requests end."""
        self.should_exit = True
        self._leave.set()

    async def main_loop(self) -> None:
        """Sleep until told to leave; ten ticks a second are for servers with nothing to save."""
        await self._leave.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


async def serve(
    engine: Engine,
    listening: Listening,
    *,
    timing: Timing | None,
    rescan_every: float,
    ahead: Ahead | None,
    page: Page | None,
    idle_exit: float | None,
    tell: Tell,
    show: Tell,
    when_up: Callable[[], None],
    on_batch: Tell | None,
    told_to_end: Sequence[int],
) -> None:
    """Serve an open workspace until there is a reason to stop; raises what stopped it by itself.

    `told_to_end` has the signals that came before there was who handles them.
    """
    writer = WritingThread(engine, timing=timing, rescan_every=rescan_every, ahead=ahead)
    ending = Ending(listening.close)
    lines = BatchLines(on_batch or (lambda text: None))
    if on_batch is not None:
        engine.subscribers.append(lines.publish)
        engine.frame_subscribers.append(lines.publish_frames)
    loop = asyncio.get_running_loop()
    broadcast = Broadcast(loop)
    engine.subscribers.append(broadcast.publish)
    engine.frame_subscribers.append(broadcast.publish_frames)
    api = Api(engine, writer, broadcast)
    servers = [(_server(api.application()), listening.socket)]
    if page is not None:
        api.web = page.url
        servers.append((_server(page.application(api)), page.listener))
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, number, engine, stop, ending)
    for early in told_to_end:
        _stop(early, engine, stop, ending)
    if page is not None:
        show(page.url)
    tell("scanning")
    writer.start()
    serving = asyncio.gather(*(server.serve(sockets=[bound]) for server, bound in servers))
    try:
        await _follow(writer, api, serving, stop, idle_exit, tell, when_up, lines)
    finally:
        # The writing thread first: whoever waits for it is told, and then every request can end.
        api.leave()
        await asyncio.to_thread(writer.stop)
        broadcast.close()
        for server, _ in servers:
            server.leave()
        await serving
    if writer.fatal is not None:
        raise writer.fatal


def _stop(number: int, engine: Engine, stop: asyncio.Event, ending: Ending) -> None:
    """End politely; asked for a second time, without waiting for what models have yet to say.

    SIGTERM comes from a machine that shuts down: it waits for next to nothing.
    """
    if stop.is_set():
        engine.in_flight.hurry()
    elif number == signal.SIGTERM:
        asyncio.get_running_loop().call_later(TERM_ANSWERS, engine.in_flight.hurry)
        ending.begin()
    stop.set()


class Ending:
    """Sees to it that a process which is to end does so, whatever its threads are at.

    What was acknowledged is durable, so nothing is lost by not waiting for a generator, a query
    or a file that takes long: that is what a kill would do a moment later.
    """

    def __init__(self, let_go: Callable[[], None]) -> None:
        self._let_go = let_go
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """From now on there is only so much time."""
        if self._timer is None:
            self._timer = threading.Timer(TERM_LONGEST, self._end)
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        kill_helpers()
        with contextlib.suppress(Exception):
            self._let_go()
        os._exit(0)


def _server(application: ASGIApp) -> _Server:
    config = uvicorn.Config(
        application, log_level="critical", lifespan="off", access_log=False, use_colors=False,
        date_header=False, server_header=False, timeout_graceful_shutdown=1, ws="none",
    )  # fmt: skip
    return _Server(config)


async def _follow(
    writer: WritingThread,
    api: Api,
    serving: asyncio.Future[list[None]],
    stop: asyncio.Event,
    idle_exit: float | None,
    tell: Tell,
    when_up: Callable[[], None],
    lines: BatchLines,
) -> None:
    """Wait for a reason to stop, telling what happens meanwhile."""
    told, is_up = None, False
    while not stop.is_set() and writer.is_alive() and not serving.done():
        lines.tick(is_busy=bool(writer.work().passes))
        health = writer.health()
        line = _line(health, writer.meter.read())
        if line != told:
            tell(line)
            told = line
        if not is_up and health.state != "starting":
            is_up = True
            when_up()
        idle_since = api.idle_since
        idle_for = time.monotonic() - idle_since if idle_since is not None else 0.0
        if idle_exit is not None and idle_for >= idle_exit:
            tell("idle, stopping")
            return
        with contextlib.suppress(TimeoutError):
            # Once a second is nothing to a CPU, and soon enough for a status line.
            await asyncio.wait_for(stop.wait(), 1.0)


def _line(health: Health, look: Reading) -> str:
    if health.state == "starting":
        # What is looked at before events are followed takes its time in a large workspace.
        return ", ".join(filter(None, [look.doing or health.state, look.amount]))
    folders = f"{health.watches:,} folder{'' if health.watches == 1 else 's'}"
    batches = f"{health.batches:,} batch{'' if health.batches == 1 else 'es'} of changes"
    # A typo in merkle.toml stops the frames, and nobody would look for that elsewhere.
    wrong = health.reason or health.frames or health.team
    return f"{health.state}, {folders}, {batches}" + (f" ({wrong})" if wrong else "")
