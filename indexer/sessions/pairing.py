"""Which result answers which call: by the id both carry, else by the tool and the order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from indexer.sessions.content import CALL, CALL_ID
from indexer.sessions.effective import Effective


def call_ids(items: Sequence[Effective]) -> dict[str, str]:
    """The call id of every call and result, by block; a result without one gets its call's.

    That is the oldest call of the same tool that nothing has answered yet.
    """
    found: dict[str, str] = {}
    waiting: dict[str, list[str]] = {}
    for item in items:
        if item.direction is None:
            continue
        given, tool = item.node.attributes.get(CALL_ID), item.content["tool_name"]
        own = str(given) if given else _own_call_id(item.node.id)
        open_calls = waiting.setdefault(tool, [])
        if item.direction == CALL:
            open_calls.append(own)
        elif not given and open_calls:
            own = open_calls.pop(0)
        elif own in open_calls:
            open_calls.remove(own)
        found[item.node.id] = own
    return found


def _own_call_id(node_id: str) -> str:
    """An id as providers take it, for a call that was appended without one."""
    return f"call_{hashlib.sha256(node_id.encode()).hexdigest()[:24]}"


def pairs(items: Sequence[Effective], ids: dict[str, str]) -> dict[str, str]:
    """Calls that were answered and their results, by block: the call id they share."""
    asked = {ids[i.node.id] for i in items if i.direction == CALL}
    answered = {ids[i.node.id] for i in items if i.direction not in (CALL, None)}
    both = asked & answered
    return {node_id: one for node_id, one in ids.items() if one in both}


def unpaired(items: Sequence[Effective], ids: dict[str, str]) -> list[str]:
    """Blocks no provider would take: results without a call, and calls that were passed over.

    A call is not passed over while nothing but calls has followed it.
    """
    paired = pairs(items, ids)
    end = len(items)
    while end and items[end - 1].direction == CALL:
        end -= 1
    return [i.node.id for i in items[:end] if i.direction and i.node.id not in paired]
