"""Leaving candidates out by type, agent, path and date, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from fnmatch import translate
from re import compile as compile_pattern
from typing import Final

from indexer.compose.candidates import Candidate
from indexer.compose.rendering import SOURCE
from indexer.compose.request import Request
from indexer.core import paths
from indexer.core.frames import FrameId

_WILD: Final = frozenset("*?[")


class Filters:
    """The conditions of a request; the first that a candidate fails is its reason."""

    def __init__(self, request: Request, in_time: AbstractSet[FrameId] | None) -> None:
        self._types = frozenset(request.kept_types)
        self._agents = frozenset(request.kept_agents)
        self._folders = tuple(p for p in request.paths if not _WILD & set(p))
        self._patterns = tuple(
            compile_pattern(translate(p)) for p in request.paths if _WILD & set(p)
        )
        self._in_time = in_time

    @property
    def empty(self) -> bool:
        """Whether everything passes."""
        conditions = (self._types, self._agents, self._folders, self._patterns)
        return not any(conditions) and self._in_time is None

    def reason(self, candidate: Candidate) -> str | None:
        """Why a candidate is left out; None when it stays."""
        if self._types and candidate.type not in self._types:
            return "type"
        if self._agents and candidate.agent not in self._agents:
            return "agent"
        if not self.is_named(candidate.path):
            return "path"
        if self._in_time is not None and candidate.frame_id not in self._in_time:
            return "date"
        return None

    @property
    def has_source(self) -> bool:
        """Whether files' own text passes, which no agent wrote and which has no date."""
        return (
            (not self._types or SOURCE in self._types)
            and not self._agents
            and self._in_time is None
        )

    def is_named(self, path: str) -> bool:
        """Whether a path is among those that are asked for."""
        if not self._folders and not self._patterns:
            return True
        return any(paths.is_within(path, folder) for folder in self._folders) or any(
            pattern.match(path) for pattern in self._patterns
        )

    def split(
        self, candidates: Iterable[Candidate]
    ) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
        """The candidates that stay, and the others with their reasons."""
        kept: list[Candidate] = []
        left: list[tuple[Candidate, str]] = []
        for candidate in candidates:
            reason = self.reason(candidate)
            if reason is None:
                kept.append(candidate)
            else:
                left.append((candidate, reason))
        return kept, left
