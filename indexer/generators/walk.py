"""Collect a file's symbols from its syntax tree, down to function bodies and never into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from indexer.generators.comments import comment_line, is_boilerplate
from indexer.generators.signature import CLIP, Tidy

if TYPE_CHECKING:
    from tree_sitter import Node

# What a file of a single endless line may cost; no file written by hand comes near.
MAX_VISITS = 100_000
MAX_COLLECTED = 20_000
MAX_DEPTH = 6
MAX_VALUE = 60

_INNER = (b"//!", b"/*!")
# A function in a value has a body, and bodies are never shown.
_CODE = re.compile(rb"=>|\bfunction\b|\blambda\b|\bfunc\b|\)\s*\{|\|[^|]*\|")
_SECRET = re.compile(rb"(?i)secret|passw|token|api_?key|private_?key|credential")


class Symbol(NamedTuple):
    """One line of an outline before it is tidied and cut."""

    depth: int
    signature: bytes
    doc: bytes


# What a handler says: nothing below is of interest; keep the comment above for the next node;
# or go on with this node's children, so many levels deeper.
Next = tuple["Node", int] | Literal[True] | None
KEEP: Final = True
Handler = Callable[["Node", "Walk"], Next]


@dataclass(frozen=True, slots=True)
class Grammar:
    """What to do with which type of node of one language."""

    handlers: Mapping[str, Handler]
    tidy: Tidy
    comments: frozenset[str] = frozenset()


@dataclass(slots=True)
class Walk:
    """What has been collected so far, and where the walk is."""

    source: bytes
    tidy: Tidy
    symbols: list[Symbol] = field(default_factory=list)
    imports: set[bytes] = field(default_factory=set)
    doc: bytes = b""
    partial: bool = False
    left_out: int = 0
    depth: int = 0
    prefixes: list[bytes] = field(default_factory=list)
    _comments: list[Node] = field(default_factory=list)
    _comments_end: int = 0
    _last: Node | None = None
    _outer: Node | None = None

    def run(self, root: Node, grammar: Grammar) -> None:
        """Visit declarations in order of the source; iterative, for any depth of nesting."""
        handlers, comments = grammar.handlers, grammar.comments
        levels = [(_children(root), 0)]
        visits = 0
        while levels:
            nodes, self.depth = levels[-1]
            for node in nodes:
                visits += 1
                kind = node.type
                handler = handlers.get(kind)
                if handler is not None:
                    step = handler(node, self)
                    if step is None:
                        if self._comments or self.prefixes:
                            self._forget()
                        self._last = node
                    elif isinstance(step, tuple):
                        self._last = None
                        levels.append((_children(step[0]), self.depth + step[1]))
                        if step[1]:
                            self._forget()
                        break
                elif kind in comments:
                    self._comment(node)
                elif kind == "ERROR":
                    # What parsed inside is shown. Errors inside bodies are never seen here, so
                    # the note that an outline is partial does not flip on edits there.
                    self.partial = True
                    levels.append((_children(node), self.depth))
                    break
                elif node.is_named:
                    self._forget()
                    self._last = node
            else:
                levels.pop()
            if visits > MAX_VISITS:
                self.left_out += 1
                return

    def emit(self, signature: bytes, doc: bytes = b"") -> None:
        """Add a symbol at the present depth."""
        if len(self.symbols) >= MAX_COLLECTED:
            self.left_out += 1
            return
        if self.prefixes:
            signature = b" ".join([*self.prefixes, signature])
            self.prefixes = []
        self.symbols.append(Symbol(self.depth, signature, doc))

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
        """The first line of the comment right above the node."""
        if not self._comments:
            return b""
        if (self._outer or node).start_point[0] > self._comments_end + 1 or self._is_inner():
            self._forget()
            return b""
        said = comment_line(self._texts())
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
                    self.doc = comment_line(texts)
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
        return [self.text(node.start_byte, node.end_byte) for node in self._comments[:32]]


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
    """A declaration shown up to its body, which is not entered."""
    walk.emit(walk.head(node), walk.take_doc(node))
    return None


def whole_handler(node: Node, walk: Walk) -> Next:
    """A declaration without a body, shown as it is."""
    walk.emit(walk.text(walk.begin(node), node.end_byte), walk.take_doc(node))
    return None


def container_handler(node: Node, walk: Walk) -> Next:
    """A declaration shown up to its body, whose members follow one level deeper."""
    walk.emit(walk.head(node), walk.take_doc(node))
    return into(node.child_by_field_name("body"), walk)


def transparent_handler(node: Node, walk: Walk) -> Next:
    """A node that is not shown itself; its children are."""
    return node, 0


def into(body: Node | None, walk: Walk) -> Next:
    """Go on inside a body, unless that is deeper than anyone reads."""
    return None if body is None or walk.depth >= MAX_DEPTH else (body, 1)
