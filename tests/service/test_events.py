"""Server-sent events: every change, then the root; nothing silently missed."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from indexer import Workspace
from indexer.core.changes import Change
from indexer.core.ids import ContentId, NodeId
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Totals
from indexer.service import events, following
from indexer.service.client import Client
from indexer.service.events import Broadcast
from indexer.store.roots import Root


@contextmanager
def stream(address: str) -> Iterator[Any]:
    """An open event stream, as lines."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(address)
        connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: merkle\r\n\r\n")
        with connection.makefile("r", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if line.startswith(": connected"):
                    break
            yield lines


def until_root(lines: Any) -> list[dict[str, Any]]:
    found = []
    for line in lines:
        if line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            if event["event"] in ("node", "root"):
                found.append(event)
            if event["event"] == "root":
                return found
    raise AssertionError("the stream ended")


def test_an_edit_arrives(sample: Path, services: Callable[..., Any]) -> None:
    service = services(sample).ready()
    with stream(service.client.address) as lines:
        (sample / "pkg0" / "inner" / "file0.txt").write_text("edited")
        found = until_root(lines)
        assert [(event["change"], event["path"]) for event in found[:-1]] == [
            ("modified", "pkg0/inner/file0.txt")
        ]
        status = service.converges()
        assert found[-1]["root"] == status["root"]
        (sample / "pkg0" / "inner" / "file0.txt").rename(sample / "moved")
        found = until_root(lines)
        by_path = {event["path"]: event for event in found[:-1]}
        assert by_path["moved"]["renamed_from"] == "pkg0/inner/file0.txt"
        assert service.stop() == 0
        # It ends, rather than falling silent.
        assert not [line for line in lines if "missed" in line]


def test_a_workspace_tells_its_subscriber_what_others_do(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    told: list[dict[str, Any]] = []
    path = "pkg0/inner/file0.txt"

    def happened() -> list[str]:
        return [one["action"] for one in told if one["event"] == "frame" and one["path"] == path]

    with Workspace.open(sample) as workspace, workspace.subscribe(told.append) as following:
        assert workspace.is_remote
        with Workspace.open(sample) as other:
            other.agent_add("ann", "writer")
            other.put_frame(path, "a note", frame_type="note", agent="ann")
            other.session_new("talk")
        (sample / path).write_text("edited")
        until(lambda: "stale" in happened(), "it is told")
        assert [word for word in happened() if word in ("written", "stale")] == ["written", "stale"]
        until(lambda: {"event": "session", "name": "talk"} in told, "it is told")
        node = next(n for n, one in enumerate(told) if one["event"] == "node")
        root = next(n for n, one in enumerate(told) if one["event"] == "root")
        stale = next(n for n, one in enumerate(told) if one.get("action") == "stale")
        assert node < root < stale
        # Its successor is found, and what happened in between is said to be missed.
        assert service.stop() == 0
        service = services(sample).ready()
        until(lambda: {"event": "missed"} in told, "it is told")
        until(lambda: following._connection is not None, "it is told")
        (sample / "after").write_text("x")
        until(lambda: any(one.get("path") == "after" for one in told), "it is told")
    heard = len(told)
    (sample / "after").write_text("y")
    service.converges()
    assert len(told) == heard


def test_a_line_that_a_killed_service_left_unfinished_is_passed_over(
    tmp_path: Path, monkeypatch: Any, until: Callable[..., Any]
) -> None:
    address = str(tmp_path / "s")
    answers = [b'data: {"event": "no', b'data: {"event": "root"}\n']
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        monkeypatch.setattr(following, "connect", lambda root: Client(address))

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(b": connected\n\n" + answer)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        told: list[dict[str, Any]] = []
        with following.Following(tmp_path, told.append, lambda one: None):
            until(lambda: {"event": "root"} in told, "it is told")
            serving.join()
            monkeypatch.setattr(following, "connect", lambda root: None)
        assert told == [{"event": "missed"}, {"event": "root"}]


def test_nodes_of_a_batch_come_in_order_of_their_paths() -> None:
    entry = Entry(Kind.FILE, ContentId(b"c" * 16), 1)
    other = Entry(Kind.FILE, ContentId(b"d" * 16), 1)
    batch = [Change("a", entry, other), Change("b", None, entry), Change("0", other, None)]
    told = events.change_events(root(1), batch)
    assert [one.get("path") for one in told] == ["0", "a", "b", None]


def test_a_reader_that_goes_is_forgotten(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    for _ in range(5):
        with stream(service.client.address):
            (sample / "edit").write_text("x")
    service.converges()
    service.goes_idle()


def change(number: int) -> Change:
    return Change(f"f{number}", None, Entry(Kind.FILE, ContentId(b"c" * 16), 1))


def root(seq: int) -> Root:
    totals = Totals(1, 1, 1, 1)
    return Root(seq, NodeId(b"r" * 16), ContentId(b"c" * 16), 0, "watch", totals, 1, 0, 0, 0)


def test_a_slow_reader_is_told_that_it_missed_something(monkeypatch: Any) -> None:
    monkeypatch.setattr(events, "QUEUE", 10)

    async def scenario() -> list[str]:
        broadcast = Broadcast(asyncio.get_running_loop())
        reading = broadcast.stream()
        await anext(reading)
        assert broadcast.readers == 1
        await asyncio.to_thread(broadcast.publish, root(1), [change(n) for n in range(25)])
        await asyncio.to_thread(broadcast.publish, root(2), [change(99)])
        await asyncio.sleep(0)
        broadcast.close()
        words = [json.loads(piece.split(b"data: ")[1])["event"] async for piece in reading]
        assert broadcast.readers == 0
        return words

    words = asyncio.run(scenario())
    assert words[0] == "missed"
    assert words[-1] == "root"
    assert len(words) <= 11


def test_a_stream_that_begins_too_late_ends_at_once() -> None:
    async def scenario() -> list[bytes]:
        broadcast = Broadcast(asyncio.get_running_loop())
        broadcast.close()
        return [piece async for piece in broadcast.stream()]

    assert asyncio.run(scenario()) == [b": connected\n\n"]


def test_a_quiet_stream_says_that_it_lives() -> None:
    async def scenario() -> bytes:
        broadcast = Broadcast(asyncio.get_running_loop())
        reading = broadcast.stream(heartbeat=0.01)
        await anext(reading)
        beat = await anext(reading)
        await reading.aclose()  # type: ignore[attr-defined]  # a function that carries a folder
        return beat

    assert asyncio.run(scenario()) == b": still here\n\n"


def test_publishing_to_a_loop_that_has_ended_is_harmless() -> None:
    loop = asyncio.new_event_loop()
    broadcast = Broadcast(loop)
    broadcast._queues.add(asyncio.Queue())
    loop.close()
    broadcast.publish(root(1), [change(1)])
