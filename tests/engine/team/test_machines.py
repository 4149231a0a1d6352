"""Eight machines at once, one that dies, a server that dies, one that was never there."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest

from indexer.engine.make.events import Outcome
from indexer.engine.make.one_pass import one_pass
from indexer.shared.postgres import PostgresStore
from indexer.shared.schema import MIGRATIONS
from tests.support.engines import Engine
from tests.support.postgres import Postgres
from tests.support.processes import Forked
from tests.support.team import Member, files, ran, sizes

SMALL = "import indexer.engine.team.exchange as s; s.PORTION = 4"


def finished(process: subprocess.Popen[str], code: int = 0) -> Any:
    out, err = process.communicate(timeout=90)
    assert process.returncode == code, out + err
    return json.loads(out)


def wait_until(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def small_portions(site: Path) -> None:
    """Children take few keys at once, so that a small workspace is shared out among them."""
    (site / "sitecustomize.py").write_text(SMALL)


@sizes(18, 32)
@pytest.mark.timeout(180)
def test_eight_machines_compute_each_key_exactly_once(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    small_portions(counted.parent / "site")
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    members += [Member(files(count)) for _ in range(8)]
    running = [
        member.start("--json", "watch", "--once", COUNTED_PAUSE="0.01") for member in members
    ]
    documents = [finished(process) for process in running]
    runs = ran(counted)
    # With what declares them, and 6 + 3 + 1 folders.
    total = count + 1 + 10
    assert len(runs) == total
    assert set(runs.values()) == {1}
    assert sum(one["shared"]["computed"] for one in documents) == total
    assert sum(one["generated"] for one in documents) == total
    assert all(one["generated"] + one["reused"] == total for one in documents)
    # They really worked together: no machine did it all.
    assert sum(one["shared"]["computed"] > 0 for one in documents) > 1
    bodies = members[0].bodies()
    assert all(member.bodies() == bodies for member in members[1:])
    assert members[0].open().shared_status()["leases"] == 0


def test_one_dies_with_leases_and_the_others_finish(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    monkeypatch.setenv("MERKLE_SHARED_LEASE", "1s")
    members += [Member(files(10)) for _ in range(3)]
    dying = members[0].start("watch", "--once", COUNTED_PAUSE="600")
    # It is in the middle of its first key, and holds all of them.
    wait_until(lambda: len(ran(counted)) == 1)
    others = [member.start("--json", "watch", "--once") for member in members[1:]]
    with psycopg.connect(url, autocommit=True) as connection:
        held = connection.execute("SELECT count(*) FROM merkle_leases").fetchone()
        assert held == (11,)
        # It renews what it holds for as long as it lives: its holder has not changed by then.
        first = connection.execute("SELECT min(expires_at) FROM merkle_leases").fetchone()
        holder = connection.execute("SELECT DISTINCT holder FROM merkle_leases").fetchall()

        def renewed() -> bool:
            now = connection.execute("SELECT min(expires_at) FROM merkle_leases").fetchone()
            return bool(now and first and now[0] > first[0])

        wait_until(renewed)
        assert connection.execute("SELECT DISTINCT holder FROM merkle_leases").fetchall() == holder
    assert len(ran(counted)) == 1
    dying.send_signal(signal.SIGKILL)
    dying.communicate(timeout=30)
    documents = [finished(process) for process in others]
    runs = ran(counted)
    # What it was at when it died was begun twice, and nothing else.
    assert sorted(runs.values()) == [1] * (len(runs) - 1) + [2]
    assert sum(one["shared"]["computed"] for one in documents) == len(runs)
    assert members[1].bodies() == members[2].bodies()
    # And the dead one's workspace is whole: it goes on from there.
    assert members[0].full_pass()["regenerated"] == 0


@pytest.mark.timeout(180)
def test_the_server_is_killed_in_the_middle_and_nothing_is_lost(
    own_server: Postgres, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_portions(counted.parent / "site")
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    monkeypatch.setenv("MERKLE_SHARED_TIMEOUT", "1s")
    first, second = (Member(files(24)) for _ in "12")
    members += [first, second]
    running = first.start("--json", "watch", "--once", COUNTED_PAUSE="0.03")
    wait_until(lambda: len(ran(counted)) >= 10)
    own_server.kill()
    document = finished(running)
    assert document["generated"] == len(ran(counted)) == 35
    assert document["failed"] == []
    assert "cannot be reached" in document["shared"]["problem"]
    pushed = document["shared"]["pushed"]
    assert 0 < pushed < 35
    status = first.open().shared_status()
    assert status["reachable"] is False
    # What the server acknowledged it may still have; what it did not is due.
    assert 35 - pushed <= status["pending"] <= 35
    own_server.start()
    again = first.open().shared_push()
    assert again["pending"] == 0
    assert again["pushed"] + pushed >= 35
    assert second.full_pass()["regenerated"] == 0
    assert set(ran(counted).values()) == {1}
    assert second.bodies() == first.bodies()


def test_what_is_due_survives_kill_and_goes_with_the_next_pass(
    own_server: Postgres, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_portions(counted.parent / "site")
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    monkeypatch.setenv("MERKLE_SHARED_TIMEOUT", "1s")
    first, second = (Member(files(24)) for _ in "12")
    members += [first, second]
    own_server.kill()
    running = first.start("watch", "--once", COUNTED_PAUSE="0.05")
    wait_until(lambda: len(ran(counted)) >= 14)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=30)
    # Every portion of four that was finished is stored, and due.
    due = first.open().shared_status()["pending"]
    assert due >= 8
    assert first.open().database.rows("SELECT count(*) FROM memo") == [(due,)]
    own_server.start()
    made = first.full_pass()
    assert made["shared"]["computed"] == 35 - due
    assert made["shared"]["pushed"] == 35
    assert first.open().shared_status()["pending"] == 0
    assert second.full_pass()["regenerated"] == 0


def test_results_behind_no_frame_any_more_are_pushed_too(
    own_server: Postgres, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    old, new = {"a.txt": "one"}, {"a.txt": "two"}
    first, second = Member(old), Member(old)
    members += [first, second]
    own_server.kill()
    first.full_pass()
    first.write("a.txt", new["a.txt"])
    first.full_pass()
    assert first.open().shared_status()["pending"] == 3 + 2
    first.end()
    own_server.start()
    assert first.full_pass()["shared"]["pushed"] == 5
    assert second.full_pass()["regenerated"] == 0


def test_a_server_that_does_not_answer_costs_one_bounded_wait(
    counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Somebody listens and never says a word.
    with socket.create_server(("127.0.0.1", 0), backlog=8) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("MERKLE_SHARED_URL", f"postgresql://u@127.0.0.1:{port}/d")
        monkeypatch.setenv("MERKLE_SHARED_TIMEOUT", "1s")
        monkeypatch.setattr("indexer.engine.make.one_pass.CHUNK", 5)
        member = Member(files(40))
        members.append(member)
        engine = member.open()
        exchange = engine.exchange
        assert exchange is not None
        tried: list[float] = []
        opener = exchange.client._opener

        def counting(url: str, namespace: str, timeout: float) -> Any:
            tried.append(timeout)
            return opener(url, namespace, timeout)

        monkeypatch.setattr(exchange.client, "_opener", counting)
        # The pauses between attempts are longer than this test: one attempt in all.
        monkeypatch.setattr(exchange.client, "_pause", 3600.0)
        made = member.full_pass()
    assert made["regenerated"] == 51
    assert made["failed"] == []
    assert tried == [1.0]
    assert "cannot be reached" in made["shared"]["problem"]


def test_eight_clients_make_the_tables_at_once(url: str, counted: Path) -> None:
    code = (
        "import sys; sys.stdin.readline();"
        "from indexer.shared.postgres import PostgresStore;"
        "store = PostgresStore(sys.argv[1], 'team', 5); print(store.usage().entries)"
    )
    racing = [
        Forked(
            [sys.executable, "-c", code, url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(8)
    ]  # fmt: skip
    for process in racing:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in racing:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, "0"), err
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT version FROM merkle_schema ORDER BY version").fetchall()
    assert rows == [(number,) for number in range(1, len(MIGRATIONS) + 1)]


def test_threads_race_for_the_tables_and_for_leases(url: str) -> None:
    gate = Barrier(8)
    keys = [bytes([n]) * 32 for n in range(50)]

    def one(number: int) -> set[bytes]:
        gate.wait(timeout=30)
        store = PostgresStore(url, "team", 5)
        try:
            gate.wait(timeout=30)
            return store.lease(keys, f"holder {number}", 60)
        finally:
            store.close()

    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(one, range(8)))
    assert sorted(key for one_got in granted for key in one_got) == sorted(keys)


def test_a_service_does_not_wait_for_another_machine(
    url: str, counted: Path, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk with little patience leaves alone what is computed elsewhere, and comes back."""
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    slow, served = (Member(files(8)) for _ in "12")
    members += [slow, served]
    other = slow.start("watch", "--once", COUNTED_PAUSE="600")
    wait_until(lambda: len(ran(counted)) == 1)
    engine: Engine = served.open()
    engine.scan()
    declared = engine.frames.types["loud"]
    one = one_pass(engine, declared, Outcome(), patience=0.1)
    assert one.run_some(engine.tree) is True
    assert one.outcome.events == []
    assert one.run_some(engine.tree) is True
    assert len(ran(counted)) == 1
    other.kill()
    other.communicate(timeout=30)
    with psycopg.connect(url, autocommit=True) as connection:
        # As if its time had passed by the server's clock.
        connection.execute("UPDATE merkle_leases SET expires_at = now() - interval '1 second'")
    while one.run_some(engine.tree):
        pass
    assert len(served.bodies()) == 9 + 10
