"""PHP: functions, classes, interfaces, traits, enums and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.generators.signature import C_LITERALS, SCRIPT_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    callable_handler,
    container_handler,
    into,
    transparent_handler,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node


def _use(node: Node, walk: Walk) -> Next:
    for clause in node.named_children:
        if clause.type == "namespace_use_clause":
            words = walk.text_of(clause).split()
            names = [word for word in words if word not in (b"function", b"const")]
            if names:
                walk.add_import(names[0])
    return None


def _constant(node: Node, walk: Walk) -> Next:
    for one in node.named_children:
        if one.type == "const_element" and one.named_child_count == 2:
            name, value = one.named_children
            named = walk.text_of(name)
            shown = b"const " + named + b" = " + walk.value(named, value)
            walk.emit(node, shown, walk.take_doc(node), kind="constant", name=named)
    return None


def _property(node: Node, walk: Walk) -> Next:
    head = walk.text_of(node)
    if head.startswith(b"private"):
        return None
    for one in node.named_children:
        name = one.child_by_field_name("name") if one.type == "property_element" else None
        if name is not None:
            named = walk.text_of(name)
            shown = walk.text(node.start_byte, name.end_byte)
            walk.emit(node, shown, walk.take_doc(node), kind="field", name=named.lstrip(b"$"))
    return None


def _namespace(node: Node, walk: Walk) -> Next:
    body = node.child_by_field_name("body")
    end = node.end_byte if body is None else body.start_byte
    walk.emit(node, walk.text(node.start_byte, end), kind="")
    return into(body, walk)


HANDLERS: dict[str, Handler] = {
    "namespace_definition": _namespace,
    "namespace_use_declaration": _use,
    "class_declaration": container_handler,
    "interface_declaration": container_handler,
    "trait_declaration": container_handler,
    "enum_declaration": container_handler,
    "enum_case": whole_handler,
    "function_definition": callable_handler,
    "method_declaration": callable_handler,
    "const_declaration": _constant,
    "property_declaration": _property,
    "if_statement": transparent_handler,
    "compound_statement": transparent_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(C_LITERALS, SCRIPT_RULES),
    frozenset(("comment",)),
    kinds={
        "class_declaration": "class",
        "interface_declaration": "interface",
        "trait_declaration": "trait",
        "enum_declaration": "enum",
        "enum_case": "member",
        "function_definition": "function",
        "method_declaration": "function",
    },
)
