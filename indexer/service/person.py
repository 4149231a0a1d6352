"""Who is at the keyboard: the agent in whose name a person's own notes are written."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import unicodedata
from pathlib import Path
from typing import Final

LONGEST: Final = 64
"""Characters of an agent's id that is made from a name."""
_SECONDS: Final = 5
"""Seconds that git may take to tell a name."""
_NOT_IN_IDS: Final = re.compile(r"[^a-z0-9_.@+-]+")


def person(root: Path) -> str:
    """MERKLE_AGENT, or the name that git knows in a folder, or the login, as an agent's id."""
    own = os.environ.get("MERKLE_AGENT", "").strip()
    return own or as_id(_name_in_git(root)) or as_id(_login()) or f"user-{os.getuid()}"


def as_id(name: str) -> str:
    """A name as an id: small letters without accents, words joined by dashes; empty for none."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return _NOT_IN_IDS.sub("-", plain).strip("-_.@+")[:LONGEST].rstrip("-_.@+")


def _name_in_git(root: Path) -> str:
    try:
        ran = subprocess.run(
            ["git", "-C", root, "config", "--get", "user.name"],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.decode("utf-8", "replace").strip() if ran.returncode == 0 else ""


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
