"""One spelling for a signature however its author laid it out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

Tidy = Callable[[bytes], bytes]
Rule = tuple[bytes, bytes, bytes]

# Longer signatures are cut before any pattern sees them, which bounds the work on minified code.
CLIP = 2048

_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r")) + b"\x7f"
_MASK = b"\x01"

_C_COMMENT = rb"(//[^\n]*|/\*.*?\*/)"
_DOUBLE = rb'"(?:[^"\\\n]|\\.)*"'
_SINGLE = rb"'(?:[^'\\\n]|\\.)*'"
PYTHON_LITERALS = (
    rb"(#[^\n]*)|\"\"\".*?\"\"\"|'''.*?'''|" + _DOUBLE + b"|" + _SINGLE,
    rb"""["'#]""",
)
HASH_LITERALS = (rb"(#[^\n]*)|" + _DOUBLE + b"|" + _SINGLE, rb"""["'#]""")
C_LITERALS = (_C_COMMENT + b"|" + _DOUBLE + b"|" + _SINGLE, rb"""["']|//|/\*""")
# A lone quote in Rust opens a lifetime far more often than a character.
RUST_LITERALS = (
    _C_COMMENT + b"|" + _DOUBLE + rb"|'(?:[^'\\]|\\[^']+)'",
    rb"""["']|//|/\*""",
)
BACKTICK_LITERALS = (
    _C_COMMENT + b"|" + _DOUBLE + b"|" + _SINGLE + b"|`[^`]*`",
    rb"""["'`]|//|/\*""",
)

# Each rule: what must be there for it to apply at all, a pattern, a replacement.
_BEFORE_CLOSER = (b" ", rb"(?<=[(\[]) | (?=[)\],;])", b"")
_TRAILING_COMMA = (b",", rb",(?=[)\]])", b"")
_COMMA = (b",", rb", ?", b", ")
_ARROW = (b">", rb" ?(->|=>) ?", rb" \1 ")
_COLON = (b":", rb" ?(?<!:):(?!:) ?", b": ")
_PIPE = (b"|", rb" ?(?<!\|)\|(?!\|) ?", b" | ")
_LEADING_PIPE = (b" | ", rb"(?<=[=(<:]) \| ", b" ")
_EQUALS = (b"=", rb" ?(?<![=<>!:?])=(?![=>]) ?", b" = ")
_TIGHT_EQUALS = (b"=", rb" ?(?<![=<>!:?])=(?![=>]) ?", b"=")
_ANGLES = (b"<", rb"(?<=[\w>]<) | (?=>)", b"")
_ANGLE_COMMA = (b"<", rb", ?(?=>)", b"")
_CALL = (b" (", rb"(?<=[\w\x80-\xff]) (?=\((?!\*))", b"")
_BRACES = (b"{", rb" ?\{ ?", b" { ")
_CLOSING_BRACE = (b"}", rb"[,;]? ?\}", b" }")
_EMPTY_BRACES = (b"{", rb"\{ +\}", b"{}")
_AFTER_OPENER = (b" ", rb"(?<=[(\[]) ", b"")
_STARS = (b"*", rb"(?<=[\w\x80-\xff]) ?(\*+) ?", rb" \1")

PYTHON_RULES = (_BEFORE_CLOSER, _TRAILING_COMMA, _COMMA, _ARROW, _COLON, _PIPE, _TIGHT_EQUALS)
SCRIPT_RULES = (
    _BEFORE_CLOSER,
    _TRAILING_COMMA,
    _COMMA,
    _ARROW,
    _COLON,
    _PIPE,
    _EQUALS,
    _LEADING_PIPE,
    _ANGLES,
    _ANGLE_COMMA,
    _CALL,
    _BRACES,
    _CLOSING_BRACE,
    _EMPTY_BRACES,
    _AFTER_OPENER,
)
RUST_RULES = (
    _BEFORE_CLOSER,
    _TRAILING_COMMA,
    _COMMA,
    _ARROW,
    _COLON,
    _EQUALS,
    _ANGLES,
    _ANGLE_COMMA,
    _CALL,
    _BRACES,
    _CLOSING_BRACE,
    _EMPTY_BRACES,
)
JAVA_RULES = (
    _BEFORE_CLOSER,
    _TRAILING_COMMA,
    _COMMA,
    _ARROW,
    _EQUALS,
    _ANGLES,
    _CALL,
    _BRACES,
    _CLOSING_BRACE,
    _EMPTY_BRACES,
)
# gofmt leaves Go one spelling already; only wrapped parameter lists differ.
GO_RULES = (_BEFORE_CLOSER, _TRAILING_COMMA, _COMMA)
C_RULES = (
    _BEFORE_CLOSER,
    _TRAILING_COMMA,
    _COMMA,
    _EQUALS,
    _STARS,
    _CALL,
    _BRACES,
    _CLOSING_BRACE,
    _EMPTY_BRACES,
)

CPP_RULES = (*C_RULES, _ANGLES)


def tidier(
    literals: tuple[bytes, bytes],
    rules: tuple[Rule, ...],
    plain: bytes | None = None,
) -> Tidy:
    """A pure normaliser from literals (pattern, quick test) and rules.

    What matches `plain` is in order already and comes back as it is.
    """
    masked = re.compile(literals[0], re.DOTALL)
    suspect = re.compile(literals[1]).search
    steps = [(needed, re.compile(pattern).sub, shown) for needed, pattern, shown in rules]
    is_plain = re.compile(plain).fullmatch if plain is not None else None

    def tidy(raw: bytes) -> bytes:
        if is_plain is not None and is_plain(raw):
            return raw
        text = raw[:CLIP].translate(None, _CONTROL)
        kept: list[bytes] = []
        if suspect(text):
            text = masked.sub(lambda found: _mask(found, kept), text)
        text = b" ".join(text.split())
        for needed, substitute, shown in steps:
            if needed in text:
                text = substitute(shown, text)
        if kept:
            literals_left: Iterator[bytes] = iter(kept)
            text = re.sub(_MASK, lambda _: next(literals_left, b""), text)
        return text.rstrip(b" ;,{=").lstrip()

    return tidy


def _mask(found: re.Match[bytes], kept: list[bytes]) -> bytes:
    if found[1] is not None:
        return b" "
    literal = found[0]
    for raw, shown in ((b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t")):
        literal = literal.replace(raw, shown)
    kept.append(literal)
    return _MASK
