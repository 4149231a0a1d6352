"""A workspace with an open engine, and one that is filled and has all its frames."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.space import Space, python


@pytest.fixture
def space() -> Iterator[Space]:
    """An empty workspace."""
    made = Space()
    yield made
    made.close()


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """The project's folder with its index, closed, to be copied by who wants to change it."""
    made = Space()
    made.fill(
        {
            "README.md": "# Project\n\nWhat it is.\n",
            "src/one/a.py": python("a"),
            "src/one/b.py": python("b"),
            "src/two/c.py": python("c"),
        }
    )
    made.settle()
    made.engine.close()
    yield made.root
    shutil.rmtree(made.base)


@pytest.fixture
def project(template: Path) -> Iterator[Space]:
    """Two packages under src and a document, scanned and with every frame made."""
    made = Space(copy_of=template)
    yield made
    made.close()
