"""Rows about sessions: what one more turn costs after a hundred of them and after ten thousand."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import Row
from indexer.core.clock import ManualClock
from indexer.engine.sessions import read, write
from indexer.engine.sessions.imports import import_session
from indexer.engine.workspace import Engine
from indexer.sessions import Session, make_content

SIZES = (100, 1_000, 10_000)
NEWEST = "@t0 .mt:last .cb"


def conversation(turns: int) -> str:
    """An exported session of so many turns, each a question and an answer of a few lines."""
    session = Session.new("talk", clock=ManualClock(10**18))
    session.append(make_content("instruction", text="Answer briefly."))
    for number in range(turns):
        asked = f"What about part {number}?\n" + f"It has {number * 7919 % 1000} lines. " * 3
        session.append(make_content("dialogue", role="user", text=asked))
        told = f"Part {number} is fine.\n" + "Nothing in it has changed since. " * 5
        session.append(make_content("dialogue", role="assistant", text=told))
        session.commit()
    return session.export().decode()


@dataclass(slots=True)
class Measured:
    """One session of a given length, and how long each thing took on it."""

    turns: int
    engine: Engine
    imported: float = 0.0
    opened: float = 0.0
    times: dict[str, list[float]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)

    def timed(self, name: str, work: Callable[[], object]) -> None:
        """Do something once, and note how long it took."""
        started = time.perf_counter()
        work()
        self.times.setdefault(name, []).append(time.perf_counter() - started)

    def median(self, name: str) -> float:
        """The median of what was noted."""
        return statistics.median(self.times[name])

    def one_turn(self, number: int) -> None:
        """One more turn, and what is read of it."""
        engine, before = self.engine, self._stored()
        for role in ("user", "assistant"):
            text = f"One more line by the {role}, number {number}."
            self.timed(
                "append",
                # Bound by its defaults.
                lambda role=role, text=text: write.append(
                    engine,  # type: ignore[misc]
                    "talk",
                    type="dialogue",
                    role=role,
                    text=text,
                ),
            )
        self.timed("commit", lambda: write.commit(engine, "talk"))
        self.rows.append(self._stored() - before)
        self.timed("select", lambda: read.select(engine, "talk", NEWEST))

    def render(self) -> None:
        """The whole thread, which does grow with what it shows."""
        self.timed("render", lambda: read.render(self.engine, "talk"))
        self.timed("compile", lambda: read.compile_session(self.engine, "talk"))

    def _stored(self) -> int:
        tables = ("session_records", "session_versions", "session_blobs", "session_heads")
        counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)
        return sum(self.engine.database.rows(f"SELECT {counts}")[0])


def prepare(work: Path, turns: int) -> Measured:
    """A workspace with one long session in it, opened anew."""
    root = work / f"session{turns}"
    root.mkdir()
    data = conversation(turns)
    with Engine.create(root) as engine:
        started = time.perf_counter()
        import_session(engine, name="talk", data=data)
        imported = time.perf_counter() - started
    engine = Engine(root)
    # The tables of the tokenizer, which have nothing to do with how long a session is.
    engine.counter.count_text("warm")
    read.list_sessions(engine)
    started = time.perf_counter()
    read.select(engine, "talk", NEWEST)
    return Measured(turns, engine, imported, time.perf_counter() - started)


def session_rows(work: Path, rounds: int) -> Iterator[Row]:
    """Append, commit, select and render; the sizes take turns, so that they share what happens."""
    measured = [prepare(work, turns) for turns in SIZES]
    try:
        for number in range(rounds * 6):
            for each in measured:
                each.one_turn(number)
        for _ in range(max(2, rounds // 2)):
            for each in measured:
                each.render()
        yield from _rows(measured)
    finally:
        for each in measured:
            each.engine.close()


def _rows(measured: list[Measured]) -> Iterator[Row]:
    small = measured[0]
    for each in measured[1:]:
        name, base = f"{each.turns:,} turns", f"{small.turns} turns"
        for what, limit in (("append", 1.5), ("commit", 1.5), ("select", 2.0)):
            told = f"session {what}, newest turn" if what == "select" else f"session {what}"
            yield Row(
                f"{told}, {name}", each.median(what) * 1e3, "ms", base, small.median(what) * 1e3,
                limit,
            )  # fmt: skip
        rows = statistics.median(each.rows)
        yield Row(f"rows stored by one turn, {name}", rows, "rows", base,
                  statistics.median(small.rows), 1.0)  # fmt: skip
        for what in ("render", "compile"):
            per_turn, base_per_turn = (
                each.median(what) / each.turns,
                small.median(what) / small.turns,
            )
            yield Row(f"session {what}, per turn, {name}", per_turn * 1e6, "us", base,
                      base_per_turn * 1e6, 2.0)  # fmt: skip
        yield Row(f"open a session, {name}", each.opened, "s", "import of it", each.imported, 0.5)
