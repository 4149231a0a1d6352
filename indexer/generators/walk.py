"""Collect a file's symbols from its syntax tree, down to function bodies and never into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from indexer.generators.comments import first_said, is_boilerplate
from indexer.generators.signature import CLIP, Tidy

if TYPE_CHECKING:
    from tree_sitter import Node

# What a file of a single endless line may cost; no file written by hand comes near.
MAX_VISITS = 100_000
MAX_COLLECTED = 20_000
MAX_DEPTH = 6
MAX_VALUE = 60

_QUOTES = b"\"'"
_INNER = (b"//!", b"/*!")
# A function in a value has a body, and bodies are never shown.
_CODE = re.compile(rb"=>|\bfunction\b|\blambda\b|\bfunc\b|\)\s*\{|\|[^|]*\|")
_SECRET = re.compile(rb"(?i)secret|passw|token|api_?key|private_?key|credential")


class Symbol(NamedTuple):
    """One declaration: a line of an outline before it is tidied and cut, and where it stands."""

    depth: int
    signature: bytes
    doc: bytes
    kind: str
    """What it is; empty for a line of the outline that declares nothing."""
    name: bytes
    owner: bytes
    """The type it belongs to where the source says so elsewhere than around it."""
    start: int
    end: int
    line: int
    end_line: int
    is_hidden: bool
    """Whether it stands inside a function, where an outline does not look."""


class Below(NamedTuple):
    """The node whose children come next, so many levels deeper, inside a function or not."""

    node: Node
    deeper: int = 1
    hidden: bool = False


# What a handler says: nothing below is of interest; keep the comment above for the next node;
# or go on with a node's children.
Next = Below | Literal[True] | None
KEEP: Final = True
Handler = Callable[["Node", "Walk"], Next]


class Grammar(NamedTuple):
    """What to do with which type of node of one language."""

    handlers: Mapping[str, Handler]
    tidy: Tidy
    comments: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = {}
    """What a node of a type declares."""
    nested: tuple[bytes, ...] = ()
    """What a function's body has one of when there are functions or classes in it."""


NESTED_KINDS: Final = frozenset(("function", "class"))
"""What is of interest inside functions."""


class Walk:
    """What has been collected so far, and where the walk is."""

    def __init__(self, source: bytes, grammar: Grammar) -> None:
        self.source, self.grammar = source, grammar
        self.symbols: list[Symbol] = []
        self.imports: set[bytes] = set()
        self.doc = b""
        self.partial = False
        self.left_out = 0
        self.depth = 0
        self.hidden = False
        self.prefixes: list[bytes] = []
        self._shown = 0
        self._tidied: dict[bytes, bytes] = {}
        self._comments: list[Node] = []
        self._comments_end = 0
        self._last: Node | None = None
        self._outer: Node | None = None

    @property
    def tidy(self) -> Tidy:
        """How this language's signatures are spelled."""
        return self.grammar.tidy

    def signature(self, symbol: Symbol) -> bytes:
        """A symbol's signature as it is shown; outlines and facts both ask for it."""
        known = self._tidied.get(symbol.signature)
        if known is None:
            known = self._tidied[symbol.signature] = self.grammar.tidy(symbol.signature)
        return known

    def run(self, root: Node) -> None:
        """Visit declarations in order of the source; iterative, for any depth of nesting."""
        handlers, comments = self.grammar.handlers, self.grammar.comments
        levels = [(_children(root), 0, False)]
        # Counted apart: what is inside functions must not decide what is shown outside.
        visits = [0, 0]
        while levels:
            nodes, self.depth, self.hidden = levels[-1]
            for node in nodes:
                visits[self.hidden] += 1
                kind = node.type
                handler = handlers.get(kind)
                if handler is not None:
                    said = handler(node, self)
                    if said is None:
                        if self._comments or self.prefixes:
                            self._forget()
                        self._last = node
                    elif said is not KEEP:
                        self._last = None
                        hidden = self.hidden or said.hidden
                        levels.append((_children(said.node), self.depth + said.deeper, hidden))
                        if said.deeper:
                            self._forget()
                        break
                elif kind in comments:
                    self._comment(node)
                elif kind == "ERROR":
                    # What parsed inside is shown. Errors inside bodies leave no mark, so the
                    # note that an outline is partial does not flip on edits there.
                    self.partial = self.partial or not self.hidden
                    levels.append((_children(node), self.depth, self.hidden))
                    break
                elif node.is_named:
                    self._forget()
                    self._last = node
            else:
                levels.pop()
            if visits[False] > MAX_VISITS:
                self.left_out += 1
                return
            if visits[True] > MAX_VISITS:
                levels = [level for level in levels if not level[2]]
                visits[True] = 0

    def emit(
        self,
        node: Node,
        signature: bytes,
        doc: bytes = b"",
        *,
        kind: str | None = None,
        name: bytes | None = None,
        owner: bytes = b"",
    ) -> None:
        """Add a symbol at the present depth; its kind and name are the node's unless given."""
        prefixes, self.prefixes = self.prefixes, []
        if kind is None:
            kind = self.grammar.kinds.get(node.type, "")
        if self.hidden and kind not in NESTED_KINDS:
            return
        count = len(self.symbols) - self._shown if self.hidden else self._shown
        if count >= MAX_COLLECTED:
            self.left_out += not self.hidden
            return
        self._shown += not self.hidden
        if prefixes:
            signature = b" ".join([*prefixes, signature])
        if name is None:
            name = self.text_of(node.child_by_field_name("name")).strip(_QUOTES)
        whole = self._outer or node
        row, (last, column) = whole.start_point[0], whole.end_point
        # What ends with its line end is not in the line after it.
        last -= column == 0 and last > row
        self.symbols.append(
            Symbol(
                self.depth,
                signature,
                doc,
                kind,
                name,
                owner,
                whole.start_byte,
                whole.end_byte,
                row + 1,
                last + 1,
                self.hidden,
            )
        )

    def add_import(self, module: bytes) -> None:
        """Note what the file depends on; what only a function needs is not shown."""
        if not self.hidden:
            self.imports.add(module)

    def begin(self, node: Node) -> int:
        """Where the node's signature starts: at `export` and the like where there is one."""
        return (self._outer or node).start_byte

    def within(self, outer: Node, inner: Node, handler: Handler) -> Next:
        """Handle a wrapped declaration, its signature starting at the wrapper."""
        self._outer = outer
        try:
            return handler(inner, self)
        finally:
            self._outer = None

    @property
    def wrapped(self) -> bool:
        """Whether the node at hand is exported or otherwise wrapped."""
        return self._outer is not None

    def text(self, start: int, end: int) -> bytes:
        """A piece of the source, cut where no reader would follow."""
        return self.source[start : min(end, start + CLIP)]

    def text_of(self, node: Node | None) -> bytes:
        """The source of a node, cut where no reader would follow; nothing where there is none."""
        if node is None:
            return b""
        start = node.start_byte
        return self.source[start : min(node.end_byte, start + CLIP)]

    def head(self, node: Node) -> bytes:
        """A declaration up to its body."""
        body = node.child_by_field_name("body")
        return self.text(self.begin(node), node.end_byte if body is None else body.start_byte)

    def value(self, name: bytes, node: Node | None) -> bytes:
        """A constant's value where it is short and no secret, else an ellipsis."""
        if node is None:
            return b""
        if node.end_byte - node.start_byte > 4 * MAX_VALUE or _SECRET.search(name):
            return "…".encode()
        shown = self.tidy(self.source[node.start_byte : node.end_byte])
        fits = len(shown) <= MAX_VALUE and not _CODE.search(shown)
        return shown if fits else "…".encode()

    def take_doc(self, node: Node) -> bytes:
        """The first sentence of the comment right above the node."""
        if not self._comments:
            return b""
        if (self._outer or node).start_point[0] > self._comments_end + 1 or self._is_inner():
            self._forget()
            return b""
        said = first_said(self._texts())
        self._comments = []
        return said

    def keep_comment(self, node: Node) -> Literal[True]:
        """Let the comment above reach over an attribute to the declaration below it."""
        self._comments_end = max(self._comments_end, node.end_point[0])
        return KEEP

    def _comment(self, node: Node) -> None:
        row = node.start_point[0]
        if self._last is not None and self._last.end_point[0] == row:
            # It stands behind something and speaks of that, not of what comes next.
            return
        if self._comments and (row > self._comments_end + 1 or self._turns_inner(node)):
            self._forget()
        self._comments.append(node)
        self._comments_end = node.end_point[0]

    def _forget(self) -> None:
        # A comment that belongs to no symbol, before the first one, speaks of the file.
        if self._comments:
            if not self.doc and self.depth == 0 and (not self.symbols or self._is_inner()):
                texts = self._texts()
                if not is_boilerplate(texts):
                    self.doc = first_said(texts)
            self._comments = []
        if self.prefixes:
            self.prefixes = []

    def _is_inner(self) -> bool:
        """Whether the comment says of itself that it speaks of the file."""
        first = self._comments[0].start_byte
        return self.source[first : first + 3] in _INNER

    def _turns_inner(self, node: Node) -> bool:
        start = node.start_byte
        return (self.source[start : start + 3] in _INNER) != self._is_inner()

    def _texts(self) -> list[bytes]:
        return list(map(self.text_of, self._comments[:32]))


def _children(node: Node) -> Iterator[Node]:
    # A cursor holds one child at a time; a list of all would be as large as a flat file.
    cursor = node.walk()
    if cursor.goto_first_child():
        child = cursor.node
        while child is not None:
            yield child
            child = cursor.node if cursor.goto_next_sibling() else None


def first_child(node: Node) -> Node | None:
    """The first child, if any."""
    # Asking is cheaper than counting first; this runs once for every statement.
    try:
        return node.child(0)
    except IndexError:
        return None


def first_named(node: Node) -> Node | None:
    """The first child that is no punctuation, if any."""
    try:
        return node.named_child(0)
    except IndexError:
        return None


def callable_handler(node: Node, walk: Walk) -> Next:
    """A declaration shown up to its body, which is entered only for functions in it."""
    walk.emit(node, walk.head(node), walk.take_doc(node))
    return nested(node.child_by_field_name("body"), walk)


def whole_handler(node: Node, walk: Walk) -> Next:
    """A declaration without a body, shown as it is."""
    walk.emit(node, walk.text(walk.begin(node), node.end_byte), walk.take_doc(node))
    return None


def container_handler(node: Node, walk: Walk) -> Next:
    """A declaration shown up to its body, whose members follow one level deeper."""
    walk.emit(node, walk.head(node), walk.take_doc(node))
    return into(node.child_by_field_name("body"), walk)


def transparent_handler(node: Node, walk: Walk) -> Next:
    """A node that is not shown itself; its children are."""
    return Below(node, 0)


def into(body: Node | None, walk: Walk) -> Next:
    """Go on inside a body, unless that is deeper than anyone reads."""
    return None if body is None or walk.depth >= MAX_DEPTH else Below(body)


def nested(body: Node | None, walk: Walk) -> Next:
    """Go on inside a function's body, where there are functions or classes in it."""
    words = walk.grammar.nested
    if body is None or not words or walk.depth >= MAX_DEPTH:
        return None
    find, start, end = walk.source.find, body.start_byte, body.end_byte
    return Below(body, 1, True) if any(find(word, start, end) >= 0 for word in words) else None
