"""A module that is imported when something of it is first used."""

from __future__ import annotations

import importlib
from typing import Any


class LateModule:
    """Stands for a module until then, so that a scan does not pay for what it never calls."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
