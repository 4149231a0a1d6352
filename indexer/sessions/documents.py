"""Snapshots as documents: one spelling on the way out, checked and filled on the way in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from indexer.core.canonical import canonical_json
from indexer.errors import UsageError
from indexer.sessions.node import (
    BLOCK,
    REFERENCES,
    REGIONS,
    RESERVED,
    ROOT,
    AttributeNameError,
    HeaderError,
    Node,
    checked_attributes,
    iso_of,
    place_id,
    text,
    whole,
)
from indexer.sessions.placement import (
    MAX_DEPTH,
    CycleError,
    IdTakenError,
    PlacementError,
    check_child,
    check_turn,
)
from indexer.sessions.records import Record
from indexer.sessions.view import View, is_turn

SPEC_VERSION: Final = "PACT/0.1.0"
RECORDS: Final = "records"
CHECKSUM: Final = "records_sha256"


class DocumentError(UsageError):
    """A document is no snapshot that can be read."""

    code = "E_IMPORT_INVALID"


@dataclass(frozen=True, slots=True)
class Parsed:
    """An imported tree: nodes with their parents from the root down, and what was odd about it."""

    cycle: int
    placed: tuple[tuple[str | None, Node], ...]
    warnings: tuple[str, ...]


def snapshot_document(view: View) -> dict[str, Any]:
    """A snapshot with every node, header and sort key, children in canonical order."""
    root = _tree(view, view.root_id)
    return {"spec_version": SPEC_VERSION, "cycle": view.cycle, "root": root}


def _tree(view: View, node_id: str) -> dict[str, Any]:
    node = view.node(node_id)
    assert node is not None
    fields = node.document()
    children = [_tree(view, child.id) for child in view.children(node_id)]
    if children or node.content is None:
        fields["children"] = children
    return fields


def document_bytes(document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """The byte-stable form of a document."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def exported_bytes(document: Mapping[str, Any], records: Iterable[Record]) -> bytes:
    """A snapshot document with the log that leads to it, and the log's checksum."""
    log = [record.to_json() for record in records]
    return document_bytes({**document, RECORDS: log, CHECKSUM: log_checksum(log)})


def log_checksum(records: Sequence[Any]) -> str:
    """SHA-256 of a log: the hash chain covers what was said, this covers where it stands too."""
    return hashlib.sha256(document_bytes({RECORDS: records})).hexdigest()


def read_document(data: bytes | str) -> Any:
    """The JSON value that bytes hold."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not a JSON document: {error}") from None


def parse_document(document: Mapping[str, Any]) -> Parsed:
    """The nodes of a snapshot document, with defaults for what it leaves out."""
    root = document.get("root")
    if not isinstance(root, Mapping):
        raise DocumentError('a snapshot document has a "root" object')
    cycle = whole("cycle", document.get("cycle") or 0, least=0)
    reader = _Reader(cycle)
    version = document.get("spec_version", SPEC_VERSION)
    if not str(version).startswith("PACT/0.1"):
        reader.warnings.append(f"spec_version {version!r} is read as {SPEC_VERSION}")
    reader.read(root)
    return Parsed(cycle, tuple(reader.placed), tuple(reader.warnings))


class _Reader:
    """Reads a tree of objects, parents before children, and keeps track of ids."""

    def __init__(self, cycle: int) -> None:
        self.cycle = cycle
        self.placed: list[tuple[str | None, Node]] = []
        self.warnings: list[str] = []
        self.seen: set[str] = set()

    def read(self, root: Mapping[str, Any]) -> None:
        """Read the root, its three regions, and what is below them."""
        top = self.node({"nodeType": ROOT, "id": ROOT, **_given(root)}, ROOT)
        if top.node_type != ROOT:
            raise PlacementError(f"the root is of type {ROOT}, not {top.node_type}")
        self.placed.append((None, top))
        regions: dict[str, Mapping[str, Any]] = {}
        for raw in _children(root):
            region = raw.get("nodeType")
            if region not in REGIONS:
                raise PlacementError(f"under the root stand ^sys, ^seq and ^ah, not {region!r}")
            if region in regions:
                raise PlacementError(f"a tree has one {region} only")
            regions[region] = raw
        for rank, region in enumerate(REGIONS):
            raw = regions.get(region, {})
            given = {"nodeType": region, "id": region, "creation_index": rank, **_given(raw)}
            node = self.node(given, region)
            self.placed.append((top.id, node))
            self.below(raw, node, region, (id(root), id(raw)))

    def below(
        self, raw: Mapping[str, Any], parent: Node, place: str, trail: tuple[int, ...]
    ) -> None:
        """Read the children of a node that has been read."""
        if len(trail) >= MAX_DEPTH:
            raise PlacementError(f"the tree is at most {MAX_DEPTH} nodes deep")
        children: list[Node] = []
        for position, item in enumerate(_children(raw)):
            if id(item) in trail:
                raise CycleError(f"{item.get('id')!r} stands below itself")
            node = self.node(item, f"{place}/{position}")
            check_child(parent.node_type, node.node_type, node.offset)
            children.append(node)
            self.placed.append((parent.id, node))
            self.below(item, node, f"{place}/{position}", (*trail, id(item)))
        if is_turn(parent):
            check_turn(parent.id, children)

    def node(self, raw: Mapping[str, Any], place: str) -> Node:
        """One node with the defaults for every header it lacks."""
        given = _given(raw)
        node_id = text("id", given.get("id", place_id(place)))
        if node_id in self.seen:
            raise IdTakenError(f"two nodes have the id {node_id!r}")
        self.seen.add(node_id)
        node_type = text("nodeType", given.get("nodeType", BLOCK))
        ns = whole("created_at_ns", given.get("created_at_ns", 0), least=0)
        node = Node(
            id=node_id,
            node_type=node_type,
            offset=whole("offset", given.get("offset", 0)),
            ttl=whole("ttl", given["ttl"], least=0) if "ttl" in given else None,
            priority=whole("priority", given.get("priority", 0)),
            cycle=whole("cycle", given.get("cycle", self.cycle), least=0),
            created_at_ns=ns,
            created_at_iso=text("created_at_iso", given.get("created_at_iso") or iso_of(ns)),
            creation_index=whole("creation_index", given.get("creation_index", 0), least=0),
            role=_optional("role", given),
            kind=_optional("kind", given),
            removable=self.removable(node_type, given),
            provenance=_optional("provenance", given),
            references=_references(given),
            attributes=self.attributes(node_id, given),
        )
        return self.filled(node, given)

    def filled(self, node: Node, given: Mapping[str, Any]) -> Node:
        """The node with its content, which only blocks have."""
        content = given.get("content")
        if node.canonical != BLOCK:
            if content is not None:
                self.warnings.append(f"{node.id}: a {node.node_type} holds no content; left out")
            return node
        if content is None and "children" not in given:
            content = ""
        if content is None:
            return node
        canonical_json(content)
        filled = node.with_content(content)
        if given.get("content_hash", filled.content_hash) != filled.content_hash:
            self.warnings.append(f"{node.id}: content_hash did not fit the content; recomputed")
        return filled

    def removable(self, node_type: str, given: Mapping[str, Any]) -> bool:
        """The removable flag, which the root and regions cannot have."""
        flag = given.get("removable", False)
        if not isinstance(flag, bool):
            raise HeaderError(f"removable must be true or false, not {flag!r}")
        if flag and node_type.startswith("^"):
            raise HeaderError(f"{node_type} cannot be removable")
        return flag

    def attributes(self, node_id: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Namespaced attributes; others are of no concern and left out."""
        kept: dict[str, Any] = {}
        for key in given.keys() - RESERVED:
            try:
                kept.update(checked_attributes({key: given[key]}))
            except AttributeNameError:
                self.warnings.append(f"{node_id}: unknown attribute {key!r} left out")
        self.warnings.sort()
        return kept


def _given(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say something; null is the same as absent."""
    return {key: value for key, value in raw.items() if value is not None}


def _children(raw: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    children = raw.get("children") or ()
    if not isinstance(children, (list, tuple)) or not all(isinstance(c, dict) for c in children):
        raise DocumentError("children must be a list of objects")
    return children


def _optional(name: str, given: Mapping[str, Any]) -> str | None:
    return text(name, given[name]) if name in given else None


def _references(given: Mapping[str, Any]) -> tuple[str, ...]:
    listed = given.get(REFERENCES, [])
    if not isinstance(listed, list):
        raise HeaderError(f"{REFERENCES} must be a list of ids")
    return tuple(text(REFERENCES, target) for target in listed)
