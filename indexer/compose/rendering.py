"""Frames as chat messages: one each, so that no body can pass for the heading of another."""

from __future__ import annotations

from indexer.core.frames import Freshness

Message = dict[str, str]

ROLE = "user"
"""Never `system`: what a file says must not speak with the authority of instructions."""


def message(path: str, frame_type: str, agent: str, freshness: str, body: str) -> Message:
    """One frame as a message. What is not fresh says so itself, whoever passes it on."""
    label = "" if freshness == Freshness.FRESH else f", {freshness}"
    return {"role": ROLE, "content": f"{path or '.'} ({frame_type} by {agent}{label})\n\n{body}"}
