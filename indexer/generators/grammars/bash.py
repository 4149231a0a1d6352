"""Shell scripts: functions, exported and read-only variables, and what is sourced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import HASH_LITERALS, tidier
from indexer.generators.walk import Grammar, Handler, Next, Walk, transparent_handler

if TYPE_CHECKING:
    from tree_sitter import Node

_SOURCED = re.compile(rb"(?:\.|source)[ \t]+[\"']?([^\s\"';]{1,200})")
_CONSTANT = re.compile(rb"[A-Z][A-Z0-9_]*")


def _function(node: Node, walk: Walk) -> Next:
    named = walk.text_of(node.child_by_field_name("name"))
    walk.emit(node, named + b"()", walk.take_doc(node), name=named)
    return None


def _command(node: Node, walk: Walk) -> Next:
    found = _SOURCED.match(walk.text_of(node))
    if found:
        walk.add_import(found[1])
    return None


def _declared(node: Node, walk: Walk) -> Next:
    for one in node.named_children:
        if one.type == "variable_assignment":
            _variable(one, walk)
    return None


def _variable(node: Node, walk: Walk) -> Next:
    named = walk.text_of(node.child_by_field_name("name"))
    if _CONSTANT.fullmatch(named):
        shown = named + b"=" + walk.value(named, node.child_by_field_name("value"))
        walk.emit(node, shown, walk.take_doc(node), kind="variable", name=named)
    return None


HANDLERS: dict[str, Handler] = {
    "function_definition": _function,
    "command": _command,
    "declaration_command": _declared,
    "variable_assignment": _variable,
    "if_statement": transparent_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(HASH_LITERALS, ()),
    frozenset(("comment",)),
    kinds={"function_definition": "function"},
)
