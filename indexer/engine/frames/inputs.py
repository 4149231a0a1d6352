"""Lists of inputs, stored once by hash; a long one as what differs from its predecessor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from indexer.core import paths
from indexer.core.frames import ChildFrame, Fingerprint, HeadKey
from indexer.store.frames import FrameBatch, InputList, difference

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

FINGERPRINT: Final = "/fingerprint"
"""No child can be called that: names contain no slash."""

_LONG: Final = 64
_MAX_CHAIN: Final = 40


def children_document(made_by: Fingerprint, children: Sequence[ChildFrame]) -> dict[str, Any]:
    """A synthesis' inputs: each child's kind and FrameIDs ("" where there is none)."""
    document: dict[str, Any] = {FINGERPRINT: made_by.hex()}
    for child in children:
        frame = "" if child.frame_id is None else child.frame_id.hex()
        name = paths.bytes_to_text(child.name)
        several = f"{document[name][1]} {frame}" if name in document else frame
        document[name] = [child.kind, several]
    return document


def remember_inputs(
    engine: Engine, key: HeadKey, document: dict[str, Any], batch: FrameBatch
) -> bytes:
    """Put a list into the batch and return its hash."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    identity = hashlib.sha256(text.encode()).digest()
    entry = InputList(None, text)
    if len(document) >= _LONG:
        entry = _as_difference(engine, key, document) or entry
    batch.inputs[identity] = entry
    engine.input_chains[key] = (
        identity,
        document if len(document) >= _LONG else None,
        0 if entry.base is None else engine.input_chains[key][2] + 1,
    )
    return identity


def _as_difference(engine: Engine, key: HeadKey, document: dict[str, Any]) -> InputList | None:
    """The list as a change of the one this process stored for the same head before."""
    known = engine.input_chains.get(key)
    if known is None or known[1] is None or known[2] >= _MAX_CHAIN:
        return None
    change = difference(known[1], document)
    text = json.dumps(change, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return InputList(known[0], text)
