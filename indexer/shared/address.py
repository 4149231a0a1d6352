"""The address of a team's store: which kind it is, and whose results are meant."""

from __future__ import annotations

import re
from typing import Final

NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
"""What a namespace may be called."""

POSTGRES: Final = frozenset({"postgresql", "postgres"})
SQLITE: Final = "sqlite"


def kind_of(url: str) -> str:
    """`postgresql` or `sqlite`; raises ValueError for what is neither."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme in POSTGRES:
        return "postgresql"
    if scheme == SQLITE:
        if not sqlite_path(url).startswith("/"):
            raise ValueError("the path must be absolute: sqlite:///srv/team.db")
        return SQLITE
    # What was given is not repeated: it may hold a password.
    raise ValueError("it is neither postgresql://USER@HOST/DATABASE nor sqlite:///PATH")


def sqlite_path(url: str) -> str:
    """The file of a `sqlite:///PATH` address."""
    return url.partition("://")[2]
