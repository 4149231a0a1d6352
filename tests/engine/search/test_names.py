"""Finding words in names gives what a look at every name gives."""

from __future__ import annotations

from indexer.core import paths
from indexer.core.terms import words_in
from indexer.engine.search.files import Names
from tests.support.space import Space

NAMES = ("policies.py", "policy_test.go", "HTTPServer.java", "a/parse_query.py", "a/parsing.md",
         "a/queries/x.py", "classes.ts", "make_password.py", "fooBar-baz.txt")  # fmt: skip


def test_every_word_of_every_name_is_found(space: Space) -> None:
    space.fill(dict.fromkeys(NAMES, "x\n"))
    space.settle()
    tree = space.engine.tree
    expected: dict[str, list[str]] = {}
    for path, _ in tree.walk():
        for word in words_in(paths.split(path)[1]):
            expected.setdefault(word, []).append(path)
    found = Names(tree, {})
    assert {word: found.having(word, 100) for word in expected} == expected
    assert found.having("nowhere", 100) == []
    # Too many say nothing.
    assert found.having("py", 1) == []
