"""Inclusion proofs: that a tree with a known root holds a node, shown without the tree.

What a proof shows: the tree whose root has this NodeID holds, at this path, a node of this kind
with this content id. It says nothing about when, about modes or owners, about ignored files, nor
that something is absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash, workspace_hash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Folder, Tree
from indexer.errors import UncheckedError, UsageError

FORMAT: Final = 1
HASH: Final = "sha256"
_ID: Final = re.compile("[0-9a-f]{64}")
_KINDS: Final = {kind.label: kind for kind in Kind}


class NoProofsError(UsageError):
    """The workspace's hash does not hold against files made to collide, so nothing is proved."""

    code = "no_proofs"


class NotAProofError(UncheckedError):
    """What was given is no proof, so there is nothing to check."""

    code = "not_a_proof"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What checking a proof came to; without `reason` it holds."""

    path: str
    kind: Kind
    content_id: ContentId
    node_id: str
    reason: str | None


class SiblingDocument(TypedDict):
    """Another child of a folder on the way."""

    name: str
    kind: str
    content_id: str


class ProofStepDocument(TypedDict):
    """One folder on the way from a node to the root."""

    folder: str
    siblings: list[SiblingDocument]
    """In byte order of their names."""


class ProofDocument(TypedDict):
    """A proof that a tree holds a node."""

    format: int
    hash: str
    root: str
    path: str
    kind: str
    content_id: str
    node_id: str
    proof: list[ProofStepDocument]


def prove(tree: Tree, path: str) -> ProofDocument:
    """The proof for a path of the tree: per folder from it to the root, every other child."""
    if tree.algorithm.name != HASH:
        raise NoProofsError(
            f"this workspace uses {tree.algorithm.name}, which proves nothing to others: "
            "files can be made to collide",
            hint="move .merkle away, `merkle init --hash sha256`, then scan",
        )
    entry = tree.get(path)
    assert entry is not None, path
    return {
        "format": FORMAT,
        "hash": HASH,
        "root": tree.root_id.hex(),
        "path": path,
        "kind": entry.kind.label,
        "content_id": entry.content_id.hex(),
        "node_id": tree.node_id(path, entry).hex(),
        "proof": list(_steps(tree, path)),
    }


def _steps(tree: Tree, path: str) -> Iterator[ProofStepDocument]:
    while path:
        parent, name = paths.split(path)
        folder = tree.folder(parent)
        assert folder is not None, parent
        yield {"folder": parent, "siblings": _siblings(folder, name)}
        path = parent


def _siblings(folder: Folder, name: str) -> list[SiblingDocument]:
    return [
        {"name": other, "kind": entry.kind.label, "content_id": entry.content_id.hex()}
        for other, entry in folder.entries.items()
        if other != name
    ]


def read_proof(text: bytes) -> dict[str, Any]:
    """The document of a proof as text; every key known, none twice."""
    try:
        document = json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise _refused(f"it is not JSON: {error}") from None
    return _fields(document, ProofDocument, "a proof")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key appears twice")
    return document


def check_proof(document: Mapping[str, Any], root: str) -> Verdict:
    """Follow a proof up to its root and compare that with the root that is trusted."""
    if not _ID.fullmatch(root):
        raise UsageError(
            "the root must be all 64 lower-case hexadecimal digits of a sha256 root",
            hint="take it from a source you trust: `merkle scan --json` prints it",
        )
    if type(document["format"]) is not int or document["format"] != FORMAT:
        raise _refused(f"its format is not {FORMAT}")
    if document["hash"] != HASH:
        raise _refused(f"its hash is not {HASH}")
    algorithm = workspace_hash(HASH)
    path, kind = _path(document["path"]), _kind(document["kind"])
    content_id = _content_id(document["content_id"])
    node_id = algorithm.node_id(kind, paths.text_to_bytes(path), content_id).hex()
    found = _root_of(algorithm, path, kind, content_id, document["proof"])
    reason = None
    if document["node_id"] != node_id:
        reason = "its node_id does not follow from path, kind and content_id"
    elif document["root"] != root:
        reason = "it is a proof for another root"
    elif found != root:
        reason = f"it leads to the root {found}"
    return Verdict(path, kind, content_id, node_id, reason)


def _root_of(
    algorithm: WorkspaceHash, path: str, kind: Kind, content_id: ContentId, steps: Any
) -> str:
    """The NodeID of the root that the steps lead to."""
    if not isinstance(steps, list) or len(steps) != paths.depth(path):
        raise _refused("it does not have one step per folder of the path")
    if not path and kind is not Kind.DIRECTORY:
        raise _refused("the root is a directory")
    for step in steps:
        parent, name = paths.split(path)
        fields = _fields(step, ProofStepDocument, "a step")
        if fields["folder"] != parent:
            raise _refused("its steps are not the folders of the path")
        encoded = _encoded(algorithm, fields["siblings"])
        own = paths.text_to_bytes(name)
        if own in encoded:
            raise _refused("a node is its own sibling")
        encoded[own] = algorithm.encode_child(own, kind, content_id)
        in_order = [encoded[raw] for raw in sorted(encoded)]
        path, kind = parent, Kind.DIRECTORY
        content_id = algorithm.of_folder(in_order, len(in_order))
    return algorithm.node_id(kind, b"", content_id).hex()


def _encoded(algorithm: WorkspaceHash, siblings: Any) -> dict[bytes, bytes]:
    if not isinstance(siblings, list):
        raise _refused("siblings are not a list")
    encoded: dict[bytes, bytes] = {}
    last = b""
    for sibling in siblings:
        fields = _fields(sibling, SiblingDocument, "a sibling")
        if not paths.is_name(fields["name"]):
            raise _refused("a sibling has a name that no file can have")
        raw = paths.text_to_bytes(fields["name"])
        # Names are never empty, so this also refuses the first of a list that is out of order.
        if raw <= last:
            raise _refused("siblings are not in byte order of their names, each once")
        kind, content_id = _kind(fields["kind"]), _content_id(fields["content_id"])
        encoded[raw] = algorithm.encode_child(raw, kind, content_id)
        last = raw
    return encoded


def _fields(value: Any, declared: Any, what: str) -> dict[str, Any]:
    keys = declared.__annotations__
    if not isinstance(value, dict) or value.keys() != keys.keys():
        raise _refused(f"{what} has exactly the keys {', '.join(keys)}")
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or (value and not all(map(paths.is_name, value.split("/")))):
        raise _refused("its path is none that a workspace can hold")
    return value


def _kind(value: Any) -> Kind:
    if not isinstance(value, str) or value not in _KINDS:
        raise _refused(f"a kind is one of {', '.join(_KINDS)}")
    return _KINDS[value]


def _content_id(value: Any) -> ContentId:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise _refused("a content id has 64 lower-case hexadecimal digits")
    return ContentId(bytes.fromhex(value))


def _refused(why: str) -> NotAProofError:
    return NotAProofError(f"this is no proof: {why}", hint="`merkle prove PATH` prints one")
