"""What is stored of files' code and words, against what their contents give now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.code import CodeSymbol, FactsKey, pack_spans, unpack_spans
from indexer.core.kinds import Kind
from indexer.core.progress import Progress, begin
from indexer.core.tree import Entry, Tree
from indexer.engine.documents import Report
from indexer.errors import CorruptError
from indexer.generators.base import FileInput
from indexer.generators.facts import facts_key, facts_of
from indexer.generators.file_terms import file_terms
from indexer.generators.parsed import parse
from indexer.generators.references import VERSION, uses_in
from indexer.scan.reading import read_recorded
from indexer.store.postings import FILES

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

FILES_CHECKED: Final = 200
"""Files that are read and parsed again; of more than these, an even sample."""


class Checked(NamedTuple):
    """How many files' facts were compared, of how many that have some."""

    checked: int
    known: int


def check_code(
    opened: Frames,
    tree: Tree,
    error: Report,
    progress: Progress | None = None,
) -> Checked:
    """Symbols, uses and words of files against their contents: of all, or of an even sample."""
    known = opened.code.numbers
    if not known.every():
        return Checked(0, 0)
    files: dict[FactsKey, tuple[str, Entry]] = {}
    given: dict[FactsKey, int] = {}
    for path, entry in tree.walk():
        key = facts_key(path, entry.content_id)
        if entry.kind is Kind.FILE and (number := known.get(key)) is not None:
            given[key] = number
            files.setdefault(key, (path, entry))
    step = -(-len(files) // FILES_CHECKED) or 1
    wanted = sorted(files, key=lambda key: paths.sort_key(files[key][0]))[::step]
    numbers = [given[key] for key in wanted]
    store = opened.code.store
    symbols, uses = store.symbols(numbers), store.uses(numbers, VERSION)
    spans = store.spans(numbers)
    words = opened.postings.terms_of(FILES, numbers)
    checked = 0
    begin(progress, "checking symbols and words", "files", len(wanted))
    for key, number in zip(wanted, numbers, strict=True):
        path, entry = files[key]
        content = read_recorded(opened.root, opened.algorithm, path, entry)
        if progress is not None:
            progress(1)
        if content is None:
            # Another one by now, of which nothing is stored under this number.
            continue
        checked += 1
        file = parse(FileInput(paths.split(path)[1], content))
        made = facts_of(file)
        if symbols[number] != made.symbols or not _holds(spans[number], made.symbols):
            error("facts", path, "its symbols are not those of its content")
        elif number in uses and uses[number] != uses_in(
            made.language, file.text or b"", made.symbols
        ):
            error("facts", path, "the names that it uses are not those of its content")
        terms = file_terms(key[1], file, made.symbols)
        expected = {} if terms is None else dict(zip(terms.terms, terms.gains, strict=True))
        if words[number] != expected:
            error("postings", path, "its postings are not those of its content")
    return Checked(checked, len(files))


def _holds(packed: bytes, symbols: Sequence[CodeSymbol]) -> bool:
    """Whether these symbols were packed, with whatever version of the library."""
    try:
        return unpack_spans(packed) == unpack_spans(pack_spans(symbols))
    except CorruptError:
        return False
