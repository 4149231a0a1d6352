"""The programs that can use the server: where each keeps its configuration, and in which form."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from indexer.errors import UsageError
from indexer.mcp.json_edit import KeyPath

Entry = dict[str, Any]


class ClientError(UsageError):
    """The client is not known, or has no such scope."""

    code = "unknown_client"


@dataclass(frozen=True, slots=True)
class Scope:
    """One file that a client reads, and where in it the servers are listed."""

    file: Callable[[Path], Path]
    """The file, for a workspace."""
    servers: Callable[[Path], KeyPath]
    shared: bool = False
    """Whether others get the file too: then it must not name anything of this machine."""
    workspace: str | None = None
    """How the workspace is named to the server; None where it starts in the project's folder."""


@dataclass(frozen=True, slots=True)
class Client:
    """One program with its scopes, the usual one first."""

    title: str
    scopes: Mapping[str, Scope]
    format: str = "json"
    extra: Entry = field(default_factory=dict)
    """What its entries hold besides command and arguments."""

    def scope(self, name: str | None) -> tuple[str, Scope]:
        """The scope of that name, or the usual one."""
        chosen = name or next(iter(self.scopes))
        if chosen not in self.scopes:
            raise ClientError(
                f"{self.title} has no scope {chosen!r}",
                hint=f"it has: {', '.join(self.scopes)}",
            )
        return chosen, self.scopes[chosen]

    def entry(self, scope: Scope, root: Path, agent: str | None) -> Entry:
        """How the client starts the server."""
        arguments = ["mcp"] if agent is None else ["mcp", "--agent", agent]
        place = str(root) if scope.workspace == HERE else scope.workspace
        if place is not None:
            arguments = ["-C", place, *arguments]
        command = "merkle" if scope.shared else own_command()
        return {**self.extra, "command": command, "args": arguments}


HERE: Final = "."
"""Stands for the absolute path of the workspace."""


def own_command() -> str:
    """The absolute path of this program: a client that a menu started does not search our PATH."""
    beside = Path(sys.executable).parent / "merkle"
    return str(beside) if beside.exists() else os.path.abspath(sys.argv[0])


def _in_project(*parts: str) -> Callable[[Path], Path]:
    return lambda root: root.joinpath(*parts)


def _at_home(*parts: str) -> Callable[[Path], Path]:
    return lambda root: Path.home().joinpath(*parts)


def _in_config(*parts: str) -> Callable[[Path], Path]:
    """Below ~/.config, on every system."""

    def place(root: Path) -> Path:
        base = os.environ.get("XDG_CONFIG_HOME")
        return (Path(base) if base else Path.home() / ".config").joinpath(*parts)

    return place


def _in_settings(*parts: str) -> Callable[[Path], Path]:
    """Below the folder where desktop programs of this system keep their settings."""

    def place(root: Path) -> Path:
        if sys.platform == "darwin":
            return Path.home().joinpath("Library", "Application Support", *parts)
        return _in_config(*parts)(root)

    return place


def _codex_home(root: Path) -> Path:
    base = os.environ.get("CODEX_HOME")
    return (Path(base) if base else Path.home() / ".codex") / "config.toml"


def _under(*keys: str) -> Callable[[Path], KeyPath]:
    return lambda root: keys


_SERVERS: Final = _under("mcpServers")
_STDIO: Final[Entry] = {"type": "stdio"}
_FOLDER: Final = "${workspaceFolder}"

CLIENTS: Final[Mapping[str, Client]] = {
    "claude-code": Client(
        "Claude Code",
        {
            "project": Scope(_in_project(".mcp.json"), _SERVERS, shared=True),
            "local": Scope(
                _at_home(".claude.json"), lambda root: ("projects", str(root), "mcpServers")
            ),
            "user": Scope(_at_home(".claude.json"), _SERVERS),
        },
        extra=_STDIO,
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        {
            "user": Scope(
                _in_settings("Claude", "claude_desktop_config.json"), _SERVERS, workspace=HERE
            )
        },
    ),
    "cursor": Client(
        "Cursor",
        {
            "project": Scope(
                _in_project(".cursor", "mcp.json"), _SERVERS, shared=True, workspace=_FOLDER
            ),
            "user": Scope(_at_home(".cursor", "mcp.json"), _SERVERS, workspace=HERE),
        },
        extra=_STDIO,
    ),
    "vscode": Client(
        "VS Code",
        {
            "project": Scope(
                _in_project(".vscode", "mcp.json"), _under("servers"), shared=True,
                workspace=_FOLDER,
            ),
            "user": Scope(
                _in_settings("Code", "User", "mcp.json"), _under("servers"), workspace=HERE
            ),
        },
        extra=_STDIO,
    ),
    "codex": Client(
        "Codex CLI",
        {
            "user": Scope(_codex_home, _under("mcp_servers")),
            "project": Scope(
                _in_project(".codex", "config.toml"), _under("mcp_servers"), shared=True
            ),
        },
        format="toml",
    ),
    "gemini": Client(
        "Gemini CLI",
        {
            "project": Scope(_in_project(".gemini", "settings.json"), _SERVERS, shared=True),
            "user": Scope(_at_home(".gemini", "settings.json"), _SERVERS),
        },
    ),
    "windsurf": Client(
        "Windsurf",
        {
            "user": Scope(
                _at_home(".codeium", "windsurf", "mcp_config.json"), _SERVERS, workspace=HERE
            )
        },
    ),
    "zed": Client(
        "Zed",
        {
            "user": Scope(
                _in_config("zed", "settings.json"), _under("context_servers"), workspace=HERE
            )
        },
    ),
}  # fmt: skip


def find_client(name: str) -> Client:
    """The client of that name."""
    if name not in CLIENTS:
        raise ClientError(f"{name!r} is no known client", hint=f"known: {', '.join(CLIENTS)}")
    return CLIENTS[name]
