"""The words that people type: help, ls, names without folders, questions, diff alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from indexer.cli.group import COMMANDS, GROUPS
from indexer.core.quiet_git import git_command, git_environment
from indexer.engine.make.events import Event
from indexer.service.batch_lines import BatchLines, batch_line

pytestmark = pytest.mark.usefixtures("kept_open")


def commit(folder: Path) -> None:
    for line in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", folder, *who, *line], check=True)


def test_help_is_in_groups_and_says_what_the_option_says(merkle: Any) -> None:
    shown = merkle("help").out
    assert shown == merkle("--help").out
    assert [shown.index(f"{title}:") for title in GROUPS] == sorted(
        shown.index(f"{title}:") for title in GROUPS
    )
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)
    assert merkle("help", "session", "new").out == merkle("session", "new", "--help").out
    assert merkle("help", "scan", "--json").json["command"] == "scan"
    assert merkle("help", "scann").code == 2
    assert merkle("help", "scan", "x").code == 2


def test_ls_lists_children_with_what_is_known(peopled: Path, merkle: Any) -> None:
    listed = merkle("-C", peopled, "ls", "--json").json
    entries = {one["name"]: one for one in listed["entries"]}
    assert list(entries) == sorted(entries)
    assert entries["src"]["counts"] == {"fresh": entries["src"]["nodes"]}
    assert entries["README.md"]["kind"] == "file"
    (peopled / "README.md").write_text("# Other\n")
    told = merkle("-C", peopled, "ls").out
    assert "src/" in told
    assert "stale" in told
    alone = merkle("-C", peopled, "ls", "src/main.py", "--json").json
    assert [one["path"] for one in alone["entries"]] == ["src/main.py"]
    assert merkle("-C", peopled, "ls", "nowhere").code == 2


def test_a_name_that_only_one_node_has_is_enough(scanned: Path, merkle: Any) -> None:
    ran = merkle("-C", scanned, "get-node", "table.csv", "--json")
    assert ran.json["path"] == "src/deep/table.csv"
    assert ran.err == "table.csv is taken as src/deep/table.csv\n"
    assert merkle("-C", scanned, "show", "main.py").out.startswith("src/main.py")
    (scanned / "main.py").mkdir()
    (scanned / "main.py" / "table.csv").write_text("1\n")
    assert merkle("-C", scanned, "scan").code == 0
    ran = merkle("-C", scanned, "get-node", "table.csv")
    assert ran.code == 2
    assert "could be one of 2: main.py/table.csv, src/deep/table.csv" in ran.err
    assert merkle("-C", scanned, "get-node", "deep/table.csv").code == 0
    # What a pipe names is meant as it stands.
    assert merkle("-C", scanned, "get-node", "-", stdin="deep/table.csv\n").code == 2


def test_a_question_needs_no_option_beside_a_service_either(anywhere: Path, merkle: Any) -> None:
    asked = merkle("-C", anywhere, "compose", "tide tables", "--json")
    assert asked.json == merkle("-C", anywhere, "compose", "--query", "tide tables", "--json").json
    assert "taken as a question" in asked.err


def test_a_question_needs_no_option(peopled: Path, merkle: Any) -> None:
    asked = merkle("-C", peopled, "compose", "tide tables", "--json")
    assert asked.json == merkle("-C", peopled, "compose", "--query", "tide tables", "--json").json
    assert "taken as a question" in asked.err
    (peopled / "tide tables").write_text("a file\n")
    assert merkle("-C", peopled, "scan").code == 0
    assert merkle("-C", peopled, "compose", "tide tables", "--json").err == ""
    # One word is more likely a name that was mistyped, unless code has it.
    assert merkle("-C", peopled, "compose", "tides").code == 2
    (peopled / "src" / "main.py").write_text("class Sea:\n    def tides(self):\n        return 1\n")
    assert merkle("-C", peopled, "watch", "--once").code == 0
    for name in ("tides", "Sea.tides"):
        asked = merkle("-C", peopled, "compose", name, "--json")
        assert asked.json == merkle("-C", peopled, "compose", "--query", name, "--json").json
        assert "taken as a question" in asked.err
    assert merkle("-C", peopled, "compose", "Sea.ebb").code == 2
    (peopled / "tides").write_text("a file\n")
    assert merkle("-C", peopled, "scan").code == 0
    assert merkle("-C", peopled, "compose", "tides", "--json").err == ""


def test_diff_alone_compares_with_the_last_commit(peopled: Path, merkle: Any) -> None:
    main = peopled / "src" / "main.py"
    main.write_text("def kept():\n    return 1\n\n\ndef gone():\n    return 2\n")
    commit(peopled)
    assert merkle("-C", peopled, "watch", "--once").code == 0
    assert "no difference" in merkle("-C", peopled, "diff").out
    note = ["note", "src/main.py::kept", "It is one.", "--agent", "alice"]
    assert merkle("-C", peopled, *note).code == 0
    # Touched, and written with the same bytes: no difference to anybody.
    (peopled / "README.md").write_bytes((peopled / "README.md").read_bytes())
    main.write_text("def kept():\n    return 3\n\n\ndef came():\n    return 2\n")
    (peopled / "new.txt").write_text("x")
    (peopled / "src" / "deep" / "table.csv").unlink()
    assert merkle("-C", peopled, "watch", "--once").code == 0
    found = merkle("-C", peopled, "diff", "--json").json
    assert found["old"].startswith("git:")
    assert (found["modified"], found["removed"]) == (["src/main.py"], ["src/deep/table.csv"])
    assert found["added"] == ["new.txt"]
    told = {(one["change"], one["symbol"]) for one in found["symbols"]}
    assert told == {("modified", "kept"), ("removed", "gone"), ("added", "came")}
    shown = merkle("-C", peopled, "diff").out
    assert "+ src/main.py::came" in shown
    assert "src/main.py::kept" in shown.partition("notes")[2]
    between = merkle("-C", peopled, "diff", "@-1", "--json").json["symbols"]
    assert {(one["change"], one["symbol"]) for one in between} == told


def test_diff_alone_names_the_notes_that_do_not_hold_any_more(peopled: Path, merkle: Any) -> None:
    main = peopled / "src" / "main.py"
    main.write_text("def kept():\n    return 1\n")
    commit(peopled)
    assert merkle("-C", peopled, "watch", "--once").code == 0
    for node in ("src/main.py", "src/main.py::kept"):
        line = ["put-frame", node, "-", "--type", "note", "--agent", "alice"]
        assert merkle("-C", peopled, *line, stdin=f"About {node}.").code == 0
    main.write_text("def kept():\n    return 2\n")
    told = merkle("-C", peopled, "diff").out
    assert "notes (2)" in told
    assert "stale  src/main.py  note by alice" in told
    assert "stale  src/main.py::kept  note by alice" in told
    assert merkle("-C", peopled, "diff", "--format", "markdown").code == 0
    found = merkle("-C", peopled, "diff", "--json").json["notes"]
    assert {one["symbol"] for one in found} == {None, "kept"}


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_diff_looks_at_files_that_git_was_told_to_leave_alone(
    scanned: Path, merkle: Any, flag: str
) -> None:
    commit(scanned)
    subprocess.run(["git", "-C", scanned, "update-index", flag, "README.md"], check=True)
    (scanned / "README.md").write_text("# Other\n")
    assert merkle("-C", scanned, "diff", "--json").json["modified"] == ["README.md"]


def test_diff_runs_nothing_that_a_repository_names(scanned: Path, merkle: Any) -> None:
    commit(scanned)
    trap = scanned.parent / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {scanned.parent}/sprung\ncat\n")
    trap.chmod(0o755)
    for name in (
        "core.fsmonitor", "diff.external", "filter.x.clean", "filter.x.smudge", "filter.x.process",
        "diff.x.textconv", "diff.x.command", "core.pager", "core.sshCommand", "core.editor",
    ):  # fmt: skip
        subprocess.run(["git", "-C", scanned, "config", name, str(trap)], check=True)
    (scanned / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    (scanned / "README.md").write_text("# Other\n")
    before = (scanned / ".git" / "index").read_bytes()
    assert merkle("-C", scanned, "diff", "--json").json["modified"] == ["README.md"]
    assert merkle("-C", scanned, "validate").code == 0
    assert not (scanned.parent / "sprung").exists()
    assert (scanned / ".git" / "index").read_bytes() == before


def promised(folder: Path, missing: str) -> Path:
    """Take an object away, and promise it by a program; what that program makes."""
    run = ["git", "-C", str(folder)]
    name = subprocess.run([*run, "rev-parse", missing], check=True, capture_output=True, text=True)
    (folder / ".git" / "objects" / name.stdout[:2] / name.stdout[2:].strip()).unlink()
    trap, sprung = folder.parent / "trap", folder.parent / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\nexit 1\n")
    trap.chmod(0o755)
    for key, value in {
        "core.repositoryformatversion": "1", "extensions.partialClone": "origin",
        "remote.origin.promisor": "true", "remote.origin.url": str(folder),
        "remote.origin.uploadpack": str(trap), "protocol.file.allow": "always",
    }.items():  # fmt: skip
        subprocess.run([*run, "config", key, value], check=True)
    return sprung


def test_no_missing_object_is_fetched_by_a_program_of_the_repository(
    scanned: Path, merkle: Any
) -> None:
    commit(scanned)
    sprung = promised(scanned, "HEAD:README.md")
    (scanned / "README.md").write_text("# Other\n")
    assert merkle("-C", scanned, "diff", "--json").json["modified"] == ["README.md"]
    assert not sprung.exists()
    # Nor by a version of git that does not know how to be told so.
    environment = git_environment()
    del environment["GIT_NO_LAZY_FETCH"]
    line = git_command(scanned, "cat-file", "-p", "HEAD:README.md")
    assert subprocess.run(line, env=environment, capture_output=True).returncode != 0
    assert not sprung.exists()
    # It is a trap: asked in another way, git walks into it.
    subprocess.run(["git", "-C", scanned, "cat-file", "-p", "HEAD:README.md"], capture_output=True)
    assert sprung.exists()


def test_opening_an_index_fetches_nothing_either(scanned: Path, merkle: Any) -> None:
    """Git is asked whether it keeps the index; a sparse list of files needs trees for that."""
    commit(scanned)
    sparse = ["sparse-checkout", "set", "--cone", "--sparse-index", "docs"]
    subprocess.run(["git", "-C", scanned, *sparse], check=True, capture_output=True)
    assert merkle("-C", scanned, "scan", "--accept-empty").code == 0
    sprung = promised(scanned, "HEAD:src")
    (scanned / ".git" / "index").touch()
    assert merkle("-C", scanned, "status").code == 0
    assert not sprung.exists()
    subprocess.run(["git", "-C", scanned, "ls-files"], capture_output=True)
    assert sprung.exists()


def test_without_git_diff_compares_with_the_last_root(scanned: Path, merkle: Any) -> None:
    (scanned / "README.md").write_text("# Other\n")
    assert merkle("-C", scanned, "diff", "--json").json["modified"] == ["README.md"]
    assert merkle("-C", scanned, "scan").code == 0
    assert merkle("-C", scanned, "diff", "--json").json["modified"] == ["README.md"]


def test_what_a_generator_made_of_a_file_that_is_gone_is_not_counted(
    peopled: Path, merkle: Any
) -> None:
    note = ["put-frame", "src/main.py", "-", "--type", "note", "--agent", "alice"]
    (peopled / "README.md").unlink()
    assert merkle("-C", peopled, "watch", "--once").code == 0
    assert merkle("-C", peopled, "status", "--json").json["frames"]["orphaned"] == 0
    assert merkle("-C", peopled, *note, stdin="Read this.").code == 0
    (peopled / "src" / "main.py").unlink()
    assert merkle("-C", peopled, "watch", "--once").code == 0
    # The note, and the outline that it stands beside.
    assert merkle("-C", peopled, "status", "--json").json["frames"]["orphaned"] == 2


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((["a"], 1, 0, 0), "a: 1 frame made"),
        ((["a", "b", "c", "d"], 2, 1, 0), "a, b, c and 1 more: 2 frames made, 1 known from"
        " earlier results"),
        (([], 0, 0, 1), "frames: 1 failed"),
        ((["-a"], 0, 0, 0), "-a: no frame to make"),
    ],
)  # fmt: skip
def test_a_batch_is_one_line(given: Any, line: str) -> None:
    assert batch_line(*given) == line


def test_a_batch_is_told_once_it_has_come_to_rest() -> None:
    shown: list[str] = []
    lines = BatchLines(shown.append)
    lines.publish_frames([Event("generated", "a", "outline", None)])
    lines.tick()
    assert shown == []
    lines.tick(is_busy=True)
    lines.tick(is_busy=True)
    assert shown == []
    lines.tick()
    lines.tick()
    assert shown == ["frames: 1 frame made"]


def test_a_name_that_is_no_file_may_be_a_symbol(scanned: Path, merkle: Any) -> None:
    assert "`merkle definition tide` tells" in merkle("-C", scanned, "show", "tide").err
    assert "definition" not in merkle("-C", scanned, "show", "tide.py").err


def test_a_search_that_finds_nothing_says_so(scanned: Path, merkle: Any) -> None:
    ran = merkle("-C", scanned, "search", "zzqqxx")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing matches" in ran.err


def test_the_page_is_opened_in_the_browser_that_is_named(
    scanned: Path, tmp_path: Path, process: Any
) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    line = ("-C", scanned, "watch", "--background", "--open", "--json")
    ran = process(*line, BROWSER=str(browser))
    try:
        assert opened.read_text().strip() == ran.json["web"]
    finally:
        assert process("-C", scanned, "stop").code == 0
