"""Documents of PACT 1.0 as documents of PACT 0.1, which sessions are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from indexer.sessions.documents import SPEC_VERSION, DocumentError
from indexer.sessions.node import BLOCK, CORE, TURN, HeaderError

_TYPES: Final = {"seg": TURN, "cont": CORE, "block": BLOCK}
_VERSION: Final = re.compile(r"(?:PACT[/ ])?v?(\d+)", re.IGNORECASE)
_CADENCE: Final = ("cad", "cadence")
_KEPT: Final = {"key": "pact:key", "tag": "pact:tag"}
"""Headers of 1.0 that are attributes here."""


def is_v1(document: Mapping[str, Any]) -> bool:
    """Whether a document is of PACT 1.0: it says so, or has node types that only 1.0 has."""
    version = _VERSION.match(str(document.get("spec_version")))
    if version is not None:
        return version[1] == "1"
    return _has_v1_types(document.get("root"), 0)


def _has_v1_types(node: Any, depth: int) -> bool:
    if not isinstance(node, Mapping) or depth > 64:
        return False
    if str(node.get("nodeType")).partition(":")[0] in _TYPES:
        return True
    children = node.get("children")
    return isinstance(children, list) and any(_has_v1_types(c, depth + 1) for c in children)


def from_v1(document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The same tree as PACT 0.1 has it, and what of it is kept without being acted on."""
    root = document.get("root")
    if not isinstance(root, Mapping):
        raise DocumentError('a snapshot document has a "root" object')
    warnings: list[str] = []
    read = {**document, "spec_version": SPEC_VERSION, "root": _node(root, None, warnings, 0)}
    return read, tuple(warnings)


def _node(
    node: Mapping[str, Any], parent: str | None, warnings: list[str], depth: int
) -> dict[str, Any]:
    if depth > 64:
        raise DocumentError("the tree is nested too deeply")
    node_id = node.get("id")
    name = node_id if isinstance(node_id, str) else "a node without an id"
    said = node.get("parent_id")
    if said is not None and said != parent:
        raise HeaderError(f"{name} has the parent_id {said!r}, yet stands under {parent!r}")
    kept = {k: v for k, v in node.items() if k not in ("parent_id", "children", *_KEPT, *_CADENCE)}
    if "nodeType" in node:
        kept["nodeType"] = _type(node["nodeType"])
    for key, attribute in _KEPT.items():
        if node.get(key) is not None:
            kept[attribute] = node[key]
    cadence = _cadence(node, name)
    if cadence is not None:
        kept["pact:cadence"] = cadence
        if cadence > 1:
            warnings.append(f"{name}: cadence {cadence} is kept, but nothing is repeated here")
    children = node.get("children")
    if children is not None:
        if not isinstance(children, list) or not all(isinstance(c, Mapping) for c in children):
            raise DocumentError("children must be a list of objects")
        above = node_id if isinstance(node_id, str) else None
        kept["children"] = [_node(child, above, warnings, depth + 1) for child in children]
    return kept


def _type(node_type: Any) -> Any:
    """A node type of 1.0 in the words of 0.1; types without a namespace are kinds of blocks."""
    if not isinstance(node_type, str) or node_type.startswith("^"):
        return node_type
    head, colon, rest = node_type.partition(":")
    if head in _TYPES:
        return _TYPES[head] + colon + rest
    return node_type if colon else f"{BLOCK}:{node_type}"


def _cadence(node: Mapping[str, Any], name: str) -> int | None:
    """How often a node is to come back, a whole number from 1 on."""
    said = [node[key] for key in _CADENCE if node.get(key) is not None]
    for value in said:
        if type(value) is not int or value < 1 or value != said[0]:
            raise HeaderError(
                f"{name} has the cadence {value!r}", hint="a cadence is a whole number from 1 on"
            )
    return said[0] if said else None
