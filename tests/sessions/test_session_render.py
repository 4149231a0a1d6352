"""The provider thread, byte for byte."""

from __future__ import annotations

import json

import pytest

from indexer.core.canonical import NotCanonicalError
from indexer.sessions import Placement, Session, import_session, make_content


def cb(node_id: str, role: str, content: str, offset: int = 0, kind: str = "text") -> dict:
    return {"id": node_id, "role": role, "kind": kind, "offset": offset, "content": content}


def region(node_id: str, node_type: str, *children: dict) -> dict:
    return {"id": node_id, "nodeType": node_type, "children": list(children)}


def root(node_id: str, *regions: dict) -> dict:
    return {"root": {"id": node_id, "children": list(regions)}}


PLAIN = root(
    "root-1",
    region("sys-1", "^sys", cb("cb:sysA", "system", "You are a helpful assistant.")),
    region(
        "seq-1",
        "^seq",
        region("mt:1", "mt", cb("cb:u1", "user", "Hello")),
        region("mt:2", "mt", cb("cb:a1", "assistant", "Hi! How can I help?")),
    ),
    region("ah-1", "^ah", cb("cb:u2", "user", "Summarize the above.")),
)
PLAIN_THREAD = [
    {
        "id": "cb:sysA",
        "role": "system",
        "kind": "text",
        "content": "You are a helpful assistant.",
    },
    {"id": "cb:u1", "role": "user", "kind": "text", "content": "Hello"},
    {"id": "cb:a1", "role": "assistant", "kind": "text", "content": "Hi! How can I help?"},
    {"id": "cb:u2", "role": "user", "kind": "text", "content": "Summarize the above."},
]
AROUND = root(
    "root-2",
    region("sys-2", "^sys", cb("cb:sysB", "system", "System header B")),
    region(
        "seq-2",
        "^seq",
        region(
            "mt:10",
            "mt",
            cb("cb:pre1", "system", "Pre-context hint", -1),
            cb("cb:core1", "user", "Hello with context"),
            cb("cb:post1", "tool", "status: ok", 1, "result"),
        ),
    ),
    region(
        "ah-2",
        "^ah",
        cb("cb:pre2", "system", "AH pre", -1),
        cb("cb:core2", "user", "Working..."),
        cb("cb:post2", "assistant", "Interim note", 1),
    ),
)
AROUND_THREAD = [
    {"id": "cb:sysB", "role": "system", "kind": "text", "content": "System header B"},
    {"id": "cb:pre1", "role": "system", "kind": "text", "content": "Pre-context hint"},
    {"id": "cb:core1", "role": "user", "kind": "text", "content": "Hello with context"},
    {"id": "cb:post1", "role": "tool", "kind": "result", "content": "status: ok"},
    {"id": "cb:pre2", "role": "system", "kind": "text", "content": "AH pre"},
    {"id": "cb:core2", "role": "user", "kind": "text", "content": "Working..."},
    {"id": "cb:post2", "role": "assistant", "kind": "text", "content": "Interim note"},
]


def shuffled(node: dict) -> dict:
    """The same tree with children and keys in another order."""
    children = [shuffled(child) for child in reversed(node.get("children", ()))]
    fields = {key: node[key] for key in reversed(node) if key != "children"}
    return {**({"children": children} if "children" in node else {}), **fields}


@pytest.mark.parametrize(("document", "thread"), [(PLAIN, PLAIN_THREAD), (AROUND, AROUND_THREAD)])
def test_normative_provider_threads(document, thread):
    expected = json.dumps(thread, separators=(",", ":")).encode()
    assert import_session(document, "s").render() == expected
    again = import_session({"root": shuffled(document["root"])}, "s")
    assert again.render() == expected
    assert import_session(again.export_snapshot(), "t").render("@t0") == expected


def test_the_exact_bytes_of_one_message(session):
    session.append(make_content("dialogue", text='caf\u00e9 "\u4f60"\n', role="user"))
    session.commit()
    node = session.thread()[0]["id"]
    expected = f'[{{"id":"{node}","role":"user","kind":"text","content":"café \\"你\\"\\n"}}]'
    assert session.render() == expected.encode()


def test_roles_and_kinds_are_filled_in():
    tree = root(
        "r",
        region("s", "^sys", {"id": "a", "content": "x"}),
        region("h", "^ah", {"id": "b", "content": "y", "role": "custom"}, {"id": "c"}),
    )
    assert import_session(tree, "s").thread() == [
        {"id": "a", "role": "system", "kind": "text", "content": "x"},
        {"id": "b", "role": "custom", "kind": "text", "content": "y"},
        {"id": "c", "role": "user", "kind": "text", "content": ""},
    ]


def test_containers_are_not_sent_but_their_blocks_are(session, say):
    session.apply(session.plan_group(Placement(id="g", node_type="cb:group", offset=-1)))
    inner = say(session, "inside", parent="g")
    core = say(session, "core")
    assert [m["id"] for m in session.thread("@w")] == [inner, core]


def test_lone_surrogates_are_refused(session):
    before = session.export()
    with pytest.raises(NotCanonicalError):
        session.append(make_content("dialogue", text="x") | {"text": "\ud800"})
    assert session.export() == before
    with pytest.raises(NotCanonicalError):
        import_session(root("r", region("s", "^sys", {"id": "a", "content": "\udfff"})), "s")


def test_structured_content_is_stable_whatever_its_key_order():
    def made(content: dict) -> bytes:
        tree = root("r", region("s", "^sys", {"id": "a", "content": content}))
        return import_session(tree, "s").render()

    assert made({"b": 1, "a": [2]}) == made({"a": [2], "b": 1})


def test_the_last_commit_renders_what_the_provider_was_sent(session, say):
    """Without blocks that live for the call alone, @w before equals @t0 after the commit."""
    say(session, "question")
    say(session, "context", offset=-1, ttl=3)
    sent = session.render("@w")
    session.commit()
    assert session.render() == session.render("@t0") == session.render("@w") == sent


def test_rendering_has_no_side_effect(session, say):
    say(session, "x")
    session.commit()
    say(session, "y")
    before = session.export()
    for address in ("@t0", "@w", "@c1", None):
        assert session.render(address) == session.render(address)
        session.export_snapshot(address)
        session.compile()
    assert session.export() == before


def test_before_the_first_commit_the_snapshot_is_empty(session, say):
    say(session, "x")
    assert session.render() == session.render("@t0") == b"[]"
    assert session.render("@w") != b"[]"


def test_equal_sessions_render_equal_bytes(clock):
    def made() -> Session:
        session = Session.new("same", clock=clock)
        for text in ("a", "b"):
            session.append(make_content("dialogue", text=text))
            session.commit()
        return session

    assert made().render() == made().render()
    assert made().export() == made().export()
