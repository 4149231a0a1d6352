"""Java: types with their annotations, methods, constants and fields that others can see."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import C_LITERALS, JAVA_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    callable_handler,
    container_handler,
    first_named,
    into,
    transparent_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_PRIVATE = re.compile(rb"\bprivate\b")
_MAX_CONSTANTS = 40


def _package(node: Node, walk: Walk) -> Next:
    said = walk.take_doc(node)
    if said and not walk.doc and b"icense" not in said and b"opyright" not in said:
        walk.doc = said
    walk.emit(node, walk.text_of(node))
    return None


def _import(node: Node, walk: Walk) -> Next:
    words = walk.text_of(node).rstrip(b"; \n").split()
    if words:
        # The package is what is depended on; its classes would fill the line.
        walk.add_import(words[-1].rpartition(b".")[0] or words[-1])
    return None


def _enum(node: Node, walk: Walk) -> Next:
    body = node.child_by_field_name("body")
    names: list[bytes] = []
    members: Node | None = None
    for child in () if body is None else body.named_children:
        if child.type == "enum_constant" and len(names) <= _MAX_CONSTANTS:
            name = child.child_by_field_name("name")
            if name is not None:
                names.append(walk.text_of(name))
        elif child.type == "enum_body_declarations":
            members = child
    if len(names) > _MAX_CONSTANTS:
        names[-1] = "…".encode()
    listed = b" { " + b", ".join(names) + b" }" if names else b""
    walk.emit(node, walk.head(node).rstrip() + listed, walk.take_doc(node))
    return into(members, walk)


def _field(node: Node, walk: Walk) -> Next:
    first = first_named(node)
    if first is not None and first.type == "modifiers" and _PRIVATE.search(walk.text_of(first)):
        return None
    declarator = node.child_by_field_name("declarator")
    name = None if declarator is None else declarator.child_by_field_name("name")
    if declarator is None or name is None:
        return None
    named = walk.text_of(name)
    value = declarator.child_by_field_name("value")
    shown = walk.text(node.start_byte, name.end_byte)
    if value is not None and named.isupper():
        shown += b" = " + walk.value(named, value)
    kind = "constant" if named.isupper() else "field"
    walk.emit(node, shown, walk.take_doc(node), kind=kind, name=named)
    return None


HANDLERS: dict[str, Handler] = {
    "package_declaration": _package,
    "import_declaration": _import,
    "class_declaration": container_handler,
    "interface_declaration": container_handler,
    "record_declaration": container_handler,
    "annotation_type_declaration": container_handler,
    "enum_declaration": _enum,
    "enum_body_declarations": transparent_handler,
    "method_declaration": callable_handler,
    "constructor_declaration": callable_handler,
    "compact_constructor_declaration": callable_handler,
    "annotation_type_element_declaration": callable_handler,
    "field_declaration": _field,
    "constant_declaration": _field,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(C_LITERALS, JAVA_RULES),
    frozenset(("line_comment", "block_comment")),
    kinds={
        "class_declaration": "class",
        "interface_declaration": "interface",
        "record_declaration": "class",
        "annotation_type_declaration": "interface",
        "enum_declaration": "enum",
        "method_declaration": "function",
        "constructor_declaration": "function",
        "compact_constructor_declaration": "function",
        "annotation_type_element_declaration": "function",
    },
)
