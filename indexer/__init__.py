"""merkle: an always-true index of a workspace, and of what was written about it.

The names below are the public Python API; each is imported when it is first asked for, so that
`merkle --version` does not pay for the database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indexer import errors as errors
    from indexer.service.workspace import Workspace as Workspace

__version__ = "0.1.0"

_EXPORTS = {
    "Workspace": "indexer.service.workspace",
}

__all__ = ["Workspace", "errors"]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("indexer.errors")
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
