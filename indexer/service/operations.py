"""The operations as both ends of the socket see them: names, arguments, thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from indexer.service.arguments import (
    Check,
    checked,
    is_count,
    is_file,
    is_flag,
    is_list,
    is_number,
    is_object,
    is_table,
    is_text,
    is_texts,
    is_whole,
)

if TYPE_CHECKING:
    from indexer.engine.long_work import Steps
    from indexer.engine.workspace import Engine

_MARKS: Final[dict[str, Check]] = {"once": is_text, "again": is_flag}
"""With which a client makes sure that a request is carried out once."""


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

    @property
    def may_have(self) -> Mapping[str, Check]:
        """The arguments that may be given, the marks of a request among them."""
        return {**self.optional, **_MARKS} if self.once else self.optional

    def is_writing(self, values: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments has to run on the keeper's thread."""
        return self.writes or (self.writes_with is not None and bool(values.get(self.writes_with)))

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the engine, checked; None stands for not given."""
        given = checked(self.required, self.may_have, values)
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
    "max_calls": is_count, "max_cost": is_number, "yes": is_flag,
}  # fmt: skip

_CONTENT: Final = {
    "role": is_text, "text": is_text, "payload": is_object, "label": is_text,
    "ttl": is_count, "priority": is_whole, "id": is_text, "message": is_text,
    "metadata": is_object, "allow_secrets": is_flag,
}  # fmt: skip


def _session(
    method: str, required: Mapping[str, Check], optional: Mapping[str, Check], *, writes: bool
) -> Operation:
    named = {"name": is_text, **required}
    return Operation(method, named, optional, writes=writes, disk=False, once=writes)


OPERATIONS: Final[dict[str, Operation]] = {
    "put-frame": Operation(
        "put_frame",
        {"node": is_text, "content": is_text, "frame_type": is_text, "agent": is_text},
        {"seen": is_text, "on": is_text, "meta": is_table, "allow_secrets": is_flag},
        writes=True,
    ),
    "get-node": Operation(
        "get_node",
        {"node": is_text},
        {
            "view": is_text,
            "max_frames": is_count,
            "frame_type": is_text,
            "agent": is_text,
            "query": is_text,
        },
        writes=False,
    ),
    "compose": Operation(
        "compose",
        {},
        {
            "nodes": is_texts,
            "query": is_text,
            "budget": is_count,
            "max_frames": is_count,
            "sources": is_texts,
            "order": is_text,
            "require_fresh": is_flag,
            "record": is_flag,
            "types": is_texts,
            "agents": is_texts,
            "paths": is_texts,
            "related": is_texts,
            "since": is_text,
            "until": is_text,
        },
        writes=False,
        writes_with="record",
    ),
    "replay": Operation("replay", {"manifest": is_text}, {}, writes=False),
    "compile": Operation(
        "compile_events", {"events": is_list}, {"policy": is_object}, writes=False
    ),
    "list-frames": Operation(
        "list_frames", {"node": is_text}, {"frame_type": is_text}, writes=False
    ),
    "get-head": Operation(
        "get_head", {"node": is_text}, {"frame_type": is_text, "agent": is_text}, writes=False
    ),
    "explain": Operation("explain", {"node": is_text}, {"frame_type": is_text}, writes=False),
    "regenerate": Operation(
        "regenerate",
        {"node": is_text},
        {
            "frame_type": is_text,
            "recursive": is_flag,
            "plan": is_flag,
            "agent": is_text,
            "models": is_flag,
            **_LIMITS,
        },
        writes=True,
        begin="begin_regenerate",
    ),
    "synthesize": Operation(
        "synthesize",
        {"node": is_text, "frame_type": is_text},
        {"policy": is_text, "agent": is_text, **_LIMITS},
        writes=True,
        begin="begin_synthesize",
    ),
    "invalidate": Operation("invalidate", {"node": is_text}, {"frame_type": is_text}, writes=True),
    "agent-add": Operation(
        "add_agent", {"agent_id": is_text, "role": is_text}, {"can": is_texts}, writes=True
    ),
    "agent-require": Operation(
        "require_agent", {"agent": is_text, "capability": is_text}, {}, writes=False
    ),
    "agents": Operation("list_agents", {}, {}, writes=False),
    "export": Operation("export_pack", {"file": is_file}, {"nodes": is_texts}, writes=True),
    "import": Operation("import_pack", {"file": is_file}, {"allow_secrets": is_flag}, writes=True),
    "lock": Operation("lock", {}, {}, writes=True),
    "prove": Operation("prove", {"node": is_text}, {}, writes=False),
    "report": Operation("report", {}, {"base": is_text}, writes=False),
    "compact": Operation(
        "compact", {"keep_seconds": is_number}, {}, writes=True, begin="begin_compact"
    ),
    "shared-status": Operation("shared_status", {}, {}, writes=False),
    "shared-push": Operation("shared_push", {}, {}, writes=True),
    "shared-pull": Operation("shared_pull", {}, {}, writes=True),
    "shared-gc": Operation(
        "shared_gc", {"unused_seconds": is_number}, {"dry_run": is_flag}, writes=True
    ),
    "session-new": _session(
        "session_new",
        {},
        {
            "budget": is_count,
            "on_budget": is_text,
            "max_nodes": is_count,
            "max_tokens": is_count,
            "protect_turns": is_count,
        },
        writes=True,
    ),
    "session-append": _session(
        "session_append",
        {"type": is_text},
        {
            **_CONTENT,
            "region": is_text,
            "parent": is_text,
            "offset": is_whole,
            "node_type": is_text,
            "kind": is_text,
            "references": is_texts,
            "attributes": is_object,
        },
        writes=True,
    ),
    "session-edit": _session(
        "session_edit", {"target": is_text}, {**_CONTENT, "type": is_text}, writes=True
    ),
    "session-annotate": _session(
        "session_annotate",
        {"target": is_text, "priority": is_text},
        {"reason": is_text},
        writes=True,
    ),
    "session-commit": _session("session_commit", {}, {}, writes=True),
    "session-move": _session(
        "session_move", {"node": is_text, "parent": is_text}, {"offset": is_whole}, writes=True
    ),
    "session-remove": _session("session_remove", {"node": is_text}, {}, writes=True),
    "session-group": _session(
        "session_group",
        {},
        {
            "parent": is_text,
            "node_type": is_text,
            "offset": is_whole,
            "ttl": is_count,
            "priority": is_whole,
            "id": is_text,
            "removable": is_flag,
        },
        writes=True,
    ),
    "session-attempt": _session(
        "session_attempt",
        {"attempt_id": is_text, "status": is_text, "provider": is_text, "model": is_text},
        {"params": is_object, "token_in": is_count, "token_out": is_count, "error": is_text},
        writes=True,
    ),
    "session-pull": Operation(
        "session_pull",
        {"name": is_text},
        {
            "nodes": is_texts,
            "budget": is_count,
            "ttl": is_count,
            "offset": is_whole,
            "query": is_text,
            "max_frames": is_count,
            "require_fresh": is_flag,
        },
        writes=True,
        once=True,
    ),
    "session-import": _session(
        "session_import",
        {},
        {"file": is_text, "data": is_text, "form": is_text, "allow_secrets": is_flag},
        writes=True,
    ),
    "session-select": _session(
        "session_select",
        {"selector": is_text},
        {
            "include_content": is_flag,
            "content_mode": is_text,
            "context_lines": is_count,
            "max_snapshots": is_count,
            "max_changes": is_count,
            "materialize": is_texts,
        },
        writes=False,
    ),
    "session-diff": _session(
        "session_diff", {"older": is_text, "newer": is_text}, {"selector": is_text}, writes=False
    ),
    "session-render": _session("session_render", {}, {"snapshot": is_text}, writes=False),
    "session-compile": _session(
        "session_compile",
        {},
        {
            "as_of": is_text,
            "up_to": is_text,
            "show_edits": is_flag,
            "stage": is_text,
            "roles": is_table,
            "policy": is_object,
        },
        writes=False,
    ),
    "session-export": _session(
        "session_export", {}, {"snapshot": is_text, "form": is_text}, writes=False
    ),
    "session-list": Operation("session_list", {}, {}, writes=False, disk=False),
    "session-show": _session(
        "session_show", {}, {"snapshot": is_text, "tree": is_flag}, writes=False
    ),
}
