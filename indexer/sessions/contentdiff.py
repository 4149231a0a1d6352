"""How the content of a block changed: as a unified diff, a JSON patch or token hunks."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, Final

from indexer.errors import UsageError

MODES: Final = ("unified", "jsonpatch", "tokens")
# Line matching is quadratic in the worst case; beyond this only the summary is given.
MAX_BYTES: Final = 1 << 18
_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")


class ContentModeError(UsageError):
    """A content diff in a form nobody knows."""

    code = "E_CONTENT_MODE"


def content_diff(newer: Any, older: Any, mode: str, context: int = 3) -> dict[str, Any]:
    """The difference from the older to the newer content, with a summary."""
    if mode not in MODES:
        raise ContentModeError(f"unknown content mode {mode!r}", hint=f"use {', '.join(MODES)}")
    new, old = _as_text(newer), _as_text(older)
    sizes = (len(new.encode("utf-8", "replace")), len(old.encode("utf-8", "replace")))
    truncated = max(sizes) > MAX_BYTES
    result: dict[str, Any] = {
        "mode": mode,
        "summary": {
            "bytesNewer": sizes[0],
            "bytesOlder": sizes[1],
            "identical": newer == older,
            "truncated": truncated,
        },
    }
    if truncated:
        return result
    if mode == "unified":
        result["diff"] = _unified(new, old, context)
    elif mode == "jsonpatch":
        result["patch"] = json_patch(_as_json(older), _as_json(newer))
    else:
        result["hunks"] = _token_hunks(new, old)
    return result


def _as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return json.dumps(content, sort_keys=True, ensure_ascii=False, indent=2)


def _as_json(content: Any) -> Any:
    """A text that is a JSON object or list is compared as one."""
    if isinstance(content, str) and content[:1] in ("{", "["):
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return content
    return content


def _unified(new: str, old: str, context: int) -> str:
    before, after = old.splitlines(), new.splitlines()
    lines = difflib.unified_diff(before, after, "older", "newer", n=max(0, context), lineterm="")
    return "\n".join(lines)


def _token_hunks(new: str, old: str) -> list[dict[str, Any]]:
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        {"op": op, "older": before[a:b], "newer": after[c:d], "at": a}
        for op, a, b, c, d in matcher.get_opcodes()
        if op != "equal"
    ]


def json_patch(older: Any, newer: Any, pointer: str = "") -> list[dict[str, Any]]:
    """Operations in the manner of RFC 6902 that turn the older value into the newer."""
    if _spelling(older) == _spelling(newer):
        return []
    if isinstance(older, dict) and isinstance(newer, dict):
        return _patch_object(older, newer, pointer)
    if isinstance(older, list) and isinstance(newer, list):
        return _patch_list(older, newer, pointer)
    return [{"op": "replace", "path": pointer, "value": newer}]


def _spelling(value: Any) -> str:
    """A text by which 1, 1.0 and true are three values."""
    return json.dumps(value, sort_keys=True)


def _patch_object(
    older: dict[str, Any], newer: dict[str, Any], pointer: str
) -> list[dict[str, Any]]:
    patch: list[dict[str, Any]] = []
    for key in sorted(older.keys() | newer.keys()):
        place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in newer:
            patch.append({"op": "remove", "path": place})
        elif key not in older:
            patch.append({"op": "add", "path": place, "value": newer[key]})
        else:
            patch.extend(json_patch(older[key], newer[key], place))
    return patch


def _patch_list(older: Sequence[Any], newer: Sequence[Any], pointer: str) -> list[dict[str, Any]]:
    patch: list[dict[str, Any]] = []
    shared = min(len(older), len(newer))
    for index in range(shared):
        patch.extend(json_patch(older[index], newer[index], f"{pointer}/{index}"))
    # From the end, so that every index still means what it says.
    for index in range(len(older) - 1, shared - 1, -1):
        patch.append({"op": "remove", "path": f"{pointer}/{index}"})
    for index in range(shared, len(newer)):
        patch.append({"op": "add", "path": f"{pointer}/-", "value": newer[index]})
    return patch
