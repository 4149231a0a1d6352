"""`report`: one file that needs nothing else, and says the same for the same state."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from indexer.cli.markdown import cell, code, table
from indexer.cli.report import write_whole
from indexer.cli.report_html import Tile, tiles
from indexer.cli.report_text import weight
from indexer.core.rectangles import Box
from indexer.engine.tree import report as report_engine
from tests.support.copies import copy_workspace

NASTY = "<script>alert(1)</script>\"'&|`x`*[a](http://b)@c\u202e"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """A page as a browser takes it apart; every tag must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def report(merkle: Any, root: Path, file: Path, *line: str) -> str:
    assert merkle("-C", root, "report", file, *line).code == 0
    return file.read_text(encoding="utf-8")


@pytest.fixture
def changed(peopled: Path, merkle: Any) -> Path:
    """A workspace with a note, a hostile name, and changes since its first root."""
    (peopled / NASTY.replace("/", "-")).write_text("x")
    (peopled / "src" / "main.py").write_text("def tide() -> int: ...\n")
    (peopled / "README.md").rename(peopled / "LIESMICH.md")
    assert merkle("-C", peopled, "scan").code == 0
    return peopled


@pytest.mark.parametrize("name", ["r.html", "r.md"])
def test_a_report_says_it_all(name: str, changed: Path, tmp_path: Path, merkle: Any) -> None:
    text = report(merkle, changed, tmp_path / name, "--base", "@-1")
    status = merkle("-C", changed, "status", "--json").json
    assert status["root"] in text
    for said in ("The index is what is on disk.", "Coverage", "fresh", "stale", "Agents",
                 "Changes since", "1 path modified", "1 path renamed", "LIESMICH.md",
                 "src/main.py", "xxh3_128"):  # fmt: skip
        assert said in text, said


BOTH = """
import sys
from click.testing import CliRunner
from indexer.cli.group import cli
root, *files = sys.argv[1:]
assert not any(CliRunner().invoke(cli, ["-C", root, "report", each]).exit_code for each in files)
"""


def test_the_same_state_gives_the_same_bytes(changed: Path, tmp_path: Path) -> None:
    def reports(root: Path, which: str, **env: str) -> list[bytes]:
        files = [tmp_path / f"{which}{name}" for name in ("r.html", "r.md")]
        line = [sys.executable, "-c", BOTH, root, *files]
        subprocess.run(line, env={**os.environ, **env}, check=True, timeout=60)
        return [file.read_bytes() for file in files]

    first = reports(changed, "first", PYTHONHASHSEED="1", TZ="Asia/Tokyo")
    # Another place, another time zone, another process, other times of files.
    elsewhere = tmp_path / "elsewhere"
    copy_workspace(changed, elsewhere)
    assert reports(elsewhere, "second", PYTHONHASHSEED="2", LC_ALL="C") == first


def test_the_page_needs_and_runs_nothing(changed: Path, tmp_path: Path, merkle: Any) -> None:
    text = report(merkle, changed, tmp_path / "r.html", "--base", "@-1")
    page = Page(text)
    names = [tag for tag, _ in page.tags]
    assert not {"script", "link", "img", "iframe", "object", "a", "form"} & set(names)
    for _, attributes in page.tags:
        assert not [key for key in attributes if key.startswith("on") or key in ("src", "href")]
    assert "url(" not in text
    assert "@import" not in text
    policy = next(attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    # The hostile name is there, as text.
    assert any("<script>alert(1)<-script>" in text for text in page.texts)
    assert "\u202e" not in text


def test_the_picture_has_every_node_in_its_place(
    changed: Path, tmp_path: Path, merkle: Any
) -> None:
    text = report(merkle, changed, tmp_path / "r.html")
    picture = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", text, re.DOTALL)[-1])
    titles = [title.text or "" for title in picture.iter("title")]
    nodes = merkle("-C", changed, "status", "--json").json["nodes"]
    assert len(titles) == nodes
    by_name = {title.partition(":")[0]: title for title in titles}
    assert by_name["src/deep/table.csv"].endswith("fresh")
    assert by_name["src/main.py"].endswith("stale")
    classes = {rect.get("class"): rect for rect in picture.iter("rect")}
    assert "leaf stale" in classes
    assert "leaf fresh" in classes


def test_markdown_is_read_as_it_was_meant(changed: Path, tmp_path: Path, merkle: Any) -> None:
    text = report(merkle, changed, tmp_path / "r.md", "--base", "@-1")
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {child.type for child in inline}
    assert "html_inline" not in kinds
    assert "link_open" not in kinds
    assert "html_block" not in {token.type for token in tokens}
    said = {child.content for child in inline if child.type == "code_inline"}
    hostile = NASTY.replace("/", "-").replace("\u202e", "\\u202e")
    assert hostile in said
    assert "src/main.py" in said


def test_a_difference_is_read_as_it_was_meant(changed: Path, merkle: Any) -> None:
    text = merkle("-C", changed, "diff", "@-1", "@-0", "--format", "markdown").out
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    assert not {"html_inline", "link_open", "em_open"} & {child.type for child in inline}
    said = [child.content for child in inline if child.type == "code_inline"]
    hostile = NASTY.replace("/", "-").replace("\u202e", "\\u202e")
    assert said[2:] == [hostile, "src/main.py", "README.md", "LIESMICH.md"]


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12)


@given(TEXTS)
def test_a_code_span_holds_any_text(text: str) -> None:
    for line in (f"- {code(text)} and", f"{code(text)} → {code(text)}"):
        parsed = MarkdownIt("commonmark").parse(line)
        spans = [
            child for token in parsed for child in token.children or ()
            if child.type == "code_inline"
        ]  # fmt: skip
        assert spans
        assert {span.content.strip() for span in spans} == {text.strip()}


@given(st.lists(TEXTS.filter(lambda text: text.strip()), min_size=1, max_size=4))
def test_a_cell_holds_any_text(texts: list[str]) -> None:
    written = table(["a", "b"], [[cell(text), "end"] for text in texts])
    parsed = MarkdownIt("gfm-like", {"linkify": False}).parse(written)
    cells = [token for token in parsed if token.type == "inline"]
    assert len(cells) == 2 + 2 * len(texts)
    for text, token in zip(texts, cells[2::2], strict=True):
        (span,) = [child for child in token.children or () if child.type == "code_inline"]
        assert span.content.strip() == text.strip()


def test_the_state_of_the_disk_is_told(peopled: Path, tmp_path: Path, merkle: Any) -> None:
    (peopled / "README.md").write_text("# Moved on\n")
    text = report(merkle, peopled, tmp_path / "r.md")
    assert "The disk has moved on: 1 path changed since the last scan." in text


def test_through_a_service_too(service: object, peopled: Path, tmp_path: Path, merkle: Any) -> None:
    through = report(merkle, peopled, tmp_path / "r.html")
    assert "The index is what is on disk." in through


def test_where_it_goes(peopled: Path, tmp_path: Path, merkle: Any, process: Any) -> None:
    out = process("-C", peopled, "report", "-")
    assert out.out.startswith("# merkle report\n")
    assert process("-C", peopled, "report", "-", "--format", "html").out.startswith("<!DOCTYPE")
    assert merkle("-C", peopled, "report", tmp_path / "r").code == 2
    assert merkle("-C", peopled, "report", tmp_path / "r", "--format", "html").code == 0
    assert merkle("-C", peopled, "report", "-", "--json").code == 2
    assert merkle("-C", peopled, "report", tmp_path / "no" / "r.md").code == 3
    assert merkle("-C", peopled, "report", tmp_path / "r.md", "--base", "@-99").code == 2
    assert merkle("-C", tmp_path, "report", tmp_path / "r.md").code == 5
    ran = merkle("-C", peopled, "report", tmp_path / "r.md", "--json")
    assert ran.json["coverage"]["fresh_pct"] == 100.0


def test_nothing_recorded_is_unchecked(workspace: Path, tmp_path: Path, merkle: Any) -> None:
    assert merkle("-C", workspace, "init").code == 0
    assert merkle("-C", workspace, "report", tmp_path / "r.md").code == 3
    assert not (tmp_path / "r.md").exists()


def test_a_device_is_written_to_and_a_link_followed(tmp_path: Path) -> None:
    write_whole(Path(os.devnull), b"x")
    assert not Path(os.devnull).is_file()
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    write_whole(tmp_path / "link.md", b"new")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["link.md", "real.md"]


def test_a_large_tree_is_shown_with_folders_closed(
    workspace: Path, tmp_path: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_engine, "MAPPED", 12)
    for number in range(40):
        folder = workspace / f"many{number % 4}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_text("x" * number)
    assert merkle("-C", workspace, "scan").code == 0
    text = report(merkle, workspace, tmp_path / "r.html")
    assert 5 <= text.count("<title>") <= 20
    assert "many3" in text


NODES = st.recursive(
    st.integers(0, 10**9).map(lambda size: {"bytes": size, "nodes": 1}),
    lambda inner: st.lists(inner, min_size=1, max_size=6).map(
        lambda children: {"bytes": 0, "nodes": 1, "children": children}
    ),
    max_leaves=25,
)


def named(node: dict[str, Any], path: str = "n") -> dict[str, Any]:
    """The node with paths."""
    children = [named(one, f"{path}/{n}") for n, one in enumerate(node.get("children", ()))]
    return {**node, "path": path, **({"children": children} if children else {})}


@given(NODES)
def test_boxes_lie_in_their_folder_and_beside_each_other(node: dict[str, Any]) -> None:
    drawn = list(tiles(named(node), Box(0, 0, 900, 400)))
    by_path = {tile.node["path"]: tile for tile in drawn}
    for path, tile in by_path.items():
        assert tile.box.width >= 0
        assert tile.box.height >= 0
        above = by_path.get(path.rpartition("/")[0])
        if above is not None:
            assert above.holds_others
            assert _inside(tile.box, above.box)
    for one, other in _siblings(drawn):
        assert not _overlap(one, other)


def test_areas_follow_weights() -> None:
    leaves = [{"path": str(n), "bytes": n * 1000, "nodes": 1} for n in range(1, 8)]
    top = {"path": "", "bytes": 0, "nodes": 8, "children": leaves}
    _, *drawn = tiles(top, Box(0, 0, 800, 400))
    unit = [tile.box.width * tile.box.height / weight(tile.node) for tile in drawn]
    assert max(unit) - min(unit) < 1e-6 * max(unit)


def _inside(box: Box, above: Box) -> bool:
    slack = 1e-6
    return (
        box.x >= above.x - slack
        and box.y >= above.y - slack
        and box.x + box.width <= above.x + above.width + slack
        and box.y + box.height <= above.y + above.height + slack
    )


def _siblings(drawn: list[Tile]) -> Iterator[tuple[Box, Box]]:
    for place, one in enumerate(drawn):
        for other in drawn[place + 1 :]:
            if one.node["path"].rpartition("/")[0] == other.node["path"].rpartition("/")[0]:
                yield one.box, other.box


def _overlap(one: Box, other: Box) -> bool:
    slack = 1e-6
    across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return across > slack and down > slack
