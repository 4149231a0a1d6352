"""Which symbols came, went and changed: in an order that follows from the two sides alone."""

from __future__ import annotations

from indexer.core.code import CodeSymbol
from indexer.engine.code.symbol_changes import changed_symbols


def declared(kind: str, name: str, line: int, parent: int = -1, text: bytes = b"") -> CodeSymbol:
    return CodeSymbol(kind, name, name, f"{kind} {name}", "", line, line, 0, 1, text, parent)


def test_symbols_of_one_name_in_one_line_are_told_in_the_order_of_the_source() -> None:
    kinds = ("struct", "function", "class", "macro", "type")
    both = [declared(kind, f"f{line}", line) for line in range(20) for kind in kinds]
    for before, after, change in (([], both, "added"), (both, [], "removed")):
        told = list(changed_symbols(before, after))
        assert {one["change"] for one in told} == {change}
        assert [(one["line"], one["kind"]) for one in told] == [(s.line, s.kind) for s in both]


def test_what_stands_in_a_symbol_is_told_once() -> None:
    before = [declared("class", "A", 1, text=b"1"), declared("method", "A.f", 2, 0, b"1")]
    after = [declared("class", "A", 1, text=b"2"), declared("method", "A.f", 2, 0, b"2")]
    assert [one["symbol"] for one in changed_symbols(before, after)] == ["A.f"]
    assert [one["symbol"] for one in changed_symbols(before, [])] == ["A"]
    added = [*before, declared("method", "A.g", 3, 0)]
    assert [(one["change"], one["symbol"]) for one in changed_symbols(before, added)] == [
        ("added", "A.g")
    ]
