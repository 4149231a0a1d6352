"""The client in docs/events.md, run as written against a real service."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
CLIENT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]


def test_it_is_short() -> None:
    assert len(CLIENT.splitlines()) <= 20


def test_it_tells_what_changes(
    sample: Path, tmp_path: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    program = tmp_path / "follow.py"
    program.write_text(CLIENT, encoding="utf-8")
    log = tmp_path / "log"
    with log.open("w") as out:
        client = subprocess.Popen(
            [sys.executable, program, sample], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        # It is connected once it tells of something; until then, more is made to happen.
        number = iter(range(10_000))

        def is_connected() -> bool:
            (sample / "knock").write_text(str(next(number)))
            service.status()
            return "knock" in log.read_text()

        until(is_connected, "it tells of a file")
        (sample / "pkg0" / "inner" / "file0.txt").unlink()
        (sample / "new.py").write_text("def f() -> None: ...\n")
        service.converges()
        for told in ("removed pkg0/inner/file0.txt", "added new.py", "generated outline new.py"):
            until(lambda told=told: told in log.read_text().splitlines(), told)
        assert service.stop() == 0
        assert client.wait(30) == 0, log.read_text()
    finally:
        client.kill()
        client.wait()


def test_the_page_names_every_field(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    """Each event that a service sends has exactly the fields that the page gives it."""
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", PAGE, re.MULTILINE)
    fields = {name: set(re.findall(r"`(\w+)`", text)) for name, text in rows}
    fields["node"] -= {"added", "modified", "removed", "renamed_from"}
    of_sessions = {"session", "ctree_node", "ctree_snapshot"}
    assert fields.keys() == {"node", "root", "frame", "missed"} | of_sessions
    assert fields["missed"] == set()
    service = services(sample).ready()
    seen: dict[str, set[str]] = {}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(service.client.address)
        connection.sendall(b"GET /v1/events HTTP/1.0\r\n\r\n")
        lines = connection.makefile(encoding="utf-8", newline="\n")
        while not lines.readline().startswith(": connected"):
            pass
        (sample / "new.py").write_text("def f() -> None: ...\n")
        while len(seen) < 3:
            line = lines.readline()
            assert line, "the stream ended"
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                seen[event["event"]] = set(event) - {"event"}
        lines.close()
    assert seen == {name: fields[name] for name in ("node", "root", "frame")}
