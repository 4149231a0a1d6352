"""`search`: what matches a question best, among frames, symbols, their uses and lines of text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypedDict

from indexer.compose.candidates import Candidate, Loaded
from indexer.compose.relevance import BEST_UNIT, UnitScore, make_question
from indexer.compose.request import check_query
from indexer.core import paths
from indexer.core.arguments import Count, some_of
from indexer.core.code import CodeSymbol
from indexer.core.frames import REPEATING_AGENTS, FrameId
from indexer.core.kinds import Kind
from indexer.core.progress import Progress
from indexer.core.terms import words_in
from indexer.core.tree import Tree
from indexer.engine.code.graph import Definition, Graph
from indexer.engine.code.questions import Graphs, targets_of
from indexer.engine.code.source import masked_lines
from indexer.engine.code.symbols import UnknownSymbolError
from indexer.engine.search.compose import NothingRecordedError, load
from indexer.engine.search.corpus import Corpora, Ranked, index_what_is_left
from indexer.engine.search.ranking import FileHit
from indexer.engine.search.source import MOST_BYTES, SourceText
from indexer.engine.tree.scan import look_at_files, tree_as_on_disk

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

FRAME, SYMBOL, REFERENCE, TEXT = KINDS = ("frame", "symbol", "reference", "text")
Kinds = Annotated[Sequence[str], some_of(*KINDS)]

MOST_READ: Final = 64 << 20
"""Bytes of files that are looked through for a text."""

MOST_LINES: Final = 10_000
"""Lines with a text after which no further file is looked through."""

FRAME_LINES: Final = 8
LINE_LENGTH: Final = 240
"""Characters of a line that an excerpt shows."""

_LOOKS: Final = 5
"""How often a search is made anew because a file that it shows is another meanwhile."""

_SURE_PERCENT: Final = {"exact": 100, "import": 100, "unique": 80, "name": 40}
"""What a use counts of what its file is worth, by how sure its meaning is."""


class ResultDocument(TypedDict):
    """Something that matches, and where it stands."""

    kind: str
    path: str
    symbol: str | None
    """The symbol itself, what a use stands in, or what a note is about."""
    line: int | None
    type: str
    """Of a frame its type, of a symbol what it is; of others their kind."""
    score: int
    freshness: str
    because: str | None
    excerpt: str
    target: str | None
    """Of a use, what it means."""
    sure: str | None
    agent: str | None
    frame_id: str | None


class SearchDocument(TypedDict):
    """Result of `search`."""

    results: list[ResultDocument]
    found: int
    missing: int
    """Frames that are not made yet, so that they cannot be found."""
    unread: int
    """Files that were not looked through: their code is not read yet, or for a text they are too
    long or too many."""
    root: str


class _Match(NamedTuple):
    """What is found, before anything of it is read."""

    kind: str
    path: str
    score: int
    type: str
    line: int | None = None
    symbol: str | None = None
    said: str = ""
    """The signature of a symbol."""
    target: str | None = None
    sure: str | None = None
    row: Candidate | None = None
    at: int = 0
    """Where in the line a text begins, in bytes."""
    declared: tuple[int, int] | None = None
    """The number of the facts and the place of a symbol of which nothing else is known yet."""


def search(
    engine: Engine,
    question: str,
    *,
    kinds: Kinds = (FRAME, SYMBOL),
    limit: Count = 20,
    types: Sequence[str] = (),
    progress: Progress | None = None,
) -> SearchDocument:
    """What matches a question best, the best first.

    `frame` finds what is known about files and folders, `symbol` functions, classes and
    headings by name and by what stands in them, `reference` the uses of a symbol that the
    question names, and `text` the lines of files that have exactly that text; where it has no
    capitals, in any case. `types` leaves out frames of other types.
    """
    check_query(question)
    if engine.trees.head() is None:
        raise NothingRecordedError("nothing has been recorded yet", hint="run `merkle scan`")
    index_what_is_left(engine.frames.heads, engine.on_writing_thread, progress)
    for _ in range(_LOOKS):
        tree = tree_as_on_disk(engine, paths.ROOT)
        searching = _Search(engine.corpora, engine.graphs, tree, question, limit, set(types))
        found = searching.document(kinds)
        shown = {one["path"] for one in found["results"]} | searching.texts.changed
        moved = engine.served and look_at_files(engine, shown)
        if not moved and not (searching.texts.changed and not engine.served):
            break
    return found


class _Search:
    """One question to one tree."""

    def __init__(
        self, corpora: Corpora, graphs: Graphs, tree: Tree, text: str, limit: int, types: set[str]
    ) -> None:
        self._corpora, self._graphs, self._opened = corpora, graphs, corpora.frames
        self._tree = tree
        self._literal = text
        self._text = text.strip()
        self._is_name = len(self._text.split()) == 1
        self._limit = limit
        self._types = types
        self._question = make_question(text)
        self.texts = SourceText(self._opened.root, tree.algorithm, tree)

    def document(self, kinds: Sequence[str]) -> SearchDocument:
        """Everything of some kinds in one order."""
        matches: list[_Match] = []
        missing = unknown = unread = more = 0
        code: list[_Match] = []
        if SYMBOL in kinds or REFERENCE in kinds:
            # First, because it finds out what is not known yet of a few files.
            with self._graphs.of(self._tree) as (graph, unknown):
                ranked = self._ranked()
                if SYMBOL in kinds:
                    code += self._symbols(graph, ranked)
                if REFERENCE in kinds:
                    code += self._references(graph, ranked)
                unknown += len(graph.unread)
        else:
            ranked = self._ranked()
        if FRAME in kinds:
            shown = {one.path for one in code if one.kind == SYMBOL}
            matches += self._frames(ranked, shown)
            missing = sum(self._opened.missing.of(self._tree).values())
        if TEXT in kinds:
            lines, more, unread = self._lines({hit.path: hit.worth for hit in ranked.files})
            matches += lines
        matches += code
        matches.sort(key=_order)
        return {
            "results": self._results(matches[: self._limit]),
            "found": len(matches) + more,
            "missing": missing,
            "unread": unknown + unread,
            "root": self._tree.root_id.hex(),
        }

    def _ranked(self) -> Ranked:
        with self._corpora.of(self._tree, searched=True) as corpus:
            return corpus.rank(self._question, None, self.texts.of)

    # -- what is found

    def _frames(self, ranked: Ranked, shown: set[str]) -> Iterator[_Match]:
        """Frames; one that only repeats its file stands back where symbols of that are shown."""
        for row in ranked.pool:
            if self._types and row.type not in self._types:
                continue
            if row.agent not in REPEATING_AGENTS or row.path not in shown:
                yield _Match(FRAME, row.path, ranked.scores[row.frame_id], row.type, row=row)

    def _symbols(self, graph: Graph, ranked: Ranked) -> list[_Match]:
        """Symbols by name, and those of the best files by what stands in them.

        The better a name fits, the further up: an identifier is asked for by its name.
        """
        worth = {hit.path: hit.worth for hit in ranked.files}
        found = {
            (hit.path, unit.place): _placed(hit, unit)
            for hit in ranked.files
            for unit in hit.units
            if unit.place >= 0
        }
        step = max([0, *worth.values(), *(one.score for one in found.values())]) + 1
        for one in self._named(graph):
            score = self._fit(one.symbol) * step + worth.get(one.path, 0)
            found[one.path, one.place] = _symbol(one.path, one.symbol, score)
        return list(found.values())

    def _named(self, graph: Graph) -> list[Definition]:
        """The symbols that the question names, or in whose name it is."""
        store = self._opened.code.store
        if not self._is_name:
            return graph.live(store.named(sorted(self._question.names)))
        return (
            self._targets(graph) if "::" in self._text else graph.live(store.matching(self._text))
        )

    def _fit(self, symbol: CodeSymbol) -> int:
        """How well a symbol's name fits what is looked for."""
        wanted, name = self._text.lower(), symbol.name.lower()
        is_meant = not self._is_name or "::" in wanted
        if is_meant or self._text in (symbol.name, symbol.symbol):
            return 4
        if wanted in (name, symbol.symbol.lower()):
            return 3
        return 2 if name.startswith(wanted) else 1

    def _targets(self, graph: Graph) -> list[Definition]:
        """What the names in the question mean; nothing where nobody defines them."""
        found: list[Definition] = []
        recorded = self._corpora.recorded
        for name in [self._text] if self._is_name else sorted(self._question.names):
            with contextlib.suppress(UnknownSymbolError):
                found += targets_of(recorded.tree, recorded.store, graph, name)
        return found

    def _references(self, graph: Graph, ranked: Ranked) -> Iterator[_Match]:
        """Uses of what the question names."""
        worth = {hit.path: hit.worth for hit in ranked.files}
        for edge in dict.fromkeys(graph.edges_to(self._targets(graph))):
            file, owner = graph.file(edge.path), edge.reference.owner
            yield _Match(
                REFERENCE,
                edge.path,
                worth.get(edge.path, 0) * _SURE_PERCENT[edge.sure] // 100,
                REFERENCE,
                edge.reference.line,
                file.symbols[owner].symbol if file is not None and owner >= 0 else None,
                target=f"{edge.target.path}::{edge.target.symbol.symbol}",
                sure=edge.sure,
            )

    def _lines(self, worth: Mapping[str, int]) -> tuple[list[_Match], int, int]:
        """Lines with the text, how many more there are, and how many files were not read.

        Those files come first in which the words of the text are worth most.
        """
        files = [(path, entry.size) for path, entry in self._tree.walk() if entry.kind is Kind.FILE]
        files.sort(key=lambda one: (-worth.get(one[0], 0), paths.sort_key(one[0])))
        folds = self._literal == self._literal.lower()
        needle = self._literal.encode()
        matches: list[_Match] = []
        found = unread = read = 0
        for path, size in files:
            if size > MOST_BYTES or read + size > MOST_READ or found >= MOST_LINES:
                unread += 1
                continue
            read += size
            text = self.texts.read(path)
            if text is None:
                continue
            places = list(_lines_with(text.lower() if folds else text, needle))
            found += len(places)
            matches += [
                _Match(TEXT, path, worth.get(path, 0), TEXT, line, at=at)
                for line, at in places[: self._limit]
            ]
        return matches, found - len(matches), unread

    # -- what is shown of it

    def _results(self, matches: Sequence[_Match]) -> list[ResultDocument]:
        rows = [one.row for one in matches if one.row is not None]
        loaded = {one.candidate.frame_id: one for one in load(self._opened, self._tree, rows)}
        return [self._result(one, loaded) for one in self._read_symbols(matches)]

    def _read_symbols(self, matches: Sequence[_Match]) -> list[_Match]:
        """The matches, with the signatures of symbols of which only the place was known."""
        numbers = {one.declared[0] for one in matches if one.declared is not None}
        found = self._opened.code.store.symbols(numbers) if numbers else {}
        read = []
        for one in matches:
            number, place = one.declared or (-1, -1)
            symbols = found.get(number, ())
            # Facts of a content that went may be dropped meanwhile.
            is_known = 0 <= place < len(symbols)
            read.append(_symbol(one.path, symbols[place], one.score) if is_known else one)
        return read

    def _result(self, match: _Match, loaded: Mapping[FrameId, Loaded]) -> ResultDocument:
        result: ResultDocument = {
            "kind": match.kind,
            "path": match.path,
            "symbol": match.symbol,
            "line": match.line,
            "type": match.type,
            "score": match.score,
            "freshness": "fresh",
            "because": None,
            "excerpt": match.said,
            "target": match.target,
            "sure": match.sure,
            "agent": None,
            "frame_id": None,
        }
        if match.row is not None:
            frame = loaded[match.row.frame_id]
            result["freshness"], result["because"] = frame.freshness.value, frame.because
            result["agent"], result["frame_id"] = match.row.agent, match.row.frame_id.hex()
            result["symbol"], result["line"] = frame.symbol, frame.line
            result["excerpt"] = self._of_body(frame.body or "")
        elif match.line is not None and match.kind != SYMBOL:
            text = self.texts.read(match.path)
            if text is None:
                result["freshness"], result["because"] = "unknown", "the file is another by now"
            else:
                result["excerpt"] = _line(text, match.line, match.at)
        return result

    def _of_body(self, body: str) -> str:
        """The lines of a body around the one that has most of the question's words."""
        lines = body.rstrip("\n").split("\n")
        words = set(self._question.words)
        has = [len(words.intersection(words_in(line))) for line in lines]
        best = has.index(max(has)) if len(lines) > FRAME_LINES else 0
        first = max(0, min(best - FRAME_LINES // 4, len(lines) - FRAME_LINES))
        return "\n".join(_cut(line, 0) for line in lines[first : first + FRAME_LINES])


def _order(match: _Match) -> tuple[object, ...]:
    """The best first, then by place; nothing is left to chance."""
    row = match.row
    last = () if row is None else (row.type, row.agent, row.frame_id)
    return (
        -match.score,
        paths.sort_key(match.path),
        match.line or 0,
        KINDS.index(match.kind),
        match.target or match.symbol or "",
        last,
    )


def _symbol(path: str, symbol: CodeSymbol, score: int) -> _Match:
    said = f"{symbol.signature}  {symbol.doc}" if symbol.doc else symbol.signature
    return _Match(SYMBOL, path, score, symbol.kind, symbol.line, symbol.symbol, said)


def _placed(hit: FileHit, unit: UnitScore) -> _Match:
    """A symbol of a file that was ranked, of which more is read if it is shown."""
    span, place = hit.symbols.at(unit.place), (hit.number, unit.place)
    score = _as_best(hit, unit)
    return _Match(SYMBOL, hit.path, score, SYMBOL, span.line, span.symbol, declared=place)


def _as_best(hit: FileHit, unit: UnitScore) -> int:
    """What a file would be worth if one of its symbols were the best and the only one."""
    made = hit.parts["text"] + hit.parts["path"] + BEST_UNIT * unit.worth // 10
    return made * hit.parts["percent"] // 100


def _lines_with(text: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    """The lines in which a text begins, and where in each, in bytes."""
    line, start = 1, 0
    at = text.find(needle)
    while at >= 0:
        line += text.count(b"\n", start, at)
        start = text.rfind(b"\n", 0, at) + 1
        yield line, at - start
        end = text.find(b"\n", at)
        if end < 0:
            return
        line, start = line + 1, end + 1
        at = text.find(needle, start)


def _line(text: bytes, line: int, at: int) -> str:
    """One line of a text without its secrets, as much of it as is near a place."""
    lines = text.decode("utf-8", "replace").split("\n")
    shown = masked_lines(lines, line, line)[0].rstrip("\n")
    before = len(text.split(b"\n")[line - 1][:at].decode("utf-8", "replace"))
    return _cut(shown, before).strip()


def _cut(line: str, at: int) -> str:
    """As much of a line as an excerpt shows, with what stands at a place."""
    if len(line) <= LINE_LENGTH:
        return line
    first = max(0, min(at - LINE_LENGTH // 4, len(line) - LINE_LENGTH))
    last = first + LINE_LENGTH
    return f"{'…' if first else ''}{line[first:last]}{'…' if last < len(line) else ''}"
