"""A connection to a PostgreSQL that is given up when its server falls silent."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Final, TypeVar

import psycopg

SLOWEST: Final = 30.0
"""Seconds that a statement may take at least: a large batch over a thin line is no outage."""

Result = TypeVar("Result")


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is given up when its server has not said a word for too long.

    The server's own limits are of no use against one that stands still, and the network's neither
    as long as its machine acknowledges what it is sent.
    """

    longest_silence: float

    def wait(self, gen: Generator[Any, Any, Result], *args: Any, **options: Any) -> Result:
        """Run one conversation with the server to its end, and give up where it falls silent."""
        try:
            return super().wait(_while_heard(gen, self.longest_silence), *args, **options)
        except _SilentError:
            # Closed first: nobody must wait again to roll back.
            self.close()
            raise psycopg.OperationalError(
                f"the server has not answered for {self.longest_silence:g} s"
            ) from None


class _SilentError(Exception):
    """The server was silent for too long."""


def _while_heard(gen: Generator[Any, Any, Result], longest: float) -> Generator[Any, Any, Result]:
    """A conversation as the driver drives it, broken off when nothing moves for too long."""
    heard = time.monotonic()
    try:
        waits_for = next(gen)
        while True:
            ready = yield waits_for
            now = time.monotonic()
            if ready:
                heard = now
            elif now - heard > longest:
                raise _SilentError
            waits_for = gen.send(ready)
    except StopIteration as end:
        result: Result = end.value
        return result


def connect(url: str, timeout: float) -> Connection:
    """Connect to a server, and bound how long anything may take; raises what the driver does."""
    seconds = max(1, round(timeout))
    connection = Connection.connect(
        url,
        autocommit=True,
        connect_timeout=seconds,
        # A peer that fell silent must not hold anybody for longer than this.
        tcp_user_timeout=seconds * 1000,
        application_name="merkle",
        # A pooler between here and the server may hand out another session each time.
        prepare_threshold=None,
    )
    slowest = max(SLOWEST, 4 * timeout)
    # The server ends what takes too long, and is given up only if it does not.
    connection.longest_silence = slowest + timeout
    try:
        connection.execute(f"SET statement_timeout = {round(slowest * 1000)}")
    except psycopg.Error:
        connection.close()
        raise
    return connection
