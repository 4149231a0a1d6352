"""The operations as methods, written by `python -m indexer.service.signatures`.

Each passes its arguments on by name; what they mean is said where the operation is.
"""
# What an operation gives is known by its declaration alone.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indexer.engine.documents import DiffDocument
    from indexer.engine.durable.packs import ExportedDocument, ImportedDocument
    from indexer.engine.durable.validate import ValidateDocument
    from indexer.engine.frames.agents import AgentsDocument
    from indexer.engine.frames.explain import ExplainDocument
    from indexer.engine.frames.notes import WrittenDocument
    from indexer.engine.frames.read import (
        FrameDocument,
        FrameListDocument,
        HeadListDocument,
        NodeContextDocument,
    )
    from indexer.engine.make.commands import InvalidatedDocument
    from indexer.engine.search.compose import ContextDocument
    from indexer.engine.search.sql import SqlDocument
    from indexer.engine.sessions.imports import ImportedSessionDocument
    from indexer.engine.sessions.read import (
        ExportedSessionDocument,
        RenderedDocument,
        SessionsDocument,
    )
    from indexer.engine.sessions.write import (
        AnnotatedDocument,
        AttemptDocument,
        BegunDocument,
        CommittedDocument,
        EditedDocument,
        GroupedDocument,
        MovedDocument,
        RemovedDocument,
    )
    from indexer.engine.team.commands import PulledDocument, PushedDocument, SweptDocument
    from indexer.engine.tree.history import LogDocument
    from indexer.engine.tree.lock import LockDocument
    from indexer.engine.tree.resolve import NodeDocument
    from indexer.engine.tree.scan import ScanDocument
    from indexer.engine.tree.status import StatusDocument

JsonObject = dict[str, Any]


class Methods(ABC):
    """One method per operation, for whoever can run an operation by name."""

    @abstractmethod
    def _operate(self, name: str, values: dict[str, Any]) -> Any:
        """Run an operation here, or in the service."""

    def status(self, *, wait: bool = True) -> StatusDocument:
        """Compare the disk with the index; with a service, first wait until it has seen all.

        Without a service there is nothing to wait for: the disk itself is looked at.
        """
        return self._operate("status", locals())

    def scan(
        self,
        *,
        force: bool = False,
        accept_empty: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ScanDocument:
        """Bring the index up to date with the disk."""
        return self._operate("scan", locals())

    def validate(
        self,
        *,
        content: bool = False,
        subset: tuple[int, int] | None = None,
        expect_root: str | None = None,
        locked: bool = False,
    ) -> ValidateDocument:
        """Every invariant; the disk against the index (`content`) or merkle.lock (`locked`)."""
        return self._operate("validate", locals())

    def log(self, limit: int = 20) -> LogDocument:
        """Recorded roots, newest first."""
        return self._operate("log", locals())

    def diff(self, old: str, new: str) -> DiffDocument:
        """What differs between two recorded roots, or between two recorded manifests."""
        return self._operate("diff", locals())

    def sql(self, query: str, *, limit: int = 1000, timeout: float = 10.0) -> SqlDocument:
        """One read-only SELECT on the documented views."""
        return self._operate("sql", locals())

    def resolve(self, node: str) -> NodeDocument:
        """The node that a path or an id prefix stands for."""
        return self._operate("resolve", locals())

    def why_ignored(self, path: str) -> JsonObject:
        """The rule that leaves a path out of the tree, or lets it in.

        It is judged as what is on disk there, and as a folder when in doubt.
        """
        return self._operate("why-ignored", locals())

    def put_frame(
        self,
        node: str,
        content: str,
        *,
        frame_type: str,
        agent: str,
        seen: str | None = None,
        on: str | None = None,
        meta: Mapping[str, str] | None = None,
        allow_secrets: bool = False,
    ) -> WrittenDocument:
        """Append a note, bound to what its author read.

        `seen` is the NodeID that was read; without it the node as it is now.
        """
        return self._operate("put-frame", locals())

    def get_node(
        self,
        node: str,
        *,
        view: str = "recency",
        max_frames: int = 20,
        frame_type: str | None = None,
        agent: str | None = None,
        query: str | None = None,
    ) -> NodeContextDocument:
        """A node with the frames a view selects."""
        return self._operate("get-node", locals())

    def compose(
        self,
        nodes: Sequence[str] = (),
        *,
        query: str | None = None,
        budget: int | None = None,
        max_frames: int | None = None,
        sources: Sequence[str] = (),
        order: str | None = None,
        require_fresh: bool = False,
        record: bool = False,
        types: Sequence[str] = (),
        agents: Sequence[str] = (),
        paths: Sequence[str] = (),
        related: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ContextDocument:
        """A bounded selection of frames as messages, with its manifest.

        Without nodes the whole workspace is the source. Without a budget it is 8,000 tokens.
        The manifest is stored only on request.
        """
        return self._operate("compose", locals())

    def replay(self, manifest: str) -> ContextDocument:
        """The messages of a recorded manifest again.

        They are the same byte for byte, with the freshness as it was then.
        """
        return self._operate("replay", locals())

    def compile(
        self, events: Sequence[object], policy: Mapping[str, object] | None = None
    ) -> JsonObject:
        """The staged compiler on a stream of events.

        It needs nothing of the workspace, as `indexer.compile_stages` shows.
        """
        return self._operate("compile", locals())

    def list_frames(
        self,
        node: str,
        *,
        frame_type: str | None = None,
        content: bool = False,
        limit: int | None = None,
    ) -> FrameListDocument:
        """The history of a node, newest first; with what the frames say on request.

        A path that is gone has its history still.
        """
        return self._operate("list-frames", locals())

    def get_frame(self, frame: str) -> FrameDocument:
        """One frame, whole: what it says, what it was made from, and whether it still holds.

        It is named by its id or by 6 or more digits of it.
        """
        return self._operate("get-frame", locals())

    def get_head(
        self, node: str, *, frame_type: str | None = None, agent: str | None = None
    ) -> HeadListDocument:
        """The heads of a node."""
        return self._operate("get-head", locals())

    def explain(self, node: str, *, frame_type: str | None = None) -> ExplainDocument:
        """Why a frame is what it is, or why it is stale."""
        return self._operate("explain", locals())

    def regenerate(
        self,
        node: str = "",
        *,
        frame_type: str | None = None,
        recursive: bool = True,
        plan: bool = False,
        agent: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        yes: bool = False,
        models: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """Make again what is stale at a node, or only tell what that would be.

        Calls of models are limited by `max_calls` and `max_cost`; without either, a large run
        has to be agreed to with `yes`. Without `models` none is asked.
        """
        return self._operate("regenerate", locals())

    def synthesize(
        self,
        node: str,
        *,
        frame_type: str,
        policy: str | None = None,
        agent: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        yes: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """Frames of a type for a folder, children first.

        Calls of models are limited as in `regenerate`.
        """
        return self._operate("synthesize", locals())

    def invalidate(self, node: str, *, frame_type: str | None = None) -> InvalidatedDocument:
        """Make generated frames run again next time, past the memo.

        The generation of their memo keys moves, and their proofs are taken back.
        """
        return self._operate("invalidate", locals())

    def agent_add(self, agent_id: str, role: str, can: Sequence[str] = ()) -> AgentsDocument:
        """Register an agent.

        One that is known gets another role.
        """
        return self._operate("agent-add", locals())

    def agent_require(self, agent: str, capability: str) -> JsonObject:
        """Raise unless a registered agent may do that: read, write or synthesize.

        For what is done in no agent's name.
        """
        return self._operate("agent-require", locals())

    def agent_list(self) -> AgentsDocument:
        """Every registered agent."""
        return self._operate("agents", locals())

    def export(self, file: str | os.PathLike[str], nodes: Sequence[str] = ()) -> ExportedDocument:
        """Write what was written and computed to a file.

        Everything, or what is about some nodes. Computed results are signed where the environment
        has the team's key, so that they are believed where the key is known too.
        """
        return self._operate("export", locals())

    def import_(
        self, file: str | os.PathLike[str], *, trust: bool = False, allow_secrets: bool = False
    ) -> ImportedDocument:
        """Take in a pack.

        It is checked whole, then journalled and stored; what is known already is left. Computed
        results are taken where the team's key vouches for them; with `trust` others are used here
        too, and given to nobody. Secrets are refused in what was written, and masked in what was
        generated.
        """
        return self._operate("import", locals())

    def lock(self) -> LockDocument:
        """Bring the index up to date and write merkle.lock.

        A file that says the same already is left alone.
        """
        return self._operate("lock", locals())

    def prove(self, node: str) -> JsonObject:
        """The proof that the recorded root holds a node; sha256 workspaces only."""
        return self._operate("prove", locals())

    def report(self, base: str | None = None) -> JsonObject:
        """Root, coverage, freshness, changes since a base root, and a map.

        All of it depends on content alone: no clock, no place, no process.
        """
        return self._operate("report", locals())

    def compact(self, keep_seconds: float | None = None) -> JsonObject:
        """Forget old history and the bodies of old deterministic frames, and shrink the index.

        Roots are kept as the settings `history.keep` and `history.keep_count` say. Bodies are kept
        as long as they belong to such a root or, with a time, only if they are younger than that.
        """
        return self._operate("compact", locals())

    def shared_status(self) -> JsonObject:
        """Whether the team's store can be reached, and what it holds.

        And what it still has to get.
        """
        return self._operate("shared-status", locals())

    def shared_push(self, *, progress: Callable[[int], None] | None = None) -> PushedDocument:
        """Give the team what it lacks.

        That is all that is due, and the results behind the present frames.
        """
        return self._operate("shared-push", locals())

    def shared_pull(self, *, progress: Callable[[int], None] | None = None) -> PulledDocument:
        """Bring here what the team has.

        Every result of the namespace that is not known, for work without the server.
        """
        return self._operate("shared-pull", locals())

    def shared_gc(self, unused_seconds: float, *, dry_run: bool = False) -> SweptDocument:
        """Drop from the team's store what nobody has used for so long.

        The store's own clock counts. Uses are noted once a day, so a time is a day or more; 0 drops
        everything that nobody computes just now.
        """
        return self._operate("shared-gc", locals())

    def session_new(
        self,
        name: str,
        *,
        budget: int | None = None,
        on_budget: str | None = None,
        max_nodes: int | None = None,
        max_tokens: int | None = None,
        protect_turns: int | None = None,
    ) -> BegunDocument:
        """Begin a session, with a token budget and limits that pruning keeps."""
        return self._operate("session-new", locals())

    def session_append(
        self,
        name: str,
        *,
        type: str,
        role: str | None = None,
        text: str | None = None,
        payload: Mapping[str, Any] | None = None,
        label: str | None = None,
        region: str | None = None,
        parent: str | None = None,
        offset: int | None = None,
        ttl: int | None = None,
        priority: int | None = None,
        id: str | None = None,
        node_type: str | None = None,
        kind: str | None = None,
        references: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
        message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        allow_secrets: bool = False,
    ) -> CommittedDocument:
        """Add a block; `label` names who speaks, the tool, or the kind of artifact."""
        return self._operate("session-append", locals())

    def session_edit(
        self,
        name: str,
        target: str,
        *,
        type: str | None = None,
        role: str | None = None,
        text: str | None = None,
        payload: Mapping[str, Any] | None = None,
        label: str | None = None,
        ttl: int | None = None,
        priority: int | None = None,
        id: str | None = None,
        message: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        allow_secrets: bool = False,
    ) -> EditedDocument:
        """Replace what a block says when compiled; what it said stays in the tree."""
        return self._operate("session-edit", locals())

    def session_annotate(
        self, name: str, target: str, priority: str, *, reason: str | None = None
    ) -> AnnotatedDocument:
        """Pin, skip or free a block."""
        return self._operate("session-annotate", locals())

    def session_commit(self, name: str) -> JsonObject:
        """Seal the cycle."""
        return self._operate("session-commit", locals())

    def session_move(
        self, name: str, node: str, parent: str, *, offset: int | None = None
    ) -> MovedDocument:
        """Hang a node elsewhere in the working tree; `parent` may be sys or ah."""
        return self._operate("session-move", locals())

    def session_remove(self, name: str, node: str) -> RemovedDocument:
        """Take a node out of the working tree."""
        return self._operate("session-remove", locals())

    def session_group(
        self,
        name: str,
        *,
        parent: str | None = None,
        node_type: str | None = None,
        offset: int | None = None,
        ttl: int | None = None,
        priority: int | None = None,
        id: str | None = None,
        removable: bool = True,
    ) -> GroupedDocument:
        """Add an empty container.

        It goes once it is empty again, unless it is not removable.
        """
        return self._operate("session-group", locals())

    def session_attempt(
        self,
        name: str,
        attempt_id: str,
        *,
        status: str,
        provider: str,
        model: str,
        params: Mapping[str, Any] | None = None,
        token_in: int | None = None,
        token_out: int | None = None,
        error: str | None = None,
    ) -> AttemptDocument:
        """Record a provider call, or how it ended, beside the history."""
        return self._operate("session-attempt", locals())

    def session_pull(
        self,
        name: str,
        nodes: Sequence[str] = (),
        *,
        budget: int | None = None,
        ttl: int | None = None,
        offset: int | None = None,
        query: str | None = None,
        max_frames: int | None = None,
        require_fresh: bool = False,
    ) -> JsonObject:
        """Compose workspace context into the active head, as blocks that name their frames.

        All that is composed is appended, or nothing is.
        """
        return self._operate("session-pull", locals())

    def session_import(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        name: str,
        data: str | None = None,
        form: str | None = None,
        allow_secrets: bool = False,
    ) -> ImportedSessionDocument:
        """A new session from an export, a snapshot or a chat log.

        It comes from a file or from what such a file would hold, checked whole before any is kept.
        """
        return self._operate("session-import", locals())

    def session_select(
        self,
        name: str,
        selector: str,
        *,
        include_content: bool = False,
        content_mode: str = "unified",
        context_lines: int = 3,
        max_snapshots: int | None = None,
        max_changes: int | None = None,
        materialize: Sequence[str] = (),
    ) -> JsonObject:
        """Ids that a selector finds, or what changed over a range of snapshots."""
        return self._operate("session-select", locals())

    def session_diff(
        self, name: str, older: str, newer: str, selector: str | None = None
    ) -> JsonObject:
        """What differs between two snapshots."""
        return self._operate("session-diff", locals())

    def session_render(self, name: str, snapshot: str | None = None) -> RenderedDocument:
        """The provider thread, as text; it stands under `thread`."""
        return self._operate("session-render", locals())

    def session_compile(
        self,
        name: str,
        *,
        as_of: str | None = None,
        up_to: str | None = None,
        show_edits: bool = False,
        stage: str | None = None,
        roles: Mapping[str, str] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> JsonObject:
        """The session as messages for a model.

        With a stage's name, also what went through that stage.
        """
        return self._operate("session-compile", locals())

    def session_export(
        self, name: str, snapshot: str | None = None, *, form: str | None = None
    ) -> ExportedSessionDocument:
        """A session with its log, a snapshot, or a chat log; its text stands under `data`."""
        return self._operate("session-export", locals())

    def session_list(self) -> SessionsDocument:
        """Every session."""
        return self._operate("session-list", locals())

    def session_show(
        self, name: str, *, snapshot: str | None = None, tree: bool = False
    ) -> JsonObject:
        """One session in figures, with a snapshot's tree on request."""
        return self._operate("session-show", locals())
