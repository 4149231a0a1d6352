"""The ways to look: colours of the map, the source of a file, health, and editors."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.core import filestat
from indexer.core.hashing import workspace_hash
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Folder, Tree
from indexer.engine.settings import SETTINGS
from indexer.web.colours import FRESHNESS, Colouring, _age, _FolderCounts, _language
from indexer.web.drawing import bar
from indexer.web.editor import opening
from tests.support.waiting import wait_until
from tests.web.test_pages import assert_only_text_in_attributes, plain

ALGORITHM = workspace_hash("xxh3_128")
COLOURING = Colouring("freshness", FRESHNESS, lambda node: node.counts)


def tree_of(*paths: str) -> Tree:
    def folder(names: dict[str, Any]) -> Folder:
        entries = {}
        for name, below in names.items():
            if below:
                entries[name] = folder(below).as_entry()
            else:
                entries[name] = Entry(Kind.FILE, ALGORITHM.of_file(name.encode()), 1)
        return Folder.of(ALGORITHM, entries)

    found: dict[str, Any] = {}
    for path in paths:
        at = found
        for part in path.split("/"):
            at = at.setdefault(part, {})
    return Tree(ALGORITHM, folder(found))


def test_one_stale_note_does_not_paint_a_folder() -> None:
    parts = bar({"fresh": 999, "stale": 1}, COLOURING)
    widths = {part["key"]: float(part["width"].rstrip("%")) for part in parts}
    assert widths["stale"] < 2 < 98 < widths["fresh"]


def test_folders_are_counted_by_language_and_only_what_changed_is_counted_again() -> None:
    asked: list[str] = []

    def key_of(name: str, entry: Entry) -> str:
        asked.append(name)
        return _language(name, entry)

    counts = _FolderCounts(key_of)
    tree = tree_of("a/x.py", "a/y.py", "b/z.go", "b/q.bin")
    assert counts.below(tree.root) == Counter(python=2, go=1, other=1)
    asked.clear()
    entry = Entry(Kind.FILE, ALGORITHM.of_file(b"new"), 1)
    changed = tree.root.entries["b"].folder
    assert changed is not None
    after = changed.with_changes(ALGORITHM, {"w.rs": entry})
    root = tree.root.with_changes(ALGORITHM, {"b": after.as_entry()})
    assert counts.below(root)["rust"] == 1
    assert sorted(asked) == ["q.bin", "w.rs", "z.go"]


@pytest.mark.parametrize("colour", ["freshness", "age", "notes", "language", "author"])
def test_the_map_can_be_coloured_and_keeps_the_choice(site: Any, colour: str) -> None:
    answer = site.get(f"/?at=&colour={colour}&size=files&dim=made")
    assert answer.status == 200
    assert_only_text_in_attributes(answer.body)
    if colour != "freshness":
        links = re.findall(r'href="/\?at=ingest[^"]*"', answer.body)
        assert links
        assert all(f"colour={colour}" in link and "dim=made" in link for link in links)
    assert site.get("/?colour=mood").status == 400


def test_languages_have_a_legend(site: Any) -> None:
    legend = site.get("/?at=&colour=language").body.partition('class="legend"')[2]
    assert re.search(r"python\s+<b>1\d</b>", legend.partition("</ul>")[0])


def test_no_name_on_the_map_is_cut(site: Any) -> None:
    names = re.findall(r'<text class="name"[^>]*>([^<]*)</text>', site.get("/").body)
    assert names
    assert not [name for name in names if "…" in name]


def test_a_file_is_shown_with_its_lines_and_as_it_is_now(site: Any) -> None:
    file = site.root / "ingest" / "checks" / "shown.py"
    file.write_text("def first():\n    return '</code><script>x</script>'\n")
    body = site.get("/node?path=ingest/checks/shown.py").body
    assert '<li id="L2">' in body
    assert "<script>x" not in body
    assert "2 lines" in plain(body)
    file.write_text("def second():\n    return 2\n")
    assert "def second()" in plain(site.get("/node?path=ingest/checks/shown.py").body)
    file.unlink()
    assert site.get("/node?path=ingest&line=x").status == 400


def test_a_note_about_a_symbol_stands_at_its_line(site: Any) -> None:
    path = "ingest/saltgauge/surge.py"
    source = (site.root / path).read_text().splitlines()
    name = next(found[1] for line in source if (found := re.match(r"def (\w+)", line)))
    number = next(n for n, line in enumerate(source, 1) if line.startswith(f"def {name}("))
    with site.workspace() as workspace:
        workspace.put_frame(
            f"{path}::{name}", "It is the *model*.", frame_type="note", agent="reviewer"
        )
    at = site.get(f"/node?path={path}").body.partition(f'<li id="L{number}">')[2]
    assert "It is the <em>model</em>." in at.partition("</li>")[0]


def test_a_search_shows_the_matching_lines_with_the_words_set_apart(site: Any) -> None:
    file = site.root / "ingest" / "checks" / "asked.py"
    file.write_text("def tidal_marker():\n    return '<b>unheard_of_word</b>'\n")
    try:
        body = site.get("/search?q=unheard_of_word").body
        assert_only_text_in_attributes(body)
        lines = body.partition('id="lines"')[2]
        assert "&lt;b&gt;<mark>unheard_of_word</mark>&lt;/b&gt;" in lines
        assert "/node?path=ingest/checks/asked.py&amp;line=2#L2" in lines
        best = site.get("/search?q=tidal_marker").body.partition('id="best"')[2]
        assert "<mark>tidal_marker</mark>" in best.partition("</section>")[0]
        assert "No file has it." in site.get("/search?q=nobody-says-this").body
    finally:
        file.unlink()


def test_health_tells_the_queue_the_watches_and_the_spending(site: Any) -> None:
    body = site.get("/health").body
    assert_only_text_in_attributes(body)
    shown = " ".join(plain(body).split())
    for words in ("Changed paths waiting", "Requests waiting", "Being made", "Watches", "Memory"):
        assert words in shown
    assert re.search(r"Spent\s*0\b", shown)
    assert "shares with no team" in shown


def test_editors_open_the_file_whatever_it_is_called() -> None:
    root = Path("/home/x y")
    made = opening("vscode", root, 'a/"b\\xff.py', 7)
    assert made is not None
    assert made.address == "vscode://file/home/x%20y/a/%22b%FF.py:7"
    custom = opening("idea://open?file={path}&line={line}", root, "a.py", 3)
    assert custom is not None
    assert custom.address == "idea://open?file=/home/x%20y/a.py&line=3"
    typed = opening("nvim", root, "a;b.py", 1)
    assert typed is not None
    assert typed.command is not None
    assert typed.command.endswith("+1 '/home/x y/a;b.py'")
    assert opening(None, root, "a.py", 1) is None


def test_only_its_user_says_which_editor_and_no_script_is_one() -> None:
    setting = next(one for one in SETTINGS if one.key == "web.editor")
    assert setting.only_user
    for bad in ("javascript:alert('{path}')", "emacs", "", "data:text/html,{path}", "//x/{path}"):
        with pytest.raises(ValueError, match=r"editor|text|neither"):
            setting.parse(bad)


def test_an_age_is_that_of_the_file(tmp_path: Path) -> None:
    file, today = tmp_path / "a.py", 20_000 * 86400
    file.write_text("x = 1\n")
    for days, key in ((0, "day"), (3, "week"), (20, "month"), (200, "year"), (4000, "older")):
        os.utime(file, (today - days * 86400,) * 2)
        entry = Entry(Kind.FILE, ALGORITHM.of_file(b""), 6, filestat.pack(file.stat()))
        assert _age(entry, today) == key
    # A stat that vouches for nothing is that of a file that was written just now.
    assert _age(Entry(Kind.FILE, ALGORITHM.of_file(b""), 6, filestat.unvouched(6)), today) == "day"


def symbols(site: Any) -> str:
    """What the page of a difference says of symbols, which are known a moment after the files."""
    body = site.get("/diff?old=@-1&new=@-0&path=a.py").body
    return " ".join(plain(body.partition('id="symbols-title"')[2]).split())


def test_a_difference_is_shown_by_symbol_and_line_by_line(
    base: Path, sites: Callable[..., Any]
) -> None:
    root = base / "compared"
    root.mkdir()
    file = root / "a.py"
    file.write_text("def first():\n    return 1\n\n\ndef last():\n    return '<b>'\n")
    git = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e@e"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    site = sites(root).enter()
    site.settles()
    file.write_text("def first():\n    return 2\n\n\ndef next_one():\n    return '<b>'\n")
    site.settles()
    shown = wait_until(lambda: symbols(site), "the symbols are known")
    for words in ("+added next_one function", "removed last function", "~modified first function"):
        assert words in shown
    body = site.get("/diff?old=@-1&new=@-0&path=a.py").body
    assert_only_text_in_attributes(body)
    lines = body.partition('class="source patch"')[2].partition("</pre>")[0]
    assert '<span class="removed">-    return 1</span>' in lines
    assert '<span class="added">+    return 2</span>' in lines
    assert "&lt;b&gt;" in lines
    # A text that nobody has any more is not guessed.
    file.write_text("nothing\n")
    site.settles()
    assert "neither on disk nor in git" in site.get("/diff?old=@-1&new=@-0&path=a.py").body
    assert "the same in both" in site.get("/diff?old=@-0&new=@-0&path=a.py").body
    assert site.stop() == 0
