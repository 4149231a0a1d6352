"""One table of handlers for each language that is outlined from its syntax tree."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from indexer.generators.walk import Grammar

_MODULES = {
    "python": "python",
    "javascript": "javascript",
    "typescript": "javascript",
    "tsx": "javascript",
    "go": "go",
    "rust": "rust",
    "java": "java",
    "c": "c",
    "c++": "cpp",
    "c#": "csharp",
    "ruby": "ruby",
    "php": "php",
    "kotlin": "kotlin",
    "swift": "swift",
    "scala": "scala",
    "shell": "bash",
}


def grammar(language: str) -> Grammar:
    """The handlers of a language, imported when first asked for."""
    module = import_module(f"{__name__}.{_MODULES[language]}")
    return cast("Grammar", module.GRAMMAR)
