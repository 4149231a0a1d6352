"""The operations on frames as both ends of the socket see them: names, arguments, thread."""

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


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


_WORDS: Final[dict[Check, str]] = {
    _is_text: "text",
    _is_flag: "true or false",
    _is_count: "a whole number, not negative",
    _is_number: "a number, not negative",
    _is_texts: "a list of texts",
    _is_table: "an object of texts",
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

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the engine, checked; None stands for not given."""
        known = {**self.required, **self.optional}
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
        return getattr(engine, self.method)(**arguments)

    def start(self, engine: Engine, values: Mapping[str, Any]) -> Steps:
        """The steps of an operation that is not done in one go."""
        assert self.begin is not None
        steps: Steps = getattr(engine, self.begin)(**self.arguments(values))
        return steps


_LIMITS: Final[dict[str, Check]] = {
    "max_calls": _is_count, "max_cost": _is_number, "yes": _is_flag,
}  # fmt: skip

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
        {"view": _is_text, "max_frames": _is_count, "frame_type": _is_text, "agent": _is_text},
        writes=False,
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
}
