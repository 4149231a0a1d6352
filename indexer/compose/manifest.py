"""Manifests: exactly what was shown and why, by hashes, to be replayed, checked and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from indexer.compiler import SCHEMA_VERSION as STAGES
from indexer.compiler import VERSIONS, compile_stages
from indexer.compose.relevance import Statistics
from indexer.compose.rendering import (
    SOURCE,
    Message,
    bare_message,
    bare_source_message,
    message,
    numbered,
    source_message,
)
from indexer.compose.request import Request
from indexer.compose.selection import Omitted, Selection, Source
from indexer.core.canonical import canonical_json, content_hash
from indexer.core.frames import OUTLINER, Freshness, body_hash
from indexer.core.paths import on_screen

KIND: Final = "context"
_LONGEST_NAME: Final = 160
SCHEMA_VERSION: Final = "4"
READABLE: Final = ("1", "2", "3", SCHEMA_VERSION)
"""Versions that can be replayed: the first shows frames only, the second without a fence, the
third no lines in outlines."""
_BARE: Final = READABLE[:2]
_WITHOUT_LINES: Final = READABLE[:3]

Json = dict[str, Any]


class ManifestProblem(ValueError):
    """A manifest is not what it says it is."""


def _text(value: object) -> bool:
    return isinstance(value, str)


def _text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _nothing(value: object) -> bool:
    return value is None


def _lines(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_count(one) for one in value)


def _line_numbers(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_count(one) for one in value)


def _count_or_none(value: object) -> bool:
    return value is None or _count(value)


def _hash(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _hash_or_none(value: object) -> bool:
    return value is None or _hash(value)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _counts(value: object) -> bool:
    return isinstance(value, dict) and all(_count(one) for one in value.values())


def _freshness(value: object) -> bool:
    return value in list(Freshness)


_Shape = Mapping[str, Callable[[object], bool]]

_MANIFEST: Final[_Shape] = {
    "kind": lambda value: value == KIND,
    "schema_version": lambda value: value in READABLE,
    "root": lambda value: isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{2,64}", value)),
    "request": _object,
    "tokenizer": _text,
    "tokens": _count,
    "candidates": _count,
    "candidates_sha256": _hash,
    "corpus": lambda value: value is None or isinstance(value, dict),
    "items": _objects,
    "omitted": _object,
    "hashes": _object,
    "frozen": _object,
}
_REQUEST: Final[_Shape] = {
    "nodes": _texts, "related": _texts, "sources": _texts, "query": _text_or_none,
    "order": _text, "budget": _count, "max_frames": _count_or_none, "require_fresh": _flag,
    "types": _texts, "agents": _texts, "paths": _texts, "since": _text_or_none,
    "until": _text_or_none,
}  # fmt: skip
_ITEM: Final[_Shape] = {
    "frame_id": _hash, "path": _text, "type": _text, "agent": _text, "content_sha256": _hash,
    "freshness": _freshness, "because": _text_or_none, "tokens": _count, "message": _count,
}  # fmt: skip
_SOURCE_ITEM: Final[_Shape] = {
    "frame_id": _nothing, "path": _text, "type": lambda value: value == SOURCE,
    "symbol": _text_or_none, "lines": _lines, "content_id": _text, "sha256": _hash,
    "content_sha256": _hash, "freshness": _freshness, "tokens": _count, "message": _count,
}  # fmt: skip
_PLACE: Final[_Shape] = {"symbol": _text, "line": _count_or_none}
_NUMBERED: Final[_Shape] = {
    "agent": lambda value: value == OUTLINER, "symbol_lines": _line_numbers,
}  # fmt: skip
_OMITTED: Final[_Shape] = {"counts": _counts, "first": _objects}
_LEFT: Final[_Shape] = {"frame_id": _hash_or_none, "path": _text, "reason": _text}
_CORPUS: Final[Mapping[str, _Shape]] = {
    "1": {"bodies": _count, "total_length": _count, "names": _count, "words": _object},
    "2": {"files": _count, "words": _object},
    "3": {"files": _count, "words": _object},
    "4": {"files": _count, "words": _object, "references": _counts},
}


def check_shape(manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest that has something else than it must have in any of its fields."""
    _check_fields("", manifest, _MANIFEST)
    _check_fields("request.", manifest["request"], _REQUEST)
    if not isinstance(manifest["request"].get("only", False), bool):
        raise ManifestProblem("request.only is not what it must be")
    _check_fields("omitted.", manifest["omitted"], _OMITTED)
    if manifest["corpus"] is not None:
        _check_fields("corpus.", manifest["corpus"], _CORPUS[manifest["schema_version"]])
    for item in manifest["items"]:
        _check_fields("items.", item, _SOURCE_ITEM if _is_source(item) else _ITEM)
        if not _is_source(item) and ("symbol" in item or "line" in item):
            _check_fields("items.", item, _PLACE)
        if "symbol_lines" in item:
            _check_fields("items.", item, _NUMBERED)
            if manifest["schema_version"] in _WITHOUT_LINES or _is_source(item):
                raise ManifestProblem("items.symbol_lines is where there are none")
    for left in manifest["omitted"]["first"]:
        _check_fields("omitted.first.", left, _LEFT)


def _check_fields(where: str, document: Mapping[str, Any], shape: _Shape) -> None:
    if not isinstance(document, Mapping):
        raise ManifestProblem("it is no object")
    for name, holds in shape.items():
        if name not in document or not holds(document[name]):
            raise ManifestProblem(f"{where}{name} is missing or is not what it must be")


def make_manifest(
    *,
    root: str,
    request: Request,
    tokenizer: str,
    candidates: int,
    candidates_sha256: str,
    statistics: Statistics | None,
    selection: Selection,
    omitted: Omitted,
) -> Json:
    """The manifest of a selection: what the staged compiler froze, and where it came from."""
    messages = selection.messages()
    places = {id(one): place for place, one in enumerate(messages)}
    items: list[Json] = []
    for item in selection.items:
        place = places[id(item.message)]
        if item.source is not None:
            items.append(_source_item(item.source, item.tokens, place))
            continue
        assert item.loaded is not None
        candidate = item.loaded.candidate
        items.append(
            {
                "frame_id": candidate.frame_id.hex(),
                "path": candidate.path,
                "type": candidate.type,
                "agent": candidate.agent,
                "content_sha256": candidate.content.hex(),
                "freshness": item.loaded.freshness.value,
                "because": item.loaded.because,
                "tokens": item.tokens,
                "message": place,
                **_place(item.loaded.symbol, item.loaded.line),
                **({"symbol_lines": list(item.loaded.lines)} if item.loaded.lines else {}),
            }
        )
    return {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "root": root,
        "request": request.to_json(),
        "tokenizer": tokenizer,
        "tokens": selection.tokens,
        "candidates": candidates,
        "candidates_sha256": candidates_sha256,
        "corpus": None if statistics is None else statistics.to_json(),
        "items": items,
        "omitted": {
            "counts": {reason: omitted.counts[reason] for reason in sorted(omitted.counts)},
            "first": [
                {"frame_id": left.frame_id.hex() if left else None, "path": path, "reason": reason}
                for left, path, reason in omitted.first
            ],
        },
        **_compiled(items, messages),
    }


def _place(symbol: str | None, line: int | None) -> Json:
    """What of its file a note is about; nothing where that is all of it."""
    return {} if symbol is None else {"symbol": symbol, "line": line}


def _source_item(source: Source, tokens: int, place: int) -> Json:
    return {
        "frame_id": None,
        "path": source.path,
        "type": SOURCE,
        "agent": None,
        "symbol": source.symbol,
        "lines": [source.first, source.last],
        "content_id": source.content_id,
        "sha256": source.sha256,
        "content_sha256": body_hash(source.body).hex(),
        "freshness": Freshness.FRESH.value,
        "because": "",
        "tokens": tokens,
        "message": place,
    }


def _is_source(item: Mapping[str, Any]) -> bool:
    return isinstance(item, Mapping) and item.get("type") == SOURCE and item.get("frame_id") is None


def _identity(item: Mapping[str, Any]) -> str:
    """The id that an item's message has in the stages."""
    if _is_source(item):
        # A name may be longer than an id, and hold what none may: then its hash stands for it.
        path = item["path"]
        if len(path) > _LONGEST_NAME or on_screen(path) != path:
            path = body_hash(path).hex()
        return f"{SOURCE}:{path}:{item['lines'][0]}-{item['lines'][1]}"
    return str(item["frame_id"])


def _compiled(
    items: Sequence[Mapping[str, Any]], messages: Sequence[Message], version: str = STAGES
) -> Json:
    """RAW to FROZEN of the messages, each under the FrameID, or the lines, it shows."""
    names = {item["message"]: _identity(item) for item in items}
    stages = compile_stages(
        [
            {"id": names[place], "kind": KIND, "turn": 0, "payload": one}
            for place, one in enumerate(messages)
        ],
        version=version,
    )
    return {"hashes": stages.hashes, "frozen": stages.frozen.to_json()}


def manifest_id(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of the manifest's canonical JSON."""
    return content_hash(manifest)


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """The one spelling of a manifest."""
    return canonical_json(manifest).decode()


def named_bodies(manifest: Mapping[str, Any]) -> list[str]:
    """The hashes of the bodies that a manifest shows, each once."""
    return list(dict.fromkeys(item["content_sha256"] for item in manifest["items"]))


def replay_messages(manifest: Mapping[str, Any], bodies: Mapping[str, str]) -> list[Message]:
    """The messages again, from the bodies by their hashes; refused unless they are the same."""
    try:
        return _replayed(manifest, bodies)
    except (KeyError, TypeError, AttributeError) as error:
        raise ManifestProblem(f"it is malformed: {error!r}") from error


def _replayed(manifest: Mapping[str, Any], bodies: Mapping[str, str]) -> list[Message]:
    items = manifest["items"]
    of_frame, of_source = message, source_message
    if manifest["schema_version"] in _BARE:
        of_frame, of_source = bare_message, bare_source_message
    messages: list[Message] = [{} for _ in items]
    for item in items:
        body = bodies.get(item["content_sha256"])
        if body is None:
            raise ManifestProblem(f"the body {item['content_sha256'][:12]} is not stored")
        if body_hash(body).hex() != item["content_sha256"]:
            raise ManifestProblem(f"the body {item['content_sha256'][:12]} has another content")
        place = item["message"]
        if not isinstance(place, int) or not 0 <= place < len(items) or messages[place]:
            raise ManifestProblem("its messages have no clear order")
        messages[place] = (
            of_source(item["path"], item["symbol"], item["lines"][0], item["lines"][1], body)
            if _is_source(item)
            else of_frame(
                item["path"],
                item["type"],
                item["agent"],
                item["freshness"],
                _numbered(body, item.get("symbol_lines", ())),
                item.get("symbol"),
                item.get("line"),
            )
        )
    # A manifest is checked by the version of the stages that froze it.
    version = manifest["frozen"].get("schema_version")
    if version not in VERSIONS:
        raise ManifestProblem(f"its stages are of an unknown version {version!r}")
    frozen = {key: manifest[key] for key in ("hashes", "frozen")}
    if _compiled(items, messages, version) != frozen:
        raise ManifestProblem("its messages are not those that were frozen")
    return messages


def _numbered(body: str, lines: Sequence[int]) -> str:
    if lines and len(lines) != body.count("\n") + 1:
        raise ManifestProblem("the lines of its symbols are not those of its outline")
    return numbered(body, lines)


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """What one manifest shows and another does not, by path, type and agent."""
    before, after = _by_place(old), _by_place(new)
    frames: list[Json] = []
    for place in sorted(before.keys() | after.keys()):
        was, now = before.get(place), after.get(place)
        if was and now and _shown(was) == _shown(now):
            continue
        change = "removed" if now is None else "added" if was is None else "modified"
        frames.append(
            {
                "path": place[0],
                "type": place[1],
                "agent": place[2] or None,
                "symbol": place[3] or None,
                "change": change,
                "old": was and _shown(was)[0],
                "new": now and _shown(now)[0],
                "old_freshness": was and was["freshness"],
                "new_freshness": now and now["freshness"],
                "old_tokens": was["tokens"] if was else 0,
                "new_tokens": now["tokens"] if now else 0,
            }
        )
    by_path: dict[str, list[str]] = {"added": [], "removed": [], "modified": []}
    for frame in frames:
        if frame["path"] not in by_path[frame["change"]]:
            by_path[frame["change"]].append(frame["path"])
    return {**by_path, "frames": frames}


def _shown(item: Mapping[str, Any]) -> tuple[str, str]:
    return str(item["frame_id"] or item["sha256"]), str(item["freshness"])


def _by_place(manifest: Mapping[str, Any]) -> dict[tuple[str, str, str, str], Mapping[str, Any]]:
    return {
        (item["path"], item["type"], item.get("agent") or "", item.get("symbol") or ""): item
        for item in manifest["items"]
    }
