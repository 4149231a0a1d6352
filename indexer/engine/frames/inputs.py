"""Lists of inputs, stored once by hash; a long one as what differs from its predecessor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from indexer.core import paths
from indexer.core.frames import ChildFrame, Fingerprint, HeadKey
from indexer.store.frames import FrameBatch, InputList, difference

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


def inputs_text(document: dict[str, Any]) -> tuple[bytes, str]:
    """The hash of a list and its one spelling."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest(), text


class _Last(NamedTuple):
    """The list that was last stored for a head."""

    identity: bytes
    document: dict[str, Any] | None
    """None for a short list, which nothing is worth being stored as a difference from."""
    chain: int
    """How many differences have to be put together to read it."""


class InputChains:
    """The lists that this process stored last, to store the next ones as differences."""

    def __init__(self) -> None:
        self._last: dict[HeadKey, _Last] = {}

    def forget(self) -> None:
        """They may name lists that were not stored after all."""
        self._last.clear()

    def add(self, key: HeadKey, document: dict[str, Any], batch: FrameBatch) -> bytes:
        """Put a list into the batch and return its hash."""
        identity, text = inputs_text(document)
        is_long = len(document) >= _LONG
        before = self._last.get(key)
        entry, chain = InputList(None, text), 0
        if is_long and before and before.document is not None and before.chain < _MAX_CHAIN:
            entry = InputList(
                before.identity, inputs_text(difference(before.document, document))[1]
            )
            chain = before.chain + 1
        batch.inputs[identity] = entry
        self._last[key] = _Last(identity, document if is_long else None, chain)
        return identity
