"""Kotlin: classes, interfaces, objects, functions, properties and aliases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import C_LITERALS, SCRIPT_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    first_named,
    into,
    nested,
    transparent_handler,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_BODIES = frozenset(("class_body", "enum_class_body", "function_body"))
_INTERFACE = re.compile(rb"\binterface\s")
_ENUM = re.compile(rb"\benum\s")


def _body(node: Node) -> Node | None:
    return next((child for child in node.named_children if child.type in _BODIES), None)


def _head(node: Node, walk: Walk) -> bytes:
    body = _body(node)
    head = walk.text(node.start_byte, node.end_byte if body is None else body.start_byte)
    return head.rstrip().removesuffix(b"=")


def _import(node: Node, walk: Walk) -> Next:
    inner = first_named(node)
    if inner is not None:
        walk.add_import(walk.text_of(inner))
    return None


def _package(node: Node, walk: Walk) -> Next:
    walk.doc = walk.take_doc(node) or walk.doc
    walk.emit(node, walk.text_of(node))
    return None


def _class(node: Node, walk: Walk) -> Next:
    head = _head(node, walk)
    before = head.partition(b"(")[0]
    kind = "interface" if _INTERFACE.search(before) else "enum" if _ENUM.search(before) else None
    walk.emit(node, head, walk.take_doc(node), kind=kind)
    return into(_body(node), walk)


def _companion(node: Node, walk: Walk) -> Next:
    walk.emit(node, _head(node, walk), walk.take_doc(node), kind="")
    return into(_body(node), walk)


def _function(node: Node, walk: Walk) -> Next:
    walk.emit(node, _head(node, walk), walk.take_doc(node))
    return nested(_body(node), walk)


def _property(node: Node, walk: Walk) -> Next:
    declared = next((c for c in node.named_children if c.type == "variable_declaration"), None)
    if declared is None:
        return None
    named = walk.text_of(declared).partition(b":")[0].strip()
    shown = walk.text(node.start_byte, declared.end_byte)
    if b"private" in shown.split():
        return None
    value = declared.next_named_sibling
    if named.isupper() and value is not None:
        shown += b" = " + walk.value(named, value)
    kind = "constant" if named.isupper() else "field" if walk.depth else "variable"
    walk.emit(node, shown, walk.take_doc(node), kind=kind, name=named)
    return None


def _alias(node: Node, walk: Walk) -> Next:
    named = walk.text_of(node.child_by_field_name("type"))
    shown = walk.text_of(node)
    walk.emit(node, shown, walk.take_doc(node), name=named)
    return None


HANDLERS: dict[str, Handler] = {
    "package_header": _package,
    "import": _import,
    "import_header": _import,
    "import_list": transparent_handler,
    "class_declaration": _class,
    "object_declaration": _class,
    "companion_object": _companion,
    "function_declaration": _function,
    "property_declaration": _property,
    "type_alias": _alias,
    "enum_entry": whole_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(C_LITERALS, SCRIPT_RULES),
    frozenset(("line_comment", "block_comment", "multiline_comment", "comment")),
    kinds={
        "class_declaration": "class",
        "object_declaration": "object",
        "function_declaration": "function",
        "type_alias": "type",
    },
    nested=(b"fun ",),
)
