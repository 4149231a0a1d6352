"""Source as it is on disk at that moment, under the id of exactly these bytes."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.engine.code import source
from indexer.engine.code.questions import UnknownSymbolError
from indexer.engine.make.workers import ChangedError
from indexer.errors import UsageError
from tests.support.space import Space

TEXT = "import os\n\n\ndef f(a):\n    return a\n\n\n@twice\ndef g():\n    return os\n"


@pytest.fixture
def code(space: Space) -> Space:
    space.write("m.py", TEXT)
    space.settle()
    return space


def test_a_file_a_symbol_and_some_lines(code: Space) -> None:
    whole = code.engine.show("m.py")
    assert (whole["content"], whole["lines"], whole["line_count"]) == (TEXT, [1, 10], 10)
    assert whole["content_id"] == code.engine.algorithm.of_file(TEXT.encode()).hex()
    symbol = code.engine.show("m.py::g")
    assert symbol["content"] == "@twice\ndef g():\n    return os\n"
    assert (symbol["lines"], symbol["symbol"]) == ([8, 10], "g")
    assert code.engine.show("m.py", first=4, last=5)["content"] == "def f(a):\n    return a\n"
    assert code.engine.show("m.py", first=9)["lines"] == [9, 10]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a\n\n",
        "a\n\n\n",
        "a",
        "a\n b",
        "\n\n",
        "a\r\n\r\n",
        "a\x0cb\n\u2028\n",
        "\ufeffa\n\n",
    ],
)
def test_every_line_is_shown_and_no_other(code: Space, text: str) -> None:
    code.write("m.py", text.encode())
    said = text.removeprefix("\ufeff")
    lines = said.split("\n")[: -1 if said.endswith("\n") or not said else None]
    whole = code.engine.show("m.py")
    assert whole["content"] == "".join(line + "\n" for line in lines)
    assert (whole["lines"], whole["line_count"]) == ([1, len(lines)], len(lines))
    for first in range(1, len(lines) + 1):
        for last in range(first, len(lines) + 1):
            shown = code.engine.show("m.py", first=first, last=last)
            assert shown["content"] == "".join(line + "\n" for line in lines[first - 1 : last])
            assert shown["lines"] == [first, last]


def test_what_was_written_a_moment_ago_is_shown_under_its_own_id(code: Space) -> None:
    new = TEXT.replace("return a", "return a + 1")
    code.write("m.py", new)
    shown = code.engine.show("m.py::f")
    assert "a + 1" in shown["content"]
    assert shown["content_id"] == code.engine.algorithm.of_file(new.encode()).hex()
    assert shown["freshness"] == "fresh"


def test_a_file_that_changes_while_it_is_read_is_read_again_or_refused(
    code: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, written = source.read_content, []

    def races(root: Any, path: str, size: int) -> bytes | None:
        content = read(root, path, size)
        if len(written) < limit:
            written.append(f"def f(a):\n    return {len(written)}\n")
            code.write("m.py", written[-1])
            # Half of the one and half of the other.
            return (content or b"")[:5] + written[-1].encode()[5:]
        return content

    monkeypatch.setattr(source, "read_content", races)
    limit = 2
    assert code.engine.show("m.py")["content"] == written[-1]
    limit = 100
    with pytest.raises(ChangedError):
        code.engine.show("m.py")


def test_secrets_are_masked_and_lines_stay_where_they_are(code: Space) -> None:
    key = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
    body = "\n".join(["MIIEpAIBAAKCAQEA7bq9" * 3] * 3)
    kind = "RSA PRIVATE KEY"
    text = f'A = "{key}"\nB = """-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"""\nC = 1\n'
    code.write("s.py", text)
    code.settle()
    shown = code.engine.show("s.py")
    assert key not in shown["content"]
    assert "MIIEpA" not in shown["content"]
    assert shown["masked"] == 2
    assert shown["content"].split("\n")[6] == "C = 1"
    assert "MIIEpA" not in code.engine.show("s.py", first=3, last=4)["content"]


def test_what_has_no_text_is_refused(code: Space) -> None:
    code.write("b.bin", b"\0\1\2")
    code.settle()
    for node in ("b.bin", "", "m.py::nothing"):
        with pytest.raises(UsageError):
            code.engine.show(node)
    with pytest.raises(UnknownSymbolError) as caught:
        code.engine.show("m.py::nothing")
    assert "get-node m.py" in caught.value.hint
    with pytest.raises(UsageError):
        code.engine.show("m.py", first=11)


def test_a_name_that_has_colons_is_a_file_first(code: Space) -> None:
    code.write("a::b.py", "def f(): pass\n")
    code.settle()
    assert code.engine.show("a::b.py")["symbol"] is None
    assert code.engine.show("a::b.py::f")["symbol"] == "f"


def test_headings_are_symbols_of_documents(code: Space) -> None:
    code.write("d.md", "# Top\n\nIntro.\n\n## Use\n\nText.\n\n### Deep\n\nMore.\n\n## End\n")
    code.settle()
    assert code.engine.show("d.md::Use")["lines"] == [5, 12]
    assert code.engine.show("d.md::Top > Use > Deep")["lines"] == [9, 12]
    assert code.engine.definition("Deep")["symbols"][0]["symbol"] == "Top > Use > Deep"
