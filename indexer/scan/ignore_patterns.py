"""What one line of a rule file asks of names: its pattern cut at the slashes, as git reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

_BACKSLASH, _SLASH, _STAR, _DASH, _COLON = b"\\/*-:"
_QUESTION, _OPEN, _CLOSE, _SPACE = b"?[] "
_ALL_BYTES: Final = frozenset(range(1, 256))

_UPPER: Final = frozenset(range(0x41, 0x5B))
_LOWER: Final = frozenset(range(0x61, 0x7B))
_DIGIT: Final = frozenset(range(0x30, 0x3A))
_GRAPH: Final = frozenset(range(0x21, 0x7F))
_ALNUM: Final = _UPPER | _LOWER | _DIGIT
# As git's own ASCII tables have them: vertical tab and form feed are no spaces there.
_POSIX_CLASSES: Final[Mapping[bytes, frozenset[int]]] = {
    b"alnum": _ALNUM,
    b"alpha": _UPPER | _LOWER,
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset(range(0x20)) | {0x7F},
    b"digit": _DIGIT,
    b"graph": _GRAPH,
    b"lower": _LOWER,
    b"print": _GRAPH | {_SPACE},
    b"punct": _GRAPH - _ALNUM,
    b"space": frozenset(b" \t\n\r"),
    b"upper": _UPPER,
    b"xdigit": frozenset(b"0123456789abcdefABCDEF"),
}


@lru_cache(maxsize=1024)
def union(sources: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """One regex for several; the number of its only group tells which one matched first."""
    # The groups stand last so that the regex engine can reject by an alternative's first byte.
    return re.compile(b"|".join(source + rb"\Z()" for source in sources), re.DOTALL)


class Segment(NamedTuple):
    """What one name must look like; at most one of `exact` and `suffix` is set."""

    regex: bytes
    exact: bytes | None = None
    suffix: bytes | None = None  # of `*.ext`, `*.tar.gz`, `*_test.py`
    first: int | None = None  # the only byte it can start with
    start: bytes = b""  # what every name begins with that looks so, as far as one is known
    end: bytes = b""  # and ends with
    openings: frozenset[int] = frozenset()  # the bytes it can start with, where they are few

    def matches(self, name: bytes) -> bool:
        """Whether a name looks so."""
        if self.exact is not None:
            return name == self.exact
        return union((self.regex,)).match(name) is not None


# A way through folders to an entry; None stands for any number of folders.
Trail = tuple[Segment | None, ...]


def _read_class(pattern: bytes, at: int) -> tuple[frozenset[int], int] | None:
    """The bytes of the class that opens just before `at` and where it ends; None if malformed."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    first = at
    members: set[int] = set()
    previous = 0  # the start of a range, should a dash follow
    while at < len(pattern):
        byte = pattern[at]
        if byte == _CLOSE and at > first:
            return _ALL_BYTES - members if negated else frozenset(members), at + 1
        if byte == _DASH and previous and pattern[at + 1 : at + 2] not in (b"", b"]"):
            at += 2 if pattern[at + 1] == _BACKSLASH else 1
            if at == len(pattern):
                return None
            members.update(range(previous, pattern[at] + 1))
            previous = 0
        elif byte == _OPEN and pattern[at + 1 : at + 2] == b":":
            end = pattern.find(b"]", at + 2)
            if end < 0:
                return None
            if end > at + 2 and pattern[end - 1] == _COLON:
                posix = _POSIX_CLASSES.get(pattern[at + 2 : end - 1])
                if posix is None:
                    return None
                members |= posix
                previous = 0
                at = end
            else:
                members.add(byte)
                previous = byte
        else:
            if byte == _BACKSLASH:
                at += 1
                if at == len(pattern):
                    return None
                byte = pattern[at]
            members.add(byte)
            previous = byte
        at += 1
    return None


def _byte_regex(token: int | frozenset[int]) -> bytes:
    if isinstance(token, int):
        return re.escape(bytes((token,)))
    if token == _ALL_BYTES:
        return b"."
    starts = sorted(byte for byte in token if byte - 1 not in token)
    ends = sorted(byte for byte in token if byte + 1 not in token)
    runs = b"".join(rb"\x%02x-\x%02x" % run for run in zip(starts, ends, strict=True))
    return b"[%b]" % runs if runs else b"(?!)"


def _segment(tokens: list[int | frozenset[int]]) -> Segment:
    """Compile the tokens of one level: a byte, a set of bytes, or -1 for a star."""
    literal = bytes(token for token in tokens if isinstance(token, int) and token >= 0)
    if len(literal) == len(tokens):
        return Segment(re.escape(literal), exact=literal)
    if len(literal) == len(tokens) - 1 and tokens[0] == -1 and b"." in literal:
        return Segment(b".*" + re.escape(literal), suffix=literal)
    chunks = [b""]
    for token in tokens:
        if token == -1:
            chunks.append(b"")
        else:
            chunks[-1] += _byte_regex(token)
    first = tokens[0] if isinstance(tokens[0], int) and tokens[0] >= 0 else None
    known = Segment(
        chunks[0],
        first=first,
        start=_literal(tokens),
        end=_literal(tokens[::-1])[::-1],
        openings=tokens[0] if isinstance(tokens[0], frozenset) else frozenset(),
    )
    if len(chunks) == 1:
        return known
    # Chunks have a fixed length, so the leftmost place is as good as any: never look back.
    middle = b"".join(b"(?>.*?%b)" % chunk for chunk in chunks[1:-1] if chunk)
    return known._replace(regex=chunks[0] + middle + b".*" + chunks[-1])


def _literal(tokens: list[int | frozenset[int]]) -> bytes:
    """The bytes that tokens begin with, up to the first that stands for others."""
    # What is taken are numbers, which the types do not tell.
    return bytes(takewhile(lambda token: isinstance(token, int) and token >= 0, tokens))  # type: ignore[arg-type]


_ANY: Final = _segment([-1])


def trail_of(pattern: bytes) -> Trail | None:
    """Cut a pattern at its slashes; None when it cannot match anything."""
    trail: list[Segment | None] = []
    tokens: list[int | frozenset[int]] = []
    at = start = 0
    while at <= len(pattern):
        byte = pattern[at] if at < len(pattern) else _SLASH
        after = at + 1
        escaped = byte == _BACKSLASH
        if escaped:
            if after == len(pattern):
                return None
            byte = pattern[after]
            after += 1
        if byte == _SLASH:
            if at == start:
                return None
            if at - start > 1 and not pattern[start:at].strip(b"*"):
                # A closing `**` stands for one level or more, and so does one before `\/`.
                deep = [None, _ANY] if at == len(pattern) else [_ANY, None] if escaped else [None]
                trail += deep[1:] if trail and trail[-1] is None and deep[0] is None else deep
            else:
                trail.append(_segment(tokens))
            tokens = []
            start = after
        elif escaped:
            tokens.append(byte)
        elif byte == _STAR:
            if tokens[-1:] != [-1]:
                tokens.append(-1)
        elif byte == _QUESTION:
            tokens.append(_ALL_BYTES)
        elif byte == _OPEN:
            found = _read_class(pattern, after)
            if found is None:
                return None
            members, after = found
            tokens.append(members)
        else:
            tokens.append(byte)
        at = after
    return tuple(trail)


_GLUED: Final = re.compile(rb"([^*?\[\\]*[^*?\[\\/])((?:\*\*+/)*)(\*\*+(?:\\/|\Z))?(.*)", re.DOTALL)


def unglued(pattern: bytes) -> tuple[bytes, ...]:
    """Say in ordinary patterns what git makes of `**` right after a literal start.

    git compares the literal start by itself and gives its glob matcher only the rest, which
    then takes a `**` there for the start of a level: `foo**/bar` also matches `foobar`.
    """
    glued = _GLUED.fullmatch(pattern)
    if glued is None:
        return (pattern,)
    head, deep, last, rest = glued.groups(b"")
    if last:
        return (head + b"*/**/" + rest,) if last.endswith(b"/") else (head + b"*", head + b"*/**")
    return (head + rest, head + b"*/**/" + rest) if deep else (pattern,)
