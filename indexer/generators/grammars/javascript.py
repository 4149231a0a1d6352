"""JavaScript and TypeScript: one set of handlers, since their trees differ by additions only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.signature import BACKTICK_LITERALS, SCRIPT_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    callable_handler,
    container_handler,
    first_child,
    into,
    nested,
    transparent_handler,
    whole_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_ELLIPSIS = "…".encode()
_DEFAULT = b"default"
_CONSTANT = re.compile(rb"[A-Z][A-Za-z0-9_$]*")
_MODULE = re.compile(rb"""["'`]([^"'`\n]{1,200})["'`]""")
_REQUIRE = re.compile(rb"""require\s*\(\s*["'`]([^"'`\n]{1,200})["'`]\s*\)""")
# The name of a test suite is what its file is about.
_SUITE = re.compile(
    rb"""(?:describe|suite|context|test|it)(?:\.\w+)?\(\s*(["'`])[^"'`\n]{1,200}\1"""
)
_FUNCTIONS = frozenset(("arrow_function", "function_expression", "generator_function", "function"))


def _import(node: Node, walk: Walk) -> Next:
    found = _MODULE.search(walk.text(max(node.start_byte, node.end_byte - 300), node.end_byte))
    if found:
        walk.add_import(found[1])
    return None


def _export(node: Node, walk: Walk) -> Next:
    if node.child_by_field_name("source") is not None:
        walk.emit(node, walk.text_of(node), walk.take_doc(node))
        return _import(node, walk)
    inner = node.child_by_field_name("declaration")
    if inner is not None:
        handler = HANDLERS.get(inner.type)
        return None if handler is None else walk.within(node, inner, handler)
    value = node.child_by_field_name("value")
    if value is None:
        return whole_handler(node, walk)
    return _valued(node, walk.begin(node), value, walk)


def _valued(
    node: Node, start: int, value: Node, walk: Walk, keyword: bytes = b"", name: bytes = b""
) -> Next:
    """What a name or the module stands for: a function, a class, or something shown briefly."""
    kind = value.type
    name = name or _DEFAULT
    if kind in _FUNCTIONS or kind == "class":
        body = value.child_by_field_name("body")
        end = value.end_byte if body is None else body.start_byte
        signature = keyword + walk.text(start, end).rstrip()
        shown = signature.removesuffix(b"=>").rstrip()
        what = "class" if kind == "class" else "function"
        walk.emit(node, shown, walk.take_doc(node), kind=what, name=name)
        return into(body, walk) if kind == "class" else nested(body, walk)
    brief = walk.value(b"", value)
    shown = keyword + walk.text(start, value.start_byte) + brief
    walk.emit(node, shown, walk.take_doc(node), kind="variable", name=name)
    return into(value, walk) if kind == "object" and brief == _ELLIPSIS else None


def _pair(node: Node, walk: Walk) -> Next:
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if key is None or value is None:
        return None
    named = walk.text_of(key)
    if value.type in _FUNCTIONS:
        return _valued(node, node.start_byte, value, walk, name=named)
    shown = named + b": " + walk.value(named, value)
    walk.emit(node, shown, walk.take_doc(node), kind="field", name=named)
    return None


def _variables(node: Node, walk: Walk) -> Next:
    start = walk.begin(node)
    step: Next = None
    keyword = b""
    for child in node.named_children:
        if child.type == "variable_declarator":
            # Each of `const a = 1, b = 2` is shown with the keyword they share.
            keyword = keyword or walk.text(start, child.start_byte)
            step = _variable(child, keyword, node, walk) or step
    return step


def _variable(child: Node, keyword: bytes, node: Node, walk: Walk) -> Next:
    name = child.child_by_field_name("name")
    value = child.child_by_field_name("value")
    if name is None:
        return None
    if value is not None:
        kind = value.type
        if kind in _FUNCTIONS or kind == "class":
            named = walk.text_of(name)
            return _valued(node, child.start_byte, value, walk, keyword, named)
        if kind == "call_expression":
            required = _REQUIRE.match(walk.text_of(value))
            if required:
                walk.add_import(required[1])
                return None
    named = walk.text_of(name)
    if not walk.wrapped and not _CONSTANT.fullmatch(named):
        return None
    end = child.end_byte if value is None else value.start_byte
    shown = keyword + walk.text(child.start_byte, end) + walk.value(named, value)
    kind_of = "constant" if named.isupper() else "variable"
    walk.emit(node, shown, walk.take_doc(node), kind=kind_of, name=named)
    return None


def _statement(node: Node, walk: Walk) -> Next:
    inner = first_child(node)
    if inner is None:
        return None
    if inner.type == "internal_module":
        return container_handler(inner, walk)
    if inner.type == "call_expression":
        required = _REQUIRE.match(walk.text_of(inner))
        if required:
            walk.add_import(required[1])
            return None
        suite = _SUITE.match(walk.text_of(inner))
        if suite:
            walk.emit(node, suite[0] + b")", walk.take_doc(node))
        return None
    if inner.type != "assignment_expression":
        return None
    left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
    if left is None or right is None or left.type != "member_expression":
        return None
    target = walk.text_of(left)
    if (
        right.type in _FUNCTIONS
        or right.type == "class"
        or target.startswith((b"module.exports", b"exports."))
    ):
        name = target.rpartition(b".")[2]
        return _valued(node, inner.start_byte, right, walk, name=name)
    return None


def _field(node: Node, walk: Walk) -> Next:
    value = node.child_by_field_name("value")
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    named = walk.text_of(name)
    if value is None:
        shown = walk.text(walk.begin(node), node.end_byte)
    elif value.type in _FUNCTIONS:
        return _valued(node, node.start_byte, value, walk, name=named)
    else:
        shown = walk.text(node.start_byte, value.start_byte)
    walk.emit(node, shown, walk.take_doc(node), kind="field", name=named)
    return None


def _ambient(node: Node, walk: Walk) -> Next:
    for inner in node.named_children:
        handler = HANDLERS.get(inner.type)
        if handler is not None:
            return walk.within(node, inner, handler)
        if inner.type == "statement_block":
            return into(inner, walk)
    return None


def _decorator(node: Node, walk: Walk) -> Next:
    walk.prefixes.append(walk.tidy(walk.text_of(node))[:80])
    return walk.keep_comment(node)


HANDLERS: dict[str, Handler] = {
    "import_statement": _import,
    "export_statement": _export,
    "function_declaration": callable_handler,
    "generator_function_declaration": callable_handler,
    "function_signature": whole_handler,
    "class_declaration": container_handler,
    "abstract_class_declaration": container_handler,
    "interface_declaration": container_handler,
    "internal_module": container_handler,
    "module": container_handler,
    "type_alias_declaration": whole_handler,
    "enum_declaration": whole_handler,
    "lexical_declaration": _variables,
    "variable_declaration": _variables,
    "expression_statement": _statement,
    "ambient_declaration": _ambient,
    "method_definition": callable_handler,
    "method_signature": whole_handler,
    "abstract_method_signature": whole_handler,
    "property_signature": whole_handler,
    "call_signature": whole_handler,
    "construct_signature": whole_handler,
    "index_signature": whole_handler,
    "public_field_definition": _field,
    "field_definition": _field,
    "decorator": _decorator,
    "pair": _pair,
    "if_statement": transparent_handler,
    "else_clause": transparent_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(BACKTICK_LITERALS, SCRIPT_RULES),
    frozenset(("comment",)),
    kinds={
        "function_declaration": "function",
        "generator_function_declaration": "function",
        "function_signature": "function",
        "class_declaration": "class",
        "abstract_class_declaration": "class",
        "interface_declaration": "interface",
        "internal_module": "module",
        "module": "module",
        "type_alias_declaration": "type",
        "enum_declaration": "enum",
        "method_definition": "function",
        "method_signature": "function",
        "abstract_method_signature": "function",
        "property_signature": "field",
    },
    nested=(b"function", b"class "),
)
