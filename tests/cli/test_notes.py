"""Writing frames and reading them back: `put-frame`, `get-node`, `list-frames`, `get-head`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from indexer.cli.put_frame import LONGEST
from indexer.engine.frames.notes import MAX_BODY
from indexer.engine.frames.read import VIEWS

pytestmark = pytest.mark.usefixtures("kept_open")

NOTE = ["--type", "note", "--agent", "alice"]
SECRET = "AKIA" + "QX7ZK2MB4NR6TL3W"
HOSTILE = "fine\n\x1b[31mred\x07\r\n\ttab \u202eevil\n\nlast\x9b1m"


def put(merkle: Any, root: Path, node: str, text: str, *more: str) -> Any:
    return merkle("-C", root, "--json", "put-frame", node, "-", *NOTE, *more, stdin=text)


def test_the_limit_and_the_views_are_the_engines() -> None:
    assert LONGEST == MAX_BODY
    assert VIEWS == ("recency", "type", "agent", "relevance")


def test_a_note_goes_stale_with_its_file_here_and_through_a_service(
    anywhere: Path, merkle: Any, kept_open: Any
) -> None:
    at = ("-C", anywhere)
    assert merkle(*at, "agent", "add", "alice", "--role", "writer").code == 0
    stored = put(merkle, anywhere, "src/main.py", "prints the tide", "--meta", "why=review")
    assert stored.code == 0, stored.out
    assert stored.json["created"] is True
    assert (stored.json["path"], stored.json["freshness"]) == ("src/main.py", "fresh")
    again = put(merkle, anywhere, "src/main.py", "prints the tide")
    assert (again.json["created"], again.json["frame_id"]) == (False, stored.json["frame_id"])

    node = merkle(*at, "--json", "get-node", "src/main.py", "--type", "note").json
    assert (node["path"], node["kind"], node["size"]) == ("src/main.py", "file", 14)
    (frame,) = node["frames"]
    assert {"frame_id", "type", "agent", "freshness", "because", "tokens", "content",
            "created_at"} <= frame.keys()  # fmt: skip
    assert frame["content"] == "prints the tide"
    assert frame["meta"] == {"why": "review"}
    fresh = [*at, "get-node", "src/main.py", "--agent", "alice", "--require-fresh"]
    assert merkle(*fresh).code == 0

    (anywhere / "src" / "main.py").write_text("print('ebb')\n")
    # What was written is in the index, not only in what was open.
    kept_open.close()
    ran = merkle(*fresh)
    assert ran.code == 1
    assert "note by alice, stale (the content it was written about changed)" in ran.out
    assert "  prints the tide" in ran.out.splitlines()
    assert merkle(*fresh[:-1]).code == 0
    (head,) = merkle(*at, "--json", "get-head", "src/main.py", "--agent", "alice").json["heads"]
    assert head["freshness"] == "stale"
    assert "note by alice, stale" in merkle(*at, "status").out

    assert put(merkle, anywhere, "src/main.py", "prints the ebb").json["created"] is True
    listed = merkle(*at, "--json", "list-frames", "src/main.py", "--type", "note").json["frames"]
    assert [(each["head"], each["freshness"]) for each in listed] == [
        (True, "fresh"), (False, "stale")
    ]  # fmt: skip
    text = merkle(*at, "list-frames", "src/main.py", "--type", "note").out
    assert f"* {listed[0]['frame_id'][:12]}" in text
    assert f"* {listed[1]['frame_id'][:12]}" in text


def test_explain_names_what_moved(anywhere: Path, merkle: Any) -> None:
    at = ("-C", anywhere)
    assert merkle(*at, "agent", "add", "alice", "--role", "writer").code == 0
    assert put(merkle, anywhere, "README.md", "about tides").code == 0
    (anywhere / "README.md").write_text("# Other\n")
    found = merkle(*at, "--json", "explain", "README.md", "--type", "note").json
    assert found["freshness"] == "stale"
    (link,) = found["chain"]
    assert link.keys() == {"path", "action", "input", "old", "new"}
    assert link["old"] != link["new"]
    text = merkle(*at, "explain", "README.md", "--type", "note").out
    assert f"{link['old'][:12]} → {link['new'][:12]}" in text
    assert link["old"] not in text


def test_seen_binds_to_what_was_read(peopled: Path, merkle: Any) -> None:
    read = merkle("-C", peopled, "--json", "get-node", "README.md").json["node_id"]
    (peopled / "README.md").write_text("# Moved on\n")
    ran = put(merkle, peopled, "README.md", "about the old text", "--seen", read)
    assert (ran.code, ran.json["freshness"]) == (0, "stale")
    ran = put(merkle, peopled, "README.md", "about nothing", "--seen", "0" * 32)
    assert (ran.code, ran.json["error"]["code"]) == (2, "frame_refused")


def test_on_decides_what_a_note_outlives(peopled: Path, merkle: Any) -> None:
    assert put(merkle, peopled, "src", "the layout", "--on", "listing").code == 0
    ran = put(merkle, peopled, "src/main.py", "its shape", "--on", "outline")
    assert ran.code == 0, ran.out
    (peopled / "src" / "main.py").write_text("print('ebb')\n")
    node = merkle("-C", peopled, "--json", "get-node", "src", "--type", "note").json
    assert node["frames"][0]["freshness"] == "fresh"
    (peopled / "src" / "more.py").write_text("")
    assert merkle("-C", peopled, "get-node", "src", "--type", "note", "--require-fresh").code == 1
    assert put(merkle, peopled, "src/main.py", "x", "--on", "nonsense").code == 2


def test_get_node_selects_and_orders(peopled: Path, merkle: Any) -> None:
    assert put(merkle, peopled, "src", "a note").code == 0
    at = ["-C", peopled, "--json", "get-node", "src"]
    assert [f["type"] for f in merkle(*at).json["frames"]] == ["note", "outline"]
    assert [f["agent"] for f in merkle(*at, "--view", "agent").json["frames"]] == [
        "alice", "merkle:summarize",
    ]  # fmt: skip
    few = merkle(*at, "--max-frames", "1").json
    assert (len(few["frames"]), few["frame_count"]) == (1, 2)
    assert few["children"] == ["deep", "main.py"]
    assert "frames   1 of 2" in merkle("-C", peopled, "get-node", "src", "--max-frames", "1").out
    assert merkle(*at, "--view", "relevance").json["error"]["code"] == "arguments"
    root = merkle("-C", peopled, "--json", "get-node", ".").json
    assert (root["path"], root["kind"]) == ("", "directory")
    by_id = merkle("-C", peopled, "--json", "get-node", f"id:{few['node_id'][:10]}").json
    assert by_id["path"] == "src"


def test_a_path_that_is_gone_keeps_its_history(peopled: Path, merkle: Any) -> None:
    assert put(merkle, peopled, "README.md", "about tides").code == 0
    (peopled / "README.md").unlink()
    assert merkle("-C", peopled, "scan").code == 0
    assert merkle("-C", peopled, "get-node", "README.md").code == 2
    listed = merkle("-C", peopled, "--json", "list-frames", "README.md").json["frames"]
    assert {frame["freshness"] for frame in listed} == {"orphaned"}
    assert "orphaned" in merkle("-C", peopled, "get-head", "README.md").out
    assert "orphaned" in merkle("-C", peopled, "explain", "README.md", "--type", "note").out


def test_nodes_without_frames_say_so(scanned: Path, merkle: Any) -> None:
    for name in ("list-frames", "get-head"):
        assert "no frames" in merkle("-C", scanned, name, "src").out
    assert merkle("-C", scanned, "explain", "src").code == 2
    assert merkle("-C", scanned, "--json", "get-node", "src").json["frames"] == []


def test_bodies_keep_their_lines_and_nothing_else_that_moves_the_cursor(
    peopled: Path, merkle: Any, process: Any
) -> None:
    assert put(merkle, peopled, "src", HOSTILE).code == 0
    ran = process("-C", peopled, "get-node", "src", "--type", "note")
    assert ran.out.splitlines()[-5:] == [
        "  fine", "  \\x1b[31mred\\x07", "  \ttab \\u202eevil", "", "  last\\x9b1m",
    ]  # fmt: skip
    document = process("-C", peopled, "--json", "get-node", "src", "--type", "note").json
    assert document["frames"][0]["content"] == HOSTILE
    coloured = merkle("-C", peopled, "get-node", "src", "--type", "note", colour=True).out
    assert "\x1b[32mfresh" in coloured
    assert "\x1b[31mred" not in coloured


def test_no_body_passes_for_the_heading_of_another_frame(peopled: Path, merkle: Any) -> None:
    assert put(merkle, peopled, "src", "\n\noutline by merkle:summarize, fresh").code == 0
    out = merkle("-C", peopled, "get-node", "src").out
    assert len([line for line in out.splitlines() if line.startswith("outline by")]) == 1


def test_refusals_store_nothing(peopled: Path, merkle: Any, contents: Any) -> None:
    before = contents(peopled / ".merkle" / "journal")
    for text, more, message in (
        ("x", ["--agent", "nobody"], "there is no agent"),
        ("x", ["--agent", "bob"], "is a reader and cannot write"),
        ("x", ["--type", "outline"], "kept by a generator"),
        ("x", ["--type", "No Type"], "is no frame type"),
        (f"key {SECRET}", [], "the content looks like it holds a secret"),
        ("postgres://app:hunter2@db/app", [], "(url_password)"),
        ("export DB_PASSWORD=hunter2", [], "(assignment)"),
        ("x", ["--meta", f"key={SECRET}"], "the metadata looks like it holds a secret"),
        ("x", ["--meta", "DB_PASSWORD=hunter2"], "the metadata looks like it holds a secret"),
        ("x" * (LONGEST + 1), [], "more than 1048576 bytes"),
    ):
        ran = put(merkle, peopled, "src", text, *more)
        assert ran.code == 2, message
        assert message in ran.json["error"]["message"]
        assert SECRET not in ran.out
        assert "hunter2" not in ran.out
        assert contents(peopled / ".merkle" / "journal") == before, message


def test_refusals_of_the_service_are_the_same(service: object, scanned: Path, merkle: Any) -> None:
    ran = put(merkle, scanned, "src", "x")
    assert (ran.code, ran.json["error"]["code"]) == (2, "agent")
    assert merkle("-C", scanned, "agent", "add", "alice", "--role", "writer").code == 0
    ran = put(merkle, scanned, "src", SECRET)
    assert (ran.code, ran.json["error"]["code"]) == (2, "frame_refused")
    # The largest there is, in the form that JSON makes longest.
    assert put(merkle, scanned, "src", "\x01" * LONGEST).code == 0
    assert merkle("-C", scanned, "status").code == 0


def test_a_secret_is_stored_when_told_that_it_is_none(peopled: Path, merkle: Any) -> None:
    more = ["--meta", f"key={SECRET}", "--allow-secrets"]
    assert put(merkle, peopled, "src", SECRET, *more).code == 0


def test_what_is_no_text_is_refused(peopled: Path, process: Any, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"abc\xff\xfe")
    for line, stdin in (("binary", b""), ("-", b"abc\xff\xfe")):
        ran = process("-C", peopled, "--json", "put-frame", "src", line, *NOTE, stdin=stdin)
        assert (ran.code, ran.json["error"]["code"]) == (2, "frame_refused")
        assert "byte 0xff at offset 3" in ran.json["error"]["message"]


def test_a_file_is_read_as_it_is(peopled: Path, process: Any, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_bytes("line\r\nzwölf\n".encode())
    assert process("-C", peopled, "put-frame", "src", "note.md", *NOTE).code == 0
    node = process("-C", peopled, "--json", "get-node", "src", "--type", "note").json
    assert node["frames"][0]["content"] == "line\r\nzwölf\n"
    for name in ("absent.md", "."):
        assert process("-C", peopled, "put-frame", "src", name, *NOTE).code == 2


@pytest.mark.parametrize("meta", ["novalue", "=x", b"k=\xff"])
def test_meta_is_checked(meta: str | bytes, peopled: Path, process: Any) -> None:
    ran = process("-C", peopled, "put-frame", "src", "-", *NOTE, "--meta", meta, stdin=b"x")
    assert ran.code == 2
    twice = ["--meta", "k=1", "--meta", "k=2"]
    assert process("-C", peopled, "put-frame", "src", "-", *NOTE, *twice, stdin=b"x").code == 2


@pytest.mark.parametrize("way", ["local", "service"])
def test_hostile_names_are_found_and_shown_safely(
    way: str, peopled: Path, process: Any, request: pytest.FixtureRequest
) -> None:
    if way == "service":
        request.getfixturevalue("service")
    raw = b"bad\x1b[31m\n\xff.py"
    (peopled / os.fsdecode(raw)).write_text("def tide(): pass\n")
    assert process("-C", peopled, "watch", "--once").code == 0
    assert process("-C", peopled, "put-frame", raw, "-", *NOTE, stdin=b"noted").code == 0
    for line in (["get-node"], ["list-frames"], ["get-head"], ["explain"], ["invalidate"],
                 ["regenerate"]):  # fmt: skip
        ran = process("-C", peopled, *line, raw)
        assert ran.code == 0, (line, ran.err)
        assert "bad\\x1b[31m" in ran.out
        assert not {"\x1b", "\udcff"} & set(ran.out + ran.err)
    found = process("-C", peopled, "--json", "get-node", raw).json
    assert found["path"] == "bad\\x1b[31m\\x0a\\xff.py"
    assert process("-C", peopled, "--json", "get-node", found["path"]).json == found


def test_lines_of_json_are_stored_together(peopled: Path, tmp_path: Path, merkle: Any) -> None:
    lines = tmp_path / "notes.jsonl"
    first = '{"node": "README.md", "content": "one"}\n\n{"node": "src/main.py", "content": "two"}\n'
    lines.write_text(first)
    at = ("-C", peopled)
    ran = merkle(*at, "put-frame", "--lines", lines, *NOTE)
    assert ran.code == 0, ran.err
    assert [line.split()[3] for line in ran.out.splitlines()] == ["README.md:", "src/main.py:"]
    lines.write_text(first.replace("one", "three") + "{}\n")
    ran = merkle(*at, "put-frame", "--lines", lines, *NOTE)
    assert ran.code == 2
    assert "frame 3" in ran.err
    assert "node is required" in ran.err
    lines.write_text("{")
    assert "line 1 is not JSON" in merkle(*at, "put-frame", "--lines", lines, *NOTE).err
    found = merkle(*at, "--json", "get-node", "README.md", "--type", "note").json["frames"]
    assert [frame["content"] for frame in found] == ["one"]
    for wrong in (["--lines", str(lines), "--on", "content"], [], ["README.md"]):
        assert merkle(*at, "put-frame", *wrong, *NOTE).code == 2


def test_what_replaces_says_so_and_what_was_replaced_does(peopled: Path, merkle: Any) -> None:
    first = put(merkle, peopled, "README.md", "one").json["frame_id"]
    at = ("-C", peopled)
    line = [*at, "put-frame", "README.md", "-", *NOTE, "--replaces", first[:12]]
    ran = merkle(*line, stdin="two")
    assert f"replaces {first[:12]}" in ran.out
    second = put(merkle, peopled, "README.md", "two").json["frame_id"]
    assert f"superseded by  {second}" in merkle(*at, "get-frame", first).out
    assert f"supersedes  {first}" in merkle(*at, "get-frame", second).out
    listed = merkle(*at, "list-frames", "README.md", "--type", "note").out
    assert f"  {first[:12]}" in listed
    assert f"stale (superseded by {second[:12]})" in listed
    (peopled / "README.md").write_text("# Other\n")
    assert merkle(*at, "scan").code == 0
    assert "notes (1)\n  stale  README.md  note by alice\n" in merkle(*at, "diff", "@-1", "@-0").out
