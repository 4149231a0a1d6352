"""Draw the pictures of the documentation by running merkle on a copy of the sample workspace.

`python docs/pictures/make.py` writes them beside this file. The same code draws the same bytes:
times and other things that differ from run to run are shown as `…`, and no font, script or style
comes from elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parents[1] / "sample_workspace"
STORE = "ingest/saltgauge/store.py"

SHOWN = (
    "merkle watch --once",
    'merkle search "how is a gauge calibrated" --limit 2',
    "merkle callers ReadingStore.add",
    f'merkle note {STORE}::ReadingStore.add "Loading a file twice is safe."',
    f"perl -pi -e 's/INSERT OR IGNORE/INSERT OR REPLACE/' {STORE}",
    "merkle notes",
    "merkle diff",
)
"""What is typed in the recording."""

_DIFFERS = (
    (re.compile(r"in \d+\.\d+ s"), "in … s"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "…"),
    (re.compile(r"\bgit [0-9a-f]{12}"), "git …"),
)
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
_COLUMNS, _LINE, _CHARACTER, _MARGIN = 108, 18, 7.83, 18
_PAUSE = 1.6
"""Seconds between one command and the next."""


class Sample:
    """A copy of the sample in a folder of its own, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "saltgauge"
        shutil.copytree(SAMPLE, self.root, ignore=shutil.ignore_patterns(".merkle", "__pycache__"))
        home = folder / "home"
        home.mkdir()
        self.environment = {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(HERE.parents[1]),
            "MERKLE_AGENT": "ada",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": str(_COLUMNS),
        }
        self.run("git init -q && git add .")
        self.run("git -c user.name=Ada -c user.email=ada@example.org commit -qm 'Where we begin'")

    def run(self, command: str) -> str:
        """What a command prints; one that fails ends the drawing."""
        finished = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if finished.returncode:
            raise SystemExit(f"{command}\n{finished.stdout}")
        text = finished.stdout
        for pattern, stand_in in _DIFFERS:
            text = pattern.sub(stand_in, text)
        return text

    def ask(self, command: str) -> Any:
        """The document of a command with --json."""
        return json.loads(self.run(f"merkle {command} --json"))


def drawn(width: float, height: float, label: str, parts: Sequence[str], style: str) -> str:
    """A whole picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(label)}">'
    )
    return "\n".join([head, f"<style>{style}</style>", *parts, "</svg>", ""])


# -- the recording


def terminal(sample: Sample) -> str:
    """The commands and what they print, one after the other; without animation all at once."""
    typed = [(command, sample.run(command)) for command in SHOWN]
    parts, y = [], float(2 * _LINE + _MARGIN)
    for number, (command, printed) in enumerate(typed):
        lines = [("in", f"$ {command}"), *(("out", line) for line in _wrapped(printed))]
        parts.append(f'<g style="animation-delay:{number * _PAUSE:.1f}s">')
        for kind, line in lines:
            mood = " stale" if re.match(r"\s*stale|.*  stale \(", line) else ""
            text = escape(line, quote=False)
            parts.append(f'<text class="{kind}{mood}" x="{_MARGIN}" y="{y:g}">{text}</text>')
            y += _LINE
        parts.append("</g>")
        y += _LINE / 2
    width, height = 2 * _MARGIN + _COLUMNS * _CHARACTER, y + _MARGIN - _LINE
    frame = [
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="9" fill="#16202b"/>',
        *(
            f'<circle cx="{_MARGIN + 5 + 18 * place}" cy="18" r="5" fill="{colour}"/>'
            for place, colour in enumerate(("#e0705d", "#e3b34b", "#6fb36b"))
        ),
    ]
    style = (
        f"text{{font:13px {_FONT};white-space:pre;fill:#c9d4de}}.in{{fill:#fff;font-weight:600}}"
        ".stale{fill:#f0b35a}g{animation:show .3s both}@keyframes show{from{opacity:0}}"
        "@media (prefers-reduced-motion:reduce){g{animation:none}}"
    )
    label = "A terminal in which " + ", ".join(SHOWN)
    return drawn(round(width), round(height), label, [*frame, *parts], style)


def _wrapped(printed: str) -> Iterator[str]:
    for line in printed.rstrip("\n").splitlines():
        keep = {"drop_whitespace": False, "replace_whitespace": False}
        yield from (part.rstrip() for part in textwrap.wrap(line, _COLUMNS, **keep) or [""])


# -- the map


def treemap(sample: Sample) -> str:
    """The map of `merkle report`, after the code has changed."""
    sample.run("merkle --quiet scan")
    sample.run("merkle report ../report.html")
    page = (sample.root.parent / "report.html").read_text(encoding="utf-8")
    found = re.search(
        r'<svg viewBox="0 0 (\d+) (\d+)"[^>]*aria-label="(Treemap[^"]*)">\n(.*?)</svg>', page, re.S
    )
    if found is None:
        raise SystemExit("the report has no map")
    width, height, label, body = found.groups()
    # Half a name says nothing.
    names = [line for line in body.splitlines() if not line.endswith("…</text>")]
    style = (
        "text{font:10px system-ui,sans-serif;fill:#23303c}.in{fill:#fff}"
        "rect{stroke:#fff;stroke-width:1}.frame{fill:#e8eef2}.fresh{fill:#2f7d62}"
        ".stale{fill:#b5651d}.unknown{fill:#7a6a9c}.unmanaged{fill:#5f7486}.none{fill:#93a1ac}"
    )
    return drawn(int(width), int(height), label, names, style)


# -- the concepts


def concepts(sample: Sample) -> str:
    """Tree, frame, basis and memo, with the ids that the sample has."""
    sample.run("merkle --quiet watch --once")
    chain = ["", "ingest", "ingest/saltgauge", STORE]
    nodes = {path: sample.ask(f"get-node {path or '.'}") for path in chain}
    of_file = next(one for one in nodes[STORE]["frames"] if one["type"] == "outline")
    parts: list[str] = []
    for depth, path in enumerate(chain):
        name = path.rpartition("/")[2] + ("" if path == STORE else "/")
        lines = [name, f"node {nodes[path]['node_id'][:10]}"]
        if path == STORE:
            lines.append(f"content {nodes[path]['content_id'][:10]}")
        parts += _box(24 + 26 * depth, 58 + 82 * depth, 190, lines, "node")
        if depth:
            x, y = 40 + 26 * (depth - 1), 58 + 82 * depth
            parts.append(f'<path class="line" d="M{x} {y - 34}V{y + 24}H{x + 10}"/>')
    frame = [f"frame {of_file['frame_id'][:10]}", "outline by merkle:outline"]
    parts += _box(390, 292, 240, [*frame, "basis: the content of store.py"], "frame")
    note = ["note by ada", "“Loading a file twice is safe.”", "basis: the text of ReadingStore.add"]
    parts += _box(390, 180, 240, note, "frame")
    content = nodes[STORE]["content_id"][:10]
    memo = [f"content {content}", "+ outline, its version, settings", "→ the text of the outline"]
    parts += _box(700, 292, 210, memo, "memo")
    parts += [
        '<path class="arrow" d="M390 330H298"/>',
        '<path class="arrow" d="M390 220C330 220 330 312 298 316"/>',
        '<path class="arrow" d="M700 330H634"/>',
    ]
    for x, title, about in (
        (24, "TREE", "an id for each file and folder"),
        (390, "FRAMES", "what is known, and of what"),
        (700, "MEMO", "what was computed before"),
    ):
        parts.append(f'<text class="title" x="{x}" y="26">{title}</text>')
        parts.append(f'<text class="about" x="{x}" y="44">{about}</text>')
    style = (
        "text{font:12px system-ui,sans-serif;fill:#23303c}.title{font-weight:700;"
        "letter-spacing:1px}.about{fill:#566573}.first{font-weight:600}"
        "rect{stroke:#566573;fill:#fff}.node{fill:#e8eef2}.frame{fill:#dff0e8}.memo{fill:#f6ead6}"
        ".line,.arrow{fill:none;stroke:#566573;stroke-width:1.3}.arrow{marker-end:url(#head)}"
    )
    marker = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#566573"/></marker></defs>'
        '<rect width="934" height="392" rx="9" fill="#fff" stroke="none"/>'
    )
    label = "A tree of files, frames bound to a file's content and to a symbol, and a memo"
    return drawn(934, 392, label, [marker, *parts], style)


def _box(x: int, y: int, width: int, lines: Sequence[str], kind: str) -> Iterator[str]:
    height = 18 * len(lines) + 14
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
    for place, line in enumerate(lines):
        first = ' class="first"' if not place else ""
        text = escape(line, quote=False)
        yield f'<text{first} x="{x + 10}" y="{y + 20 + 18 * place}">{text}</text>'


def make(target: Path) -> list[Path]:
    """Write every picture into a folder."""
    written = []
    with tempfile.TemporaryDirectory(prefix="pictures", dir="/tmp") as folder:
        # The recording changes the sample, and the map shows what became of it.
        for order in ((concepts,), (terminal, treemap)):
            sample = Sample(Path(tempfile.mkdtemp(dir=folder)))
            for draw in order:
                file = target / f"{draw.__name__}.svg"
                file.write_text(draw(sample), encoding="utf-8")
                written.append(file)
    return written


if __name__ == "__main__":
    for each in make(HERE):
        print(f"wrote {each}")
