"""Where a node may stand: which parent takes which child, one core per turn, sealed is sealed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from indexer.errors import UsageError
from indexer.sessions.node import (
    AH,
    BLOCK,
    CORE,
    REGIONS,
    ROOT,
    SEQ,
    SYS,
    TURN,
    Node,
    canonical_type,
)
from indexer.sessions.view import (
    View,
    core_of,
    implicit_core,
    in_sealed_core,
    is_turn,
    path,
    preorder,
)

MAX_DEPTH: Final = 64
ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    ROOT: frozenset(REGIONS),
    SYS: frozenset((BLOCK,)),
    SEQ: frozenset((TURN,)),
    AH: frozenset((CORE, BLOCK)),
    TURN: frozenset((CORE, BLOCK)),
    CORE: frozenset((BLOCK,)),
    BLOCK: frozenset((BLOCK,)),
}


class PlacementError(UsageError):
    """A node cannot stand where it was asked to."""

    code = "E_PLACEMENT_INVALID"


class CoreError(PlacementError):
    """A turn would have more than one core."""

    code = "E_CORE_DUPLICATE"


class SealedError(UsageError):
    """A sealed core, a turn or a region was asked to change."""

    code = "E_SEALED"


class CycleError(PlacementError):
    """A node would come to stand below itself."""

    code = "E_CYCLE"


class NodeNotFoundError(UsageError):
    """No node of the working tree has that id."""

    code = "E_NODE_UNKNOWN"


class IdTakenError(UsageError):
    """An id was used before in this session."""

    code = "E_ID_TAKEN"


class ReferencedError(UsageError):
    """A node cannot go while others refer to it."""

    code = "E_REFERENCED"


def check_child(parent_type: str, child_type: str, offset: int) -> None:
    """Refuse a child of a type, or at an offset, that its parent does not take."""
    parent, child = canonical_type(parent_type), canonical_type(child_type)
    if child not in ALLOWED.get(parent, frozenset()):
        raise PlacementError(f"a node of type {child_type} cannot stand under {parent_type}")
    if child == CORE and offset != 0:
        raise PlacementError(f"a core stands at offset 0, not {offset}")


def check_turn(turn_id: str, children: list[Node]) -> None:
    """Refuse a turn with two cores, or with a core and blocks beside it at offset 0."""
    cores = [node.id for node in children if node.canonical == CORE]
    if len(cores) > 1:
        raise CoreError(f"turn {turn_id} has {len(cores)} cores: {', '.join(cores)}")
    beside = [node.id for node in children if node.canonical == BLOCK and node.offset == 0]
    if cores and beside:
        raise PlacementError(f"turn {turn_id} has a core, yet {beside[0]} stands at offset 0")


def check_place(
    view: View, parent_id: str, node_type: str, offset: int, *, moving: str | None = None
) -> None:
    """Refuse a new or moved node that the working tree cannot take there."""
    parent = existing(view, parent_id)
    if canonical_type(node_type) == TURN:
        raise PlacementError("turns come into being by sealing the active head only")
    check_child(parent.node_type, node_type, offset)
    if in_sealed_core(view, parent_id):
        raise SealedError(f"{parent_id} is part of a sealed core", hint=_BESIDE)
    if len(path(view, parent_id)) >= MAX_DEPTH:
        raise PlacementError(f"the tree is at most {MAX_DEPTH} nodes deep")
    if is_turn(parent) and offset == 0:
        _check_core_place(view, parent, node_type, moving)


def _check_core_place(view: View, turn: Node, node_type: str, moving: str | None) -> None:
    core = core_of(view, turn.id)
    if turn.canonical == TURN:
        raise SealedError(f"the core of turn {turn.id} is sealed", hint=_BESIDE)
    others = [node for node in implicit_core(view, turn) if node.id != moving]
    if canonical_type(node_type) == CORE:
        if core is not None and core.id != moving:
            raise CoreError(f"turn {turn.id} already has the core {core.id}")
        if others:
            raise PlacementError(f"{others[0].id} already stands at offset 0 of {turn.id}")
    elif not others:
        # Only an imported head has an implicit core; what is made here has a core of its own.
        raise PlacementError(
            f"offset 0 of {turn.id} is its core", hint="place the block in the core itself"
        )


_BESIDE: Final = "attach a block to its turn at an offset other than 0, or edit it"


def existing(view: View, node_id: str) -> Node:
    """The node of that id, or an error that says it is not there."""
    node = view.node(node_id)
    if node is None:
        raise NodeNotFoundError(f"there is no node {node_id!r} in the working tree")
    return node


def check_movable(view: View, node_id: str) -> Node:
    """A node that may be moved or removed: no root, region, turn or part of a sealed core."""
    node = existing(view, node_id)
    if node.canonical.startswith("^"):
        raise PlacementError(f"{node.node_type} stays where it is")
    if node.canonical == TURN:
        raise SealedError(f"turn {node_id} keeps its place")
    if in_sealed_core(view, node_id):
        raise SealedError(f"{node_id} is part of a sealed core", hint=_BESIDE)
    return node


def check_live(view: View, node_id: str, committed: bool) -> Node:
    """A block or group that may still change in its place; sealed history stays as it is.

    The active head is live, and so are the system blocks, which nothing ever seals, and whatever
    no snapshot shows yet.
    """
    node = existing(view, node_id)
    if node.canonical != BLOCK:
        raise PlacementError(f"{node_id} is a {node.node_type}; only blocks and groups change")
    if committed and path(view, node_id)[1] == view.region_id(SEQ):
        raise SealedError(f"{node_id} is sealed", hint="edit it: its correction stands beside it")
    return node


def check_no_cycle(view: View, node_id: str, parent_id: str) -> None:
    """Refuse to hang a node below itself."""
    if any(below.id == parent_id for below in preorder(view, node_id)):
        raise CycleError(f"{node_id} cannot move below itself, to {parent_id}")
