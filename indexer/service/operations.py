"""The operations on frames as both ends of the socket see them: names, arguments, thread."""

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
    is_number,
    is_table,
    is_text,
    is_texts,
)

if TYPE_CHECKING:
    from indexer.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Operation:
    """One engine method that can be called from outside."""

    method: str
    required: Mapping[str, Check]
    optional: Mapping[str, Check]
    writes: bool
    """Whether it has to run on the keeper's thread."""

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the engine, checked; None stands for not given."""
        given = checked(self.required, self.optional, values)
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
        {"view": is_text, "max_frames": is_count, "frame_type": is_text, "agent": is_text},
        writes=False,
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
        {"frame_type": is_text, "recursive": is_flag, "plan": is_flag},
        writes=True,
    ),
    "synthesize": Operation(
        "synthesize",
        {"node": is_text, "frame_type": is_text},
        {"policy": is_text, "agent": is_text},
        writes=True,
    ),
    "invalidate": Operation("invalidate", {"node": is_text}, {"frame_type": is_text}, writes=True),
    "agent-add": Operation(
        "add_agent", {"agent_id": is_text, "role": is_text}, {"can": is_texts}, writes=True
    ),
    "agents": Operation("list_agents", {}, {}, writes=False),
    "export": Operation("export_pack", {"file": is_file}, {"nodes": is_texts}, writes=True),
    "import": Operation("import_pack", {"file": is_file}, {}, writes=True),
    "lock": Operation("lock", {}, {}, writes=True),
    "prove": Operation("prove", {"node": is_text}, {}, writes=False),
    "report": Operation("report", {}, {"base": is_text}, writes=False),
    "compact": Operation("compact", {"keep_seconds": is_number}, {}, writes=True),
}
