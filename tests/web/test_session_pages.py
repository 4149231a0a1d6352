"""Sessions on the page: the list, a tree, snapshots, and the selector box."""

from __future__ import annotations

import html
import http.client
import json
import re
from typing import Any
from urllib.parse import quote

import pytest

NAME = "talk <b>of</b> the\u202e gateway"


def plain(body: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", body))


@pytest.fixture(scope="session")
def session(site: Any, runtime: Any) -> dict[str, str]:
    """A session with two sealed cycles and one that is open; ids by what the blocks say."""
    with site.workspace() as workspace:
        workspace.session_new(NAME, budget=500)
        ids = {}
        for number, (role, text) in enumerate(
            (
                ("user", "first question <script>window.marker=1</script>"),
                ("assistant", "first answer"),
                ("user", "second question \x1b[31m {{ 7*7 }}"),
            )
        ):
            made = workspace.session_append(
                NAME, type="dialogue", role=role, text=text, id=f"cb:u{number}"
            )
            ids[text] = made.get("id", f"cb:u{number}")
            if number:
                workspace.session_commit(NAME)
        workspace.session_append(NAME, type="dialogue", role="user", text="open question")
    return ids


def address(**query: str) -> str:
    asked = {"name": NAME, **query}
    return "/session?" + "&".join(f"{key}={quote(value)}" for key, value in asked.items())


def test_the_list_names_every_session(site: Any, session: dict[str, str]) -> None:
    body = site.get("/sessions").body
    assert f'href="/session?name={quote(NAME, safe="/")}"' in body
    assert "<b>of</b>" not in body
    assert "\u202e" not in body


def test_a_session_shows_its_tree_as_it_is_now(site: Any, session: dict[str, str]) -> None:
    body = site.get(address() + "&view=tree").body
    shown = plain(body)
    for text in ("first answer", "open question", "^sys", "^seq", "^ah"):
        assert text in shown
    assert "of 500" in shown
    assert body.count("<script") == 1
    assert "\x1b" not in body
    assert "49" not in re.sub(r"[0-9a-f]{12,}", "", shown)


def test_a_session_reads_as_a_conversation(site: Any, session: dict[str, str]) -> None:
    with site.workspace() as workspace:
        workspace.session_new("tools", budget=500)
        call = {"tool_name": "grep", "direction": "call", "payload": {"x": "<b>"}}
        workspace.session_append("tools", type="tool_io", call_id="c1", payload=call)
        workspace.session_append("tools", type="dialogue", role="user", text="So *what*?")
        workspace.session_commit("tools")
    body = site.get("/session?name=tools").body
    shown = " ".join(plain(body).split())
    assert re.search(r"Turn 1 .* tool calls grep \d+ tokens", shown)
    assert "<em>what</em>" in body
    assert 'class="said user"' in body
    assert "&lt;b&gt;" in body
    assert re.search(r"Live tokens\s*\d+ of 500", shown)


def test_an_earlier_snapshot_lacks_what_came_later(site: Any, session: dict[str, str]) -> None:
    shown = plain(site.get(address(at="@c1")).body)
    assert "first answer" in shown
    assert "second question" not in shown
    assert "open question" not in shown


def test_the_selector_box_finds_nodes_in_the_snapshot_shown(
    site: Any, session: dict[str, str]
) -> None:
    shown = plain(site.get(address(select=".cb[role='assistant']")).body)
    assert "1 node found" in shown
    assert "first answer" in shown
    assert "first question" not in shown
    assert "4 nodes found" in plain(site.get(address(select=".cb")).body)
    assert "2 nodes found" in plain(site.get(address(select=".cb", at="@c1")).body)
    changes = plain(site.get(address(select="@c1..@c2 .cb")).body)
    assert "What changed" in changes
    assert "+1" in changes


def test_a_wrong_selector_is_told_on_the_page(site: Any, session: dict[str, str]) -> None:
    answer = site.get(address(select="((<b>"))
    assert answer.status == 200
    assert "a selector step is expected" in plain(answer.body)
    assert "<b>" not in answer.body.partition('id="tree"')[2].partition("<ol")[0]
    assert site.get("/session?name=nobody").status == 404
    assert site.get(address(at="@zz")).status == 400
    assert site.get("/session").status in (400, 404)


def test_what_an_agent_writes_is_told_to_open_pages(site: Any, session: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    try:
        connection.request("GET", "/events", headers={"Cookie": site.cookie})
        response = connection.getresponse()
        assert [response.readline() for _ in range(3)][1] == b": here\n"
        with site.workspace() as workspace:
            workspace.session_append(NAME, type="dialogue", role="user", text="and now?")
        while True:
            line = response.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                told = json.loads(line.removeprefix(b"data: "))
                if told["sessions"]:
                    break
        assert told["sessions"] == [NAME]
    finally:
        connection.close()
    assert "and now?" in plain(site.get(address()).body)
