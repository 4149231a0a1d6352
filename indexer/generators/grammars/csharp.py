"""C#: types with their members, in namespaces of either form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.generators.signature import C_LITERALS, JAVA_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    callable_handler,
    container_handler,
    into,
    nested,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node


def _using(node: Node, walk: Walk) -> Next:
    words = walk.text_of(node).rstrip(b"; \n").split()
    if words:
        walk.add_import(words[-1])
    return None


def _property(node: Node, walk: Walk) -> Next:
    accessors = node.child_by_field_name("accessors") or node.child_by_field_name("value")
    end = node.end_byte if accessors is None else accessors.start_byte
    walk.emit(node, walk.text(node.start_byte, end).rstrip(b"=> \n"), walk.take_doc(node))
    return None


def _field(node: Node, walk: Walk) -> Next:
    declared = next((c for c in node.named_children if c.type == "variable_declaration"), None)
    head = walk.text_of(node)
    if declared is None or b"private" in head.split():
        return None
    for one in declared.named_children:
        if one.type == "variable_declarator":
            name = one.child_by_field_name("name") or one.named_child(0)
            named = walk.text_of(name)
            shown = walk.text(node.start_byte, one.start_byte) + walk.text(
                one.start_byte, one.end_byte
            )
            constant = b"const" in head.split()
            kind = "constant" if constant else "field"
            if not constant:
                shown = shown.partition(b"=")[0]
            walk.emit(node, shown, walk.take_doc(node), kind=kind, name=named)
    return None


def _method(node: Node, walk: Walk) -> Next:
    walk.emit(node, walk.head(node), walk.take_doc(node))
    return nested(node.child_by_field_name("body"), walk)


def _file_namespace(node: Node, walk: Walk) -> Next:
    walk.emit(node, walk.text_of(node).partition(b";")[0], kind="")
    return into(None, walk)


HANDLERS: dict[str, Handler] = {
    "using_directive": _using,
    "namespace_declaration": container_handler,
    "file_scoped_namespace_declaration": _file_namespace,
    "class_declaration": container_handler,
    "interface_declaration": container_handler,
    "struct_declaration": container_handler,
    "record_declaration": container_handler,
    "enum_declaration": whole_handler,
    "delegate_declaration": whole_handler,
    "method_declaration": _method,
    "constructor_declaration": callable_handler,
    "operator_declaration": callable_handler,
    "local_function_statement": callable_handler,
    "property_declaration": _property,
    "indexer_declaration": _property,
    "field_declaration": _field,
    "event_field_declaration": _field,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(C_LITERALS, JAVA_RULES),
    frozenset(("comment",)),
    kinds={
        "namespace_declaration": "module",
        "class_declaration": "class",
        "interface_declaration": "interface",
        "struct_declaration": "struct",
        "record_declaration": "class",
        "enum_declaration": "enum",
        "delegate_declaration": "type",
        "method_declaration": "function",
        "constructor_declaration": "function",
        "local_function_statement": "function",
        "property_declaration": "field",
    },
)
