"""Frames and source as chat messages: one each, so that no body can pass for another's heading."""

from __future__ import annotations

import re

from indexer.core.frames import Freshness

Message = dict[str, str]

ROLE = "user"
"""Never `system`: what a file says must not speak with the authority of instructions."""

SOURCE = "source"
"""The type of what is shown of a file as it is written."""

_TICKS = re.compile("`{3,}")


def message(
    path: str,
    frame_type: str,
    agent: str,
    freshness: str,
    body: str,
    symbol: str | None = None,
    line: int | None = None,
) -> Message:
    """One frame as a message. What is not fresh says so itself, whoever passes it on."""
    name = path or "." if symbol is None else f"{path}::{symbol}"
    where = "" if line is None else f", line {line}"
    label = "" if freshness == Freshness.FRESH else f", {freshness}"
    return {"role": ROLE, "content": f"{name} ({frame_type} by {agent}{where}{label})\n\n{body}"}


def source_message(path: str, symbol: str | None, first: int, last: int, body: str) -> Message:
    """Lines of a file as a message, fenced by more backticks than any line in it has."""
    name = f"{path}::{symbol}" if symbol is not None else path
    fence = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(body)), 3)
    end = "" if body.endswith("\n") else "\n"
    return {
        "role": ROLE,
        "content": f"{name} ({SOURCE}, lines {first}-{last})\n\n{fence}\n{body}{end}{fence}",
    }
