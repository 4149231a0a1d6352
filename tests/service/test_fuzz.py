"""The real service, asked over its socket whatever its own schema can be made to say."""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import typing
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jsonschema_rs
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from indexer.service.openapi import openapi_document
from indexer.service.operations import OPERATIONS
from indexer.service.request_values import MAX_BODY
from indexer.service.routes import EVENT_STREAM, FIXED, OF_SESSIONS
from indexer.service.server import Api
from indexer.store.layout import initialise

DOCUMENT = openapi_document(Api)
LABELS = [
    f"{method.upper()} {path}"
    for path, item in DOCUMENT["paths"].items()
    if path != "/v1/events"  # which never ends
    for method in item
]
VALIDATOR = jsonschema_rs.validator_for


class Asked:
    """A service and a way to ask it anything."""

    def __init__(self, service: Any, folder: Path, words: dict[str, list[str]]) -> None:
        self.service = service
        self.address = service.client.address
        self.folder = folder
        self.words = words

    def ask(
        self, method: str, target: str, body: bytes = b"", **headers: str
    ) -> tuple[int, str, Any]:
        lines = [f"{method} {target} HTTP/1.1", "Host: merkle", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
        lines += [f"Content-Length: {len(body)}"]
        return self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def send(self, request: bytes) -> tuple[int, str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(self.address)
            # It may be refused before all of it was read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(request)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        headers = dict(
            line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if ": " in line
        )
        media = headers.get("content-type", "")
        # Some of what is sent here is two requests to a server, and has two answers.
        body = body[: int(headers.get("content-length", len(body)))]
        document = json.loads(body) if media == "application/json" and body else body
        return int(head.split()[1]), media, document


@pytest.fixture(scope="module")
def asked(shm: Path, services: Callable[..., Any]) -> Iterator[Asked]:
    root = Path(tempfile.mkdtemp(prefix="ws-", dir=shm))
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "deep" / "a.py").write_text("def a() -> None: ...\n")
    (root / "src" / "b.md").write_text("# B\n")
    (root / "odd \\ na\nme").write_text("x")
    (root / ".gitignore").write_text("*.log\n")
    initialise(root, "sha256")
    service = services(root).ready()
    client = service.client
    client.post("/v1/agent-add", {"agent_id": "alice", "role": "writer"})
    client.post("/v1/agent-add", {"agent_id": "carol", "role": "synthesis"})
    if "session-new" in OPERATIONS:
        client.post("/v1/session-new", {"name": "s1"})
    node_id = client.get("/v1/resolve", {"node": "src/b.md"})["node_id"]
    nodes = [
        "", ".", "src", "src/deep", "src/b.md", "odd \\x5c na\\x0ame", "gone", "id:" + node_id,
        node_id, node_id[:6], "path:src", "\x00", "../..", "/etc", "x" * 5000, "n/" * 3000,
    ]  # fmt: skip
    roots = ["@-0", "@-1", "@-999999999", service.status()["root"], node_id]
    selects = ["heads", "frames", "nodes", "roots", "changes", "basis", "root_log", "nowhere"]
    words = {
        "node": nodes, "path": nodes, "seen": [node_id, node_id[:8]], "view": ["recency", "type"],
        "frame_type": ["outline", "note", "odd type"], "agent": ["alice", "carol", "bob"],
        "on": ["content", "listing", "outline"], "policy": ["summarize", "concatenate", "llm"],
        "old": roots, "new": roots, "base": roots, "expect_root": roots,
        "agent_id": ["alice", "carol", "new"], "role": ["writer", "reader", "synthesis"],
        "name": ["s1", "s1", "s2", "", "a/b"], "type": ["instruction", "dialogue", "tool_io"],
        "selector": [".cb", "@t0 .mt > .cb", "^ah :pre", "@t-5..@t-1 .cb", "[ttl=null]", "(("],
        "older": ["@t0", "@t-1", "@w"], "newer": ["@t0", "@w"], "snapshot": ["@t0", "@w", "@t-3"],
        "region": ["sys", "ah"], "manifest": roots, "order": ["recency", "relevance"],
        "on_budget": ["warn", "reject"], "as_of": ["2026-01-01T00:00:00Z"], "up_to": roots,
        "query": [f"SELECT * FROM {view}" for view in selects],
    }  # fmt: skip
    yield Asked(service, Path(tempfile.mkdtemp(prefix="packs-", dir=shm)), words)
    assert service.status()["state"] == "current"
    assert client.post("/v1/validate", {"content": True})["errors"] == []
    assert service.health()["state"] == "watching"
    assert service.output() == ""


def tamed(asked: Asked, body: Any) -> Any:
    """Packs are written and read in a folder of the test's own, by any name it can have."""
    if isinstance(body, dict) and isinstance(body.get("file"), str) and body["file"][:1] == "/":
        return {**body, "file": f"{asked.folder}/{body['file'][1:].replace('/', '_')}"}
    return body


def check(asked: Asked, label: str, case: Any, data: st.DataObject, *, allowed: bool) -> None:
    """Ask, and compare the answer with what the schema promises.

    What it allows is never called malformed, and what it excludes is never carried out.
    """
    body, query = tamed(asked, case.body), dict(case.query or {})
    for values in (body, query):
        for name, value in list(values.items()) if isinstance(values, dict) else ():
            # Otherwise hardly anything asked about would exist.
            if isinstance(value, str) and name in asked.words and data.draw(st.integers(0, 7)):
                values[name] = data.draw(st.sampled_from(asked.words[name]))
    raw = b""
    if isinstance(body, bytes):
        raw = body
    elif case.method == "POST" and body.__class__.__name__ != "NotSet":
        raw = json.dumps(body).encode()
    target = case.formatted_path + (
        f"?{urlencode(query, doseq=True, errors='replace')}" if query else ""
    )
    status, media, document = asked.ask(case.method, target, raw, content_type="application/json")
    told = f"{label} {query} {body!r}: {status} {document}"
    described = DOCUMENT["paths"][case.path][case.method.lower()]
    assert str(status) in described["responses"], told
    assert media == "application/json", told
    schema = described["responses"][str(status)]["content"]["application/json"]["schema"]
    whole = {**schema, "components": DOCUMENT["components"]}
    assert VALIDATOR(whole).is_valid(document), told
    if raw and case.method == "POST":
        wanted = described["requestBody"]["content"]["application/json"]["schema"]
        try:
            allowed = VALIDATOR(wanted).is_valid(json.loads(raw))
        except ValueError:
            allowed = False
        assert allowed or status in (400, 413), told
    if allowed:
        assert status in (200, 409, 422), told
    if status == 422:
        # A reason that a client can tell from others, not only words.
        assert document["error"]["code"] != "usage", told


NOTHING_TO_GET_WRONG = {"GET /v1/health", "GET /v1/openapi.json", "GET /v1/working"} | {
    f"GET {route.path}" for route in OF_SESSIONS
}


def fuzz(asked: Asked, label: str, examples: int) -> None:
    ask_many(asked, label, examples, positive=True)
    if label not in NOTHING_TO_GET_WRONG:
        ask_many(asked, label, examples, positive=False)


@cache
def cases() -> dict[str, Any]:
    """What makes requests, by label; loaded by the worker that needs it, not by all of them."""
    import schemathesis

    found = schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    return {operation.label: operation for each in found for operation in [each.ok()]}


def ask_many(asked: Asked, label: str, examples: int, *, positive: bool) -> None:
    from schemathesis import GenerationMode

    mode = GenerationMode.POSITIVE if positive else GenerationMode.NEGATIVE

    @settings(max_examples=examples, phases=[Phase.generate])
    @given(cases()[label].as_strategy(generation_mode=mode), st.data())
    def run(case: Any, data: st.DataObject) -> None:
        check(asked, label, case, data, allowed=positive)

    run()


@pytest.mark.parametrize("label", LABELS[::3])
def test_no_request_that_the_schema_can_spell_breaks_the_service(label: str, asked: Asked) -> None:
    fuzz(asked, label, 3)


@pytest.mark.soak
@pytest.mark.parametrize("label", LABELS)
def test_nor_do_many(label: str, asked: Asked) -> None:
    fuzz(asked, label, 15)


# -- the schema itself


def test_the_schema_has_every_route_that_is_served() -> None:
    # Routes need none of them.
    routes = Api(None, None, None).application().routes  # type: ignore[arg-type]
    # A function that carries a folder.
    served = {
        (route.path.replace(":path", ""), method.lower())  # type: ignore[attr-defined]
        for route in routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    described = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    # A server that answers GET answers HEAD too.
    assert {one for one in served if one[1] != "head"} == described
    assert len(described) == len(FIXED) + len(OPERATIONS) + len(OF_SESSIONS)


def test_every_argument_has_a_schema_and_words() -> None:
    for operation in OPERATIONS.values():
        for shape in operation.known.values():
            assert shape.words
            assert shape.schema["type"]


def test_every_operation_declares_what_it_gives() -> None:
    named: dict[str, Any] = {}

    def declared(kind: Any) -> None:
        if typing.is_typeddict(kind) and named.setdefault(kind.__name__, kind) is kind:
            described = DOCUMENT["components"]["schemas"][kind.__name__]
            assert list(described["properties"]) == list(kind.__annotations__)
            for one in typing.get_type_hints(kind).values():
                if one is not kind and kind not in typing.get_args(one):
                    declared(one)
        # Two of one name would be described as one.
        assert not typing.is_typeddict(kind) or named[kind.__name__] is kind
        for one in typing.get_args(kind):
            declared(one)

    for operation in OPERATIONS.values():
        for document in operation.signature.documents:
            assert typing.is_typeddict(document)
            declared(document)


def test_every_route_says_what_it_does() -> None:
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            assert operation["summary"]
    identifiers = [op["operationId"] for item in DOCUMENT["paths"].values() for op in item.values()]
    assert len(identifiers) == len(set(identifiers))


def test_the_schema_is_served_as_it_is(asked: Asked) -> None:
    assert asked.ask("GET", "/v1/openapi.json")[2] == json.loads(json.dumps(DOCUMENT))
    events = DOCUMENT["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]
    assert list(events) == [EVENT_STREAM]


# -- what no schema spells


HEAD = b"POST /v1/%s HTTP/1.1\r\nHost: m\r\nConnection: close\r\n"


BODIES = [
    b"\xff", b"{", b"[" * 200_000, b'{"node":' * 50_000, b'{"a": NaN}', b'{"a": Infinity}',
    b'{"node": "\\ud800"}', b'{"file": "\\ud800"}', b'{"agent_id": "\\udfff"}',
    b'{"keep_seconds": 1e400}', b'{"keep_seconds": -1}', b'"text"', b"null", b"1" * 5000,
    b'{"node": "a\\u0000b", "frame_type": "\\u0000"}', b'{"%s": 1}' % (b"k" * 100_000),
    b'{"node": "%s"}' % (b"a/" * 100_000), b'{"nodes": [["x"]], "file": "relative"}',
]  # fmt: skip


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if not one.get])
def test_bodies_that_no_client_sends(name: str, asked: Asked) -> None:
    # Each to each: what is wrong with many of them is wrong for the one that takes such a value.
    for body in BODIES:
        status, _, document = asked.ask("POST", f"/v1/{name}", body)
        assert 400 <= status < 500, (body[:100], document)
        assert document["error"]["message"]


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "", "x"])
def test_another_content_type_is_refused(media: str, asked: Asked) -> None:
    body = b'{"node": "src"}'
    status, _, document = asked.ask("POST", "/v1/get-node", body, content_type=media)
    assert (status, document["error"]["code"]) == (415, "media_type")
    accepted = "Application/JSON; charset=utf-8"
    assert asked.ask("POST", "/v1/get-node", body, content_type=accepted)[0] == 200


@pytest.mark.parametrize(
    "target",
    [
        "/v1/get-node/", "/v1//get-node", "/v1/get-node%00", "/v1/%ff", "//v1/log",
        "/v1/" + "x" * 60_000,
        "/v1/resolve?node=" + "%ff" * 1000, "/v1/resolve?node=%00", "/v1/resolve?" + "a=b&" * 5000,
        "/v1/log?limit=1&limit=x", "/v1/status?wait=", "*", "http://elsewhere/v1/log?limit=x",
    ],
)  # fmt: skip
def test_targets_that_no_client_asks_for(target: str, asked: Asked) -> None:
    status, _, _ = asked.ask("GET", target)
    assert 400 <= status < 500 or status == 307


@pytest.mark.parametrize(
    "request_",
    [
        HEAD % b"get-node" + b"Content-Length: -1\r\n\r\n",
        HEAD % b"get-node" + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        HEAD % b"get-node" + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD % b"get-node" + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        HEAD % b"get-node" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        HEAD % b"get-node" + b"X\r\n\r\n",
        b"POST /v1/get-node HTTP/9.9\r\nHost: m\r\nConnection: close\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_requests_that_are_hardly_http(request_: bytes, asked: Asked) -> None:
    """A length that never comes is a client that waits; it is the one that must not be answered."""
    if b"9999999999" in request_:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(asked.address)
            connection.sendall(request_)
            assert asked.ask("GET", "/v1/health")[0] == 200
        return
    assert 400 <= asked.send(request_)[0] < 500


@pytest.mark.parametrize("name", ["put-frame", "sql", "export"])
def test_huge_bodies_are_refused(name: str, asked: Asked) -> None:
    path = f"/v1/{name}"
    body = b'{"content": "' + b"x" * MAX_BODY + b'"}'
    status, _, document = asked.ask("POST", path, body)
    assert (status, document["error"]["code"]) == (413, "too_large")


def test_packs_need_a_whole_path(asked: Asked) -> None:
    for name in ("export", "import"):
        status, _, document = asked.ask("POST", f"/v1/{name}", b'{"file": "here.pack"}')
        assert status == 400
        assert "absolute" in document["error"]["message"]


def test_a_head_request_has_no_body(asked: Asked) -> None:
    for path in ("/v1/health", "/v1/log?limit=1", "/v1/resolve?node=src"):
        status, _, body = asked.ask("HEAD", path)
        assert (status, body) == (200, b"")
