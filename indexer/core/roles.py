"""What a file is for, as far as its path tells: code, tests, documents, or what a tool wrote."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """A file's part in a project, those first that weigh most."""

    SOURCE = 0
    DOCUMENT = 1
    TEST = 2
    MADE = 3
    """Translations, vendored and generated files: nobody's own words."""


_MADE: Final = re.compile(
    r"(^|/)(locale|locales|translations|vendor|vendored|third_party|node_modules|dist)/"
    r"|\.(po|pot|mo|lock|map|min\.js|min\.css)$|(^|/)package-lock\.json$|(^|/)go\.sum$"
    r"|(_pb2(_grpc)?\.pyi?|\.pb\.go|\.generated\.\w+)$"
)
# A folder `test` inside a package may well be the package's own; only at the top it is not.
_TEST: Final = re.compile(
    r"(^|/)(tests|__tests__|testdata|spec|specs|js_tests)/|^test/|(^|/)src/test/"
    r"|(^|/)test_[^/]*$|_test\.\w+$|\.(test|spec)\.\w+$|(^|/)(tests|conftest)\.py$"
)
_DOCUMENT: Final = re.compile(
    r"(^|/)docs?/|\.(rst|md|markdown|adoc|txt)$|(^|/)(CHANGELOG|CHANGES|NEWS|HISTORY|AUTHORS)[^/]*$"
)

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
    """The role that a path tells of."""
    if _MADE.search(path):
        return Role.MADE
    if _TEST.search(path):
        return Role.TEST
    return Role.DOCUMENT if _DOCUMENT.search(path) else Role.SOURCE


def roles_asked_for(question: str) -> frozenset[Role]:
    """The roles that a question names in its own words."""
    words = set(re.findall(r"\w+", question.lower()))
    named = {role for role, signs in _ASKED.items() if words & signs}
    return frozenset(named | {role for role, sign in _PHRASES.items() if sign.search(question)})
