"""The first question of a process is answered out of the database, and the same as any other."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from indexer.engine.search.stored_corpus import StoredFiles
from indexer.generators.facts import facts_key
from indexer.generators.languages import WHOLE_NAMES
from indexer.store.present import Present
from tests.support.engines import Engine
from tests.support.space import Space, python, settled

ODD = {
    "Dockerfile": "FROM harbour\n",
    "src/.bashrc": "alias harbour=ls\n",
    "src/.gitignoring": "harbour\n",
    "src/Ferry.Tests.PY": python("ferry"),
    "src/\u00c9t\u00e9_Harbour.py": python("harbour"),
    "src/\u00c9t\u00e9.MD": "# Lantern\n\nA harbour.\n",
    "src/ends.with.": "harbour\n",
    "src/no_ending": "harbour lantern\n",
    "src/same/one.py": python("lantern"),
    "src/same/two.py": python("lantern"),
    "tests/test_harbour.py": python("harbour"),
    "docs/harbours.rst": "Harbours\n========\n\nA ferry in the harbour.\n",
    "src/back\\slash.py": python("quarry"),
    "CMakeLists.txt": "project(harbour)\n",
}

REQUESTS: list[dict[str, Any]] = [
    {"query": "where is the harbour"},
    {"query": "ferry lantern tests", "budget": 300},
    {"query": "harbor"},
    {"query": "lantern harbour", "nodes": ["src/same"], "sources": ["below"]},
    {"query": "harbour", "paths": ["src"], "why": True},
    {"query": "lantern", "types": ["note"], "only": True},
    {"query": "Ferry class_of_harbour", "nodes": ["src/same/one.py"], "max_frames": 3},
    {},
    {"order": "recency", "budget": 500},
    {"nodes": ["src/same/two.py"], "sources": ["node", "parents", "siblings"]},
]


# Of the whole run: a worker that takes cases over comes back to this module more than once.
@pytest.fixture(scope="session")
def odd() -> Any:
    with contextlib.closing(settled(ODD)) as space:
        space.note("src/same/one.py", "the lantern is lit by hand")
        space.note("docs", "harbours are described here")
        yield space


def both_ways(space: Space, request: dict[str, Any]) -> None:
    """The first question is told by the database, the second one from memory."""
    space.reopen()
    first, second = (space.engine.compose(**request) for _ in range(2))
    assert first == second
    assert first["candidates"]


@pytest.mark.parametrize("request_of", REQUESTS, ids=str)
def test_the_first_question_is_answered_as_the_second(
    odd: Space, request_of: dict[str, Any]
) -> None:
    both_ways(odd, request_of)


def test_so_it_is_where_the_disk_has_moved_on() -> None:
    with contextlib.closing(settled(ODD)) as space:
        space.note("src/no_ending", "a lantern")
        space.write("src/new_harbour.py", python("harbour"))
        space.write("src/same/one.py", python("quarry"))
        (space.root / "docs/harbours.rst").unlink()
        for request in REQUESTS[:3]:
            both_ways(space, request)


def test_nothing_is_loaded_for_it(odd: Space) -> None:
    odd.reopen()
    odd.engine.compose(query="where is the harbour")
    heads, recorded = odd.engine.frames.heads, odd.engine.tree
    assert heads._slots is None
    assert heads._bodies is None
    assert heads._frames is None
    assert odd.engine.frames.code._numbers is None
    # Nor is any folder decoded in which nothing was found.
    assert recorded.root.entries["src"].folder is not None


def test_the_database_knows_facts_by_the_same_keys(odd: Space) -> None:
    engine: Engine = odd.engine
    numbers = engine.frames.code.numbers
    expected = {
        path: number
        for path, entry in engine.tree.walk()
        if (number := numbers.get(facts_key(path, entry.content_id))) is not None
    }
    assert len(expected) == len(ODD)
    present = Present(engine.database, [], WHOLE_NAMES, lambda *_: True)
    with contextlib.closing(present):
        files = StoredFiles(present, engine.frames.heads)
        assert files.numbers([path for path, _ in engine.tree.walk()]) == expected
