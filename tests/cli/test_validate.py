"""`validate`: statuses and the forms for CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.cli.reports import github, junit
from indexer.cli.validate import _exit_code
from indexer.core.paths import on_screen
from indexer.engine.durable.validate import FindingDocument, ValidateDocument


def finding(code: str, path: str = "a", message: str = "m") -> FindingDocument:
    return {"code": code, "path": path, "message": message}


def document(**lists: list[FindingDocument]) -> ValidateDocument:
    return {
        "valid": not (lists.get("errors") or lists.get("unchecked")),
        "root": "ab" * 16,
        "node_count": 3,
        "frame_count": 0,
        "errors": lists.get("errors", []),
        "warnings": lists.get("warnings", []),
        "unchecked": lists.get("unchecked", []),
        "hash": "xxh3_128",
        "note": "",
    }


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (document(), 0),
        (document(warnings=[finding("info_exclude")]), 0),
        (document(unchecked=[finding("unreadable")]), 3),
        (document(errors=[finding("disk_modified")]), 1),
        (document(errors=[finding("unexpected_root")]), 1),
        (document(errors=[finding("disk_added")], unchecked=[finding("unreadable")]), 1),
        (document(errors=[finding("disk_added"), finding("content_id")]), 4),
    ],
)
def test_exit_status_follows_the_gravest_finding(found: ValidateDocument, code: int) -> None:
    assert _exit_code(found) == code


def test_a_true_index_is_valid(scanned: Path, process: Any) -> None:
    ran = process("-C", scanned, "validate", "--content", "--json")
    assert ran.code == 0
    assert set(ran.json) == set(ValidateDocument.__annotations__)
    assert ran.json["valid"] is True
    root = ran.json["root"]
    assert process("-C", scanned, "validate", "--expect-root", root[:8]).code == 0
    text = process("-C", scanned, "validate").out
    assert text.startswith(f"valid: root {root[:12]}, 7 nodes\n")
    assert "detects accidents" in text


def test_disk_differences_are_findings(scanned: Path, process: Any) -> None:
    (scanned / "src" / "main.py").write_text("other\n")
    assert process("-C", scanned, "validate").code == 0
    ran = process("-C", scanned, "validate", "--content")
    assert ran.code == 1
    assert "src/main.py: modified on disk" in ran.out
    quiet = process("-C", scanned, "validate", "--content", "--quiet")
    assert quiet.code == 1
    assert "src/main.py" in quiet.out
    assert "accidents" not in quiet.out


def test_all_parts_together_find_every_difference(scanned: Path, merkle: Any) -> None:
    (scanned / "src" / "main.py").write_text("other\n")
    codes = [merkle("-C", scanned, "validate", "--subset", f"{n}/3").code for n in (1, 2, 3)]
    assert sorted(codes) == [0, 0, 1]


def test_another_root_is_a_finding_and_no_root_wrong_use(scanned: Path, merkle: Any) -> None:
    assert merkle("-C", scanned, "validate", "--expect-root", "000000").code == 1
    assert merkle("-C", scanned, "validate", "--expect-root", "xyz").code == 2


def test_never_scanned_could_not_be_checked(workspace: Path, merkle: Any) -> None:
    merkle("-C", workspace, "init")
    ran = merkle("-C", workspace, "validate")
    assert ran.code == 3
    assert "not checked in full" in ran.out


@pytest.mark.parametrize("form", ["text", "json", "junit", "github"])
def test_every_form_prints_and_keeps_the_status(form: str, scanned: Path, merkle: Any) -> None:
    (scanned / "README.md").write_text("other\n")
    ran = merkle("-C", scanned, "validate", "--content", "--format", form)
    assert ran.code == 1
    assert "README.md" in ran.out
    if form == "json":
        assert json.loads(ran.out)["valid"] is False
    if form == "junit":
        assert ElementTree.fromstring(ran.out.encode()).get("failures") == "1"


def test_errors_are_json_when_the_form_is(tmp_path: Path, merkle: Any) -> None:
    ran = merkle("-C", tmp_path, "validate", "--format", "json")
    assert ran.code == 5
    assert ran.json["error"]["code"] == "no_workspace"


NASTY = "a,b:c%\\x0a::error::\u202e<&>\"'\ufffe]]>"


def test_junit_is_xml_whatever_the_names() -> None:
    found = document(
        errors=[finding("disk_added", NASTY, "line\nbreak")],
        unchecked=[finding("unreadable", "b")],
        warnings=[finding("info_exclude", "")],
    )
    top = ElementTree.fromstring(junit(found).encode())
    suite = top[0]
    assert suite.attrib["tests"] == "4"
    assert suite.attrib["failures"] == suite.attrib["errors"] == "1"
    cases = [case.attrib["name"] for case in suite]
    assert cases[0] == "index"
    assert "\\ufffe" in cases[1]
    assert "\u202e" not in cases[1]
    assert [len(case.findall("failure")) for case in suite] == [0, 1, 0, 0]


def test_workflow_commands_cannot_be_forged_by_names() -> None:
    lines = github(document(errors=[finding("disk_added", NASTY, "line\nbreak%")])).splitlines()
    assert len(lines) == 2
    head, message = lines[0].removeprefix("::error ").split("::", 1)
    assert head.startswith("file=a%2Cb%3Ac%25\\x0a%3A%3Aerror%3A%3A\\u202e<&>")
    assert head.endswith(",title=merkle disk_added")
    assert message.endswith("line\\x0abreak%25")


ANY = st.text(max_size=30)


@given(ANY, ANY, ANY)
def test_any_finding_is_one_workflow_command(path: str, message: str, code: str) -> None:
    """Read back as the runner reads it: split at the first `::`, then at commas, then unescaped."""
    text = github(document(errors=[finding(code, path, message)]))
    first, last = text.split("\n")
    assert last.startswith("merkle validate: not valid")
    command, _, data = first.removeprefix("::").partition("::")
    level, _, given_ = command.partition(" ")
    assert level == "error"
    properties = dict(pair.split("=", 1) for pair in given_.split(","))

    def unescaped(value: str) -> str:
        for coded, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            value = value.replace(coded, char)
        return value

    assert unescaped(properties.get("file", "")) == on_screen(path)
    assert unescaped(properties["title"]) == f"merkle {code}"
    assert unescaped(data) == f"{on_screen(path) or '.'}: {on_screen(message)}"


@given(ANY, ANY)
def test_any_finding_is_xml(path: str, message: str) -> None:
    found = document(
        errors=[finding("disk_added", path, message)], warnings=[finding("w", message, path)]
    )
    suite = ElementTree.fromstring(junit(found).encode())[0]
    assert len(suite) == 3
    assert suite[1].find("failure") is not None


def test_workflow_commands_without_a_path_name_no_file() -> None:
    line = github(document(unchecked=[finding("never_scanned", "", "scan first")]))
    assert line.startswith("::error title=merkle never_scanned::.: scan first\n")
