"""Ruby: modules, classes, methods, constants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import GO_RULES, HASH_LITERALS, tidier
from indexer.generators.walk import Grammar, Handler, Next, Walk, into, nested, transparent_handler

if TYPE_CHECKING:
    from tree_sitter import Node

_REQUIRE = re.compile(rb"""(?:require|require_relative|load)[ (]+["']([^"'\n]{1,200})["']""")
_CONSTANT = re.compile(rb"[A-Z]\w*")


def _method(node: Node, walk: Walk) -> Next:
    last = node.child_by_field_name("parameters") or node.child_by_field_name("name")
    end = node.end_byte if last is None else last.end_byte
    walk.emit(node, walk.text(node.start_byte, end), walk.take_doc(node))
    return nested(node.child_by_field_name("body"), walk)


def _container(node: Node, walk: Walk) -> Next:
    last = node.child_by_field_name("superclass") or node.child_by_field_name("name")
    end = node.end_byte if last is None else last.end_byte
    walk.emit(node, walk.text(node.start_byte, end), walk.take_doc(node))
    return into(node, walk)


def _call(node: Node, walk: Walk) -> Next:
    found = _REQUIRE.match(walk.text_of(node))
    if found:
        walk.add_import(found[1])
    return None


def _assignment(node: Node, walk: Walk) -> Next:
    left = node.child_by_field_name("left")
    if left is not None and left.type == "constant":
        name = walk.text_of(left)
        shown = name + b" = " + walk.value(name, node.child_by_field_name("right"))
        walk.emit(node, shown, walk.take_doc(node), kind="constant", name=name)
    return None


HANDLERS: dict[str, Handler] = {
    "module": _container,
    "class": _container,
    "singleton_class": transparent_handler,
    "body_statement": transparent_handler,
    "method": _method,
    "singleton_method": _method,
    "call": _call,
    "assignment": _assignment,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(HASH_LITERALS, GO_RULES),
    frozenset(("comment",)),
    kinds={
        "module": "module",
        "class": "class",
        "method": "function",
        "singleton_method": "function",
    },
)
