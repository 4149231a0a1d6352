"""How an attribute of a node compares with a value written in a selector."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from indexer.sessions.node import Node
from indexer.sessions.selector import Condition, Literal

NUMERIC: Final = frozenset(
    ("offset", "ttl", "priority", "cycle", "created_at_ns", "creation_index")
)
TEXTUAL: Final = frozenset(
    ("nodeType", "id", "role", "kind", "created_at_iso", "content_hash", "provenance")
)
Scalar: TypeAlias = int | float | str
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FIELDS: Final[Mapping[str, str]] = {"nodeType": "node_type"}
_OWN: Final = NUMERIC | TEXTUAL | {"content"}


def attribute(node: Node, key: str) -> Any:
    """The value of an attribute; None stands for null and for absent alike."""
    if key in _OWN:
        return getattr(node, _FIELDS.get(key, key))
    if key == "removable":
        return node.removable or None
    return node.attributes.get(key)


def holds(node: Node, condition: Condition) -> bool:
    """Whether a node meets a condition."""
    value = attribute(node, condition.key)
    if condition.operator is None or condition.value is None:
        return value is not None
    wanted = condition.value
    if condition.operator in _ORDER:
        if value is None or wanted.null:
            return False
        return _ordered(condition.key, value, condition.operator, wanted)
    equal = _equal(condition.key, value, wanted)
    return equal if condition.operator == "=" else not equal


def _equal(key: str, value: Any, wanted: Literal) -> bool:
    """Equality keeps types apart, except where the attribute's own type decides."""
    if wanted.null or value is None:
        return wanted.null and value is None
    if wanted.high is not None:
        return _between(key, value, wanted)
    if key in NUMERIC:
        number = _number(wanted)
        return number is not None and bool(value == number)
    if key in TEXTUAL:
        return bool(value == wanted.text)
    if isinstance(value, bool):
        return wanted.number is None and wanted.text == _spelled(value)
    if isinstance(value, (int, float)):
        return wanted.number is not None and value == wanted.number
    return isinstance(value, str) and wanted.number is None and value == wanted.text


def _between(key: str, value: Any, wanted: Literal) -> bool:
    """Whether a number is in a range, ends included; a text is in none."""
    if key in TEXTUAL or isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return (wanted.number or 0) <= value <= (wanted.high or 0)


def _ordered(key: str, value: Any, sign: str, wanted: Literal) -> bool:
    """Order is numeric where both sides are numbers, by code points otherwise."""
    if isinstance(value, (list, dict)):
        return False
    compare = _ORDER[sign]
    if key in TEXTUAL:
        return compare(value, wanted.text)
    left, right = _as_number(value), _number(wanted)
    if left is not None and right is not None:
        return compare(left, right)
    return key not in NUMERIC and compare(_spelled(value), wanted.text)


def _number(wanted: Literal) -> int | float | None:
    return wanted.number if wanted.number is not None else _as_number(wanted.text)


def _as_number(value: Scalar) -> int | float | None:
    """The number a value is or spells, if it does so in digits only."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    body = value.removeprefix("-")
    head, dot, tail = body.partition(".")
    plain = head.isascii() and head.isdigit() and len(value) <= 40
    if not plain or (dot and not (tail.isascii() and tail.isdigit())):
        return None
    return float(value) if dot else int(value)


def _spelled(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
