"""The names that a file uses, where, and inside of what: by its words and its symbols.

Comments and strings are passed by, and so are names that a function has for itself: what it calls
its parameters and variables is nobody else's business. Where a file says of what type one is, that
type stands in its place.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from indexer.core.code import EXPLICIT, CodeSymbol, Import, pack_uses
from indexer.generators.imports import EVERYTHING, Brought, imports_in
from indexer.generators.parsed import parsed_part

VERSION: Final = 3
"""Moves with every change to what is found in the same text."""

MOST: Final = 50_000
"""References of one file; no file written by hand has so many."""

_LONGEST: Final = 200
_DEEPEST: Final = 8
_FUNCTIONS: Final = frozenset(("function", "method", "prototype", "macro"))

_LETTER: Final = rb"A-Za-z_\x80-\xff"
_DOUBLE: Final = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_SINGLE: Final = rb"'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
_COMMENT: Final = rb"//[^\n]*"
_BLOCK: Final = rb"/\*.*?\*/"


class Words(NamedTuple):
    """How names are told from everything else in one language."""

    token: re.Pattern[bytes]
    """Names with what they are a part of, and what follows; or something with line ends; or else
    what is of no interest."""
    separator: re.Pattern[bytes] | None
    """What stands between names besides a dot."""
    keywords: frozenset[bytes]
    bound: tuple[re.Pattern[bytes], ...]
    """Where a function gives names of its own, which a group holds; a second one what it says of
    their type, as its parameters on lines of their own do, too."""
    parameter: re.Pattern[bytes]
    """Where a signature names what a function is given."""
    holes: frozenset[bytes] = frozenset()
    """What stands before a string that has code in braces."""
    declared: re.Pattern[bytes] | None = None
    """Where a signature says of what type a parameter is."""
    attribute: re.Pattern[bytes] | None = None
    """Where a method gives its object something: what it is called, the type that is said, the
    type that is made, or the parameter that is kept."""


def _words(
    skipped: bytes,
    comment: bytes,
    keywords: str,
    bound: tuple[bytes, ...],
    between: bytes = b"",
    letters: bytes = _LETTER,
    parameter: bytes = rb"[(,] ?[*&.$]*(?:[\w.<>]+ +)*[*&$]*(\w+)(?= ?[,:=)?])",
    holes: str = "",
    declared: bytes = b"",
    attribute: bytes = b"",
) -> Words:
    if between:
        name = b"[" + letters + rb"][\w" + letters + b"]*"
        chain = b"(?:" + between + b")?" + name + b"(?:(?:" + between + b")" + name + b")*"
    else:
        chain = rb"(?!(?i:[bru]|br|rb)[\"'])\.?[" + letters + rb"][\w." + letters + b"]*"
    token = b"(" + chain + rb")[ \t]*([(=!]?)|(\n\s*|" + skipped + b")|" + comment + rb"|\d[\w.]*"
    return Words(
        re.compile(token, re.DOTALL),
        re.compile(between) if between else None,
        frozenset(word.encode() for word in keywords.split()),
        tuple(re.compile(pattern) for pattern in bound),
        re.compile(parameter),
        frozenset(word.encode() for word in holes.split()),
        re.compile(declared) if declared else None,
        re.compile(attribute) if attribute else None,
    )


_LIST: Final = b"[" + _LETTER + rb"][\w \t," + _LETTER + b"]*"
_ONE: Final = b"[" + _LETTER + rb"][\w" + _LETTER + b"]*"
_TYPE: Final = rb"[\"']?([A-Za-z_][\w.]*)[\"']?"
_PYTHON: Final = _words(
    b"'''.*?'''|\"\"\".*?\"\"\"|" + _DOUBLE + b"|" + _SINGLE,
    rb"#[^\n]*",
    "False None True and as assert async await break class continue def del elif else except"
    " finally for from global if import in is lambda nonlocal not or pass raise return try while"
    " with yield self cls",
    (
        # An assignment has blanks around its sign, an argument that is named has none.
        rb"\n[ \t]+(" + _ONE + rb"(?:, \w+)*)(?: ?:([^=\n(]+))? =[^=]",
        rb"for ([^\n:()]{1,200}?) in\b",
        rb" as \(?(" + _ONE + rb")",
        rb"lambda ([^:\n]{1,200}):",
    ),
    parameter=rb"[(,] ?\*{0,2}(\w+)(?=[,:=)])",
    holes="f F rf fr Rf fR RF FR rF Fr",
    declared=rb"[(,] ?(\w+): ?" + _TYPE + rb"(?: \| None[\"']?)?(?=[,)=])",
    attribute=rb"\n[ \t]+self\.(\w+)(?:: ?" + _TYPE + rb"(?: \| None[\"']?)?)? ="
    rb" (?:((?:\w+\.)*[A-Z]\w*)\(|(\w+)(?=[ \t]*\n))?",
)
_C_KEYWORDS: Final = (
    "abstract as async await auto base bool boolean break byte case catch char class const"
    " constexpr continue data debugger declare default defer delete do double dyn else enum export"
    " extends extern false final finally float fn for foreach from fun func function go goto if"
    " impl implements import in init inline inout instanceof int interface internal is let lock"
    " long loop match mod module mut namespace native new nil null nullptr object of operator out"
    " override package params private protected protocol pub public readonly ref register return"
    " sealed self short signed sizeof static string struct super switch synchronized template this"
    " throw throws trait transient true try type typedef typename typeof undefined union unless"
    " unsafe unsigned until use using val var virtual void volatile when where while with yield"
    " defined define include ifdef ifndef endif elif pragma undef"
)
_C_BOUND: Final = (
    rb"let (?:mut )?[\[{(]?(" + _LIST + b")",
    rb"const [\[{(]?(" + _LIST + b")",
    rb"va[rl] [\[{(]?(" + _LIST + b")",
    rb"auto[ &*]+(" + _ONE + b")",
    rb"\n[ \t]+(" + _LIST + rb"):=",
    rb"catch \((?:[\w.| ]+ )?(" + _ONE + b")",
)
_C_STRINGS: Final = _BLOCK + b"|" + _DOUBLE + b"|" + _SINGLE
_C_LIKE: Final = _words(_C_STRINGS, _COMMENT, _C_KEYWORDS, _C_BOUND, rb"\.|::|->|\?\.|!!\.|\\")
_SCRIPT: Final = _words(
    _C_STRINGS + rb"|`[^`$\\]*`",
    _COMMENT,
    _C_KEYWORDS,
    _C_BOUND,
    rb"\??\.|!\.",
    _LETTER + b"$#",
    declared=rb"[(,] ?(\w+)\??: ?([A-Za-z_$][\w$.]*)(?: \| (?:null|undefined))?(?= ?[,)=])",
)
_GO: Final = _words(
    _BLOCK + b"|" + _DOUBLE + b"|" + _SINGLE + b"|`[^`]*`",
    _COMMENT,
    _C_KEYWORDS,
    _C_BOUND,
    rb"\.",
    parameter=rb"[(,] ?(\w+)(?=,| [\w*.\[])",
)
# A lone quote opens a lifetime far more often than a character.
_RUST: Final = _words(
    _BLOCK + b"|" + _DOUBLE + rb"|\'(?:[^\'\\\n]|\\[^\'\n]+)\'",
    _COMMENT,
    _C_KEYWORDS,
    _C_BOUND,
    rb"\.|::",
)
_PHP: Final = _words(
    _C_STRINGS, rb"(?://|#)[^\n]*", _C_KEYWORDS, (), rb"\?->|->|::|\\", _LETTER + b"$"
)
_HASH: Final = _words(
    _DOUBLE + b"|" + _SINGLE,
    rb"#[^\n]*",
    "alias and begin break case class def defined do done echo elif else elsif end ensure esac"
    " export false fi for function if in include local module next nil not or private protected"
    " public raise readonly redo require require_relative rescue retry return self set shift super"
    " then true undef unless unset until when while yield",
    (
        rb"\n[ \t]+(" + _LIST + rb")=[^=~]",
        rb"\|(" + _LIST + rb")\|",
        rb"local (" + _ONE + b")",
    ),
    rb"&?\.|::",
    _LETTER + b"?!@",
)
WORDS: Final = {
    "python": _PYTHON,
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "go": _GO,
    "java": _C_LIKE,
    "rust": _RUST,
    "c": _C_LIKE,
    "c++": _C_LIKE,
    "c#": _C_LIKE,
    "kotlin": _C_LIKE,
    "swift": _C_LIKE,
    "scala": _C_LIKE,
    "php": _PHP,
    "ruby": _HASH,
    "shell": _HASH,
}

_OURSELVES: Final = frozenset((b"self", b"cls", b"this"))
_BEFORE: Final = (b".", b"self.", b"cls.", b"this.")
_NONE: Final = frozenset[bytes]()
_EACH: Final = re.compile(_ONE)
_BRACES: Final = re.compile(rb"\{([^{}]+)\}")

Types = dict[bytes, bytes]
"""The types of names, each behind a colon."""

Found = dict[tuple[bytes, int, int, bool], None]
"""Chains of names with their lines, owners, and whether they are called; each once, in order."""


def uses_in(language: str, text: bytes, symbols: Sequence[CodeSymbol]) -> bytes:
    """The references and imports of a text whose symbols are known, packed."""
    source = parsed_part(language, text) if language in WORDS else None
    return b"" if source is None else _uses_of(language, source, symbols)


def _uses_of(language: str, source: bytes, symbols: Sequence[CodeSymbol]) -> bytes:
    words = WORDS[language]
    brought = imports_in(language, source)
    owners = list(_segments(symbols, len(source)))
    own = _names_of_functions(words, _blanked(source, brought), symbols, owners)
    types = _types_of_names(words, source, symbols, owners, own)
    seen = _seen(language, brought, symbols)
    found: Found = {}
    begun: set[int] = {-1}
    line, counted = 1, 0
    for begin, end, owner in _without(owners, [one.span for one in brought]):
        name = b"" if owner in begun else symbols[owner].name.encode()
        begun.add(owner)
        line, counted = line + source.count(b"\n", counted, begin), begin
        local, typed = (own[owner].all, types[owner]) if owner >= 0 else (_NONE, {})
        reader = _Reader(words, seen, local, typed, owner, found)
        reader.read(source, begin, end, line, name)
        if len(found) > MOST:
            break
    return pack_uses(list(islice(found, MOST)), _imports(source, brought))


def _seen(
    language: str, brought: Sequence[Brought], symbols: Sequence[CodeSymbol]
) -> frozenset[bytes] | None:
    """The names that mean something alone in a file; None where any may."""
    if language not in EXPLICIT or any(one.name == EVERYTHING for one in brought):
        return None
    return frozenset((*(one.alias for one in brought), *(one.name.encode() for one in symbols)))


def _imports(source: bytes, brought: Sequence[Brought]) -> list[Import]:
    made = []
    line, counted = 1, 0
    for module, name, alias, _, at in brought:
        line, counted = line + source.count(b"\n", counted, at), at
        said = [part.decode("utf-8", "replace") for part in (module, name, alias)]
        made.append(Import(said[0], said[1], said[2], line))
    return made


class _Reader(NamedTuple):
    """Collects the chains of names in one part of a source."""

    words: Words
    seen: frozenset[bytes] | None
    local: frozenset[bytes]
    typed: Types
    owner: int
    found: Found

    def read(self, source: bytes, begin: int, end: int, line: int, defined: bytes) -> None:
        """Take in a part, but for the one name that is defined there."""
        (_, separator, keywords, _, _, holes, *_), seen, local, typed, owner, found = self
        hole = False
        for chain, after, other in self.words.token.findall(source, begin, end):
            if not chain:
                if other:
                    if hole and other[:1] in b"\"'":
                        for inner in _BRACES.finditer(other):
                            self.read(inner[1], 0, len(inner[1]), line, b"")
                    line += other.count(b"\n")
                hole = False
                continue
            if separator is not None:
                chain = separator.sub(b".", chain)
            if b"." not in chain:
                if (seen is not None and chain not in seen) or chain in local:
                    hole = chain in holes
                    continue
                if after == b"=" or chain in keywords:
                    continue
                if chain == defined:
                    defined = b""
                    continue
            else:
                if not chain.startswith(_BEFORE):
                    first_name = chain[: chain.find(b".")]
                    if first_name in local or (seen is not None and first_name not in seen):
                        # Unless somebody says it, what it belongs to is only known while it runs.
                        chain = typed.get(first_name, b"") + chain[len(first_name) :]
                elif typed and chain.startswith(b"self."):
                    first_name = chain[: chain.find(b".", 5)] if chain.count(b".") > 1 else b""
                    if first_name in typed:
                        chain = typed[first_name] + chain[len(first_name) :]
                chain = chain.rstrip(b".")
                if len(chain) > _LONGEST or chain.count(b".") > _DEEPEST:
                    chain = b"." + chain.rpartition(b".")[2][:_LONGEST]
                if defined and chain.endswith(defined):
                    defined = b""
                    continue
            found[chain, line, owner, after == b"("] = None


def _segments(symbols: Sequence[CodeSymbol], size: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a source that belong to one symbol each, and those that belong to none."""
    marks = sorted(
        [(one.end, 0, -place) for place, one in enumerate(symbols)]
        + [(one.start, 1, place) for place, one in enumerate(symbols)]
    )
    around, at = [-1], 0
    for offset, opens, place in marks:
        if offset > at:
            yield at, offset, around[-1]
            at = offset
        if opens:
            around.append(place)
        else:
            around.remove(-place)
    if at < size:
        yield at, size, -1


def _without(
    segments: Sequence[tuple[int, int, int]], spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int]]:
    """Segments without the parts of them that lie in some spans."""
    spans = sorted(dict.fromkeys(spans))
    first = 0
    for begin, end, owner in segments:
        while first < len(spans) and spans[first][1] <= begin:
            first += 1
        at = first
        while at < len(spans) and spans[at][0] < end:
            if spans[at][0] > begin:
                yield begin, spans[at][0], owner
            begin = max(begin, spans[at][1])
            at += 1
        if begin < end:
            yield begin, end, owner


def _blanked(source: bytes, brought: Sequence[Brought]) -> bytes:
    """The same with blanks where something is brought in, which gives nobody a name of its own."""
    pieces, done = [], 0
    for begin, end in sorted({one.span for one in brought}):
        begin = max(begin, done)
        pieces += [source[done:begin], b" " * (end - begin)]
        done = max(done, end)
    return b"".join((*pieces, source[done:]))


class _Own(NamedTuple):
    """What a symbol calls its own."""

    all: frozenset[bytes]
    """Its own names, and those of the functions around it."""
    bound: frozenset[bytes]
    """The names that it gives a value without saying of what type."""


def _names_of_functions(
    words: Words,
    source: bytes,
    symbols: Sequence[CodeSymbol],
    segments: Sequence[tuple[int, int, int]],
) -> list[_Own]:
    """What each symbol calls its own."""
    named: dict[int, set[bytes]] = {}
    plain: dict[int, set[bytes]] = {}
    for pattern in words.bound:
        for owner, found in _in_functions(pattern, source, symbols, segments):
            names = _EACH.findall(found[1])
            named.setdefault(owner, set()).update(names)
            if found.lastindex == 1:
                plain.setdefault(owner, set()).update(names)
    own: list[_Own] = []
    for place, one in enumerate(symbols):
        around, bound = own[one.parent].all if one.parent >= 0 else _NONE, _NONE
        if one.kind in _FUNCTIONS:
            given = words.parameter.findall(one.signature.encode())
            bound = frozenset(plain.get(place, ()))
            around = around.union(given, named.get(place, ())) - _OURSELVES
        own.append(_Own(around, bound))
    return own


def _in_functions(
    pattern: re.Pattern[bytes],
    source: bytes,
    symbols: Sequence[CodeSymbol],
    segments: Sequence[tuple[int, int, int]],
) -> Iterator[tuple[int, re.Match[bytes]]]:
    """What a pattern finds in functions, with the place of each."""
    starts = [begin for begin, _, _ in segments]
    for found in pattern.finditer(source):
        owner = segments[bisect_right(starts, found.start(1)) - 1][2]
        if owner >= 0 and symbols[owner].kind in _FUNCTIONS:
            yield owner, found


def _types_of_names(
    words: Words,
    source: bytes,
    symbols: Sequence[CodeSymbol],
    segments: Sequence[tuple[int, int, int]],
    own: Sequence[_Own],
) -> list[Types]:
    """The types of parameters and of attributes, where the file says one and no other of each."""
    given: list[Types] = []
    for one, names in zip(symbols, own, strict=True):
        types = dict(given[one.parent]) if one.parent >= 0 else {}
        if words.declared is not None and one.kind in _FUNCTIONS:
            hidden = {*names.bound, *words.parameter.findall(one.signature.encode())}
            types = {name: said for name, said in types.items() if name not in hidden}
            for name, said in words.declared.findall(one.signature.encode()):
                if name not in names.bound:
                    types[name] = b":" + said
        given.append(types)
    kept: dict[int, dict[bytes, set[bytes]]] = {}
    if words.attribute is not None:
        for owner, found in _in_functions(words.attribute, source, symbols, segments):
            name, said, made, parameter = found.groups()
            type_ = b":" + (said or made) if said or made else given[owner].get(parameter, b"")
            if parameter != b"None" or said:
                kept.setdefault(symbols[owner].parent, {}).setdefault(name, set()).add(type_)
    declared = {(one.parent, one.name.encode()) for one in symbols}
    for place, one in enumerate(symbols):
        inside = one.parent
        while inside >= 0 and inside not in kept:
            inside = symbols[inside].parent
        for name, types_said in kept.get(inside, {}).items():
            # What has a symbol of its own is found by that.
            if len(types_said) == 1 and (inside, name) not in declared and one.kind in _FUNCTIONS:
                given[place][b"self." + name] = next(iter(types_said))
        given[place] = {name: said for name, said in given[place].items() if said}
    return given
