"""A developer's question, asked of the standard library, finds the files a developer would open."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.space import Space

PACKAGES = (
    "asyncio", "collections", "concurrent", "ctypes", "dbm", "distutils", "email", "encodings",
    "html", "http", "importlib", "json", "logging", "multiprocessing", "re", "sqlite3", "tkinter",
    "tomllib", "unittest", "urllib", "venv", "wsgiref", "xml", "xmlrpc", "zoneinfo",
)  # fmt: skip

QUESTIONS = {
    "where are temporary directories cleaned up": "tempfile.py",
    "how are command line arguments parsed": "argparse.py",
    "decode a JSON document": "json/decoder.py",
    "where does the thread pool start its workers": "concurrent/futures/thread.py",
    "rotate log files when they get too large": "logging/handlers.py",
    "follow redirects when opening a URL": "urllib/request.py",
    "which class parses HTTP cookies": "http/cookies.py",
    "send an email over SMTP with authentication": "smtplib.py",
    "schedule a callback on the event loop": "asyncio/base_events.py",
    "compare two directory trees": "filecmp.py",
    "walk the nodes of a syntax tree": "ast.py",
    "read settings from an ini file": "configparser.py",
    "how is a test case discovered and loaded": "unittest/loader.py",
    "guess the mime type of a file": "mimetypes.py",
    "heap priority queue": "heapq.py",
    "NamedTemporaryFile": "tempfile.py",
    "parse_known_args": "argparse.py",
}
WANTED = {*QUESTIONS.values(), "http/client.py", "xmlrpc/client.py"}
PART = 6
UNWANTED = {".pyc", ".so", ".exe", ".gif", ".bin", ".dll"}


# Of the whole run: a worker that takes cases over comes back to this module more than once.
@pytest.fixture(scope="session", params=[PART, pytest.param(1, marks=pytest.mark.soak)])
def library(request: pytest.FixtureRequest) -> Iterator[Space]:
    """The running interpreter's own modules and the larger of its packages, with every outline.

    Or one in so many of them, besides the files that are asked for.
    """
    source = Path(sysconfig.get_paths()["stdlib"])
    space = Space()
    found = list(source.glob("*.py"))
    for name in PACKAGES:
        found += (path for path in (source / name).rglob("*") if path.is_file())
    names = sorted(str(path.relative_to(source)) for path in found if path.suffix not in UNWANTED)
    for name in {*names[:: request.param], *WANTED}:
        (space.root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, space.root / name)
    files = space.engine.scan()["files"]
    assert files >= 500 // request.param
    space.engine.regenerate()
    yield space
    space.close()


def first_files(found: Any) -> list[str]:
    """The first ten paths, each of which may be shown in several pieces."""
    return list(dict.fromkeys(item["path"] for item in found["items"]))[:10]


def test_the_expected_file_is_among_the_first_ten(library: Space) -> None:
    missed = {}
    for question, expected in QUESTIONS.items():
        # Enough for ten files and more; what is shown behind them is counted and cut all the same.
        found = library.engine.compose(query=question, budget=25_000)
        shown = first_files(found)
        if expected not in shown:
            missed[question] = shown
    assert missed == {}


def test_it_is_there_within_an_ordinary_budget_too(library: Space) -> None:
    for question in list(QUESTIONS)[:5]:
        found = library.engine.compose(query=question)
        assert found["budget"] == 8000 >= found["tokens"]
        assert QUESTIONS[question] in first_files(found), question


def test_a_named_place_pulls_the_answer_towards_it(library: Space) -> None:
    def first(*nodes: str) -> str:
        found = library.engine.compose(
            nodes, query="client", sources=["workspace"], budget=60_000, types=["outline"]
        )
        return str(found["items"][0]["path"])

    assert first("http") == "http/client.py"
    assert first("xmlrpc") == "xmlrpc/client.py"


def test_every_budget_is_kept_on_real_frames(library: Space) -> None:
    counter = library.engine.counter
    for budget in (0, 1, 5, 17, 40, 100, 333, 1000, 2500, 20_000):
        found = library.engine.compose(query="parse a file and close it", budget=budget)
        assert found["tokens"] == counter.count_messages(found["messages"]) <= budget
        told = sum(found["omitted"]["counts"].values())
        assert told + len(found["items"]) == found["candidates"]
        assert len(found["omitted"]["first"]) == min(50, told)
