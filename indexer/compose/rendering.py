"""Frames and source as chat messages: one each, fenced as data that speaks for nobody."""

from __future__ import annotations

import re
from collections.abc import Sequence

from indexer.core.fence import fenced
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
    """One frame as a message, which stands between two lines that are not in it."""
    bare = bare_message(path, frame_type, agent, freshness, body, symbol, line)
    return _as_data(bare["content"])


def source_message(path: str, symbol: str | None, first: int, last: int, body: str) -> Message:
    """Lines of a file as a message."""
    return _as_data(f"{_source_heading(path, symbol, first, last)}\n\n{body}")


def bare_message(
    path: str,
    frame_type: str,
    agent: str,
    freshness: str,
    body: str,
    symbol: str | None = None,
    line: int | None = None,
) -> Message:
    """One frame without a fence, as in manifests before version 3.

    What is not fresh says so itself, whoever passes it on.
    """
    name = path or "." if symbol is None else f"{path}::{symbol}"
    where = "" if line is None else f", line {line}"
    label = "" if freshness == Freshness.FRESH else f", {freshness}"
    return {"role": ROLE, "content": f"{name} ({frame_type} by {agent}{where}{label})\n\n{body}"}


def bare_source_message(path: str, symbol: str | None, first: int, last: int, body: str) -> Message:
    """Lines of a file as manifests before version 3 show them, between backticks."""
    fence = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(body)), 3)
    end = "" if body.endswith("\n") else "\n"
    heading = _source_heading(path, symbol, first, last)
    return {"role": ROLE, "content": f"{heading}\n\n{fence}\n{body}{end}{fence}"}


def numbered(outline: str, lines: Sequence[int]) -> str:
    """An outline with the line of the symbol before each of its lines; 0 where that has none."""
    if not lines:
        return outline
    told = []
    for text, line in zip(outline.split("\n"), lines, strict=True):
        said = text.lstrip(" ")
        told.append(f"{text[: len(text) - len(said)]}{line}: {said}" if line else text)
    return "\n".join(told)


def _source_heading(path: str, symbol: str | None, first: int, last: int) -> str:
    name = f"{path}::{symbol}" if symbol is not None else path
    return f"{name} ({SOURCE}, lines {first}-{last})"


def _as_data(text: str) -> Message:
    """A message between two lines that follow from it: nothing in it can end the fence."""
    return {"role": ROLE, "content": fenced(text.removesuffix("\n"))}
