"""The operations: which function of the engine each is, and how it has to be run.

What an operation takes and gives stands in its function's signature and nowhere else. Its route,
the checks of what a client sends, the OpenAPI description and the methods of `Workspace` come from
there.
"""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from indexer.core.arguments import FLAG, TEXT, Shape, alternatives, checked, of_annotation
from indexer.core.progress import Progress
from indexer.engine.long_work import LongWork, run_to_end
from indexer.errors import MalformedError

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

_MARKS: Final[dict[str, Shape]] = {"once": TEXT, "again": FLAG}
"""Arguments with which a client makes sure that a request is carried out once."""

_OF_THE_PROCESS: Final = ("engine", "progress")
"""Parameters that the process gives, and no client."""


class Signature(NamedTuple):
    """What an operation takes from outside, and what it gives."""

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape]
    documents: tuple[Any, ...]
    """The types of what it may give, the usual one first."""


class Operation(NamedTuple):
    """One function of the engine that can be called from outside.

    Its module is imported when it is first called: a client of a service needs none of them.
    """

    module: str
    """Below `indexer.engine`."""
    name: str
    writes: bool = False
    """Whether it has to run on the writing thread."""
    in_steps: bool = False
    """Whether its function gives steps, between which others have their turn."""
    disk: bool = True
    """Whether the index has to catch up with the disk first."""
    once: bool = False
    """Whether doing it twice differs from doing it once; a client marks such a request."""
    writes_with: str | None = None
    """The flag with which an operation that otherwise only reads does."""
    get: bool = False
    """Whether it is asked for by GET, with its arguments in the query."""
    creates: bool = False
    """Whether it makes a workspace of a folder that is none."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        return _function(self.module, self.name)

    @property
    def signature(self) -> Signature:
        """What its function says of itself, the marks of a request added."""
        found = _signature(self.function)
        return found._replace(optional={**found.optional, **_MARKS}) if self.once else found

    @property
    def known(self) -> Mapping[str, Shape]:
        """Everything that can be given."""
        required, optional, _ = self.signature
        return {**required, **optional}

    @property
    def summary(self) -> str:
        """The first sentence about it."""
        return inspect.cleandoc(self.function.__doc__ or "").partition("\n")[0]

    def is_writing(self, values: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments has to run on the writing thread."""
        return self.writes or (self.writes_with is not None and bool(values.get(self.writes_with)))

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the function, checked; None stands for not given."""
        required, optional, _ = self.signature
        given = checked(required, optional, values)
        chosen = alternatives(self.function)
        if chosen and sum(name in given for name in chosen) != 1:
            raise MalformedError(f"exactly one is needed of: {', '.join(chosen)}")
        return given

    def run(
        self, engine: Engine, values: Mapping[str, Any], progress: Progress | None = None
    ) -> Any:
        """Do it in one go, by whoever owns the engine."""
        arguments = self.arguments(values)
        once, again = arguments.pop("once", None), arguments.pop("again", False)
        if once is not None:
            with engine.sessions.requested(once, again):
                return self._call(engine, arguments, progress)
        done = self._call(engine, arguments, progress)
        return run_to_end(done) if self.in_steps else done

    def start(
        self, engine: Engine, values: Mapping[str, Any], progress: Progress | None = None
    ) -> LongWork[Any]:
        """The steps of an operation that is not done in one go."""
        steps: LongWork[Any] = self._call(engine, self.arguments(values), progress)
        return steps

    def _call(self, engine: Engine, arguments: dict[str, Any], progress: Progress | None) -> Any:
        if progress is not None and _tells(self.function):
            arguments["progress"] = progress
        return self.function(engine, **arguments)


@cache
def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(f"indexer.engine.{module}"), name)
    return found


@cache
def _tells(function: Callable[..., Any]) -> bool:
    """Whether it tells how far it has come."""
    return "progress" in inspect.signature(function).parameters


@cache
def _signature(function: Callable[..., Any]) -> Signature:
    required: dict[str, Shape] = {}
    optional: dict[str, Shape] = {}
    found = inspect.signature(function)
    for name, parameter in found.parameters.items():
        if name not in _OF_THE_PROCESS:
            shape = of_annotation(evaluated(function, parameter.annotation))
            (required if parameter.default is parameter.empty else optional)[name] = shape
    gives = evaluated(function, found.return_annotation)
    if typing.get_origin(gives) is LongWork:
        (gives,) = typing.get_args(gives)
    return Signature(required, optional, typing.get_args(gives) or (gives,))


def evaluated(function: Callable[..., Any], annotation: Any) -> Any:
    """An annotation as the value it stands for in the function's own module."""
    if not isinstance(annotation, str):
        return annotation
    # Not by `get_type_hints`, which would need the engine's own type at run time too.
    return eval(annotation, vars(importlib.import_module(function.__module__)))


def _session(module: str, name: str, *, writes: bool = False) -> Operation:
    return Operation(f"sessions.{module}", name, writes=writes, disk=False, once=writes)


OPERATIONS: Final[dict[str, Operation]] = {
    "status": Operation("tree.status", "status", get=True),
    "scan": Operation("tree.scan", "scan", writes=True, creates=True),
    "validate": Operation("durable.validate", "validate", writes=True),
    "log": Operation("tree.history", "log", disk=False, get=True),
    "diff": Operation("tree.history", "diff", disk=False, get=True),
    "changes": Operation("tree.since_commit", "changes"),
    "sql": Operation("search.sql", "sql", disk=False),
    "resolve": Operation("tree.resolve", "resolve", get=True),
    "ls": Operation("tree.listing", "ls"),
    # Not that it wrote anything: the rules belong to the writing thread.
    "why-ignored": Operation("tree.resolve", "why_ignored", writes=True, disk=False, get=True),
    "put-frame": Operation("frames.notes", "put_frame", writes=True),
    "put-frames": Operation("frames.notes", "put_frames", writes=True),
    "note": Operation("frames.notebook", "note", writes=True),
    "notes": Operation("frames.notebook", "notes"),
    "confirm-note": Operation("frames.notebook", "confirm_note", writes=True),
    "withdraw-note": Operation("frames.notebook", "withdraw_note", writes=True),
    "export-notes": Operation("durable.note_lines", "export_notes", writes=True),
    "import-notes": Operation("durable.note_lines", "import_notes", writes=True),
    "get-node": Operation("frames.read", "get_node"),
    "get-nodes": Operation("frames.read", "get_nodes"),
    "compose": Operation("search.compose", "compose", writes_with="record"),
    "search": Operation("search.search", "search"),
    "count": Operation("search.count", "count", disk=False),
    "replay": Operation("search.compose", "replay"),
    "compile": Operation("search.compose", "compile_events"),
    "show": Operation("code.source", "show"),
    "symbols": Operation("code.questions", "symbols"),
    "definition": Operation("code.questions", "definition"),
    "references": Operation("code.questions", "references"),
    "callers": Operation("code.questions", "callers"),
    "callees": Operation("code.questions", "callees"),
    "impact": Operation("code.questions", "impact"),
    "list-frames": Operation("frames.read", "list_frames"),
    "get-frame": Operation("frames.read", "get_frame"),
    "get-head": Operation("frames.read", "get_head"),
    "explain": Operation("frames.explain", "explain"),
    "regenerate": Operation("make.commands", "regenerate", writes=True, in_steps=True),
    "synthesize": Operation("make.commands", "synthesize", writes=True, in_steps=True),
    "invalidate": Operation("make.commands", "invalidate", writes=True),
    "agent-add": Operation("frames.agents", "add_agent", writes=True),
    "agent-require": Operation("frames.agents", "require_agent"),
    "agents": Operation("frames.agents", "list_agents"),
    "export": Operation("durable.packs", "export_pack", writes=True),
    "import": Operation("durable.packs", "import_pack", writes=True),
    "lock": Operation("tree.lock", "lock", writes=True, creates=True),
    "prove": Operation("tree.lock", "prove"),
    "report": Operation("tree.report", "report"),
    "compact": Operation("durable.compact", "compact", writes=True, in_steps=True),
    "shared-status": Operation("team.commands", "shared_status"),
    "shared-push": Operation("team.commands", "shared_push", writes=True),
    "shared-pull": Operation("team.commands", "shared_pull", writes=True),
    "shared-gc": Operation("team.commands", "shared_gc", writes=True),
    "session-new": _session("write", "new", writes=True),
    "session-append": _session("write", "append", writes=True),
    "session-edit": _session("write", "edit", writes=True),
    "session-set": _session("live", "set_block", writes=True),
    "session-annotate": _session("write", "annotate", writes=True),
    "session-commit": _session("write", "commit", writes=True),
    "session-move": _session("write", "move", writes=True),
    "session-remove": _session("write", "remove", writes=True),
    "session-group": _session("write", "group", writes=True),
    "session-attempt": Operation("sessions.attempts", "attempt", writes=True, once=True),
    "session-append-message": _session("provider_messages", "append_message", writes=True),
    "session-budget": _session("budgets", "budget", writes=True),
    "session-pull": Operation("sessions.pull", "pull", writes=True, once=True),
    "session-import": _session("imports", "import_session", writes=True),
    "session-fork": _session("keep", "fork", writes=True),
    "session-rename": _session("keep", "rename", writes=True),
    "session-delete": _session("keep", "delete", writes=True),
    "session-restore": _session("keep", "restore", writes=True),
    "session-merge": _session("keep", "merge_sessions", writes=True),
    "session-log": _session("keep", "log"),
    "session-select": _session("read", "select"),
    "session-diff": _session("read", "diff"),
    "session-render": _session("read", "render"),
    "session-compile": Operation("sessions.read", "compile_session"),
    "session-export": _session("read", "export"),
    "session-tree": Operation("sessions.ctrees", "tree"),
    "session-list": _session("read", "list_sessions"),
    "session-show": _session("read", "show"),
}
