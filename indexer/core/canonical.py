"""One spelling for every JSON value, and the hashes that are made from it."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from indexer.errors import UsageError

# Made once: what is hashed for one question is spelled in some seventy pieces.
_SPELLED: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode


class NotCanonicalError(UsageError, ValueError):
    """A value has no JSON form that every reader would read back the same."""

    code = "not_canonical"


def canonical_json(data: object) -> bytes:
    """JSON with sorted keys and no white space, as UTF-8."""
    _refuse_odd_keys(data)
    try:
        return _SPELLED(data).encode("utf-8")
    except UnicodeEncodeError as error:
        lone = ord(error.object[error.start])
        raise NotCanonicalError(
            f"a string holds the lone surrogate U+{lone:04X}",
            hint="Text must be valid Unicode; replace or drop the broken character.",
        ) from None
    except RecursionError:
        raise NotCanonicalError("the value is nested too deeply") from None
    except (TypeError, ValueError) as error:
        # Another type, NaN, an infinity, an object that contains itself, an integer without end.
        raise NotCanonicalError(f"not a JSON value: {error}") from None


def content_hash(payload: object) -> str:
    """SHA-256 of the canonical JSON of a payload."""
    return hashlib.sha256(canonical_json(payload)).hexdigest()


def commit_hash(
    content_hash: str,
    parent_hash: str | None,
    content_type: str,
    operation: str,
    timestamp_iso: str,
    reply_to: str | None = None,
) -> str:
    """SHA-256 over what identifies a commit; `reply_to` takes part only where there is one."""
    identity: dict[str, str | None] = {
        "content_hash": content_hash,
        "parent_hash": parent_hash,
        "content_type": content_type,
        "operation": operation,
        "timestamp_iso": timestamp_iso,
    }
    if reply_to is not None:
        identity["reply_to"] = reply_to
    return hashlib.sha256(canonical_json(identity)).hexdigest()


def _refuse_odd_keys(data: object) -> None:
    """Keys that are no strings would come back from JSON as strings, in another order."""
    pending, seen = [data], set[int]()
    while pending:
        value = pending.pop()
        # Most are these, and they are told by less.
        kind = type(value)
        if kind is str or kind is int:
            continue
        if not isinstance(value, (dict, list, tuple)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise NotCanonicalError(f"a JSON object cannot have the key {key!r}")
            pending.extend(value.values())
        else:
            pending.extend(value)
