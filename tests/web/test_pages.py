"""What the pages tell, asked without a browser."""

from __future__ import annotations

import html
import http.client
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.core.paths import on_screen
from tests.support.waiting import wait_until

HOSTILE_NAMES = (
    "<script>alert(1)<script>.md",
    "\"onmouseover=alert(1) x='.py",
    "a\u202egnp.txt",
    "ansi\x1b[31mred.txt",
    "{{ 1234*5678 }}{% raw %}.txt",
    "&amp;&#x3c;b&#x3e;.txt",
    "-rf --no.txt",
)


def plain(body: str) -> str:
    """The text of a page."""
    return html.unescape(re.sub(r"<[^>]+>", "", body))


class Strict(HTMLParser):
    """Reads a page as a browser does, and knows which attributes our templates write."""

    known = re.compile(
        r"(?:aria|data)-[a-z]+|accept|action|autocomplete|charset|class|content|cx|cy|d|datetime"
        r"|defer|fill|for|height|href|id|lang|name|patternunits|patterntransform|placeholder|r|rel"
        r"|role|rx|scope|spellcheck|src|tabindex|title|type|value|viewbox|width|x|y|hidden|colspan"
    )

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """No name of a file has become an attribute, and no markup of ours the value of one."""
        for name, value in attrs:
            assert self.known.fullmatch(name), (tag, name, value)
            assert 'class="odd"' not in (value or ""), (tag, name, value)
            assert name == "data-path" or on_screen(value or "") == (value or ""), (tag, name)


def assert_only_text_in_attributes(body: str) -> None:
    """Attributes and titles hold text; markup stands only where a browser reads markup."""
    Strict().feed(body)
    for title in re.findall(r"<title>(.*?)</title>", body, re.DOTALL):
        assert "<" not in title


def test_the_overview_shows_the_workspace(site: Any) -> None:
    body = site.get("/").body
    with site.workspace() as workspace:
        status = workspace.status()
        top = workspace.get_node("")
    assert status["root"][:16] in body
    for name in top["children"]:
        assert name in body
    assert f">{status['nodes']}<" in body
    assert f"{site.process.pid}" in body
    assert re.search(r"\d+ folders", plain(body))
    assert "watching" in body
    # Sized, coloured and described, and not by colour alone.
    tile = re.search(r'<a href="/node\?path=README.md" class="tile leaf fresh".*?</a>', body)
    assert tile
    assert 'aria-label="README.md · ≈51 tokens · fresh"' in tile.group()


def test_no_page_has_a_script_or_a_style_of_its_own(site: Any) -> None:
    for target in ("/", "/node?path=docs", "/search?q=md", "/roots", "/diff?old=@-0", "/nothing"):
        body = site.get(target).body
        assert re.findall(r"<script.*?</script>", body) == [
            '<script src="/static/page.js" defer></script>'
        ]
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", body)
        assert not re.search(r'(?:src|href)="(?!/|#)', body)


def test_a_folder_can_be_entered(site: Any) -> None:
    body = site.get("/?at=ingest/saltgauge").body
    assert 'href="/node?path=ingest/saltgauge/surge.py"' in body
    assert 'href="/?at=ingest"' in body
    assert "dashboard" not in body.partition('id="recent"')[0]
    assert site.get("/?at=ingest&size=files").body.count("one token for every four bytes") == 1


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/?at=README.md", 400), ("/?at=nowhere", 400), ("/?at=..", 400), ("/?at=%00", 400),
        ("/?page=x", 400), ("/?page=-1", 400), ("/?page=99999999999", 400), ("/?page=9999", 200),
        ("/node?path=nowhere", 404), ("/node?path=../../etc/passwd", 400),
        ("/node?id=zz", 404), ("/node?id=ffffffff", 404), ("/node?path=%ED%A0%80", 404),
        ("/diff?old=zz&new=@-0", 404), ("/diff?old=@-99&new=@-0", 404), ("/nothing", 404),
        ("/search?q=" + "x" * 5000, 200), ("/?size=nonsense", 200), ("/node?path=docs&type=x", 200),
    ],
)  # fmt: skip
def test_bad_requests_get_a_page_that_says_so(site: Any, target: str, status: int) -> None:
    answer = site.get(target)
    assert answer.status == status, plain(answer.body)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "Traceback" not in answer.body
    assert "unexpected" not in answer.body


@settings(max_examples=12)
@given(
    value=st.text(max_size=40) | st.sampled_from(["@w", "@t0", "@-1", "docs", "%", "\x00", "a/b"])
)
@pytest.mark.parametrize(
    "target",
    [
        "/?at={}", "/?page={}", "/?size={}", "/node?path={}", "/node?id={}",
        "/node?path=docs&type={}", "/search?q={}", "/diff?old={}", "/roots?page={}",
        "/session?name={}", "/sessions?page={}", "/session?name=known&at={}",
        "/session?name=known&select={}", "/{}",
    ],
)  # fmt: skip
def test_no_question_makes_a_page_fail(site: Any, known: None, target: str, value: str) -> None:
    answer = site.get(target.format(quote(value, safe="", errors="surrogatepass")))
    assert answer.status in (200, 400, 404, 405)
    assert "unexpected" not in answer.body


@pytest.fixture(scope="session")
def known(site: Any) -> None:
    """A session to ask for."""
    with site.workspace() as workspace:
        workspace.session_new("known")
        workspace.session_append("known", type="dialogue", role="user", text="hello")
        workspace.session_commit("known")


def test_a_node_has_its_record_frames_history_and_chain(site: Any) -> None:
    with site.workspace() as workspace:
        found = workspace.get_node("docs/runbook.md")
        note = workspace.put_frame(
            "docs/runbook.md", "Call **Ada**.\n", frame_type="note", agent="reviewer"
        )
    body = site.get("/node?path=docs/runbook.md").body
    for value in (found["node_id"], found["content_id"], found["frames"][0]["frame_id"]):
        assert value in body
    assert "A station is silent" in body
    assert "<strong>Ada</strong>" in body
    assert note["frame_id"] in body
    assert "content" in plain(body.partition('id="chain"')[2])
    assert body.partition('id="history"')[2].count("<time") == 2
    by_id = site.get(f"/node?id={found['node_id'][:12]}").body
    assert "A station is silent" in by_id


def test_a_stale_frame_says_why_and_a_gone_path_keeps_its_history(site: Any) -> None:
    file = site.root / "docs" / "passing.md"
    file.write_text("# Passing\n")
    with site.workspace() as workspace:
        workspace.put_frame("docs/passing.md", "Seen.", frame_type="note", agent="reviewer")
        file.write_text("# Passed\n")
        body = site.get("/node?path=docs/passing.md").body
        assert 'class="frame stale" data-frame="note" data-state="stale"' in body
        assert "the content it was written about changed" in body
        assert "docs/passing.md" in site.get("/").body.partition('id="not-fresh"')[2]
        file.unlink()
        workspace.status()
    gone = site.get("/node?path=docs/passing.md")
    assert gone.status == 200
    assert "This path is gone" in gone.body
    assert "orphaned" in gone.body
    assert "Seen." not in gone.body


def test_roots_and_what_lies_between_them(site: Any) -> None:
    (site.root / "config" / "new.txt").write_text("new")
    (site.root / "config" / "stations.json").write_text("{}")
    with site.workspace() as workspace:
        newest = workspace.status()["root"]
        before = workspace.log(2)["roots"][1]["root"]
    assert f'href="/diff?old={before}&amp;new={newest}"' in site.get("/roots").body
    recent = site.get("/").body.partition('id="recent"')[2]
    assert "config/<wbr>new.txt" in recent
    for target in (f"/diff?old={before}&new={newest}", "/diff"):
        body = plain(site.get(target).body)
        assert "config/new.txt" in body
        assert "config/stations.json" in body
        assert "README.md" not in body
    (site.root / "config" / "new.txt").rename(site.root / "config" / "newer.txt")
    with site.workspace() as workspace:
        workspace.status()
    assert "config/new.txt → config/newer.txt" in " ".join(plain(site.get("/diff").body).split())


def test_search_finds_words_of_paths(site: Any) -> None:
    body = site.get("/search?q=SALT+readings").body.partition('<section id="paths"')[2]
    assert 'href="/node?path=ingest/saltgauge/readings.py"' in body
    assert "surge.py" not in body
    assert "No path holds all of these words" in site.get("/search?q=zzz").body
    assert "&lt;img src=x&gt;" in site.get("/search?q=%3Cimg+src%3Dx%3E").body


def test_search_finds_frames_by_what_they_say(site: Any) -> None:
    body = site.get("/search?q=inverse+barometer").body
    frames = body.partition('id="best"')[2]
    assert 'href="/node?path=ingest/saltgauge/surge.py' in frames
    assert "fresh" in frames


def test_hostile_names_are_text_everywhere(base: Path, sites: Callable[..., Any]) -> None:
    root = base / 'host<b>ile \u202e\x9b"names'
    (root / "<i>folder").mkdir(parents=True)
    (root / '\u202e"x onload=y').mkdir()
    (root / '\u202e"x onload=y' / "z.txt").write_text("z\n")
    for name in HOSTILE_NAMES:
        (root / name).write_text("x\n")
        (root / "<i>folder" / name).write_text("y\n")
    (root / "<i>folder" / b"bytes\xff.txt".decode("utf-8", "surrogateescape")).write_text("z\n")
    served = sites(root).enter()
    served.settles()
    with served.workspace() as workspace:
        names = workspace.get_node("<i>folder")["children"]
    targets = ["/", "/?at=" + quote("<i>folder"), "/roots", "/search?q=txt", "/search?q=md"]
    targets += ["/?at=" + quote('\u202e"x onload=y'), "/node?path=" + quote('\u202e"x onload=y')]
    targets += [f"/node?path={quote('<i>folder/' + name)}" for name in names]
    for target in targets:
        answer = served.get(target)
        assert answer.status == 200, target
        assert "<i>" not in answer.body
        assert "<b>ile" not in answer.body
        assert answer.body.count("<script") == 1
        assert not re.search(r"<[^>]*\sonmouseover=", answer.body)
        assert "7006652" not in answer.body
        # An attribute for the script keeps the path as it is; people see it spelled out.
        assert "\u202e" not in re.sub(r'data-path="[^"]*"', "", answer.body)
        assert not {"\x1b", "\x9b"} & set(answer.body)
        assert_only_text_in_attributes(answer.body)
    assert served.stop() == 0


def test_the_stream_tells_a_batch_in_one_message(site: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    try:
        connection.request("GET", "/events", headers={"Cookie": site.cookie})
        response = connection.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        assert [response.readline() for _ in range(2)] == [b"retry: 1000\n", b": here\n"]
        folder = site.root / "many"
        folder.mkdir()
        for number in range(300):
            (folder / f"file{number}").write_text(str(number))
        told: list[dict[str, Any]] = []
        while sum(one["nodes"] for one in told) < 300:
            line = response.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                told.append(json.loads(line.removeprefix(b"data: ")))
        assert all(len(one["paths"]) <= 80 for one in told)
        assert len([one for one in told if one["nodes"]]) < 50
    finally:
        connection.close()


def test_a_workspace_that_went_away_is_not_shown_as_if_it_were_there(
    base: Path, sites: Callable[..., Any]
) -> None:
    root = base / "away"
    root.mkdir()
    (root / "file.txt").write_text("x\n")
    served = sites(root).enter()
    served.settles()
    assert served.get("/").status == 200
    root.rename(base / "elsewhere")
    try:
        answer = served.get("/")
        assert answer.status == 409
        assert "That did not work" in answer.body
        assert "file.txt" not in answer.body
    finally:
        (base / "elsewhere").rename(root)
    wait_until(lambda: served.get("/").status == 200, "it is back")
    assert served.stop() == 0
