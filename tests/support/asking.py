"""Workspaces whose frames a model writes: their files, what they declare, and the key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.service import Service
from tests.support.space import Space, python

Asking = Callable[..., Space]
Serving = Callable[..., Service]

KEY_NAME = "MERKLE_TEST_KEY"
KEY = "sk-test-9f3aB71cQe55Zt0pLm2x"

FILES = {
    "README.md": "# Project\n\nWhat it is.\n",
    "src/one/a.py": python("a"),
    "src/one/b.py": python("b"),
    "src/two/c.py": python("c"),
}
"""Four files and four folders, the root among them."""

BOTH = """
[types.summary]
file = {{ use = "llm", model = "{model}"{options} }}
folder = {{ use = "llm", model = "{model}" }}
"""

OUTLINED = """
[types.outline]
file = "outline"

[types.summary]
input = "outline"
file = {{ use = "llm", model = "{model}"{options} }}
"""


def declaration(
    url: str, types: str = BOTH, *, model: str = "gpt-4o-mini", options: str = "", llm: str = ""
) -> str:
    """A merkle.toml that asks the server at an address."""
    section = f'[llm]\nbase_url = "{url}"\nkey_env = "{KEY_NAME}"\nmax_wait = 5\n{llm}\n'
    return section + types.format(model=model, options=options)


def lose_database(root: Path) -> None:
    """The database is gone; the journal is what is left."""
    for name in (root / ".merkle").iterdir():
        if name.suffix in (".duckdb", ".wal") or ".duckdb" in name.name:
            name.unlink()
