"""`symbols`, `definition`, `references`, `callers`, `callees` and `impact`: asking about code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, NotRequired, TypedDict

from indexer.core import paths
from indexer.core.arguments import SOME_TEXT, Count, matching, one_of, whole_between
from indexer.core.code import Reference
from indexer.engine.code.graph import NAME, SURE, CodeFile, Definition, Edge, Graph
from indexer.engine.code.places import Places
from indexer.engine.code.symbols import UnknownSymbolError
from indexer.engine.make.code_pass import CodePass
from indexer.engine.tree.resolve import resolve_node
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.errors import UsageError
from indexer.generators.fallback import as_text
from indexer.generators.references import VERSION
from indexer.scan.reading import read_recorded

if TYPE_CHECKING:
    from indexer.core.tree import Tree
    from indexer.engine.frames.opened import Frames
    from indexer.engine.search.corpus import OnWritingThread
    from indexer.engine.workspace import Engine
    from indexer.store.trees import TreeStore

FEW: Final = 64
"""Files whose facts a question makes itself; where more are missing it says so."""

MOST_STEPS: Final = 20
Steps = Annotated[int, whole_between(1, MOST_STEPS)]
Place = Annotated[str, matching("PATH:LINE", r".+:[1-9][0-9]{0,8}")]
Sureness = Annotated[str, one_of(*SURE)]
_TEST: Final = re.compile(r"(?:^|/)(?:tests?|testing|specs?|__tests__)/|(?:^|/)(?:test_|conftest)"
                          r"|(?:_test|_spec|\.test|\.spec|Tests?)\.[^/.]+$")  # fmt: skip


class SymbolDocument(TypedDict):
    """One symbol, and where it stands."""

    path: str
    symbol: str
    kind: str
    signature: str
    doc: str
    line: int
    end_line: int
    sure: str | None
    """How sure it is that a name means this, where it was asked what one means in its place."""


class SymbolsDocument(TypedDict):
    """Result of `symbols` and `definition`."""

    symbols: list[SymbolDocument]
    found: int
    missing: int
    """Files whose facts are not made yet, or that changed meanwhile: something may be missing."""


class EdgeDocument(TypedDict):
    """One use of a name, and what it means."""

    path: str
    line: int
    symbol: str
    """What the use stands in; empty for none."""
    target: str
    sure: str
    distance: NotRequired[int]
    test: NotRequired[bool]


class EdgesDocument(TypedDict):
    """Result of `references`, `callers`, `callees` and `impact`."""

    symbols: list[SymbolDocument]
    edges: list[EdgeDocument]
    found: int
    missing: int


def symbols(
    engine: Engine,
    pattern: Annotated[str, SOME_TEXT],
    *,
    kind: str | None = None,
    within: str | None = None,
    limit: Count = 200,
) -> SymbolsDocument:
    """The symbols whose name has a text in it, or fits a pattern with `*` and `?`.

    With `within`, only those of a file or folder. Those that are called exactly that come
    first, then those that begin with it.
    """
    with engine.graphs.of(tree_as_on_disk(engine, paths.ROOT)) as (graph, missing):
        store, numbers, path = engine.frames.code.store, None, paths.ROOT
        if within is not None:
            path = resolve_node(engine.tree, engine.trees, within)["path"]
            numbers = [file.number for file in _files(engine.tree, graph, path)]
        found = graph.live(store.matching(pattern, kind, numbers))
        found = [one for one in found if paths.is_within(one.path, path)]
    found.sort(key=lambda one: _fit(one, pattern.lower()))
    return {
        "symbols": [_symbol(one) for one in found[:limit]],
        "found": len(found),
        "missing": missing,
    }


def definition(
    engine: Engine, name: str, *, at: Place | None = None, limit: Count = 50
) -> SymbolsDocument:
    """Where a name is defined: `name`, `Type.name` or `PATH::name`.

    With `at`, which is `PATH:LINE`, what the name means there, the surest first; nothing where
    that cannot be told.
    """
    with engine.graphs.of(tree_as_on_disk(engine, paths.ROOT)) as (graph, missing):
        if at is not None:
            meant = _meant_at(engine.tree, engine.trees, graph, name, at)
        else:
            named = targets_of(engine.tree, engine.trees, graph, name)
            meant = [(one, None) for one in sorted(named, key=lambda one: _fit(one, name.lower()))]
    return {
        "symbols": [{**_symbol(one), "sure": sure} for one, sure in meant[:limit]],
        "found": len(meant),
        "missing": missing,
    }


def _meant_at(
    tree: Tree, trees: TreeStore, graph: Graph, name: str, at: str
) -> list[tuple[Definition, str | None]]:
    """What a name may mean in a place, the surest first."""
    node, _, line = at.rpartition(":")
    file = graph.file(resolve_node(tree, trees, node)["path"])
    found = [] if file is None else _meanings(graph, file, int(line), name)
    return sorted(found, key=lambda one: (SURE.index(one[1]), _fit(one[0], name.lower())))


def _meanings(graph: Graph, file: CodeFile, line: int, name: str) -> list[tuple[Definition, str]]:
    """The definitions that a name may mean in a line of a file, and how sure that is."""
    found: list[tuple[Definition, str]] = []
    for used in file.uses.references:
        parts = used.chain.split(".") if used.line == line else []
        for at, part in enumerate(parts):
            if part == name:
                found += graph.resolve(file, used, parts, at)
    if not found:
        # A line that does not use it, as an import or a comment, is taken as if it did.
        around = [at for at, one in enumerate(file.symbols) if one.line <= line <= one.end_line]
        owner = max(around, default=-1, key=lambda at: (file.symbols[at].start, at))
        found = graph.resolve(file, Reference(name, line, owner, False), [name], 0)
    return list(dict.fromkeys(found))


def references(
    engine: Engine, symbol: str, *, sure: Sureness | None = None, limit: Count = 500
) -> EdgesDocument:
    """Where a symbol is used, each with how sure that is: exact, import, unique or name.

    With `sure`, only what is at least so sure.
    """
    with engine.graphs.of(tree_as_on_disk(engine, paths.ROOT)) as (graph, missing):
        targets = targets_of(engine.tree, engine.trees, graph, symbol)
        edges = _sure(graph.edges_to(targets), sure)
        return _edges(graph, targets, edges, limit, missing)


def callers(
    engine: Engine, symbol: str, *, sure: Sureness | None = None, limit: Count = 500
) -> EdgesDocument:
    """What calls a symbol."""
    with engine.graphs.of(tree_as_on_disk(engine, paths.ROOT)) as (graph, missing):
        targets = targets_of(engine.tree, engine.trees, graph, symbol)
        called = (edge for edge in graph.edges_to(targets) if edge.reference.called)
        return _edges(graph, targets, _sure(called, sure), limit, missing)


def callees(
    engine: Engine, symbol: str, *, sure: Sureness = "unique", limit: Count = 500
) -> EdgesDocument:
    """What a symbol calls that is defined in the workspace, as far as that is sure."""
    with engine.graphs.of(tree_as_on_disk(engine, paths.ROOT)) as (graph, missing):
        targets = targets_of(engine.tree, engine.trees, graph, symbol)
        found = (edge for target in targets for edge in graph.edges_from(target))
        return _edges(graph, targets, _sure(found, sure), limit, missing)


def impact(
    engine: Engine,
    node: str,
    *,
    depth: Steps = 3,
    sure: Sureness = "unique",
    limit: Count = 500,
) -> EdgesDocument:
    """What a change of a file or symbol could affect, the nearest first, tests marked.

    Each edge is the first use by which something is reached, `distance` steps away.
    """
    with engine.graphs.of(tree_as_on_disk(engine, paths.ROOT)) as (graph, missing):
        targets = _targets_of_node(engine.tree, engine.trees, graph, node)
        found = list(_reached(graph, targets, depth, sure))
        document = _edges(graph, targets[:1] if "::" in node else [], (), 0, missing)
        for edge, distance in found[:limit]:
            made = _edge(graph, edge)
            made["distance"], made["test"] = distance, is_test(edge.path)
            document["edges"].append(made)
    document["found"] = len(found)
    return document


def is_test(path: str) -> bool:
    """Whether a file tests others, by where it stands and what it is called."""
    return _TEST.search(path) is not None


def _reached(
    graph: Graph, targets: list[Definition], depth: int, sure: str
) -> Iterator[tuple[Edge, int]]:
    """The first use by which a symbol is reached from some definitions, and in how many steps."""
    seen = {(one.path, one.place) for one in targets}
    wave = targets
    for distance in range(1, depth + 1):
        following: list[Definition] = []
        for edge in _sure(graph.edges_to(wave), sure):
            place = (edge.path, edge.reference.owner)
            if place in seen:
                continue
            seen.add(place)
            yield edge, distance
            file = graph.file(edge.path)
            if file is not None and edge.reference.owner >= 0:
                following.append(file.definition(edge.reference.owner))
        if not following:
            return
        wave = following


class Graphs:
    """Opens the code of a tree as a graph, after the facts that few files lack were made."""

    def __init__(
        self, frames: Callable[[], Frames], write: OnWritingThread, is_served: Callable[[], bool]
    ) -> None:
        # Frames are asked for each time: they are others once the database was opened anew.
        self._frames, self._write, self._is_served = frames, write, is_served
        self._places = Places()

    @contextmanager
    def of(self, tree: Tree) -> Iterator[tuple[Graph, int]]:
        """The code of a tree, and how many files' facts are missing."""
        frames, places = self._frames(), self._places
        known, limit = frames.code, frames.declared.settings.size_limit
        missing = len(list(islice(known.missing(tree, limit), FEW + 1)))
        if 0 < missing <= FEW:
            code = CodePass(frames)

            def make() -> None:
                for _ in code.pieces(tree):
                    pass

            self._write(make)
        if missing:
            missing = sum(1 for _ in known.missing(tree, limit))
        with places.lock:
            places.bring_up_to_date(tree)
            graph = Graph(known, places, frames.postings, lambda path: _text(frames, tree, path))
            try:
                yield graph, missing
            except UnknownSymbolError as error:
                # What nobody has read may define it.
                raise _not_read(error, missing, self._is_served()) if missing else error from None
        if graph.made and not frames.store.database.read_only:
            self._write(lambda: known.store.add_uses(graph.made, VERSION))


def _not_read(error: UnknownSymbolError, missing: int, served: bool) -> UnknownSymbolError:
    files = "1 file is" if missing == 1 else f"{missing:,} files are"
    return UnknownSymbolError(
        f"{error.message} so far: {files} not read yet",
        hint="the service reads them: ask again in a moment"
        if served
        else "`merkle regenerate` reads them; then ask again",
    )


def _text(frames: Frames, tree: Tree, path: str) -> bytes | None:
    """The text of a file, if it still has the content that a tree says."""
    entry = tree.get(path)
    if entry is None:
        return None
    content = read_recorded(frames.root, frames.algorithm, path, entry)
    return None if content is None else as_text(content)


def _targets_of_node(tree: Tree, trees: TreeStore, graph: Graph, node: str) -> list[Definition]:
    """A symbol, or all symbols of a file or folder."""
    if "::" in node and tree.get(node) is None:
        return targets_of(tree, trees, graph, node)
    path = resolve_node(tree, trees, node)["path"]
    return [
        file.definition(place)
        for file in _files(tree, graph, path)
        for place in range(len(file.symbols))
    ]


def _files(tree: Tree, graph: Graph, path: str) -> Iterator[CodeFile]:
    """The files at or below a path that have facts."""
    for where, entry in tree.walk(path):
        file = graph.file(where) if entry.folder is None else None
        if file is not None:
            yield file


def targets_of(tree: Tree, trees: TreeStore, graph: Graph, text: str) -> list[Definition]:
    """The definitions that `name`, `Type.name` or `PATH::name` means."""
    node, within, symbol = text.rpartition("::")
    path = None
    if within:
        try:
            path = resolve_node(tree, trees, node)["path"]
        except UsageError:
            # `Type::name`, as some languages write it.
            symbol = text
    wanted = re.sub(r"::|#|->", ".", symbol)
    name = wanted if " > " in wanted else wanted.rpartition(".")[2]
    name = name.rpartition(" > ")[2]
    found = graph.live(graph.known.store.named([name, wanted]))
    fitting = [
        one
        for one in found
        if (path is None or one.path == path)
        and f".{one.symbol.symbol}".endswith((f".{wanted}", f"> {wanted}"))
    ]
    if not fitting:
        where = f" in {paths.on_screen(path)}" if path is not None else ""
        raise UnknownSymbolError(
            f"no symbol {paths.on_screen(symbol)!r}{where} is known",
            hint=f"`merkle symbols {paths.on_screen(name)}` lists what has it in its name",
        )
    return fitting


def _fit(one: Definition, wanted: str) -> tuple[bool, bool, bool, bool, bytes, int]:
    """How well a name fits what is looked for; the best first."""
    name = one.symbol.name.lower()
    return (
        name != wanted and one.symbol.symbol.lower() != wanted,
        not name.startswith(wanted),
        is_test(one.path),
        one.symbol.parent >= 0,
        paths.sort_key(one.path),
        one.symbol.line,
    )


def _sure(edges: Iterable[Edge], least: str | None) -> Iterator[Edge]:
    """The edges that are at least so sure."""
    most = SURE.index(least or NAME)
    return (edge for edge in edges if SURE.index(edge.sure) <= most)


def _edges(
    graph: Graph, targets: list[Definition], edges: Iterable[Edge], limit: int, missing: int
) -> EdgesDocument:
    found = sorted(dict.fromkeys(edges), key=_order)
    return {
        "symbols": [_symbol(one) for one in targets],
        "edges": [_edge(graph, edge) for edge in found[:limit]],
        "found": len(found),
        "missing": missing + len(graph.unread),
    }


def _order(edge: Edge) -> tuple[int, bytes, int, bytes, int]:
    return (
        SURE.index(edge.sure),
        paths.sort_key(edge.path),
        edge.reference.line,
        paths.sort_key(edge.target.path),
        edge.target.place,
    )


def _edge(graph: Graph, edge: Edge) -> EdgeDocument:
    file = graph.file(edge.path)
    owner = edge.reference.owner
    return {
        "path": edge.path,
        "line": edge.reference.line,
        "symbol": file.symbols[owner].symbol if file is not None and owner >= 0 else "",
        "target": f"{edge.target.path}::{edge.target.symbol.symbol}",
        "sure": edge.sure,
    }


def _symbol(one: Definition) -> SymbolDocument:
    symbol = one.symbol
    return {
        "path": one.path,
        "symbol": symbol.symbol,
        "kind": symbol.kind,
        "signature": symbol.signature,
        "doc": symbol.doc,
        "line": symbol.line,
        "end_line": symbol.end_line,
        "sure": None,
    }
