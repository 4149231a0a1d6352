"""Scala: traits, classes, objects, functions, values and types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.generators.signature import C_LITERALS, SCRIPT_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    container_handler,
    nested,
    transparent_handler,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node


def _import(node: Node, walk: Walk) -> Next:
    text = walk.text_of(node).removeprefix(b"import").strip()
    walk.add_import(text.partition(b"{")[0].rstrip(b"._* "))
    return None


def _package(node: Node, walk: Walk) -> Next:
    walk.doc = walk.take_doc(node) or walk.doc
    name = node.child_by_field_name("name")
    walk.emit(node, walk.text(node.start_byte, node.end_byte if name is None else name.end_byte))
    return transparent_handler(node, walk)


def _function(node: Node, walk: Walk) -> Next:
    head = walk.head(node).rstrip().removesuffix(b"=")
    walk.emit(node, head, walk.take_doc(node))
    return nested(node.child_by_field_name("body"), walk)


def _value(node: Node, walk: Walk) -> Next:
    name = node.child_by_field_name("pattern") or node.child_by_field_name("name")
    if name is None:
        return None
    named = walk.text_of(name)
    value = node.child_by_field_name("value")
    end = node.end_byte if value is None else value.start_byte
    shown = walk.text(node.start_byte, end).rstrip(b"= \n")
    if b"private" in shown.split():
        return None
    walk.emit(node, shown, walk.take_doc(node), kind="field" if walk.depth else "variable",
              name=named)  # fmt: skip
    return None


HANDLERS: dict[str, Handler] = {
    "package_clause": _package,
    "import_declaration": _import,
    "trait_definition": container_handler,
    "class_definition": container_handler,
    "object_definition": container_handler,
    "enum_definition": container_handler,
    "enum_case_definitions": whole_handler,
    "function_definition": _function,
    "function_declaration": whole_handler,
    "val_definition": _value,
    "val_declaration": _value,
    "var_definition": _value,
    "type_definition": whole_handler,
    "extension_definition": container_handler,
    "template_body": transparent_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(C_LITERALS, SCRIPT_RULES),
    frozenset(("comment", "block_comment")),
    kinds={
        "trait_definition": "trait",
        "class_definition": "class",
        "object_definition": "object",
        "enum_definition": "enum",
        "function_definition": "function",
        "function_declaration": "function",
        "type_definition": "type",
    },
    nested=(b"def ",),
)
