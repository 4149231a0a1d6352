"""`merkle watch` as a service of the user's own: a systemd unit, or a launchd file."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Final

from indexer.core.paths import on_screen
from indexer.errors import UsageError

SYSTEMD: Final = "systemd"
LAUNCHD: Final = "launchd"
AUTO: Final = "auto"
_PLAIN: Final = re.compile(rb"[A-Za-z0-9_@+=:,./ %$-]")


def usual_manager() -> str:
    """The service manager that this system usually has."""
    return LAUNCHD if sys.platform == "darwin" else SYSTEMD


def watch_line(root: Path, idle_exit: float | None = None) -> list[str]:
    """The command that serves a workspace, by this very installation."""
    script = Path(sys.executable).with_name("merkle")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "indexer.cli"]
    line = [*program, "-C", str(root), "watch", "--quiet"]
    if idle_exit is None:
        return line
    return [*line, "--idle-exit", f"{idle_exit:.3f}".rstrip("0").rstrip(".") + "s"]


def unit_name(root: Path, manager: str) -> str:
    """A file name of its own for each workspace."""
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    return f"merkle-{digest}.service" if manager == SYSTEMD else f"merkle.watch.{digest}.plist"


def unit_text(root: Path, manager: str, idle_exit: float | None = None) -> str:
    """The whole unit file, for one workspace and one manager."""
    line = watch_line(root, idle_exit)
    return _unit(root, line) if manager == SYSTEMD else _plist(root, line)


def _unit(root: Path, line: list[str]) -> str:
    name = unit_name(root, SYSTEMD)
    return "\n".join(
        [
            f"# Save as ~/.config/systemd/user/{name}, then:",
            f"#   systemctl --user daemon-reload && systemctl --user enable --now {name}",
            "[Unit]",
            f"Description=merkle watch of {_specifiers(on_screen(str(root)))}",
            "",
            "[Service]",
            "Type=exec",
            f"ExecStart={_command(line)}",
            "Restart=on-failure",
            "RestartSec=5",
            # Wrong use, damage, no workspace: another start would end the same way.
            "RestartPreventExitStatus=2 4 5",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        ]
    )


def _command(line: list[str]) -> str:
    """A command line as systemd reads it."""
    program, *rest = line
    # In the program's own name no variable is expanded, so none must be kept from it.
    return " ".join([_quoted(program, "\\x24"), *(_quoted(word, "$$") for word in rest)])


def _quoted(word: str, dollar: str) -> str:
    """A quoted word with C escapes for bytes, and nothing in it that would be expanded."""
    special = {"%": "%%", "$": dollar}
    return '"' + "".join(special.get(one, one) for one in map(_shown, os.fsencode(word))) + '"'


def _shown(byte: int) -> str:
    is_plain = _PLAIN.match(bytes((byte,))) is not None
    return chr(byte) if is_plain else f"\\x{byte:02x}"


def _specifiers(text: str) -> str:
    # A backslash at the end of a line would join it with the next.
    return text.replace("%", "%%").replace("\\", "/")


def _plist(root: Path, line: list[str]) -> str:
    document = {
        "Label": unit_name(root, LAUNCHD).removesuffix(".plist"),
        "ProgramArguments": line,
        "RunAtLoad": True,
        # Started again only after a failure, and not at once.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ProcessType": "Background",
    }
    # Imported late: `watch` loads this module, and prints a unit once in its life.
    import plistlib

    try:
        return plistlib.dumps(document, sort_keys=False).decode()
    except (ValueError, UnicodeError):
        raise UsageError(
            f"a launchd file cannot name {on_screen(str(root))}",
            hint="move the workspace to a folder whose name is plain text",
        ) from None
