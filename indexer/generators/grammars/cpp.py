"""C++: what C has, with classes, namespaces, templates and aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.generators.grammars import c
from indexer.generators.signature import C_LITERALS, CPP_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    container_handler,
    transparent_handler,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node


def _template(node: Node, walk: Walk) -> Next:
    for inner in node.named_children:
        handler = HANDLERS.get(inner.type)
        if handler is not None:
            return walk.within(node, inner, handler)
    return None


def _function(node: Node, walk: Walk) -> Next:
    name = c.declared_name(node, walk)
    declarator = node.child_by_field_name("declarator")
    owner = b""
    for _ in range(4):
        if declarator is None or declarator.type == "qualified_identifier":
            break
        declarator = declarator.child_by_field_name("declarator")
    if declarator is not None and declarator.type == "qualified_identifier":
        # Defined outside of its class, whose name it bears.
        whole = walk.text_of(declarator)
        before, _, name = whole.rpartition(b"::")
        owner = b"".join(c.NAME.findall(before.partition(b"<")[0])[-1:])
    head = walk.head(node)
    walk.emit(node, head.partition(b"\n    : ")[0], walk.take_doc(node), name=name, owner=owner)
    return None


HANDLERS: dict[str, Handler] = {
    **c.HANDLERS,
    "function_definition": _function,
    "namespace_definition": container_handler,
    "class_specifier": container_handler,
    "template_declaration": _template,
    "alias_declaration": whole_handler,
    "using_declaration": transparent_handler,
    "access_specifier": transparent_handler,
    "concept_definition": whole_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(C_LITERALS, CPP_RULES),
    frozenset(("comment",)),
    kinds={
        **c.KINDS,
        "namespace_definition": "module",
        "class_specifier": "class",
        "alias_declaration": "type",
        "concept_definition": "type",
    },
)
