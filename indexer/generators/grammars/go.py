"""Go: declarations, struct fields, interface methods, exported constants and variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import BACKTICK_LITERALS, GO_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    callable_handler,
    first_named,
    into,
    transparent_handler,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPORTED = re.compile(rb"[A-Z]")
_RECEIVER = re.compile(rb"(\w+)\s*(?:\[[^\]]*\])?\s*,?\s*\)$")
_SHAPES = {"struct_type": "struct", "interface_type": "interface"}


def _package(node: Node, walk: Walk) -> Next:
    said = walk.take_doc(node)
    walk.doc = said or walk.doc
    walk.emit(node, walk.text_of(node))
    return None


def _import_spec(node: Node, walk: Walk) -> Next:
    path = node.child_by_field_name("path")
    if path is not None:
        walk.add_import(walk.text_of(path).strip(b'"`'))
    return None


def _spec(keyword: bytes, kind: str) -> Handler:
    def handler(node: Node, walk: Walk) -> Next:
        name = node.child_by_field_name("name")
        if name is None:
            return None
        named = walk.text_of(name)
        if not _EXPORTED.match(named):
            return None
        value = node.child_by_field_name("value")
        end = node.end_byte if value is None else value.start_byte
        shown = keyword + walk.text(node.start_byte, end) + walk.value(named, value)
        walk.emit(node, shown, walk.take_doc(node), kind=kind)
        return None

    return handler


def _type(node: Node, walk: Walk) -> Next:
    kind = node.child_by_field_name("type")
    body: Node | None = None
    end = node.end_byte
    if kind is not None and kind.type == "struct_type":
        body = first_named(kind)
        end = kind.start_byte + len(b"struct")
    elif kind is not None and kind.type == "interface_type":
        body = kind
        end = kind.start_byte + len(b"interface")
    shown = b"type " + walk.text(node.start_byte, end)
    shape = "" if kind is None else kind.type
    walk.emit(node, shown, walk.take_doc(node), kind=_SHAPES.get(shape, "type"))
    return into(body, walk)


def _field(node: Node, walk: Walk) -> Next:
    tag = node.child_by_field_name("tag")
    end = node.end_byte if tag is None else tag.start_byte
    walk.emit(node, walk.text(node.start_byte, end), walk.take_doc(node))
    return None


def _method(node: Node, walk: Walk) -> Next:
    receiver = node.child_by_field_name("receiver")
    owner = b""
    if receiver is not None:
        found = _RECEIVER.search(walk.text_of(receiver))
        owner = found[1] if found else b""
    walk.emit(node, walk.head(node), walk.take_doc(node), owner=owner)
    return None


HANDLERS: dict[str, Handler] = {
    "package_clause": _package,
    "import_declaration": transparent_handler,
    "import_spec_list": transparent_handler,
    "import_spec": _import_spec,
    "const_declaration": transparent_handler,
    "const_spec": _spec(b"const ", "constant"),
    "var_declaration": transparent_handler,
    "var_spec_list": transparent_handler,
    "var_spec": _spec(b"var ", "variable"),
    "type_declaration": transparent_handler,
    "type_spec": _type,
    "type_alias": _type,
    "field_declaration": _field,
    "method_elem": whole_handler,
    "type_elem": whole_handler,
    "function_declaration": callable_handler,
    "method_declaration": _method,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(BACKTICK_LITERALS, GO_RULES),
    frozenset(("comment",)),
    kinds={
        "field_declaration": "field",
        "method_elem": "function",
        "function_declaration": "function",
        "method_declaration": "method",
    },
)
