"""Swift: types, protocols, extensions, functions and properties."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import C_LITERALS, SCRIPT_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    callable_handler,
    container_handler,
    first_named,
    into,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_KIND = re.compile(rb"\b(class|struct|enum|extension|actor)\b")
_KINDS = {b"struct": "struct", b"enum": "enum", b"extension": "impl"}


def _import(node: Node, walk: Walk) -> Next:
    inner = first_named(node)
    if inner is not None:
        walk.add_import(walk.text_of(inner))
    return None


def _type(node: Node, walk: Walk) -> Next:
    head = walk.head(node)
    found = _KIND.search(head)
    kind = _KINDS.get(found[1], "class") if found else "class"
    walk.emit(node, head, walk.take_doc(node), kind=kind)
    return into(node.child_by_field_name("body"), walk)


def _initialiser(node: Node, walk: Walk) -> Next:
    walk.emit(node, walk.head(node), walk.take_doc(node), kind="function", name=b"init")
    return None


def _property(node: Node, walk: Walk) -> Next:
    name = node.child_by_field_name("name")
    if name is None:
        return None
    named = walk.text_of(name).split()[-1:]
    value = node.child_by_field_name("value") or node.child_by_field_name("computed_value")
    end = node.end_byte if value is None else value.start_byte
    shown = walk.text(node.start_byte, end).partition(b"{")[0].rstrip(b"= \n")
    kind = "field" if walk.depth else "variable"
    walk.emit(node, shown, walk.take_doc(node), kind=kind, name=b"".join(named))
    return None


HANDLERS: dict[str, Handler] = {
    "import_declaration": _import,
    "class_declaration": _type,
    "protocol_declaration": container_handler,
    "function_declaration": callable_handler,
    "protocol_function_declaration": whole_handler,
    "init_declaration": _initialiser,
    "property_declaration": _property,
    "protocol_property_declaration": _property,
    "typealias_declaration": whole_handler,
    "enum_entry": whole_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(C_LITERALS, SCRIPT_RULES),
    frozenset(("comment", "multiline_comment")),
    kinds={
        "protocol_declaration": "protocol",
        "function_declaration": "function",
        "protocol_function_declaration": "function",
        "typealias_declaration": "type",
        "enum_entry": "member",
    },
    nested=(b"func ",),
)
