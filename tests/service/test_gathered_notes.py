"""A note written through the service moves the folders' frames that take it in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until


def test_a_note_is_taken_in_without_any_file_having_changed(
    sample: Path, services: Callable[..., Any]
) -> None:
    (sample / "merkle.toml").write_text('[types.note]\nfolder = "concatenate"\n')
    (sample / "pack").mkdir()
    (sample / "pack/it.py").write_text("x = 1\n")
    service = services(sample).ready()
    client = service.client
    client.post("/v1/agent-add", {"agent_id": "ann", "role": "writer"})
    for text in ("first words", "second words"):
        arguments = {"node": "pack/it.py", "content": text, "frame_type": "note", "agent": "ann"}
        client.post("/v1/put-frame", arguments)

        def taken_in(wanted: str = text) -> bool:
            found = client.post("/v1/get-node", {"node": "", "frame_type": "note"})["frames"]
            return any(one["freshness"] == "fresh" and wanted in one["content"] for one in found)

        wait_until(taken_in, "the root's frame says it")
    service.goes_idle()
