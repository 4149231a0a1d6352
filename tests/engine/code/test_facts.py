"""Facts about code: made with what is read anyway, kept by content, and never older than it."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from indexer.engine.code import questions
from indexer.engine.code.symbols import UnknownSymbolError
from indexer.engine.make import workers
from indexer.errors import CorruptError
from indexer.generators import outline
from indexer.generators.facts import facts_key
from tests.support.space import Space, python

CODE = '''"""What it is about."""

LIMIT = 3


def first(a):
    """Does one thing. And another."""

    def inner():
        return a

    return inner


class Box:
    """Holds things."""

    def open(self, key):
        return first(key)
'''


def symbols(space: Space, where: str = "true") -> list[tuple[Any, ...]]:
    rows = space.engine.sql(
        f"SELECT path, symbol, kind, line, end_line FROM symbols WHERE {where} ORDER BY path, line"
    )["rows"]
    return [tuple(row) for row in rows]


def stored(space: Space) -> int:
    return int(space.engine.database.rows("SELECT count(*) FROM code_facts")[0][0])


def test_symbols_have_kind_range_signature_and_first_sentence(space: Space) -> None:
    space.write("m.py", CODE)
    space.settle()
    assert symbols(space) == [
        ("m.py", "LIMIT", "constant", 3, 3),
        ("m.py", "first", "function", 6, 12),
        ("m.py", "first.inner", "function", 9, 10),
        ("m.py", "Box", "class", 15, 19),
        ("m.py", "Box.open", "method", 18, 19),
    ]
    (row,) = space.engine.sql(
        "SELECT doc, signature, first_byte, last_byte, sha256 FROM symbols WHERE name = 'first'"
    )["rows"]
    assert row[:2] == ["Does one thing.", "def first(a)"]
    import hashlib

    assert hashlib.sha256(CODE.encode()[row[2] : row[3]]).hexdigest() == row[4]
    # A nested function is a symbol, and none of the outline's business.
    assert "inner" not in space.frame("m.py")["content"]


def test_a_file_is_parsed_once_for_its_outline_and_its_facts(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    parse = workers.parse

    def counting(source: Any) -> Any:
        parsed.append(source.name)
        return parse(source)

    monkeypatch.setattr(workers, "parse", counting)
    monkeypatch.setattr(outline, "parse", counting)
    space.fill({"a.py": CODE, "b.md": "# Title\n\n## Part\n"})
    space.settle()
    assert sorted(parsed) == ["a.py", "b.md"]
    assert stored(space) == 2


def test_an_edit_of_a_body_runs_one_generator_and_adds_the_facts_of_one_file(
    project: Space,
) -> None:
    before = stored(project)
    moved = python("a", value=2).replace("    return", "    # more\n    return")
    project.write("src/one/a.py", moved)
    assert project.events() == [
        ("generated", "src/one/a.py"),
        ("reused", "src/one"),
        ("reused", "src"),
        ("reused", ""),
    ]
    assert stored(project) == before + 1
    assert symbols(project, "path = 'src/one/a.py'") == [("src/one/a.py", "a", "function", 1, 4)]
    project.valid()


def test_a_line_that_moves_is_shown_in_an_outline_that_stays_the_same(project: Space) -> None:
    old = project.frame("src/one/a.py")
    project.write("src/one/a.py", "\n\n" + python("a"))
    project.events()
    new = project.frame("src/one/a.py")
    assert new["content"] == old["content"]
    assert "1: def a(a)" in old["lined"]
    assert "3: def a(a)" in new["lined"]


def test_renames_copies_and_old_contents_cost_nothing(project: Space) -> None:
    before = stored(project)
    project.move("src/one/a.py", "src/two/renamed.py")
    project.write("src/three/copy.py", python("b"))
    project.settle()
    assert stored(project) == before
    assert {path for path, *_ in symbols(project, "name IN ('a', 'b')")} == {
        "src/two/renamed.py",
        "src/one/b.py",
        "src/three/copy.py",
    }


def test_the_same_text_under_another_ending_is_another_matter(space: Space) -> None:
    text = "# Title\n\ndef f(): pass\n"
    space.fill({"a.py": text, "a.md": text, "a.txt": text})
    space.settle()
    assert symbols(space) == [("a.md", "Title", "heading", 1, 4), ("a.py", "f", "function", 3, 3)]


def test_facts_are_there_without_any_declared_outline(space: Space) -> None:
    space.declare('[types.note]\nfolder = "concatenate"\n')
    space.write("m.py", CODE)
    space.settle()
    assert [one["symbol"] for one in space.engine.symbols("first")["symbols"]] == [
        "first",
        "first.inner",
    ]


def test_an_index_from_before_gets_its_facts_in_the_next_pass(project: Space) -> None:
    with project.engine.database.transaction() as connection:
        connection.execute("DELETE FROM code_facts")
        connection.execute("DELETE FROM code_symbols")
    project.reopen()
    assert project.events() == []
    assert len(symbols(project)) == 4


def test_facts_that_other_code_made_are_made_again(project: Space) -> None:
    with project.engine.database.transaction() as connection:
        connection.execute("UPDATE code_facts SET print = 1 WHERE language = 'python'")
        # What it found complete it notes under a name that is its own as well.
        connection.execute("UPDATE meta SET key = key || '0' WHERE key LIKE 'facts_complete %'")
    project.reopen()
    before = stored(project)
    project.events()
    assert stored(project) == before + 3
    # The older rows no longer count.
    assert len(symbols(project, "name = 'a'")) == 1


def test_facts_that_are_stored_twice_keep_the_number_they_had(project: Space) -> None:
    code, entry = project.engine.frames.code, project.engine.tree.get("src/one/a.py")
    assert entry is not None
    key = facts_key("src/one/a.py", entry.content_id)
    number = code.numbers.get(key)
    assert number is not None
    # Two pieces of work at once may find out the same; a corpus has files under the first number.
    code.take_in({key: number + 100})
    assert code.numbers.get(key) == number
    assert project.engine.frames.code.numbers.every().count(number) == 1


def test_a_question_makes_what_few_files_lack_and_says_what_many_do(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("src/one/a.py", python("renamed"))
    found = project.engine.definition("renamed")
    assert [one["path"] for one in found["symbols"]] == ["src/one/a.py"]
    assert found["missing"] == 0
    monkeypatch.setattr(questions, "FEW", 0)
    project.write("src/one/a.py", python("another"))
    assert project.engine.symbols("another") == {"symbols": [], "found": 0, "missing": 1}
    for ask in (project.engine.definition, project.engine.callers):
        with pytest.raises(
            UnknownSymbolError, match="known so far: 1 file is not read yet"
        ) as error:
            ask("another")
        assert error.value.hint == "`merkle regenerate` reads them; then ask again"
    project.engine.scan()
    monkeypatch.setattr(project.engine, "served", True)
    with pytest.raises(UnknownSymbolError, match="so far") as error:
        project.engine.references("another")
    assert error.value.hint == "the service reads them: ask again in a moment"
    monkeypatch.undo()
    # Nothing is left to be read, so this is the whole truth.
    with pytest.raises(UnknownSymbolError, match=r"'nowhere' is known\n"):
        project.engine.definition("nowhere")


def test_compacting_forgets_the_facts_of_contents_that_are_gone(project: Space) -> None:
    for value in range(3):
        project.write("src/one/a.py", python("a", value=value + 5))
        project.settle()
    assert stored(project) == 7
    project.declare('[history]\nkeep = "0s"\nkeep_count = 1\n')
    project.settle()
    project.engine.compact()
    # The one that has the highest number stays, so that it is not given again.
    assert stored(project) <= 6
    assert len(symbols(project, "path LIKE 'src%'")) == 3
    project.engine.definition("a")
    project.valid()


def _packed(texts: str, parent: int = 0, count: int = 1) -> bytes:
    numbers = struct.pack("<6I", count, 1, 2, 0, 9, parent)
    return zlib.compress(numbers + texts.encode())


NO_SYMBOLS = [
    b"no stream", zlib.compress(b""), _packed(""), _packed("5"), _packed('{"a": 1}'),
    _packed('["a"]'), _packed("[1, 2]"), _packed("[" * 100_000), _packed('["a", "b"]', count=0),
    _packed('["a", "b"]', parent=1), _packed('["a", "b"]', parent=7),
]  # fmt: skip


def test_packed_symbols_that_nobody_packed_are_damage(space: Space) -> None:
    space.write("m.py", CODE)
    space.settle()
    assert space.engine.search("first thing")["results"]
    for packed in NO_SYMBOLS:
        with space.engine.database.transaction() as connection:
            connection.execute("UPDATE code_facts SET spans = ?", [packed])
        # What was unpacked before is remembered by who has it open.
        space.reopen()
        with pytest.raises(CorruptError):
            space.engine.search("first thing")
        assert {error["code"] for error in space.engine.validate()["errors"]} == {"facts"}, packed


NO_USES = [
    b"no stream", zlib.compress(b""), zlib.compress(struct.pack("<6I", 1, 1, 0, 5, 1, 0) + b"a"),
]  # fmt: skip


def test_packed_uses_that_nobody_packed_are_damage(space: Space) -> None:
    space.write("m.py", CODE)
    space.settle()
    space.engine.callers("first")
    for packed in NO_USES:
        with space.engine.database.transaction() as connection:
            connection.execute("UPDATE code_uses SET uses = ?", [packed])
        space.reopen()
        with pytest.raises(CorruptError):
            space.engine.callers("first")


def test_secrets_in_signatures_and_headings_are_masked(space: Space) -> None:
    key = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
    space.fill({"a.py": f'def f(x="{key}"):\n    pass\n', "b.md": f"# Use {key}\n"})
    space.settle()
    rows = space.engine.sql("SELECT symbol, signature, name FROM symbols")["rows"]
    assert len(rows) == 2
    assert key not in str(rows)
    assert "[redacted:" in str(rows)


def test_an_edit_costs_the_same_among_few_and_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for size in (10, 200):
        space = Space()
        try:
            space.fill({f"p{n % 7}/m{n}.py": python(f"f{n}", value=n) for n in range(size)})
            space.settle()
            looked: list[str] = []
            parse = workers.parse
            known = type(space.engine.frames.code)
            missing = known.missing
            with monkeypatch.context() as patch:

                def counting(source: Any, parse: Any = parse, looked: Any = looked) -> Any:
                    looked.append(source.name)
                    return parse(source)

                def walked(*given: Any, missing: Any = missing, looked: Any = looked) -> Any:
                    for one in missing(*given):
                        looked.append(one.path)
                        yield one

                patch.setattr(workers, "parse", counting)
                patch.setattr(known, "missing", walked)
                before = stored(space)
                space.write("p0/m0.py", python("f0", value=99))
                space.events()
                counts.append((looked, stored(space) - before))
        finally:
            space.close()
    assert counts[0] == counts[1] == (["m0.py"], 1)
