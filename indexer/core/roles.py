"""What a file is for, as far as its path tells: code, tests, documents, or what a tool wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final


class Role(IntEnum):
    """A file's part in a project, those first that weigh most."""

    SOURCE = 0
    DOCUMENT = 1
    TEST = 2
    MADE = 3
    """Translations, vendored and generated files: nobody's own words."""


# By the folders that a file is in, each with its slash.
_FOLDERS: Final = (
    (
        Role.MADE,
        r"(^|/)(locale|locales|translations|vendor|vendored|third_party|node_modules|dist)/",
    ),
    # A folder `test` inside a package may well be the package's own; only at the top it is not.
    (
        Role.TEST,
        r"(^|/)(tests|__tests__|testdata|spec|specs|js_tests)/|^test/|(^|/)src/test/",
    ),
    (Role.DOCUMENT, r"(^|/)docs?/"),
)
# By its own name.
_NAMES: Final = (
    (
        Role.MADE,
        r"\.(po|pot|mo|lock|map|min\.js|min\.css)$|^package-lock\.json$|^go\.sum$"
        r"|(_pb2(_grpc)?\.pyi?|\.pb\.go|\.generated\.\w+)$",
    ),
    (
        Role.TEST,
        r"^test_|_test\.\w+$|\.(test|spec)\.\w+$|^(tests|conftest)\.py$",
    ),
    (
        Role.DOCUMENT,
        r"\.(rst|md|markdown|adoc|txt)$|^(CHANGELOG|CHANGES|NEWS|HISTORY|AUTHORS)",
    ),
)
_IN_FOLDER: Final = [(role, re.compile(pattern)) for role, pattern in _FOLDERS]
_IN_NAME: Final = [(role, re.compile(pattern)) for role, pattern in _NAMES]

# Words by which a question asks for what otherwise weighs less. `test` alone does not: it is as
# often said of the thing that runs tests.
_ASKED: Final = {
    Role.TEST: frozenset(("tests", "testcase", "testcases", "unittest", "unittests")),
    Role.DOCUMENT: frozenset(
        (
            *("doc", "docs", "documentation", "documented", "readme", "changelog", "tutorial"),
            *("guide", "howto"),
        )
    ),
    Role.MADE: frozenset(("translation", "translations", "locale", "vendored", "generated")),
}
_PHRASES: Final = {
    Role.TEST: re.compile(r"(?i)\b(unit test|test case)s?\b"),
    Role.DOCUMENT: re.compile(r"(?i)\brelease notes?\b"),
}


def role_of(path: str) -> Role:
    """The role that a path tells of: the one that weighs least of its folders' and its name's."""
    folder, slash, name = path.rpartition("/")
    of_folder = _of_folder(folder + slash)
    return max(of_folder, _of_name(name)) if of_folder is not Role.MADE else of_folder


@lru_cache(maxsize=1 << 12)
def _of_folder(folder: str) -> Role:
    return _first(_IN_FOLDER, folder)


@lru_cache(maxsize=1 << 12)
def _of_name(name: str) -> Role:
    return _first(_IN_NAME, name)


def _first(signs: Iterable[tuple[Role, re.Pattern[str]]], text: str) -> Role:
    return next((role for role, sign in signs if sign.search(text)), Role.SOURCE)


def roles_asked_for(question: str) -> frozenset[Role]:
    """The roles that a question names in its own words."""
    words = set(re.findall(r"\w+", question.lower()))
    named = {role for role, signs in _ASKED.items() if words & signs}
    return frozenset(named | {role for role, sign in _PHRASES.items() if sign.search(question)})
