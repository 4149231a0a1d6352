"""Pages of documentation as scripts: their commands are run as written, in order, in one shell.

In a `console` fence a line that begins with `$ ` is a command, and what follows is what it
prints. A `sh` fence holds commands alone. A `toml` fence that begins with `# merkle.toml` becomes
that file. In shown output `…` stands for anything in a line (times, process ids), and a line that
is only `…` for any number of lines.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

INSTALLERS = ("pip ", "pipx ", "uvx ")
OF_THE_EXTENSION = ("cd editors/", "npm ")
ELSEWHERE = {
    INSTALLERS: "tests/test_install.py runs these lines, from a built wheel",
    ("python3 -m venv ",): "the test of the first run runs these lines, in a fresh copy",
    OF_THE_EXTENSION: "tests/lsp/test_vscode.py runs these lines",
    ("code ",): "no VS Code is here; that its extension is packed is tested",
    ("systemctl ",): "no service manager is here; tests/cli/test_units.py verifies the unit",
}
"""What the commands begin with that are not run with their page, and what is done instead."""

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BEGIN, _END = "\x1e", "\x1f"

_UNTIL_MADE = """while merkle --json status | grep -q '"stale": [1-9]'; do sleep 0.1; done"""
"""Nobody types the next command before a service has made what was stale when it began."""


@dataclass(frozen=True)
class Step:
    """One command of a page, and what the page says that it prints."""

    command: str
    shown: str | None
    """None where the page does not say."""


@dataclass(frozen=True)
class Ran:
    """What a command printed, both streams together, and its exit status."""

    step: Step
    printed: str
    status: int

    def problem(self) -> str | None:
        """What is not as the page says; None where all is."""
        fits = self.step.shown is None or fits_shown(self.step.shown, self.printed)
        # Whoever sees what is printed sees that it is stale, or why it was refused.
        if fits and (self.status == 0 or self.step.shown):
            return None
        shown = "" if self.step.shown is None else f"\n--- shown\n{self.step.shown}"
        return f"$ {self.step.command}{shown}\n--- printed, status {self.status}\n{self.printed}"


def fences(text: str) -> list[tuple[str, str]]:
    """The language and the body of every fence that names its language."""
    return _FENCE.findall(text)


def steps(text: str) -> list[Step]:
    """The commands of a page that are run here, in order."""
    found: list[Step] = []
    for language, body in fences(text):
        if language == "console":
            found += _console(body)
        elif language == "sh":
            found += [Step(line, None) for line in body.splitlines() if line.strip()]
        elif language == "toml" and body.startswith("# merkle.toml\n"):
            found.append(Step(f"cat > merkle.toml << 'END'\n{body}END", None))
    elsewhere = tuple(start for starts in ELSEWHERE for start in starts)
    return [one for one in found if not one.command.startswith(elsewhere)]


def lines_with(text: str, starts: tuple[str, ...]) -> list[str]:
    """The lines of a page's `sh` fences that begin in some way, as written."""
    bodies = (body for language, body in fences(text) if language == "sh")
    return [line for body in bodies for line in body.splitlines() if line.startswith(starts)]


def _console(body: str) -> Iterator[Step]:
    first, *parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    assert not first, f"a console fence begins with a command, not with {first!r}"
    for part in parts:
        command, _, shown = part.partition("\n")
        yield Step(command, shown.strip("\n"))


def fits_shown(shown: str, printed: str) -> bool:
    """Whether what was printed is what a page shows, apart from its `…`."""
    pattern = ""
    for line in shown.splitlines():
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.rstrip().split("…")) + " *\n"
    return re.fullmatch(pattern + r"\n*", printed.strip("\n") + "\n" if printed else "") is not None


def run(
    listed: Sequence[Step], folder: Path, environment: Mapping[str, str], before: str = ""
) -> list[Ran]:
    """Run some commands in one shell that begins in a folder."""
    script = [before, "set -o pipefail"]
    for number, step in enumerate(listed):
        script += [f"printf '\\036{number}\\n'", step.command, "printf '\\037%d\\n' $?"]
        if "watch --background" in step.command:
            script.append(_UNTIL_MADE)
    output = folder.parent / "printed"
    with output.open("wb") as sink:
        subprocess.run(
            ["bash", "-c", "\n".join(script)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            timeout=600,
            check=False,
        )
    printed = output.read_text(encoding="utf-8")
    found = re.findall(rf"{_BEGIN}(\d+)\n(.*?){_END}(\d+)\n", printed, re.DOTALL)
    assert len(found) == len(listed), f"the shell ended early:\n{printed[-2000:]}"
    return [
        Ran(step, said, int(status)) for step, (_, said, status) in zip(listed, found, strict=True)
    ]
