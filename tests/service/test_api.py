"""The HTTP surface: clear errors, bounded requests, and never a traceback."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.service.client import RemoteError
from indexer.service.request_values import MAX_BODY
from indexer.service.server import MOST_QUERIES, MOST_WAITING
from tests.service.conftest import wait_until


@pytest.fixture(scope="module")
def service(shm: Path, services: Callable[..., Any]) -> Iterator[Any]:
    root = Path(tempfile.mkdtemp(prefix="ws-", dir=shm))
    (root / "file").write_text("x")
    (root / ".gitignore").write_text("*.log\n")
    service = services(root).ready()
    yield service
    assert service.health()["state"] == "watching"
    assert service.output() == ""


def ask(service: Any, method: str, target: str, body: bytes = b"") -> tuple[int, Any]:
    head = f"{method} {target} HTTP/1.1\r\nHost: merkle\r\nConnection: close\r\n"
    return raw(service, head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def raw(service: Any, request: bytes) -> tuple[int, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(service.client.address)
        # It may be refused before all of it was read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert b"Traceback" not in body
    return status, json.loads(body) if head.lower().count(b"application/json") else body


BAD = [
    ("GET", "/v1/status?wait=perhaps", b""),
    ("GET", "/v1/log?limit=-1", b""),
    ("GET", "/v1/log?limit=many", b""),
    ("GET", "/v1/log?limit=99999999999999999999", b""),
    ("GET", "/v1/log?limit=%EF%BC%91", b""),
    ("GET", "/v1/diff", b""),
    ("GET", "/v1/diff?old=zz&new=yy", b""),
    ("GET", "/v1/diff?old=@-0&new=@-999", b""),
    ("GET", "/v1/resolve", b""),
    ("GET", "/v1/resolve?node=../outside", b""),
    ("GET", "/v1/resolve?node=/etc/passwd", b""),
    ("GET", "/v1/resolve?node=a%00b", b""),
    ("GET", "/v1/resolve?node=nothing", b""),
    ("GET", "/v1/resolve?node=id:xyz", b""),
    ("GET", "/v1/resolve?node=id:ffffffffff", b""),
    ("GET", "/v1/resolve?node=" + "n" * 5000, b""),
    ("GET", "/v1/why-ignored", b""),
    ("GET", "/v1/why-ignored?path=../x", b""),
    ("POST", "/v1/scan", b"not json"),
    ("POST", "/v1/scan", b"[]"),
    ("POST", "/v1/scan", b'"text"'),
    ("POST", "/v1/scan", b"\xff\xfe\x00"),
    ("POST", "/v1/scan", b'{"force": "perhaps"}'),
    ("POST", "/v1/scan", b'{"force": 1}'),
    ("POST", "/v1/scan", b"[" * 100_000),
    ("POST", "/v1/scan", b'{"force": ' + b"9" * 6000 + b"}"),
    ("POST", "/v1/validate", b'{"subset": 3}'),
    ("POST", "/v1/validate", b'{"subset": [2, 1]}'),
    ("POST", "/v1/validate", b'{"subset": [true, 1]}'),
    ("POST", "/v1/validate", b'{"expect_root": 12}'),
    ("POST", "/v1/validate", b'{"expect_root": "not hex"}'),
    ("POST", "/v1/validate", b'{"expect_root": "\\ud800"}'),
    ("POST", "/v1/search", b'{"question": "x", "kinds": [{}]}'),
    ("POST", "/v1/search", b'{"question": "x", "kinds": [[]]}'),
    ("POST", "/v1/sql", b"{}"),
    ("POST", "/v1/sql", b'{"query": 5}'),
    ("POST", "/v1/sql", b'{"query": "DROP TABLE root_log"}'),
    ("POST", "/v1/sql", b'{"query": "SELECT 1; SELECT 2"}'),
    ("POST", "/v1/sql", b'{"query": "SELECT \\ud800"}'),
    ("POST", "/v1/sql", b'{"query": "SELECT \\u0000"}'),
    ("POST", "/v1/sql", b'{"query": "SELECT * FROM nowhere"}'),
    ("POST", "/v1/sql", b'{"query": "SELECT 1", "timeout": -1}'),
    ("POST", "/v1/sql", b'{"query": "SELECT 1", "timeout": NaN}'),
    ("POST", "/v1/sql", b'{"query": "SELECT 1", "limit": 1e99}'),
    (
        "POST",
        "/v1/sql",
        b'{"query": "SELECT sum(range) FROM range(1000000000000)", "timeout": 0.05}',
    ),
]


@pytest.mark.parametrize(("method", "target", "body"), BAD)
def test_bad_requests_are_refused(service: Any, method: str, target: str, body: bytes) -> None:
    before = service.status()["root"]
    status, document = ask(service, method, target, body)
    # What names something that is not there is understood, and told apart by its code.
    assert status == (400 if document["error"]["code"] == "usage" else 422), document
    assert document["error"]["message"]
    assert document["error"]["exit_code"] == 2
    assert service.status()["root"] == before


@pytest.mark.parametrize("target", ["/", "/v1", "/v1/nothing", "/v2/status", "/../etc/passwd"])
def test_unknown_routes(service: Any, target: str) -> None:
    status, document = ask(service, "GET", target)
    assert status == 404
    assert document["error"]["code"] == "usage"


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/v1/status"), ("GET", "/v1/scan"), ("DELETE", "/v1/log"), ("PUT", "/v1/events")],
)
def test_wrong_methods(service: Any, method: str, target: str) -> None:
    status, document = ask(service, method, target)
    assert status == 405
    assert document["error"]["message"]


def test_long_bodies_are_refused(service: Any) -> None:
    status, document = ask(service, "POST", "/v1/sql", b" " * (MAX_BODY + 1))
    assert status == 413
    assert document["error"]["code"] == "too_large"


def test_bodies_without_end_are_refused(service: Any) -> None:
    head = b"POST /v1/sql HTTP/1.1\r\nHost: m\r\nConnection: close\r\n"
    request = head + b"Transfer-Encoding: chunked\r\n\r\n"
    status, _ = raw(
        service, request + (b"10000\r\n" + b" " * 65536 + b"\r\n") * (MAX_BODY // 65536 + 1)
    )
    assert status == 413


@pytest.mark.parametrize("request_", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"A" * 200_000])
def test_what_is_not_http(service: Any, request_: bytes) -> None:
    status, _ = raw(service, request_)
    assert 400 <= status < 500


def test_half_a_request_holds_nothing_up(service: Any) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(service.client.address)
        connection.sendall(b"POST /v1/scan HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        assert service.status()["state"] == "current"


def test_good_requests(service: Any) -> None:
    client = service.client
    assert client.get("/v1/health")["pid"] == service.pid
    assert client.get("/v1/status", {"wait": "false"})["state"] == "unknown"
    assert client.post("/v1/scan", {})["files"] == 2
    assert client.post("/v1/validate", {"content": True})["valid"]
    assert client.post("/v1/validate", {"subset": [1, 2]})["valid"]
    assert client.get("/v1/log", {"limit": "1"})["roots"]
    assert client.get("/v1/diff", {"old": "@-0", "new": "@-0"})["added"] == []
    assert client.post("/v1/sql", {"query": "SELECT count(*) FROM nodes"})["rows"] == [[3]]
    assert client.get("/v1/resolve", {"node": "file"})["kind"] == "file"
    assert client.get("/v1/why-ignored", {"path": "x.log"})["ignored"]


def test_errors_reach_the_client_whole(service: Any) -> None:
    with pytest.raises(RemoteError) as caught:
        service.client.get("/v1/resolve", {"node": "nothing"})
    assert caught.value.code == "unknown_node"
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_many_at_once(service: Any) -> None:
    """More waiting requests than worker threads, and health is still answered."""
    connections = []
    try:
        for _ in range(60):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(60)
            connection.connect(service.client.address)
            connection.sendall(b"GET /v1/status HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
            connections.append(connection)
        assert service.health()["state"] == "watching"
        for connection in connections:
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    finally:
        for connection in connections:
            connection.close()


ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000) c WHERE a = b + c"


def asking_endlessly(service: Any, timeout: float = 250) -> socket.socket:
    """A client that has sent a query which takes for ever, and waits."""
    body = json.dumps({"query": ENDLESS, "timeout": timeout}).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(service.client.address)
    connection.sendall(b"POST /v1/sql HTTP/1.1\r\nHost: merkle\r\nConnection: close\r\n")
    connection.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return connection


@pytest.mark.parametrize("many", [12, pytest.param(60, marks=pytest.mark.soak)])
def test_queries_hold_up_neither_a_status_nor_each_other(service: Any, many: int) -> None:
    """Many at once: few run, the rest wait, and none outlives the client that asked."""
    assert many > 2 * MOST_QUERIES
    with contextlib.ExitStack() as stack:
        for _ in range(many):
            stack.enter_context(asking_endlessly(service))
        for _ in range(5):
            assert ask(service, "GET", "/v1/status")[0] == 200
            assert ask(service, "GET", "/v1/health")[0] == 200
    # They have left, all of them: the next gets its turn without waiting for 250 s each.
    assert ask(service, "POST", "/v1/sql", b'{"query": "SELECT 1"}')[1]["rows"] == [[1]]


@pytest.mark.parametrize("waiting", [6, pytest.param(MOST_WAITING, marks=pytest.mark.soak)])
def test_more_queries_than_can_wait_are_refused(
    folder: Path, services: Callable[..., Any], waiting: int
) -> None:
    fewer = f"import indexer.service.server as s; s.MOST_WAITING = {waiting}"
    service = services(folder, inject=fewer).ready()
    with contextlib.ExitStack() as stack:
        asking = [
            stack.enter_context(asking_endlessly(service))
            for _ in range(MOST_QUERIES + waiting + 1)
        ]
        answered, _, _ = select.select(asking, [], [], 60)
        assert answered[0].recv(1 << 16).startswith(b"HTTP/1.1 503 ")
    wait_until(
        lambda: ask(service, "POST", "/v1/sql", b'{"query": "SELECT 1"}')[0] == 200,
        "it takes queries again",
    )


def test_a_service_ends_while_queries_run(shm: Path, services: Callable[..., Any]) -> None:
    root = Path(tempfile.mkdtemp(prefix="ws-", dir=shm))
    service = services(root).ready()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(asking_endlessly(service))
        assert ask(service, "GET", "/v1/status")[0] == 200
        assert service.stop() == 0


def test_a_wrong_method_is_told_the_right_one(service: Any) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(service.client.address)
        connection.sendall(b"DELETE /v1/scan HTTP/1.1\r\nHost: merkle\r\nConnection: close\r\n\r\n")
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: POST\r\n" in answer
