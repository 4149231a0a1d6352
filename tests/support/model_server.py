"""A local server that speaks the chat-completions protocol, with failures on demand."""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Answers one request as its server's script says."""

    protocol_version = "HTTP/1.1"
    server: ModelServer

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length))
        reply = self.server.received(self.path, dict(self.headers), body)
        reply(self, body)

    def send_json(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        self.send_text(status, json.dumps(document), headers)

    def send_text(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        raw = text.encode()
        try:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


class ModelServer(ThreadingHTTPServer):
    """Counts and keeps what is asked; answers deterministically unless a script says otherwise."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.guard = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.script: deque[Reply] = deque()
        """What to do with the next requests; answers when it is empty."""
        self.always: Reply | None = None
        self.asked = threading.Condition(self.guard)
        self.answered = 0
        self.usage: tuple[int, int] | None = None
        self.under_way = 0
        self.most_under_way = 0
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def calls(self) -> int:
        with self.guard:
            return len(self.bodies)

    def received(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        assert path == "/v1/chat/completions"
        with self.guard:
            self.bodies.append(body)
            self.headers.append({name.lower(): value for name, value in headers.items()})
            self.asked.notify_all()
            if self.script:
                return self.script.popleft()
            return self.always or answer

    def wait_for(self, calls: int, seconds: float = 60.0) -> None:
        """Wait until so many requests have come."""
        with self.guard:
            assert self.asked.wait_for(lambda: len(self.bodies) >= calls, seconds)

    def then(self, *replies: Reply) -> None:
        self.script.extend(replies)

    def asked_about(self) -> list[str]:
        """The first line of every question: the file's name or the number of entries."""
        with self.guard:
            return [body["messages"][-1]["content"].split("\n")[0] for body in self.bodies]

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


# -- replies


def says(text: str, *, finish: str = "stop", usage: tuple[int, int] | None = (10, 5)) -> Reply:
    """A proper answer with this text."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        document: dict[str, Any] = {
            "id": "chat-1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{
                "index": 0, "finish_reason": finish,
                "message": {"role": "assistant", "content": text},
            }],
        }  # fmt: skip
        if usage is not None:
            document["usage"] = {
                "prompt_tokens": usage[0], "completion_tokens": usage[1],
                "total_tokens": sum(usage),
            }  # fmt: skip
        with handler.server.guard:
            handler.server.answered += 1
        handler.send_json(200, document)

    return reply


def answer(handler: Handler, body: dict[str, Any]) -> None:
    """The usual answer: a text that only the question decides, with the usage of a real server."""
    question = body["messages"][-1]["content"]
    mark = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]
    usage = handler.server.usage or (len(question) // 4 + 20, 12)
    says(f"Answer {mark} on {question.split(chr(10))[0]}.", usage=usage)(handler, body)


def fails(status: int, message: str = "it broke", **headers: str) -> Reply:
    """An error of the server."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, body: handler.send_json(status, {"error": {"message": message}}, named)


def broken_json(handler: Handler, body: dict[str, Any]) -> None:
    """An answer that stops in the middle of its JSON."""
    handler.send_text(200, '{"id": "chat-1", "choices": [{"mess')


def no_choices(handler: Handler, body: dict[str, Any]) -> None:
    """A proper answer without any choice."""
    handler.send_json(200, {"id": "x", "object": "chat.completion", "choices": []})


def reset(handler: Handler, body: dict[str, Any]) -> None:
    """The connection is cut without a word."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.close()
    handler.close_connection = True


def held(gate: threading.Event, then: Reply = answer) -> Reply:
    """Answer only once a gate is open."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        server = handler.server
        with server.guard:
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
        gate.wait(60)
        with server.guard:
            server.under_way -= 1
        then(handler, body)

    return reply


def questions(bodies: Iterable[dict[str, Any]]) -> list[str]:
    """What was asked, whole."""
    return [body["messages"][-1]["content"] for body in bodies]
