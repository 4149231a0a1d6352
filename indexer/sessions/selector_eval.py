"""Finds the nodes of one snapshot that a selector means, in canonical order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from indexer.sessions.comparison import holds
from indexer.sessions.node import CORE, SEQ, TURN, Node
from indexer.sessions.selector import CHILD, Chain, Pseudo, Selector, Step
from indexer.sessions.view import View, document_key, implicit_core, is_turn, path, preorder


@dataclass(frozen=True, slots=True)
class Match:
    """A node found so far; an implicit core stands for its turn and is never a result."""

    node: Node
    implicit: bool = False


def evaluate(selector: Selector, view: View) -> list[str]:
    """The ids a selector finds: groups from left to right, each id once."""
    found: dict[str, None] = {}
    for chain in selector.groups:
        found.update(dict.fromkeys(_chain(chain, view)))
    return list(found)


def _chain(chain: Chain, view: View) -> list[str]:
    matches = _filtered(_anywhere(chain[0], view), chain[0], view)
    for step in chain[1:]:
        if not matches:
            return []
        matches = _filtered(_related(matches, step, view), step, view)
    ids = [match.node.id for match in matches if not match.implicit]
    return sorted(ids, key=lambda node_id: document_key(view, node_id))


def _anywhere(step: Step, view: View) -> Iterator[Match]:
    """Candidates for a first step, without a walk where the step names its node."""
    direct = _direct(step, view)
    nodes = direct if direct is not None else preorder(view, view.root_id)
    for node in nodes:
        yield Match(node)
        if step.names_core and is_turn(node):
            yield from _implicit(node, view)


def _direct(step: Step, view: View) -> Sequence[Node] | None:
    """The few nodes a step can mean at all, where that is plain from the step itself."""
    if step.names_core:
        return None
    node_id = step.id if step.root is None else view.region_id(step.root)
    if node_id is not None:
        node = view.node(node_id)
        return [] if node is None else [node]
    if step.pseudos and step.pseudos[0].name == "depth":
        return _at_depth(view, step.pseudos[0])
    if step.type == TURN and not step.conditions and step.pseudos[:1] == (Pseudo("last"),):
        return _at_depth(view, Pseudo("depth", ((1, 1),)))
    return None


def _at_depth(view: View, depth: Pseudo) -> list[Node]:
    """Turns at these depths, looking no further back than the deepest."""
    deepest = max(high for _, high in depth.ranges)
    found = []
    for number, turn in enumerate(view.turns(), start=1):
        if number > deepest:
            break
        if depth.has(number):
            found.append(turn)
    return found


def _related(matches: list[Match], step: Step, view: View) -> Iterator[Match]:
    """Candidates below the matches of the step before, each once."""
    direct = _direct(step, view)
    if direct is not None and not any(match.implicit for match in matches):
        yield from _below_any(matches, step, view, direct)
        return
    seen: set[tuple[str, bool]] = set()
    for match in matches:
        for found in _below(match, step, view):
            key = (found.node.id, found.implicit)
            if key not in seen:
                seen.add(key)
                yield found


def _below_any(
    matches: list[Match], step: Step, view: View, nodes: Iterable[Node]
) -> Iterator[Match]:
    above = {match.node.id for match in matches}
    for node in nodes:
        ancestors = path(view, node.id)[:-1]
        if step.combinator == CHILD:
            ancestors = ancestors[-1:]
        if not above.isdisjoint(ancestors):
            yield Match(node)


def _below(match: Match, step: Step, view: View) -> Iterator[Match]:
    """Children or descendants of one match, implicit cores included where the step asks."""
    tops = implicit_core(view, match.node) if match.implicit else view.children(match.node.id)
    if step.names_core and not match.implicit and is_turn(match.node):
        yield from _implicit(match.node, view)
    for top in tops:
        if step.combinator == CHILD:
            yield Match(top)
            continue
        for node in preorder(view, top.id):
            yield Match(node)
            if step.names_core and is_turn(node):
                yield from _implicit(node, view)


def _implicit(turn: Node, view: View) -> Iterator[Match]:
    if implicit_core(view, turn):
        yield Match(turn, implicit=True)


def _filtered(candidates: Iterable[Match], step: Step, view: View) -> list[Match]:
    """The candidates that meet a step; pseudo-classes narrow what those before them left."""
    kept = [match for match in candidates if _meets(_seen_as(match), step)]
    for pseudo in step.pseudos:
        if pseudo.name in ("first", "last", "nth"):
            kept = _positioned(kept, pseudo, view)
        elif pseudo.name == "depth":
            kept = _deep(kept, pseudo, view)
        else:
            kept = [match for match in kept if _sided(_seen_as(match), pseudo.name)]
    return kept


def _seen_as(match: Match) -> Node:
    """The node whose headers a step tests; an implicit core has those of an empty core."""
    if not match.implicit:
        return match.node
    turn = match.node
    return replace(
        turn,
        id="",
        node_type=CORE,
        offset=0,
        ttl=None,
        priority=0,
        role=None,
        kind=None,
        attributes={},
    )


def _meets(node: Node, step: Step) -> bool:
    if step.root is not None and node.node_type != step.root:
        return False
    if step.id is not None and node.id != step.id:
        return False
    if step.type is not None and not _is_of(node, step.type):
        return False
    return all(holds(node, condition) for condition in step.conditions)


def _is_of(node: Node, wanted: str) -> bool:
    """Broad for the canonical types, exact for all others."""
    if wanted in ("mt", "mc", "cb"):
        return node.canonical == wanted
    return node.node_type == wanted


def _sided(node: Node, side: str) -> bool:
    return {"pre": node.offset < 0, "core": node.offset == 0, "post": node.offset > 0}[side]


def _deep(matches: list[Match], depth: Pseudo, view: View) -> list[Match]:
    """Matches that are sealed turns at these depths."""
    turns = {turn.id for turn in _at_depth(view, depth)}
    seq = view.region_id(SEQ)
    return [
        m
        for m in matches
        if not m.implicit and m.node.id in turns and view.parent(m.node.id) == seq
    ]


def _positioned(matches: list[Match], pseudo: Pseudo, view: View) -> list[Match]:
    """The first, last or nth of the matches among each set of siblings."""
    families: dict[str | None, list[Match]] = {}
    for match in matches:
        # An implicit core is the child of its turn.
        parent = match.node.id if match.implicit else view.parent(match.node.id)
        families.setdefault(parent, []).append(match)
    kept: list[Match] = []
    for family in families.values():
        family.sort(key=lambda match: document_key(view, match.node.id))
        number = pseudo.ranges[0][0] if pseudo.name == "nth" else 1
        if pseudo.name == "last":
            kept.append(family[-1])
        elif number <= len(family):
            kept.append(family[number - 1])
    return kept
