"""What is checked of a row from the team's store before anything of it is believed."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from indexer.core.frames import BodyHash, MemoKey
from indexer.core.hashing import prefixed
from indexer.shared.base import LAST_GENERATION, Entry, Row

TEAM_KEY: Final = "MERKLE_TEAM_KEY"
"""The variable that holds the team's key; no file does."""

_TAG: Final = prefixed(b"merkle:shared:1")
_PACK_TAG: Final = prefixed(b"merkle:pack:1")
_SHA256: Final = 32


class Refusal(ValueError):
    """Why a row is not believed: `malformed`, `hash` or `seal`."""


class Seal:
    """Makes and checks the HMAC of rows, where the team has a key."""

    def __init__(self, namespace: str, key: str | None) -> None:
        self._namespace = namespace.encode()
        self._key = hashlib.sha256(key.encode()).digest() if key else None

    def row(self, entry: Entry) -> Row:
        """An entry as it is stored."""
        body = entry.body.encode()
        mac = self._mac(entry.key, entry.generation, entry.content, body)
        return Row(entry.key, entry.generation, entry.content, mac, body)

    def opened(self, row: Row) -> Entry:
        """The entry in a row; raises Refusal unless all of it is as it must be."""
        if not _well_formed(row) or not isinstance(row.body, bytes):
            raise Refusal("malformed")
        if hashlib.sha256(row.body).digest() != row.content:
            raise Refusal("hash")
        if self._key is not None:
            mac = self._mac(row.key, row.generation, row.content, row.body)
            if not hmac.compare_digest(mac, row.mac):
                raise Refusal("seal")
        try:
            body = row.body.decode()
        except UnicodeDecodeError:
            raise Refusal("malformed") from None
        return Entry(MemoKey(row.key), row.generation, BodyHash(row.content), body)

    def of_record(self, payload: bytes) -> str | None:
        """The seal of a record in a pack; None where the team has no key."""
        if self._key is None:
            return None
        sealed = _PACK_TAG + prefixed(self._namespace) + prefixed(payload)
        return hmac.digest(self._key, sealed, "sha256").hex()

    def _mac(self, key: bytes, generation: int, content: bytes, body: bytes) -> bytes:
        if self._key is None:
            return b""
        fields = (self._namespace, key, generation.to_bytes(8, "big"), content, body)
        sealed = _TAG + b"".join(prefixed(field) for field in fields)
        return hmac.digest(self._key, sealed, "sha256")


def _well_formed(row: Row) -> bool:
    """Whether every field has the shape it must have."""
    return (
        isinstance(row.key, bytes)
        and len(row.key) == _SHA256
        and isinstance(row.content, bytes)
        and len(row.content) == _SHA256
        and isinstance(row.mac, bytes)
        and isinstance(row.generation, int)
        and 0 <= row.generation <= LAST_GENERATION
    )
