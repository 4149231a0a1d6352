"""`search`: frames, symbols, uses and literal text in one order, as they are on disk now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indexer.compose.request import RequestError
from indexer.engine.search import search as searching
from indexer.errors import MalformedError
from tests.support.space import Held, Space, settled

PROJECT = {
    "app/tides.py": (
        '"""Tides."""\n\n\n'
        "def read_gauge(port):\n"
        '    """Read one value from a gauge."""\n'
        '    print("Opening the port")\n'
        "    return port.value\n\n\n"
        "def read_gauges(ports):\n    return [read_gauge(port) for port in ports]\n"
    ),
    "app/main.py": "from app.tides import read_gauge\n\n\ndef main():\n    read_gauge(1)\n",
    "tests/test_tides.py": (
        "from app.tides import read_gauge\n\n\ndef test_it():\n    assert read_gauge(2)\n"
    ),
    "README.md": "# Gauges\n\nHow to read a gauge.\n",
}


@pytest.fixture
def code() -> Iterator[Space]:
    made = settled(PROJECT)
    yield made
    made.close()


@pytest.fixture
def same_code(held: Held) -> Iterator[Space]:
    """The same for tests that only ask."""
    with held("code", lambda: settled(PROJECT)) as made:
        yield made


def found(space: Space, question: str, *kinds: str, **options: Any) -> list[str]:
    """Each result as place and type."""
    results = space.engine.search(question, kinds=kinds, **options)["results"]
    return [f"{one['path']}:{one['line'] or ''} {one['type']}" for one in results]


def test_a_name_finds_what_is_called_exactly_that_first(same_code: Space) -> None:
    assert found(same_code, "read_gauge", "symbol")[:2] == [
        "app/tides.py:4 function", "app/tides.py:10 function",
    ]  # fmt: skip
    (one,) = same_code.engine.search("app/tides.py::read_gauges", kinds=["symbol"])["results"][:1]
    assert (one["symbol"], one["excerpt"]) == ("read_gauges", "def read_gauges(ports)")
    assert found(same_code, "READ_GAUGES", "symbol")[0] == "app/tides.py:10 function"


def test_words_find_the_function_that_has_them(same_code: Space) -> None:
    assert found(same_code, "opening a port", "symbol")[0] == "app/tides.py:4 function"


def test_uses_say_how_sure_they_are_and_show_their_line(code: Space) -> None:
    document = code.engine.search("read_gauge", kinds=["reference"])
    told = {f"{one['path']}:{one['line']}": one for one in document["results"]}
    assert set(told) == {
        "app/main.py:1", "app/main.py:5", "app/tides.py:11", "tests/test_tides.py:1",
        "tests/test_tides.py:5",
    }  # fmt: skip
    use = told["app/main.py:5"]
    assert (use["symbol"], use["sure"], use["excerpt"]) == ("main", "import", "read_gauge(1)")
    assert use["target"] == "app/tides.py::read_gauge"
    assert document["found"] == 5
    assert found(code, "nobody_defines_this", "reference") == []


def test_text_is_literal_and_has_capitals_only_where_they_are_asked_for(same_code: Space) -> None:
    assert found(same_code, 'print("open', "text") == ["app/tides.py:6 text"]
    assert found(same_code, 'print("Open', "text") == ["app/tides.py:6 text"]
    assert found(same_code, 'Print("Open', "text") == []
    # Not stripped: a blank in front of it is part of it.
    assert set(found(same_code, " read_gauge(", "text")) == {
        "app/main.py:5 text", "app/tides.py:4 text", "tests/test_tides.py:5 text",
    }  # fmt: skip


def test_text_is_that_of_the_disk_now(code: Space) -> None:
    code.write("app/new.py", "x = 'zeppelin'\n")
    document = code.engine.search("zeppelin", kinds=["text"])
    assert [one["excerpt"] for one in document["results"]] == ["x = 'zeppelin'"]
    assert document["results"][0]["freshness"] == "fresh"
    code.write("app/new.py", "x = 1\n")
    assert found(code, "zeppelin", "text") == []


def test_what_is_not_looked_through_is_counted(
    code: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MOST_READ", 300)
    document = code.engine.search("read_gauge", kinds=["text"])
    assert 0 < document["unread"] < 4
    assert document["results"]
    monkeypatch.setattr(searching, "MOST_READ", 0)
    assert code.engine.search("read_gauge", kinds=["text"])["unread"] == 4


def test_frames_say_when_they_are_not_fresh(code: Space) -> None:
    code.engine.agent_add("ann", "writer")
    code.engine.put_frame("README.md", "About zeppelins.\n", frame_type="note", agent="ann")
    (one,) = code.engine.search("zeppelins", kinds=["frame"])["results"]
    assert (one["freshness"], one["excerpt"], one["agent"]) == ("fresh", "About zeppelins.", "ann")
    code.write("README.md", "# Other\n")
    (one,) = code.engine.search("zeppelins", kinds=["frame"])["results"]
    assert one["freshness"] == "stale"
    assert one["because"]
    assert code.engine.search("zeppelins", kinds=["frame"], types=["outline"])["results"] == []


def test_a_secret_in_a_line_is_masked(code: Space) -> None:
    code.write("app/keys.py", 'zeppelin = "AKIAIOSFODNN7EXAMPLQ"\n')
    (one,) = code.engine.search("zeppelin", kinds=["text"])["results"]
    assert "AKIA" not in one["excerpt"]


def test_a_long_line_is_cut_around_what_was_found(code: Space) -> None:
    code.write("app/long.py", "x = '" + "a" * 5000 + "zeppelin" + "b" * 5000 + "'\n")
    (one,) = code.engine.search("zeppelin", kinds=["text"])["results"]
    assert "zeppelin" in one["excerpt"]
    assert len(one["excerpt"]) < 300


def test_the_order_is_by_score_then_by_place_and_a_limit_cuts_it(same_code: Space) -> None:
    every = same_code.engine.search("read gauge", kinds=list(searching.KINDS), limit=1000)
    key = [(-one["score"], one["path"].encode(), one["line"] or 0) for one in every["results"]]
    assert key == sorted(key)
    assert every["found"] == len(every["results"])
    few = same_code.engine.search("read gauge", kinds=list(searching.KINDS), limit=3)
    assert few["results"] == every["results"][:3]
    assert few["found"] == every["found"]


@pytest.mark.parametrize("question", ["", "  "])
def test_a_question_is_needed(same_code: Space, question: str) -> None:
    with pytest.raises(RequestError):
        same_code.engine.search(question)


def test_an_unknown_kind_is_refused(same_code: Space) -> None:
    with pytest.raises(MalformedError):
        same_code.engine.search("tide", kinds=["luck"])


def test_a_misspelled_name_finds_the_one_that_is_meant(same_code: Space) -> None:
    items = same_code.engine.compose(query="how does read_guage work")["items"]
    assert items[0]["path"] == "app/tides.py"
    assert found(same_code, "raed_gauges", "symbol")[0] == "app/tides.py:10 function"
    assert found(same_code, "xyread_gaugesxy", "symbol") == []
