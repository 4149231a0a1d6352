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

_SHORT: Final = 8
"""Lists with fewer inputs are always stored whole."""
_HELD: Final = 50_000
"""Inputs of all lists that are held, to store the next ones as differences."""
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
    document: dict[str, Any]
    chain: int
    """How many differences have to be put together to read it."""


class InputChains:
    """The lists that this process stored last, to store the next ones as differences."""

    def __init__(self) -> None:
        self._last: dict[HeadKey, _Last] = {}
        """The one that was stored last at the end."""
        self._held = 0

    def forget(self) -> None:
        """Begin anew, because a list that is held may not have been stored after all."""
        self._last.clear()
        self._held = 0

    def add(self, key: HeadKey, document: dict[str, Any], batch: FrameBatch) -> bytes:
        """Put a list into the batch and return its hash."""
        identity, text = inputs_text(document)
        before = self._last.pop(key, None)
        if before is not None:
            self._held -= len(before.document)
        entry, chain = InputList(None, text), 0
        if len(document) >= _SHORT:
            if before is not None and before.chain < _MAX_CHAIN:
                entry = InputList(
                    before.identity, inputs_text(difference(before.document, document))[1]
                )
                chain = before.chain + 1
            self._hold(key, _Last(identity, document, chain))
        batch.inputs[identity] = entry
        return identity

    def _hold(self, key: HeadKey, last: _Last) -> None:
        self._last[key] = last
        self._held += len(last.document)
        while self._held > _HELD and len(self._last) > 1:
            oldest = next(iter(self._last))
            self._held -= len(self._last.pop(oldest).document)
