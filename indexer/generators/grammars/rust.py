"""Rust: items with derives, members of traits and impls, inner and outer doc comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.generators.signature import RUST_LITERALS, RUST_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    callable_handler,
    container_handler,
    into,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_FOR_TESTS = b"#[cfg(test)]"


def _use(node: Node, walk: Walk) -> Next:
    argument = node.child_by_field_name("argument")
    if argument is not None:
        path = walk.text_of(argument).partition(b"{")[0]
        path = b"".join(path.partition(b" as ")[0].split())
        walk.add_import(path.removesuffix(b"*").removesuffix(b"::") or b"crate")
    return None


def _extern_crate(node: Node, walk: Walk) -> Next:
    name = node.child_by_field_name("name")
    if name is not None:
        walk.add_import(walk.text_of(name))
    return None


def _attribute(node: Node, walk: Walk) -> Next:
    shown = walk.tidy(walk.text_of(node))
    if shown.startswith((b"#[derive(", _FOR_TESTS)):
        walk.prefixes.append(shown[:80])
    return walk.keep_comment(node)


def _structure(node: Node, walk: Walk) -> Next:
    body = node.child_by_field_name("body")
    if body is not None and body.type == "ordered_field_declaration_list":
        return whole_handler(node, walk)
    return container_handler(node, walk)


def _module(node: Node, walk: Walk) -> Next:
    for_tests = _FOR_TESTS in walk.prefixes
    walk.emit(node, walk.head(node), walk.take_doc(node))
    return None if for_tests else into(node.child_by_field_name("body"), walk)


def _valued(node: Node, walk: Walk) -> Next:
    name = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    if name is None:
        return None
    named = walk.text_of(name)
    end = node.end_byte if value is None else value.start_byte
    shown = walk.text(node.start_byte, end) + walk.value(named, value)
    walk.emit(node, shown, walk.take_doc(node), name=named)
    return None


def _implementation(node: Node, walk: Walk) -> Next:
    named = walk.text_of(node.child_by_field_name("type")).partition(b"<")[0]
    walk.emit(node, walk.head(node), walk.take_doc(node), name=named.rpartition(b"::")[2])
    return into(node.child_by_field_name("body"), walk)


def _macro(node: Node, walk: Walk) -> Next:
    name = node.child_by_field_name("name")
    if name is not None:
        walk.emit(node, walk.text(node.start_byte, name.end_byte), walk.take_doc(node))
    return None


HANDLERS: dict[str, Handler] = {
    "use_declaration": _use,
    "extern_crate_declaration": _extern_crate,
    "attribute_item": _attribute,
    "struct_item": _structure,
    "union_item": _structure,
    "enum_item": container_handler,
    "enum_variant": whole_handler,
    "field_declaration": whole_handler,
    "trait_item": container_handler,
    "impl_item": _implementation,
    "foreign_mod_item": container_handler,
    "mod_item": _module,
    "function_item": callable_handler,
    "function_signature_item": whole_handler,
    "associated_type": whole_handler,
    "type_item": whole_handler,
    "const_item": _valued,
    "static_item": _valued,
    "macro_definition": _macro,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(RUST_LITERALS, RUST_RULES),
    frozenset(("line_comment", "block_comment")),
    kinds={
        "struct_item": "struct",
        "union_item": "union",
        "enum_item": "enum",
        "enum_variant": "member",
        "field_declaration": "field",
        "trait_item": "trait",
        "impl_item": "impl",
        "mod_item": "module",
        "function_item": "function",
        "function_signature_item": "function",
        "associated_type": "type",
        "type_item": "type",
        "const_item": "constant",
        "static_item": "variable",
        "macro_definition": "macro",
    },
    nested=(b"fn ",),
)
