"""Python: definitions with decorators and docstrings, annotated and upper-case names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.comments import CLIP, docstring_said
from indexer.generators.signature import PYTHON_LITERALS, PYTHON_RULES, tidier
from indexer.generators.walk import (
    Grammar,
    Handler,
    Next,
    Walk,
    first_child,
    first_named,
    into,
    nested,
    transparent_handler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_TELLING = re.compile(rb"[A-Z][A-Za-z0-9_]*|__all__|__version__")
_MEMBER = re.compile(rb"[A-Z][A-Z0-9_]*")
_ITEM = rb"\*{0,2}[A-Za-z_]\w*(?:=(?:-?[\w.]+|\(\)|\"[^\"\\\s]*\"|'[^'\\\s]*'))?"
_PLAIN = (
    rb"(?:def|class) \w+(?:\((?:" + _ITEM + rb"(?:, " + _ITEM + rb")*)?\))?"
    # Assignments are put together from tidy parts, with blanks around the sign.
    rb"|(?:type )?[A-Za-z_]\w*(?:: [^=\n]*)?(?: = [^\n]*)?"
)
_MAX_DECORATOR = 60


def _docstring(body: Node | None, walk: Walk) -> bytes:
    statement = None if body is None else first_named(body)
    while statement is not None and statement.type == "comment":
        statement = statement.next_named_sibling
    if statement is None or statement.type != "expression_statement":
        return b""
    return _string_line(first_child(statement), walk)


def _string_line(node: Node | None, walk: Walk) -> bytes:
    if node is None or node.type != "string":
        return b""
    start = node.start_byte
    return docstring_said(walk.source[start : min(node.end_byte, start + CLIP)])


def _function(node: Node, walk: Walk) -> Next:
    last = node.child_by_field_name("return_type") or node.child_by_field_name("parameters")
    end = node.start_byte + 80 if last is None else last.end_byte
    body = node.child_by_field_name("body")
    walk.emit(node, walk.text(node.start_byte, end), _docstring(body, walk))
    return nested(body, walk)


def _class(node: Node, walk: Walk) -> Next:
    last = (
        node.child_by_field_name("superclasses")
        or node.child_by_field_name("type_parameters")
        or node.child_by_field_name("name")
    )
    end = node.start_byte + 80 if last is None else last.end_byte
    body = node.child_by_field_name("body")
    walk.emit(node, walk.text(node.start_byte, end), _docstring(body, walk))
    return into(body, walk)


def _decorated(node: Node, walk: Walk) -> Next:
    definition = node.child_by_field_name("definition")
    handler = None if definition is None else HANDLERS.get(definition.type)
    if definition is None or handler is None:
        return None
    for child in node.children:
        if child.type == "decorator":
            shown = walk.tidy(walk.text_of(child))
            if len(shown) > _MAX_DECORATOR:
                shown = shown.partition(b"(")[0][:_MAX_DECORATOR] + "(…)".encode()
            walk.prefixes.append(shown)
    return walk.within(node, definition, handler)


def _statement(node: Node, walk: Walk) -> Next:
    inner = first_child(node)
    if inner is None:
        return None
    kind = inner.type
    if kind == "assignment":
        _assignment(inner, walk)
    elif kind == "string" and walk.depth == 0 and not (walk.doc or walk.symbols or walk.imports):
        walk.doc = _string_line(inner, walk)
    return None


def _assignment(node: Node, walk: Walk) -> None:
    left = node.child_by_field_name("left")
    if left is None or left.type != "identifier":
        return
    name = walk.source[left.start_byte : left.end_byte]
    annotation = node.child_by_field_name("type")
    if annotation is None:
        telling = _MEMBER if walk.depth else _TELLING
        if not telling.fullmatch(name):
            return
    elif walk.depth == 0 and name.startswith(b"_"):
        return
    shown = name
    if annotation is not None:
        shown += b": " + walk.tidy(walk.text_of(annotation))
    value = walk.value(name, node.child_by_field_name("right"))
    signature = shown + b" = " + value if value else shown
    kind = "constant" if annotation is None or name.isupper() else "variable"
    walk.emit(node, signature, kind=kind, name=name)


def _alias(node: Node, walk: Walk) -> Next:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and right is not None:
        name = walk.tidy(walk.text_of(left))
        value = walk.tidy(walk.text_of(right))
        walk.emit(node, b"type " + name + b" = " + value, name=name.partition(b"[")[0])
    return None


def _import(node: Node, walk: Walk) -> Next:
    for name in node.children_by_field_name("name"):
        target = name.child_by_field_name("name") or name
        walk.add_import(walk.text_of(target))
    return None


def _import_from(node: Node, walk: Walk) -> Next:
    module = node.child_by_field_name("module_name")
    if module is None:
        return None
    target = walk.text_of(module)
    if target.strip(b"."):
        walk.add_import(target)
    else:
        # `from . import x` depends on x, not on the package as such.
        for name in node.children_by_field_name("name"):
            inner = name.child_by_field_name("name") or name
            walk.add_import(target + walk.text_of(inner))
    return None


HANDLERS: dict[str, Handler] = {
    "function_definition": _function,
    "class_definition": _class,
    "decorated_definition": _decorated,
    "expression_statement": _statement,
    "type_alias_statement": _alias,
    "import_statement": _import,
    "import_from_statement": _import_from,
    # Definitions under a condition, as for a platform or a missing package, are definitions.
    "if_statement": transparent_handler,
    "elif_clause": transparent_handler,
    "else_clause": transparent_handler,
    "try_statement": transparent_handler,
    "except_clause": transparent_handler,
    "finally_clause": transparent_handler,
    "with_statement": transparent_handler,
    "block": transparent_handler,
}

GRAMMAR = Grammar(
    HANDLERS,
    tidier(PYTHON_LITERALS, PYTHON_RULES, _PLAIN),
    kinds={
        "function_definition": "function",
        "class_definition": "class",
        "type_alias_statement": "type",
    },
    nested=(b"def ", b"class "),
)
