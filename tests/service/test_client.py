"""What a client makes of every answer, whole or not, from a socket that says just that."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.progress import Meter
from indexer.errors import (
    CorruptError,
    ExitCode,
    LockedError,
    MerkleError,
    NoWorkspaceError,
    UncheckedError,
    UsageError,
)
from indexer.service import client
from indexer.service.client import Client, RemoteError, ServiceError


class Service:
    """Takes one request whole, and then does what a test wants."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.request = b""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(address)
        self._listener.listen()
        self._thread: threading.Thread | None = None

    def answering(self, *pieces: bytes, then: Callable[[], object] | None = None) -> Client:
        """A client of a service that sends these pieces and closes the connection."""
        self._thread = threading.Thread(target=self._answer, args=(pieces, then), daemon=True)
        self._thread.start()
        return Client(self.address)

    def _answer(self, pieces: tuple[bytes, ...], then: Callable[[], object] | None) -> None:
        connection, _ = self._listener.accept()
        with connection:
            while not self._is_whole():
                self.request += connection.recv(1 << 16)
            if then is not None:
                then()
            with contextlib.suppress(BrokenPipeError):  # a client may have given up
                for piece in pieces:
                    connection.sendall(piece)

    def _is_whole(self) -> bool:
        head, separator, body = self.request.partition(b"\r\n\r\n")
        length = next((int(e[15:]) for e in head.split(b"\r\n") if e[:15] == b"Content-Length:"), 0)
        return bool(separator) and len(body) == length

    def close(self) -> None:
        self._listener.close()
        if self._thread is not None:
            self._thread.join(60)
            assert not self._thread.is_alive()


@pytest.fixture
def service() -> Iterator[Service]:
    # A socket's path must be short, shorter than pytest's folders may be.
    with tempfile.TemporaryDirectory() as folder:
        started = Service(os.path.join(folder, "socket"))
        yield started
        started.close()


def answer(document: Any, status: int = 200, **headers: object) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} whatever", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_what_is_asked(service: Service) -> None:
    assert service.answering(answer({})).get("/v1/x", {"path": "a b&c\u00e4"}) == {}
    head, _, body = service.request.partition(b"\r\n\r\n")
    first, *headers = head.decode("ascii").split("\r\n")
    assert first == "GET /v1/x?path=a+b%26c%C3%A4 HTTP/1.1"
    assert {"Host: merkle", "Connection: close", "Content-Length: 0"} <= set(headers)
    assert body == b""


def test_what_is_posted(service: Service) -> None:
    sent = {"text": "\u00e4\r\n\r\n", "list": [1, None]}
    assert service.answering(answer({})).post("/v1/x", sent) == {}
    head, _, body = service.request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x HTTP/1.1\r\n")
    assert b"Content-Type: application/json" in head.split(b"\r\n")
    assert json.loads(body) == sent


def test_a_program_with_many_files_open_may_ask_and_be_shown_how_far_it_is(
    service: Service,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this system lets nobody open as many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    asking = service.answering(answer({"a": 1}))
    several: list[int] = []
    try:
        while not several or several[-1] < 1024:
            several.append(os.dup(0))
        assert asking.post("/v1/x", {}, meter=Meter()) == {"a": 1}
    finally:
        for one in several:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_answer_comes_in_pieces(service: Service) -> None:
    whole = answer({"text": "x" * 200_000 + "\r\n\r\n"})
    pieces = [whole[:3], whole[3:40], whole[40:41], whole[41:100_000], whole[100_000:]]
    assert service.answering(*pieces).get("/") == {"text": "x" * 200_000 + "\r\n\r\n"}


def test_an_answer_without_a_length_ends_with_the_connection(service: Service) -> None:
    assert service.answering(b'HTTP/1.1 200 OK\r\n\r\n{"a": 1}').get("/") == {"a": 1}


CUT = answer({"some": "thing"})


@pytest.mark.parametrize("length", [0, 5, CUT.index(b"\r\n\r\n") + 2, len(CUT) - 1])
def test_an_answer_that_is_cut_short(service: Service, length: int) -> None:
    with pytest.raises(ServiceError, match="stopped answering: the answer was cut short") as caught:
        service.answering(CUT[:length]).get("/")
    assert caught.value.hint == "run the command again"


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-whatever\r\n\r\n",
        b"\r\n\r\n{}",
        b"HTTP/1.1\r\n\r\n{}",
        b"HTTP/1.1 fine\r\n\r\n{}",
        b"HTTP/2 200\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
    ],
)
def test_an_answer_that_is_not_http(service: Service, said: bytes) -> None:
    with pytest.raises(ServiceError, match="the service stopped answering"):
        service.answering(said).get("/")


def test_an_answer_longer_than_it_says(service: Service) -> None:
    with pytest.raises(ServiceError, match="cut short"):
        service.answering(CUT + b"more").get("/")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "no document"),
        (b"null", "no document"),
    ],
)
def test_an_answer_that_is_no_document(service: Service, body: bytes, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        service.answering(answer(body)).get("/")


def test_an_error_of_the_service(service: Service) -> None:
    problem = {"code": "missing", "message": "no such node", "hint": "look", "exit_code": 2}
    with pytest.raises(RemoteError, match="no such node") as caught:
        service.answering(answer({"error": problem}, 404)).get("/")
    error = caught.value
    assert (error.code, error.hint, error.exit_code) == ("missing", "look", ExitCode(2))


@pytest.mark.parametrize(
    "kind", [UsageError, UncheckedError, CorruptError, NoWorkspaceError, LockedError]
)
def test_an_error_is_of_the_kind_that_it_has_without_a_service(
    service: Service, kind: type[MerkleError]
) -> None:
    problem = {"code": "x", "message": "no", "exit_code": int(kind.exit_code)}
    with pytest.raises(kind, match="no"):
        service.answering(answer({"error": problem}, 422)).get("/")


def test_an_error_without_words(service: Service) -> None:
    with pytest.raises(RemoteError, match="the service answered 500") as caught:
        service.answering(answer([], 500)).get("/")
    assert (caught.value.code, caught.value.exit_code) == ("service", ExitCode.UNCHECKED)


def test_a_service_that_is_about_to_stop_is_as_good_as_none(service: Service) -> None:
    with pytest.raises(ServiceError, match="is stopping") as caught:
        service.answering(answer({"error": {"message": "it is stopping"}}, 503)).get("/")
    assert caught.value.hint == "run the command again"


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="the service stopped answering"):
        Client(str(tmp_path / "socket")).get("/")


def test_only_a_patient_request_waits_longer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "TIMEOUT", 0.05)
    asked = threading.Event()
    impatient = service.answering(answer({}), then=lambda: asked.wait(60))
    with pytest.raises(ServiceError, match="timed out"):
        impatient.post("/", {})
    asked.set()


def test_a_patient_request_waits(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT", 0.05)
    # Many times the limit: the answer comes only after an impatient client has long given up.
    late = threading.Event()
    patient = service.answering(answer({"late": True}), then=lambda: late.wait(1))
    assert patient.post("/", {}, patient=True) == {"late": True}
