"""C: functions and prototypes, types, macros, under any preprocessor condition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import C_LITERALS, C_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    into,
    transparent_handler,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

# Declarators nest by pointer and array; nobody writes more of them than this.
_MAX_DECLARATORS = 16
NAME = re.compile(rb"~?[A-Za-z_]\w*")


def declared_name(node: Node, walk: Walk) -> bytes:
    """The name that a declaration's declarators lead to."""
    found: Node | None = node
    for _ in range(_MAX_DECLARATORS):
        inner = None if found is None else found.child_by_field_name("declarator")
        if inner is None:
            break
        found = inner
    if found is None or found is node:
        return b""
    name = NAME.search(walk.text_of(found))
    return b"" if name is None else name[0]


def _function(node: Node, walk: Walk) -> Next:
    walk.emit(node, walk.head(node), walk.take_doc(node), name=declared_name(node, walk))
    return None


def _include(node: Node, walk: Walk) -> Next:
    path = node.child_by_field_name("path")
    if path is not None:
        walk.add_import(walk.text_of(path).strip(b'"'))
    return None


def _define(node: Node, walk: Walk) -> Next:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    # A macro without a value is an include guard or a switch.
    if name is not None and value is not None:
        named = walk.text_of(name)
        shown = b"#define " + named + b" " + walk.value(named, value)
        walk.emit(node, shown, walk.take_doc(node))
    return None


def _macro(node: Node, walk: Walk) -> Next:
    parameters = node.child_by_field_name("parameters")
    if parameters is not None:
        walk.emit(node, walk.text(node.start_byte, parameters.end_byte), walk.take_doc(node))
    return None


def _specifier(node: Node, walk: Walk) -> Next:
    body = node.child_by_field_name("body")
    if body is None:
        return None
    if node.type == "enum_specifier":
        return whole_handler(node, walk)
    walk.emit(node, walk.head(node), walk.take_doc(node))
    return into(body, walk)


def _typed(node: Node, walk: Walk) -> Next:
    """A declaration whose type is spelled out in place: `typedef struct { … } name`."""
    kind = node.child_by_field_name("type")
    body = None if kind is None else kind.child_by_field_name("body")
    named = declared_name(node, walk)
    declarator = node.child_by_field_name("declarator")
    if declarator is not None and declarator.type == "function_declarator" and body is None:
        shown = walk.text(walk.begin(node), node.end_byte)
        is_type = node.type == "type_definition"
        kind_of = None if is_type else "prototype"
        walk.emit(node, shown, walk.take_doc(node), kind=kind_of, name=named)
        return None
    if kind is None or body is None or kind.type == "enum_specifier":
        walk.emit(node, walk.text_of(node), walk.take_doc(node), name=named)
        return None
    before = walk.text(node.start_byte, body.start_byte).rstrip()
    shown = before + b" " + walk.text(body.end_byte, node.end_byte)
    walk.emit(node, shown, walk.take_doc(node), name=named)
    return into(body, walk)


def _declaration(node: Node, walk: Walk) -> Next:
    kind = node.child_by_field_name("type")
    if kind is not None and kind.child_by_field_name("body") is not None:
        return _typed(node, walk)
    declarator = node.child_by_field_name("declarator")
    value: Node | None = None
    for _ in range(_MAX_DECLARATORS):
        if declarator is None:
            break
        if declarator.type == "function_declarator":
            shown = walk.text(walk.begin(node), node.end_byte)
            named = declared_name(node, walk)
            walk.emit(node, shown, walk.take_doc(node), kind="prototype", name=named)
            return None
        value = value or declarator.child_by_field_name("value")
        inner = declarator.child_by_field_name("declarator")
        if inner is None:
            break
        declarator = inner
    if declarator is None:
        return None
    named = walk.text_of(declarator)
    before = walk.text(node.start_byte, declarator.end_byte)
    if before.startswith(b"extern") or (named.isupper() and value is not None):
        tail = walk.text(declarator.end_byte, node.end_byte)
        if value is not None:
            tail = b" = " + walk.value(named, value)
        kind_of = "constant" if named.isupper() else "variable"
        walk.emit(node, before + tail, walk.take_doc(node), kind=kind_of, name=named)
    return None


HANDLERS: dict[str, Handler] = {
    "preproc_include": _include,
    "preproc_def": _define,
    "preproc_function_def": _macro,
    "preproc_if": transparent_handler,
    "preproc_ifdef": transparent_handler,
    "preproc_else": transparent_handler,
    "preproc_elif": transparent_handler,
    "preproc_elifdef": transparent_handler,
    "linkage_specification": transparent_handler,
    "declaration_list": transparent_handler,
    "function_definition": _function,
    "declaration": _declaration,
    "type_definition": _typed,
    "struct_specifier": _specifier,
    "union_specifier": _specifier,
    "enum_specifier": _specifier,
    "field_declaration": _typed,
}

KINDS = {
    "preproc_def": "macro",
    "preproc_function_def": "macro",
    "function_definition": "function",
    "type_definition": "type",
    "struct_specifier": "struct",
    "union_specifier": "union",
    "enum_specifier": "enum",
    "field_declaration": "field",
    "declaration": "variable",
}

GRAMMAR = Grammar(HANDLERS, tidier(C_LITERALS, C_RULES), frozenset(("comment",)), KINDS)
