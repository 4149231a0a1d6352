"""Reads the selector language; whatever the text, the answer is a selector or a position."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from indexer.sessions.selector import (
    CHILD,
    DESCENDANT,
    PSEUDOS,
    Address,
    At,
    Between,
    Chain,
    Condition,
    Literal,
    Pseudo,
    RangeKindError,
    RangeWildcardError,
    Selector,
    SelectorError,
    Step,
)

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_ROOT: Final = re.compile(r"\^(root|sys|seq|ah)(?![A-Za-z0-9_-])")
# Ids are opaque, so one may begin with a digit, as hashes and UUIDs do.
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:-]*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_:-]*")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ATOM: Final = re.compile(r"@(?:(t)(-?[0-9]+)|(c)([0-9]+)|(\*)|(w))(?![A-Za-z0-9_])")
_RANGE: Final = re.compile(r"\.\.|:(?=[@0-9-])")
_SHORT: Final = re.compile(r"-?[0-9]+")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.])")
_OPERATOR: Final = re.compile(r"<=|>=|!=|=|<|>")
_STRING: Final = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([\"'\\])")
_WHOLE: Final = re.compile(r"[0-9]+")
_NULLS: Final = frozenset(("null", "None"))
_MAX_DIGITS: Final = 40


def parse_selector(text: str) -> Selector:
    """Read a selector, or raise the error that names its first flaw."""
    return _Parser(text).selector()


def parse_address(text: str) -> Address:
    """Read a snapshot address alone, such as `@t-1`."""
    parser = _Parser(text.strip())
    address = parser.address()
    if address is None or parser.place != len(parser.text):
        parser.fail("a snapshot address is expected")
    return address


class _Parser:
    """A cursor over the text; every method reads one construct or fails at its place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def selector(self) -> Selector:
        self.space()
        address = self.address()
        self.space()
        groups = [self.chain()]
        while self.take(","):
            self.space()
            groups.append(self.chain())
        if self.place != len(self.text):
            self.fail("unexpected character")
        return Selector(self.text, address, tuple(groups))

    def address(self) -> Address | None:
        if not self.text.startswith("@", self.place):
            return None
        begin = self.place
        first = self.atom()
        operator = self.match(_RANGE)
        if operator is None:
            return first
        last = self.atom() if self.text.startswith("@", self.place) else self.short_end(first)
        if "*" in (first.kind, last.kind):
            raise RangeWildcardError("@* cannot be part of a range", begin)
        if first.kind != last.kind or first.kind not in "tc":
            raise RangeKindError("the ends of a range are both @t or both @c", begin)
        return Between(first, last)

    def atom(self) -> At:
        found = self.match(_ATOM)
        if found is None:
            self.fail("a snapshot is @t0, @t-N, @cN, @w or @*")
        kind = next(group for group in found.group(1, 3, 5, 6) if group)
        digits = found.group(2) or found.group(4)
        return At(kind, self.whole(digits) if digits else 0)

    def short_end(self, first: At) -> At:
        found = self.match(_SHORT)
        if found is None:
            self.fail("the end of a snapshot range is expected")
        return At(first.kind, self.whole(found.group()))

    def chain(self) -> Chain:
        steps = [self.step(None)]
        while True:
            begin = self.place
            self.space()
            if self.take(CHILD):
                self.space()
                steps.append(self.step(CHILD))
            elif self.place > begin and self.place < len(self.text) and not self.looks(","):
                steps.append(self.step(DESCENDANT))
            else:
                return tuple(steps)

    def step(self, combinator: str | None) -> Step:
        begin = self.place
        if self.take("*"):
            return Step(combinator)
        root = self.match(_ROOT)
        if root is None and self.looks("^"):
            self.fail("a root is ^root, ^sys, ^seq or ^ah")
        node_id = self.name_after("#", _ID)
        node_type = self.name_after(".", _IDENTIFIER)
        conditions = []
        while self.looks("["):
            conditions.append(self.condition())
        pseudos = []
        while self.looks(":"):
            pseudos.append(self.pseudo())
        if self.place == begin:
            self.fail("a selector step is expected")
        return Step(
            combinator,
            root.group() if root is not None else None,
            node_id,
            node_type,
            tuple(conditions),
            tuple(pseudos),
        )

    def name_after(self, sign: str, pattern: re.Pattern[str]) -> str | None:
        """An id or a type; a part of it that names a pseudo-class ends it."""
        if not self.take(sign):
            return None
        begin = self.place
        found = self.match(pattern)
        if found is None:
            self.fail(f"a name is expected after {sign!r}")
        length = 0
        for position, part in enumerate(found.group().split(":")):
            if position and part in PSEUDOS:
                break
            length += len(part) + (1 if position else 0)
        self.place = begin + length
        return self.text[begin : self.place]

    def condition(self) -> Condition:
        self.take("[")
        self.space()
        key = self.match(_IDENTIFIER)
        if key is None:
            self.fail("an attribute name is expected")
        self.space()
        operator = self.match(_OPERATOR)
        value = None
        if operator is not None:
            self.space()
            value = self.literal()
            if value.high is not None and operator.group() not in ("=", "!="):
                self.fail("a range is compared by = and != only; write two conditions instead")
            self.space()
        if not self.take("]"):
            self.fail("']' is expected; a value is a number, a range such as 1-3, or a quoted text")
        return Condition(key.group(), operator.group() if operator else None, value)

    def literal(self) -> Literal:
        found = self.match(_STRING)
        if found is not None:
            quoted = found.group(1) if found.group(1) is not None else found.group(2)
            return Literal(_ESCAPE.sub(r"\1", quoted))
        begin = self.place
        low = self.number()
        if low is not None:
            if not self.take("-"):
                return Literal(self.text[begin : self.place], low)
            high = self.number()
            if high is None:
                self.fail("the end of a range is expected")
            return Literal(self.text[begin : self.place], min(low, high), high=max(low, high))
        found = self.match(_IDENTIFIER)
        if found is None:
            self.fail("a number, a quoted text or a name is expected")
        return Literal(found.group(), null=found.group() in _NULLS)

    def number(self) -> int | float | None:
        begin = self.place
        found = self.match(_NUMBER)
        if found is None:
            return None
        written = found.group()
        if len(written) > _MAX_DIGITS:
            self.fail("a number this long is not supported", begin)
        return float(written) if "." in written else int(written)

    def pseudo(self) -> Pseudo:
        begin = self.place
        self.take(":")
        found = self.match(_NAME)
        name = found.group() if found is not None else ""
        if name not in PSEUDOS:
            self.fail(f"unknown pseudo-class {name!r}", begin)
        ranges = self.ranges() if self.looks("(") else None
        if name in ("depth", "nth"):
            if not ranges:
                self.fail(f":{name} needs a number", begin)
            if name == "nth" and (len(ranges) > 1 or ranges[0][0] != ranges[0][1]):
                self.fail(":nth takes one number", begin)
        elif ranges is not None:
            self.fail(f":{name} takes nothing", begin)
        return Pseudo(name, ranges or ())

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """A list of whole numbers from 1 on, and of ranges of them, in parentheses."""
        self.take("(")
        self.space()
        ranges: list[tuple[int, int]] = []
        if self.take(")"):
            return ()
        while True:
            low = self.counted()
            self.space()
            high = low
            if self.take("-"):
                self.space()
                high = self.counted()
                self.space()
            ranges.append((min(low, high), max(low, high)))
            if self.take(")"):
                return tuple(ranges)
            if not self.take(","):
                self.fail("',' or ')' is expected")
            self.space()

    def counted(self) -> int:
        begin = self.place
        found = self.match(_WHOLE)
        if found is None:
            self.fail("a whole number is expected")
        number = self.whole(found.group())
        if number < 1:
            self.fail("counting begins with 1", begin)
        return number

    def whole(self, digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            self.fail("a number this long is not supported")
        return int(digits)

    def space(self) -> None:
        self.match(_SPACE)

    def looks(self, sign: str) -> bool:
        return self.text.startswith(sign, self.place)

    def take(self, sign: str) -> bool:
        if not self.looks(sign):
            return False
        self.place += len(sign)
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.place)
        if found is not None:
            self.place = found.end()
        return found

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        raise SelectorError(message, self.place if position is None else position)
