"""The operations as both ends of the socket see them: names, arguments, thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from indexer.errors import UsageError

if TYPE_CHECKING:
    from indexer.engine.engine import Engine
    from indexer.engine.frame_methods import Steps

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


_WORDS: Final[dict[Check, str]] = {
    _is_text: "text",
    _is_flag: "true or false",
    _is_count: "a whole number, not negative",
    _is_number: "a number, not negative",
    _is_texts: "a list of texts",
    _is_table: "an object of texts",
    _is_whole: "a whole number",
    _is_list: "a list",
    _is_object: "an object",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One engine method that can be called from outside."""

    method: str
    required: Mapping[str, Check]
    optional: Mapping[str, Check]
    writes: bool
    """Whether it has to run on the keeper's thread."""
    begin: str | None = None
    """The method that gives its steps, where it may have to wait for something in between."""
    disk: bool = True
    """Whether the index has to catch up with the disk first."""
    once: bool = False
    """Whether doing it twice differs from doing it once; a client marks such a request."""
    writes_with: str | None = None
    """The flag with which an operation that otherwise only reads does."""

    def is_writing(self, values: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments has to run on the keeper's thread."""
        return self.writes or (self.writes_with is not None and bool(values.get(self.writes_with)))

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the engine, checked; None stands for not given."""
        known = {**self.required, **self.optional}
        if self.once:
            known |= {"once": _is_text, "again": _is_flag}
        given = {name: value for name, value in values.items() if value is not None}
        for name in given:
            if name not in known:
                raise UsageError(f"{name} is not an argument", hint=f"known: {', '.join(known)}")
        for name, check in known.items():
            if name in self.required and name not in given:
                raise UsageError(f"{name} is required")
            if name in given and not check(given[name]):
                raise UsageError(f"{name} must be {_WORDS[check]}")
        if "file" in given:
            given["file"] = Path(given["file"])
        return given

    def run(
        self,
        engine: Engine,
        values: Mapping[str, Any],
        progress: Callable[[int], None] | None = None,
    ) -> Any:
        """Call the engine's method with checked arguments."""
        arguments = self.arguments(values)
        if progress is not None:
            arguments["progress"] = progress
        once, again = arguments.pop("once", None), arguments.pop("again", False)
        if once is not None:
            with engine.requested(once, again):
                return getattr(engine, self.method)(**arguments)
        return getattr(engine, self.method)(**arguments)

    def start(self, engine: Engine, values: Mapping[str, Any]) -> Steps:
        """The steps of an operation that is not done in one go."""
        assert self.begin is not None
        steps: Steps = getattr(engine, self.begin)(**self.arguments(values))
        return steps


_LIMITS: Final[dict[str, Check]] = {
    "max_calls": _is_count, "max_cost": _is_number, "yes": _is_flag,
}  # fmt: skip

_CONTENT: Final = {
    "role": _is_text, "text": _is_text, "payload": _is_object, "label": _is_text,
    "ttl": _is_count, "priority": _is_whole, "id": _is_text, "message": _is_text,
    "metadata": _is_object,
}  # fmt: skip


def _session(
    method: str, required: Mapping[str, Check], optional: Mapping[str, Check], *, writes: bool
) -> Operation:
    named = {"name": _is_text, **required}
    return Operation(method, named, optional, writes=writes, disk=False, once=writes)


OPERATIONS: Final[dict[str, Operation]] = {
    "put-frame": Operation(
        "put_frame",
        {"node": _is_text, "content": _is_text, "frame_type": _is_text, "agent": _is_text},
        {"seen": _is_text, "on": _is_text, "meta": _is_table, "allow_secrets": _is_flag},
        writes=True,
    ),
    "get-node": Operation(
        "get_node",
        {"node": _is_text},
        {
            "view": _is_text,
            "max_frames": _is_count,
            "frame_type": _is_text,
            "agent": _is_text,
            "query": _is_text,
        },
        writes=False,
    ),
    "compose": Operation(
        "compose",
        {},
        {
            "nodes": _is_texts,
            "query": _is_text,
            "budget": _is_count,
            "max_frames": _is_count,
            "sources": _is_texts,
            "order": _is_text,
            "require_fresh": _is_flag,
            "record": _is_flag,
            "types": _is_texts,
            "agents": _is_texts,
            "paths": _is_texts,
            "related": _is_texts,
            "since": _is_text,
            "until": _is_text,
        },
        writes=False,
        writes_with="record",
    ),
    "replay": Operation("replay", {"manifest": _is_text}, {}, writes=False),
    "compile": Operation(
        "compile_events", {"events": _is_list}, {"policy": _is_object}, writes=False
    ),
    "list-frames": Operation(
        "list_frames", {"node": _is_text}, {"frame_type": _is_text}, writes=False
    ),
    "get-head": Operation(
        "get_head", {"node": _is_text}, {"frame_type": _is_text, "agent": _is_text}, writes=False
    ),
    "explain": Operation("explain", {"node": _is_text}, {"frame_type": _is_text}, writes=False),
    "regenerate": Operation(
        "regenerate",
        {"node": _is_text},
        {
            "frame_type": _is_text,
            "recursive": _is_flag,
            "plan": _is_flag,
            "agent": _is_text,
            "models": _is_flag,
            **_LIMITS,
        },
        writes=True,
        begin="begin_regenerate",
    ),
    "synthesize": Operation(
        "synthesize",
        {"node": _is_text, "frame_type": _is_text},
        {"policy": _is_text, "agent": _is_text, **_LIMITS},
        writes=True,
        begin="begin_synthesize",
    ),
    "invalidate": Operation(
        "invalidate", {"node": _is_text}, {"frame_type": _is_text}, writes=True
    ),
    "agent-add": Operation(
        "add_agent", {"agent_id": _is_text, "role": _is_text}, {"can": _is_texts}, writes=True
    ),
    "agent-require": Operation(
        "require_agent", {"agent": _is_text, "capability": _is_text}, {}, writes=False
    ),
    "agents": Operation("list_agents", {}, {}, writes=False),
    "export": Operation("export_pack", {"file": _is_text}, {"nodes": _is_texts}, writes=True),
    "import": Operation("import_pack", {"file": _is_text}, {}, writes=True),
    "compact": Operation("compact", {"keep_seconds": _is_number}, {}, writes=True),
    "shared-status": Operation("shared_status", {}, {}, writes=False),
    "shared-push": Operation("shared_push", {}, {}, writes=True),
    "shared-pull": Operation("shared_pull", {}, {}, writes=True),
    "shared-gc": Operation(
        "shared_gc", {"unused_seconds": _is_number}, {"dry_run": _is_flag}, writes=True
    ),
    "session-new": _session(
        "session_new",
        {},
        {
            "budget": _is_count,
            "on_budget": _is_text,
            "max_nodes": _is_count,
            "max_tokens": _is_count,
            "protect_turns": _is_count,
        },
        writes=True,
    ),
    "session-append": _session(
        "session_append",
        {"type": _is_text},
        {
            **_CONTENT,
            "region": _is_text,
            "parent": _is_text,
            "offset": _is_whole,
            "node_type": _is_text,
            "kind": _is_text,
            "references": _is_texts,
            "attributes": _is_object,
        },
        writes=True,
    ),
    "session-edit": _session(
        "session_edit", {"target": _is_text}, {**_CONTENT, "type": _is_text}, writes=True
    ),
    "session-annotate": _session(
        "session_annotate",
        {"target": _is_text, "priority": _is_text},
        {"reason": _is_text},
        writes=True,
    ),
    "session-commit": _session("session_commit", {}, {}, writes=True),
    "session-move": _session(
        "session_move", {"node": _is_text, "parent": _is_text}, {"offset": _is_whole}, writes=True
    ),
    "session-remove": _session("session_remove", {"node": _is_text}, {}, writes=True),
    "session-group": _session(
        "session_group",
        {},
        {
            "parent": _is_text,
            "node_type": _is_text,
            "offset": _is_whole,
            "ttl": _is_count,
            "priority": _is_whole,
            "id": _is_text,
            "removable": _is_flag,
        },
        writes=True,
    ),
    "session-attempt": _session(
        "session_attempt",
        {"attempt_id": _is_text, "status": _is_text, "provider": _is_text, "model": _is_text},
        {"params": _is_object, "token_in": _is_count, "token_out": _is_count, "error": _is_text},
        writes=True,
    ),
    "session-pull": Operation(
        "session_pull",
        {"name": _is_text},
        {
            "nodes": _is_texts,
            "budget": _is_count,
            "ttl": _is_count,
            "offset": _is_whole,
            "query": _is_text,
            "max_frames": _is_count,
            "require_fresh": _is_flag,
        },
        writes=True,
        once=True,
    ),
    "session-import": _session(
        "session_import", {}, {"file": _is_text, "data": _is_text, "form": _is_text}, writes=True
    ),
    "session-select": _session(
        "session_select",
        {"selector": _is_text},
        {
            "include_content": _is_flag,
            "content_mode": _is_text,
            "context_lines": _is_count,
            "max_snapshots": _is_count,
            "max_changes": _is_count,
            "materialize": _is_texts,
        },
        writes=False,
    ),
    "session-diff": _session(
        "session_diff", {"older": _is_text, "newer": _is_text}, {"selector": _is_text}, writes=False
    ),
    "session-render": _session("session_render", {}, {"snapshot": _is_text}, writes=False),
    "session-compile": _session(
        "session_compile",
        {},
        {
            "as_of": _is_text,
            "up_to": _is_text,
            "show_edits": _is_flag,
            "stage": _is_text,
            "roles": _is_table,
            "policy": _is_object,
        },
        writes=False,
    ),
    "session-export": _session(
        "session_export", {}, {"snapshot": _is_text, "form": _is_text}, writes=False
    ),
    "session-list": Operation("session_list", {}, {}, writes=False, disk=False),
    "session-show": _session(
        "session_show", {}, {"snapshot": _is_text, "tree": _is_flag}, writes=False
    ),
}
