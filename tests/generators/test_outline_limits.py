"""Any bytes whatever give an outline of bounded size."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.generators import FileInput, make_generator, tractable
from indexer.generators.base import GeneratorOptionsError
from indexer.generators.outline import PARSED, OutlineGenerator
from indexer.generators.parsed import parse
from indexer.generators.treesitter import collect, parser_of

GOLDEN = Path(__file__).parent / "golden"
SUFFIXES = re.findall(r"\w+", "py js ts tsx go rs java c h md rst json toml yaml ini txt sh")
NAMES = st.sampled_from([f"a.{suffix}" for suffix in SUFFIXES])
WIDTH = 240
WORDS = re.findall(
    r"[^ ]+",
    "def class ( ) { } [ ] : ; , = => -> \" ' ` # // /* */ \n \t a b1 export default type struct"
    " enum impl fn func import from @x #if #define * & < > | \\ \x01 é",
)


def outline(name: str, content: bytes, **options: object) -> str:
    return make_generator("outline", options).generate(FileInput(name, content))


def assert_well_formed(text: str, width: int = WIDTH, lines: int = 450) -> None:
    assert text.startswith("[")
    assert text.endswith("\n")
    rows = text.split("\n")[:-1]
    assert len(rows) <= lines
    # A lead paragraph may be wider than a line.
    assert all(len(row) <= (400 if row.startswith("> ") else width) for row in rows)
    assert not any(ord(c) < 32 for row in rows for c in row.replace("\t", ""))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(name=NAMES, content=st.binary(max_size=600))
@example(name="a.md", content=b"---")
@example(name="a.py", content=b"\xff\xfe")
@example(name="a.json", content=b'{"a":')
def test_random_bytes_never_crash(name: str, content: bytes) -> None:
    assert_well_formed(outline(name, content))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    name=NAMES,
    words=st.lists(
        st.sampled_from(WORDS),
        max_size=120,
    ),
)
def test_random_tokens_never_crash(name: str, words: list[str]) -> None:
    text = " ".join(words).encode()
    first = outline(name, text)
    assert_well_formed(first)
    assert first == outline(name, text)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.sample")), ids=lambda p: p.name)
def test_truncated_source_never_crashes(path: Path) -> None:
    name, content = path.name.removesuffix(".sample"), path.read_bytes()
    for end in range(0, len(content), 29):
        assert_well_formed(outline(name, content[:end]))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.sample")), ids=lambda p: p.name)
def test_damaged_source_never_crashes(path: Path) -> None:
    name, content = path.name.removesuffix(".sample"), path.read_bytes()
    chance = random.Random(7)
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(chance.randrange(1, 12)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(1, 256)
        assert_well_formed(outline(name, bytes(damaged)))


def test_what_parsed_is_shown_beside_errors() -> None:
    text = outline("a.py", b"def good(a):\n    pass\n\n)))) $$$ \n\nclass Fine:\n    x: int\n")
    assert "def good(a)" in text
    assert "class Fine" in text
    assert text.endswith("(partial: the source has syntax errors)\n")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_empty_files(suffix: str) -> None:
    for content in (b"", b"\n\n  \n", b"\xef\xbb\xbf"):
        assert outline(f"a.{suffix}", content).endswith("] empty file\n")


@pytest.mark.parametrize("suffix", ["py", "js", "ts", "go", "rs", "java", "c", "json", "md"])
def test_huge_nesting(suffix: str) -> None:
    opening = {"py": b"(", "json": b"[", "md": b"> "}.get(suffix, b"{")
    closing = {b"(": b")", b"[": b"]", b"{": b"}", b"> ": b""}[opening]
    deep = opening * 20_000 + closing * 20_000
    assert_well_formed(outline(f"a.{suffix}", deep))
    assert_well_formed(outline(f"a.{suffix}", opening * 100_000))


def test_nested_classes_stop_at_a_depth() -> None:
    source = "".join("  " * level + f"class C{level}:\n" for level in range(60))
    text = outline("a.py", (source + "  " * 60 + "x: int\n").encode())
    assert "C5" in text
    assert "C40" not in text


def test_else_if_chain_is_walked_without_recursion() -> None:
    chain = b"if a:\n  pass\n" + b"".join(b"elif a:\n  def f%d(): pass\n" % n for n in range(3000))
    assert "more symbols" in outline("a.py", chain)
    conditions = b"".join(b"#if A\n" for _ in range(1500)) + b"int deep(void);\n"
    assert_well_formed(outline("a.c", conditions + b"#endif\n" * 1500))


def test_minified_file_is_bounded() -> None:
    source = b"".join(b"function f%d(a,b){return a+b}" % n for n in range(8000))
    text = outline("a.js", source)
    assert text == f"[javascript] minified, {len(source)} bytes\n"
    text = outline("a.js", source.replace(b"}", b"}\n"))
    assert_well_formed(text)
    assert text.endswith("… 7600 more symbols\n")
    one = b"function f(" + b",".join(b"a%d" % n for n in range(50_000)) + b"){}"
    assert_well_formed(outline("a.js", one))


def test_outer_symbols_are_kept_before_inner_ones() -> None:
    source = "class A:\n" + "".join(f"  def m{n}(self): pass\n" for n in range(50))
    source += "class B: pass\nclass C: pass\n"
    text = outline("a.py", source.encode(), max_symbols=5)
    assert text.split("\n")[1:] == [
        "class A",
        "  def m0(self)",
        "  def m1(self)",
        "class B",
        "class C",
        "… 48 more symbols",
        "",
    ]


def test_only_the_beginning_of_a_giant_is_parsed() -> None:
    source = b"".join(b"def f%d(): pass\n" % n for n in range(PARSED // 15))
    assert f"(partial: only the first {PARSED} bytes are outlined)" in outline("a.py", source)


def test_what_would_take_forever_is_not_parsed() -> None:
    for name, content in (
        ("a.py", b"class A{" * 60_000),
        ("a.py", b"}{" * 100_000),
        ("a.js", b'"' * 300_000),
        ("a.rs", b"# x\n" * 50_000),
        ("a.java", b"a<" * 30_000),
    ):
        assert_well_formed(outline(name, content))


def records(size: int, indent: int | None) -> bytes:
    """JSON of about that size, no two lines alike."""
    chance = random.Random(5)
    found: list[str] = []
    while sum(map(len, found)) < size:
        tags = [f"t{chance.randrange(999)}" for _ in range(4)]
        one = {"id": chance.randrange(10**9), "tags": tags, "x": {"y": None, "z": True}}
        found += [json.dumps(one, indent=indent) for _ in range(20)]
    return ("[\n" + ",\n".join(found) + "\n]").encode()


class Counting:
    """A parser that keeps count of what it is given."""

    def __init__(self, language: str, seen: list[int]) -> None:
        self._parser, self._seen = parser_of(language), seen

    def parse(self, source: bytes | Callable[[int, Any], bytes], old: Any = None) -> object:
        if isinstance(source, bytes):
            self._seen.append(len(source))
            return self._parser.parse(source)
        self._seen.append(0)

        def read(offset: int, point: Any) -> bytes:
            piece = source(offset, point)
            self._seen[-1] = max(self._seen[-1], offset + len(piece))
            return piece

        return self._parser.parse(read) if old is None else self._parser.parse(read, old)


@pytest.mark.parametrize("suffix", ["rs", "go", "java", "c"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_large_file_in_another_language_takes_bounded_work(
    suffix: str, indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = records(512 * 1024, indent)
    seen: list[int] = []
    for module in ("tractable", "treesitter"):
        monkeypatch.setattr(
            f"indexer.generators.{module}.parser_of", lambda language: Counting(language, seen)
        )
    text = outline(f"a.{suffix}", content)
    assert "[" in text
    assert "syntax errors" not in text
    # Only samples were parsed, however large the file is.
    assert sum(seen) <= (tractable.PLACES + 1) * (tractable.SAMPLE + 1024)
    assert text == outline(f"a.{suffix}", content)


def test_a_large_file_that_turns_into_something_else_takes_bounded_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = b"".join(b"fn f%d(a: u32) -> u32 { a + %d }\n" % (n, n) for n in range(3000))
    seen: list[int] = []
    for module in ("tractable", "treesitter"):
        monkeypatch.setattr(
            f"indexer.generators.{module}.parser_of", lambda language: Counting(language, seen)
        )
    outline("a.rs", begin + records(400 * 1024, None))
    assert sum(seen) <= (tractable.PLACES + 1) * (tractable.SAMPLE + 1024)
    seen.clear()
    assert "fn f0(a: u32) -> u32" in outline("a.rs", begin)
    assert max(seen) == len(begin)


def some_python(size: int, first: int = 0) -> bytes:
    """Python of about that size, no two lines alike."""
    made = (
        b"def f%d(a, b):\n    return a + %d\n\n" % (n, n) for n in range(first, first + size // 36)
    )
    return b"".join(made)


# By how much the bounds are smaller, and with them what takes them to the end.
SMALLER = pytest.mark.parametrize("smaller", [4, pytest.param(1, marks=pytest.mark.soak)])


@SMALLER
@pytest.mark.parametrize("line", [b"# c%d\n", b"   # c%d\n", b"\\\n\\\n\\\n"])
def test_what_is_gone_over_again_and_again_is_given_up(
    line: bytes, smaller: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each comment the grammar looks through all that follow, for where the block ends."""
    # That takes time by the square.
    monkeypatch.setattr(tractable, "MOST_READ", tractable.MOST_READ // smaller**2)
    size = 128 * 1024 // smaller
    lines = (line % n if b"%" in line else line for n in range(size // len(line)))
    source = some_python(6000) + b"".join(lines)
    assert parse(FileInput("a.py", source)).walk is None
    assert "def f0" in outline("a.py", source)
    # As many as people write are of no concern.
    some = some_python(6000) + b"".join(b"# c%d\n" % n for n in range(3000 // smaller))
    assert parse(FileInput("a.py", some)).walk is not None


@SMALLER
def test_what_fits_nowhere_is_given_up_wherever_it_stands(
    smaller: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good code stands at every place that is looked at beforehand."""
    monkeypatch.setattr(tractable, "MOST_UNFIT", tractable.MOST_UNFIT // smaller)
    monkeypatch.setattr(tractable, "STEP", tractable.STEP // smaller)
    source, quarter = b"", 128 * 1024 // smaller
    for end in range(quarter, 4 * quarter + 1, quarter):
        source += some_python(6000, first=end)
        source += b"".join(b"!x%d" % n for n in range((end - 2000 - len(source)) // 7)) + b"\n"
        source += some_python(end - len(source), first=2 * end)
    assert tractable.is_tractable("python", source)
    assert parse(FileInput("a.py", source)).walk is None


@pytest.mark.parametrize("wrong", [b"", b"x = (\n"])
def test_a_large_file_is_parsed_as_if_there_were_no_bounds(wrong: bytes) -> None:
    source = some_python(100_000) + wrong + some_python(40_000, first=5000)
    found = parse(FileInput("a.py", source)).walk
    assert found is not None
    assert found.symbols == collect("python", source, parser_of("python").parse(source)).symbols
    assert found.partial is bool(wrong)


def test_non_utf8_source() -> None:
    text = outline("a.py", "def größe(a): pass\n".encode("latin-1"))
    assert_well_formed(text)
    assert "def gr\ufffd" in text
    wide = outline("a.py", "\ufeffdef größe(a): pass\n".encode("utf-16-le"))
    assert wide == "[python]\ndef größe(a)\n"


def test_binaries_are_described() -> None:
    assert outline("a.png", b"\x89PNG\r\n\x1a\n\x00\x00") == "[binary] PNG image, 10 bytes\n"
    assert outline("a.py", b"a\x00b") == "[binary] data, 3 bytes\n"


def test_secrets_are_not_shown() -> None:
    for name, content in (
        ("a.py", b"API_KEY = 'abcd'"),
        ("a.json", b'{"password": "abcd"}'),
        ("a.yaml", b"secret: abcd"),
        ("a.toml", b"token = 'abcd'"),
    ):
        assert "abcd" not in outline(name, content)


def test_marks_that_reorder_text_are_removed() -> None:
    assert "\u202e" not in outline("a.md", "# a\u202eb\n".encode())
    assert "\x1b" not in outline("a.txt", b"x \x1b[31m y")


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    symbols=st.integers(1, 30),
    width=st.integers(40, 120),
    count=st.integers(0, 60),
    length=st.integers(1, 300),
)
def test_limits_are_honoured(symbols: int, width: int, count: int, length: int) -> None:
    source = "".join(f"def f{n}({'a' * length}): pass\n" for n in range(count)).encode()
    text = outline("a.py", source or b"x = 1", max_symbols=symbols, max_line=width)
    assert_well_formed(text, width, symbols + 3)


@pytest.mark.parametrize(
    "options", [{"max_symbols": 0}, {"max_line": "9"}, {"head_lines": True}, {"other": 1}]
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(GeneratorOptionsError):
        OutlineGenerator.from_options(options)


@pytest.mark.parametrize("line", [f"[{' ' * 395}x", f"[[{' ' * 390}]z", f"[a{' ' * 395}"])
@pytest.mark.parametrize("name", ["a.toml", "a.ini"])
def test_nothing_is_divided_in_every_possible_way(name: str, line: str) -> None:
    started = time.process_time()
    outline(name, (line + "\n").encode() * 600)
    # Seconds of CPU, not of a busy machine: this takes a hundredth of one, and took more than ten.
    assert time.process_time() - started < 5


def test_the_names_of_tables() -> None:
    lines = ["[ a ]", "[[b.c]] # said", "\t[d]", "[ ]", "[e] f", "[" + "g" * 121 + "]", "[a]"]
    assert outline("a.toml", "\n".join(lines).encode()).split("\n")[1:-1] == [
        *("[a]", "[b.c]", "[d]", "[ ]"),
    ]


@pytest.mark.parametrize("piece", ["/*", '"\\', "//", "{", '{"a":[', "/**"])
@pytest.mark.parametrize("name", ["a.json", "a.yaml", "a.toml", "a.md", "a.unknown"])
def test_nothing_that_is_not_closed_is_looked_for_again_and_again(name: str, piece: str) -> None:
    body = (piece * (300_000 // len(piece))).encode()
    started = time.process_time()
    make_generator("outline", {}).generate(FileInput(name, body))
    # Seconds of CPU, not of a busy machine: this takes a hundredth of one, and took minutes.
    assert time.process_time() - started < 5
