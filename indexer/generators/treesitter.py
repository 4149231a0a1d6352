"""The one place that loads tree-sitter: grammars on first use, a parser for each thread."""

from __future__ import annotations

import sys
import threading
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, cast

from indexer.generators.base import GeneratorBrokenError
from indexer.generators.grammars import grammar
from indexer.generators.installed import installed_versions
from indexer.generators.walk import Walk

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Tree

# Language, the distribution that brings its grammar, and the function that gives it.
GRAMMARS = {
    "python": ("tree-sitter-python", "language"),
    "javascript": ("tree-sitter-javascript", "language"),
    "typescript": ("tree-sitter-typescript", "language_typescript"),
    "tsx": ("tree-sitter-typescript", "language_tsx"),
    "go": ("tree-sitter-go", "language"),
    "rust": ("tree-sitter-rust", "language"),
    "java": ("tree-sitter-java", "language"),
    "c": ("tree-sitter-c", "language"),
    # The extra `languages` brings these.
    "c++": ("tree-sitter-cpp", "language"),
    "c#": ("tree-sitter-c-sharp", "language"),
    "ruby": ("tree-sitter-ruby", "language"),
    "php": ("tree-sitter-php", "language_php"),
    "kotlin": ("tree-sitter-kotlin", "language"),
    "swift": ("tree-sitter-swift", "language"),
    "scala": ("tree-sitter-scala", "language"),
    "shell": ("tree-sitter-bash", "language"),
}
RUNTIME = "tree-sitter"
ABSENT = "absent"

# Parsers keep state between calls and must not be shared by threads.
_local = threading.local()


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """The installed versions of tree-sitter and of every grammar, by distribution."""
    names = sorted({RUNTIME, *(wheel for wheel, _ in GRAMMARS.values())})
    found = installed_versions(names)
    return tuple((name, found.get(name, ABSENT)) for name in names)


def versions_for(language: str) -> tuple[tuple[str, str], ...]:
    """The installed versions that a file in one language depends on."""
    if language not in GRAMMARS:
        return ()
    wanted = (RUNTIME, GRAMMARS[language][0])
    return tuple(found for found in versions() if found[0] in wanted)


@cache
def is_parsed(language: str) -> bool:
    """Whether files in this language are parsed here; fingerprints tell by the versions."""
    if language not in GRAMMARS:
        return False
    installed = dict(versions())
    return ABSENT not in (installed[RUNTIME], installed[GRAMMARS[language][0]])


def collect(language: str, source: bytes, tree: Tree) -> Walk:
    """Collect the symbols of a source that is parsed; errors in it leave a partial result."""
    walk = Walk(source, grammar(language))
    walk.run(tree.root_node)
    return walk


def parser_of(language: str) -> Parser:
    """This thread's parser for a language."""
    parsers: dict[str, Parser] | None = getattr(_local, "parsers", None)
    if parsers is None:
        parsers = _local.parsers = {}
    parser = parsers.get(language)
    if parser is None:
        parser = parsers[language] = cast(
            "Parser", import_module("tree_sitter").Parser(_language(language))
        )
    return parser


@cache
def _language(language: str) -> Language:
    distribution, function = GRAMMARS[language]
    try:
        pointer = getattr(_binding(distribution.replace("-", "_")), function)()
        return cast("Language", import_module("tree_sitter").Language(pointer))
    except (ImportError, AttributeError, ValueError) as error:
        raise GeneratorBrokenError(
            f"the grammar for {language} ({distribution}) is installed but cannot be loaded:"
            f" {error}",
            hint=f"reinstall it: pip install --force-reinstall {distribution}",
        ) from error


def _binding(package: str) -> Any:
    """A grammar's extension module, without the package around it where that is not loaded.

    The package would load `importlib.resources` for queries that nobody asks for, which takes
    longer than the grammar.
    """
    around = None if package in sys.modules else find_spec(package)
    name, places = f"{package}._binding", around and around.submodule_search_locations
    spec = PathFinder.find_spec(name, places) if places else None
    if spec is None or spec.loader is None:
        return import_module(package)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # Only now: a package that is loaded later would take a half-made one for whole.
    sys.modules[name] = module
    return module
