"""Component 6, tooling and integration: what it asks of CI and of editors."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any
from xml.etree import ElementTree


def test_ci_integration_batch_operations(peopled: Path, merkle: Any) -> None:
    """Process multiple nodes efficiently: one process, one opening, one result each."""
    nodes = ["src", "README.md", "src/deep", "src/main.py"]
    ran = merkle("-C", peopled, "get-head", "-", "--json", stdin="\n".join(nodes))
    assert [each["path"] for each in ran.json["results"]] == nodes


def test_ci_integration_validation(peopled: Path, merkle: Any) -> None:
    """Verify workspace integrity: clean, then with a finding that every form names."""
    assert merkle("-C", peopled, "validate", "--content").code == 0
    (peopled / "README.md").write_text("# Other\n")
    line = ("-C", peopled, "validate", "--content", "--format")
    assert merkle(*line, "json").json["errors"][0]["path"] == "README.md"
    failures = ElementTree.fromstring(merkle(*line, "junit").out).iter("failure")
    assert [each.get("type") for each in failures] == ["disk_modified"]
    assert "::error file=README.md,title=merkle disk_modified::" in merkle(*line, "github").out


def test_ci_integration_reporting(peopled: Path, tmp_path: Path, merkle: Any) -> None:
    """Generate reports on context state: covered, then stale."""
    file = tmp_path / "report.md"
    ran = merkle("-C", peopled, "report", file, "--json")
    assert ran.json["coverage"]["fresh"] == ran.json["coverage"]["nodes"] == 7
    (peopled / "src" / "main.py").write_text("def f() -> None: ...\n")
    ran = merkle("-C", peopled, "report", file, "--json")
    assert (ran.json["state"], ran.json["coverage"]["stale"]) == ("stale", 3)
    assert ran.json["coverage"]["fresh_pct"] == 57.1
    assert "| `src/main.py` |" in file.read_text()


def test_ci_integration_diff_generation(peopled: Path, merkle: Any) -> None:
    """Show changes between runs."""
    (peopled / "src" / "main.py").write_text("print('later')\n")
    assert merkle("-C", peopled, "scan").code == 0
    ran = merkle("-C", peopled, "diff", "@-1", "@-0", "--format", "json")
    assert ran.json["modified"] == ["src/main.py"]
    assert (
        "- `src/main.py`" in merkle("-C", peopled, "diff", "@-1", "@-0", "--format", "markdown").out
    )


def test_editor_integration_change_hooks(service: Any, scanned: Path) -> None:
    """Callbacks when nodes change: a save arrives as an event, after it can be asked for."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect((scanned / ".merkle" / "socket").read_text().strip())
        connection.sendall(b"GET /v1/events HTTP/1.0\r\n\r\n")
        with connection.makefile(encoding="utf-8", newline="\n") as lines:
            while ": connected" not in lines.readline():
                pass
            (scanned / "README.md").write_text("# Saved\n")
            for line in lines:
                if line.startswith("data: ") and '"node"' in line:
                    break
    event = json.loads(line.removeprefix("data: "))
    assert (event["change"], event["path"]) == ("modified", "README.md")
