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
    from indexer.core.proofs import ProofDocument
    from indexer.engine.code.questions import EdgesDocument, SymbolsDocument
    from indexer.engine.code.source import SourceDocument
    from indexer.engine.documents import DiffDocument
    from indexer.engine.durable.compact import CompactedDocument
    from indexer.engine.durable.note_lines import NotesExportedDocument, NotesImportedDocument
    from indexer.engine.durable.packs import ExportedDocument, ImportedDocument
    from indexer.engine.durable.validate import ValidateDocument
    from indexer.engine.frames.agents import AgentsDocument, AllowedDocument
    from indexer.engine.frames.explain import ExplainDocument
    from indexer.engine.frames.notebook import NotedDocument, NotesDocument, WithdrawnDocument
    from indexer.engine.frames.notes import WrittenDocument, WrittenFramesDocument
    from indexer.engine.frames.read import (
        FrameDocument,
        FrameListDocument,
        HeadListDocument,
        NodeContextDocument,
        NodesDocument,
    )
    from indexer.engine.make.commands import (
        InvalidatedDocument,
        PlanDocument,
        RegeneratedDocument,
        SynthesizedDocument,
    )
    from indexer.engine.search.compose import ContextDocument, StagesDocument
    from indexer.engine.search.count import CountDocument
    from indexer.engine.search.search import SearchDocument
    from indexer.engine.search.sql import SqlDocument
    from indexer.engine.sessions.attempts import AttemptDocument
    from indexer.engine.sessions.budgets import BudgetDocument
    from indexer.engine.sessions.ctrees import TreeDocument
    from indexer.engine.sessions.imports import ImportedSessionDocument
    from indexer.engine.sessions.keep import (
        ForkedDocument,
        MergedDocument,
        NamedDocument,
        SessionLogDocument,
    )
    from indexer.engine.sessions.live import SetDocument
    from indexer.engine.sessions.provider_messages import MessageDocument
    from indexer.engine.sessions.pull import PulledContextDocument
    from indexer.engine.sessions.read import (
        CompiledDocument,
        ExportedSessionDocument,
        FoundDocument,
        RangeDocument,
        RenderedDocument,
        SessionsDocument,
        ShownDocument,
        ShownTreeDocument,
        SnapshotDiffDocument,
    )
    from indexer.engine.sessions.write import (
        AnnotatedDocument,
        BegunDocument,
        CommittedDocument,
        EditedDocument,
        GroupedDocument,
        MovedDocument,
        RemovedDocument,
        SealedDocument,
    )
    from indexer.engine.team.commands import (
        PulledDocument,
        PushedDocument,
        SharedStatusDocument,
        SweptDocument,
    )
    from indexer.engine.tree.history import LogDocument
    from indexer.engine.tree.listing import ListingDocument
    from indexer.engine.tree.lock import LockDocument
    from indexer.engine.tree.report import ReportDocument
    from indexer.engine.tree.resolve import NodeDocument, WhyIgnoredDocument
    from indexer.engine.tree.results import ScanDocument, StatusDocument

JsonObject = dict[str, Any]


class Methods(ABC):
    """One method per operation, for whoever can run an operation by name."""

    @abstractmethod
    def _operate(self, name: str, values: dict[str, Any]) -> Any:
        """Run an operation here, or in the service."""

    def status(
        self, *, wait: bool = True, progress: Callable[[int], None] | None = None
    ) -> StatusDocument:
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
        progress: Callable[[int], None] | None = None,
    ) -> ValidateDocument:
        """Every invariant; the disk against the index (`content`) or merkle.lock (`locked`)."""
        return self._operate("validate", locals())

    def log(self, limit: int = 20) -> LogDocument:
        """Recorded roots, newest first."""
        return self._operate("log", locals())

    def diff(self, old: str, new: str) -> DiffDocument:
        """What differs between two recorded roots, or between two recorded manifests."""
        return self._operate("diff", locals())

    def changes(self) -> DiffDocument:
        """What is on disk now against git's last commit; without one, against the last root.

        Without git and without a change on disk it is the newest root against the one before.
        """
        return self._operate("changes", locals())

    def sql(self, query: str, *, limit: int = 1000, timeout: float = 10.0) -> SqlDocument:
        """One read-only SELECT on the documented views."""
        return self._operate("sql", locals())

    def resolve(self, node: str, *, by_name: bool = False) -> NodeDocument:
        """The node that a path or an id prefix stands for.

        With `by_name`, what is no path counts as the end of one, where only one node's ends so.
        """
        return self._operate("resolve", locals())

    def ls(self, node: str = "") -> ListingDocument:
        """The children of a folder, or a file alone: kind, size, and how fresh what is known is."""
        return self._operate("ls", locals())

    def why_ignored(self, path: str) -> WhyIgnoredDocument:
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
        replaces: Sequence[str] = (),
        replace_mine: bool = False,
        meta: Mapping[str, str] | None = None,
        allow_secrets: bool = False,
    ) -> WrittenDocument:
        """Append a note, bound to what its author read.

        `seen` is the NodeID that was read; without it the node as it is now. About PATH::SYMBOL it
        is bound to that symbol's text alone: of several symbols of one name, to the first in the
        file, and it holds while one of them has that text. Other notes stay what they are, but for
        those that it says it replaces: some by their ids, or with `replace_mine` all of the same
        type that its author wrote about the node.
        """
        return self._operate("put-frame", locals())

    def put_frames(
        self, frames: Sequence[object], *, allow_secrets: bool = False
    ) -> WrittenFramesDocument:
        """Append several notes in one transaction: all of them, or none.

        Each is an object with `node`, `content`, `type` and `agent`, and what else `put_frame`
        takes. What they replace is what was there before them.
        """
        return self._operate("put-frames", locals())

    def note(
        self,
        node: str,
        content: str,
        *,
        agent: str,
        frame_type: str = "note",
        seen: str | None = None,
        replaces: Sequence[str] = (),
        allow_secrets: bool = False,
    ) -> NotedDocument:
        """Write a note in one go; an author whom nobody knows yet is registered as a writer.

        It is bound as `put_frame` binds it: to what is there now or, with `seen`, to what was read.
        """
        return self._operate("note", locals())

    def notes(
        self, node: str = "", *, stale: bool = False, limit: int | None = None
    ) -> NotesDocument:
        """The notes at and below a node, or about PATH::SYMBOL: those that do not hold first.

        With `stale` only those. Within one state they stand in order of their places.
        """
        return self._operate("notes", locals())

    def confirm_note(self, frame: str, *, agent: str, seen: str | None = None) -> WrittenDocument:
        """Say that a note is still true: the same words take its place, bound to what is there now.

        Whoever says so is their author from now on; the metadata keeps who wrote them first
        (`written_by`). A note that is fresh stays as it is.
        """
        return self._operate("confirm-note", locals())

    def withdraw_note(self, frame: str, *, agent: str) -> WithdrawnDocument:
        """Take a note back: it stays in the history, and counts no longer.

        Frames never change, so another one says so: without words, in the name of whoever does it.
        """
        return self._operate("withdraw-note", locals())

    def export_notes(self, file: str | os.PathLike[str], node: str = "") -> NotesExportedDocument:
        """Write the notes at and below a node to a file, one line each, sorted.

        Those that take another back have a line too, so that a merge does not bring it again.
        """
        return self._operate("export-notes", locals())

    def import_notes(
        self, file: str | os.PathLike[str], *, allow_secrets: bool = False
    ) -> NotesImportedDocument:
        """Take in a file of notes: all of it is checked first, and what is known is left as it is.

        Authors whom nobody knows here are registered as writers.
        """
        return self._operate("import-notes", locals())

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
        """A node with the frames a view selects.

        It selects among what generators keep and every note that nothing superseded.
        """
        return self._operate("get-node", locals())

    def get_nodes(
        self,
        nodes: Sequence[str],
        *,
        view: str = "recency",
        max_frames: int = 20,
        frame_type: str | None = None,
        agent: str | None = None,
        query: str | None = None,
    ) -> NodesDocument:
        """Many nodes at once, each as `get-node` gives it, or an error in its place."""
        return self._operate("get-nodes", locals())

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
        only: bool = False,
        paths: Sequence[str] = (),
        related: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
        source: bool = True,
        tests: bool = False,
        docs: bool = False,
        why: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ContextDocument:
        """A bounded selection of frames and source as messages, with its manifest.

        Without nodes the whole workspace is the source. Without a budget it is 8,000 tokens.
        For a query the best files' own text is shown too, unless `source` is false. Tests and
        documents weigh less than the code they are about, unless `tests` or `docs` is true or the
        query asks for them. `why` tells what each score is made of.
        The manifest is stored only on request. Types, and agents, leave out all others; where they
        give the order they leave out nothing, unless `only` says so.
        """
        return self._operate("compose", locals())

    def search(
        self,
        question: str,
        *,
        kinds: Sequence[str] = ("frame", "symbol"),
        limit: int = 20,
        types: Sequence[str] = (),
        progress: Callable[[int], None] | None = None,
    ) -> SearchDocument:
        """What matches a question best, the best first.

        `frame` finds what is known about files and folders, `symbol` functions, classes and
        headings by name and by what stands in them, `reference` the uses of a symbol that the
        question names, and `text` the lines of files that have exactly that text; where it has no
        capitals, in any case. `types` leaves out frames of other types.
        """
        return self._operate("search", locals())

    def count(self, texts: Sequence[str]) -> CountDocument:
        """Tokens of some texts, as budgets are counted."""
        return self._operate("count", locals())

    def replay(self, manifest: str) -> ContextDocument:
        """The messages of a recorded manifest again.

        They are the same byte for byte, with the freshness as it was then.
        """
        return self._operate("replay", locals())

    def compile(
        self, events: Sequence[object], policy: Mapping[str, object] | None = None
    ) -> StagesDocument:
        """The staged compiler on a stream of events.

        It needs nothing of the workspace, as `indexer.compile_stages` shows.
        """
        return self._operate("compile", locals())

    def show(
        self, node: str, *, first: int | None = None, last: int | None = None
    ) -> SourceDocument:
        """The text of a file, of a symbol in it (`PATH::SYMBOL`) or of some lines, as on disk now.

        The id is that of exactly the bytes that are shown. Secrets are masked.
        """
        return self._operate("show", locals())

    def symbols(
        self, pattern: str, *, kind: str | None = None, within: str | None = None, limit: int = 200
    ) -> SymbolsDocument:
        """The symbols whose name has a text in it, or fits a pattern with `*` and `?`.

        With `within`, only those of a file or folder. Those that are called exactly that come
        first, then those that begin with it.
        """
        return self._operate("symbols", locals())

    def definition(self, name: str, *, at: str | None = None, limit: int = 50) -> SymbolsDocument:
        """Where a name is defined: `name`, `Type.name` or `PATH::name`.

        With `at`, which is `PATH:LINE`, what the name means there, the surest first; nothing where
        that cannot be told.
        """
        return self._operate("definition", locals())

    def references(
        self, symbol: str, *, sure: str | None = None, limit: int = 500
    ) -> EdgesDocument:
        """Where a symbol is used, each with how sure that is: exact, import, unique or name.

        With `sure`, only what is at least so sure.
        """
        return self._operate("references", locals())

    def callers(self, symbol: str, *, sure: str | None = None, limit: int = 500) -> EdgesDocument:
        """What calls a symbol."""
        return self._operate("callers", locals())

    def callees(self, symbol: str, *, sure: str = "unique", limit: int = 500) -> EdgesDocument:
        """What a symbol calls that is defined in the workspace, as far as that is sure."""
        return self._operate("callees", locals())

    def impact(
        self, node: str, *, depth: int = 3, sure: str = "unique", limit: int = 500
    ) -> EdgesDocument:
        """What a change of a file or symbol could affect, the nearest first, tests marked.

        Each edge is the first use by which something is reached, `distance` steps away.
        """
        return self._operate("impact", locals())

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
    ) -> RegeneratedDocument | PlanDocument:
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
        options: Mapping[str, object] | None = None,
        agent: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
        yes: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> SynthesizedDocument:
        """Frames of a type for a folder, children first.

        By the declared policy, or by another with `options` of its own. Calls of models are limited
        as in `regenerate`.
        """
        return self._operate("synthesize", locals())

    def invalidate(
        self, node: str, *, frame_type: str | None = None, agent: str | None = None
    ) -> InvalidatedDocument:
        """Make generated frames run again next time, past the memo.

        The generation of their memo keys moves, and their proofs are taken back. Who asked for it,
        an agent that may write, is kept in the journal.
        """
        return self._operate("invalidate", locals())

    def agent_add(self, agent_id: str, role: str, can: Sequence[str] = ()) -> AgentsDocument:
        """Register an agent.

        One that is known gets another role.
        """
        return self._operate("agent-add", locals())

    def agent_require(self, agent: str, capability: str) -> AllowedDocument:
        """Raise unless a registered agent may do that: read, write or synthesize.

        For what is done in no agent's name.
        """
        return self._operate("agent-require", locals())

    def agent_list(self) -> AgentsDocument:
        """Every registered agent."""
        return self._operate("agents", locals())

    def export(
        self,
        file: str | os.PathLike[str],
        nodes: Sequence[str] = (),
        *,
        progress: Callable[[int], None] | None = None,
    ) -> ExportedDocument:
        """Write what was written and computed to a file.

        Everything, or what is about some nodes. Computed results are signed where the environment
        has the team's key, so that they are believed where the key is known too.
        """
        return self._operate("export", locals())

    def import_(
        self,
        file: str | os.PathLike[str],
        *,
        trust: bool = False,
        allow_secrets: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportedDocument:
        """Take in a pack.

        It is checked whole, then journalled and stored; what is known already is left. Computed
        results are taken where the team's key vouches for them; with `trust` others are used here
        too, and given to nobody. Secrets are refused in what was written, and masked in what was
        generated.
        """
        return self._operate("import", locals())

    def lock(self, *, progress: Callable[[int], None] | None = None) -> LockDocument:
        """Bring the index up to date and write merkle.lock.

        A file that says the same already is left alone.
        """
        return self._operate("lock", locals())

    def prove(self, node: str) -> ProofDocument:
        """The proof that the recorded root holds a node; sha256 workspaces only."""
        return self._operate("prove", locals())

    def report(
        self, base: str | None = None, *, progress: Callable[[int], None] | None = None
    ) -> ReportDocument:
        """Root, coverage, freshness, changes since a base root, and a map.

        All of it depends on content alone: no clock, no place, no process.
        """
        return self._operate("report", locals())

    def compact(
        self, keep_seconds: float | None = None, *, progress: Callable[[int], None] | None = None
    ) -> CompactedDocument:
        """Forget old history and the bodies of old deterministic frames, and shrink the index.

        Roots are kept as the settings `history.keep` and `history.keep_count` say. Bodies are kept
        as long as they belong to such a root or, with a time, only if they are younger than that.
        """
        return self._operate("compact", locals())

    def shared_status(self) -> SharedStatusDocument:
        """Whether the team's store can be reached, and what it holds.

        And what it still has to get.
        """
        return self._operate("shared-status", locals())

    def shared_push(self, *, progress: Callable[[int], None] | None = None) -> PushedDocument:
        """Give the team what it lacks.

        That is all that is due, and the results behind the present frames; with `notes` under
        [shared] also the notes, signed.
        """
        return self._operate("shared-push", locals())

    def shared_pull(self, *, progress: Callable[[int], None] | None = None) -> PulledDocument:
        """Bring here what the team has.

        Every result of the namespace that is not known, for work without the server; with `notes`
        under [shared] also the notes of others, as theirs.
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
        agent: str | None = None,
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
        direction: str | None = None,
        call_id: str | None = None,
        status: str | None = None,
        allow_secrets: bool = False,
        agent: str | None = None,
    ) -> CommittedDocument:
        """Add a block; `label` names who speaks, the tool, or the kind of artifact.

        A tool's call and its result have a `direction`, share a `call_id`, and may have a
        `status`.
        """
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
        agent: str | None = None,
    ) -> EditedDocument:
        """Replace what a block says when compiled; what it said stays in the tree."""
        return self._operate("session-edit", locals())

    def session_set(
        self,
        name: str,
        target: str,
        *,
        ttl: int | None = None,
        no_ttl: bool = False,
        priority: int | None = None,
        attributes: Mapping[str, Any] | None = None,
        text: str | None = None,
        payload: Mapping[str, Any] | None = None,
        message: str | None = None,
        allow_secrets: bool = False,
        agent: str | None = None,
    ) -> SetDocument:
        """Change a block in its place: its ttl, its priority, its attributes, or what it says.

        Only what is live: the active head, the system blocks, what no snapshot shows yet. A ttl
        counts from this cycle on, `no_ttl` lets it stay; an attribute that is null goes.
        """
        return self._operate("session-set", locals())

    def session_annotate(
        self,
        name: str,
        target: str,
        priority: str,
        *,
        reason: str | None = None,
        allow_secrets: bool = False,
        agent: str | None = None,
    ) -> AnnotatedDocument:
        """Pin, skip or free a block."""
        return self._operate("session-annotate", locals())

    def session_commit(self, name: str, *, agent: str | None = None) -> SealedDocument:
        """Seal the cycle."""
        return self._operate("session-commit", locals())

    def session_move(
        self,
        name: str,
        node: str,
        parent: str,
        *,
        offset: int | None = None,
        agent: str | None = None,
    ) -> MovedDocument:
        """Hang a node elsewhere in the working tree; `parent` may be sys or ah."""
        return self._operate("session-move", locals())

    def session_remove(self, name: str, node: str, *, agent: str | None = None) -> RemovedDocument:
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
        agent: str | None = None,
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
        form: str | None = None,
        roles: Mapping[str, str] | None = None,
        policy: Mapping[str, Any] | None = None,
        before: str | None = None,
        sent_sha256: str | None = None,
        agent: str | None = None,
    ) -> AttemptDocument:
        """Record a provider call, or how it ended, beside the history.

        The first record of an attempt keeps the hash of what is sent: the thread of the work in
        progress, or the session compiled in a form (`messages`, `openai`, `anthropic`).
        `session render NAME attempt:ID` gives the same bytes again. One that is recorded after its
        answer was added names that block in `before`. A hash that the client has of what it sent is
        compared, and refused where it is another.
        """
        return self._operate("session-attempt", locals())

    def session_append_message(
        self,
        name: str,
        message: Mapping[str, Any],
        *,
        form: str,
        allow_secrets: bool = False,
        agent: str | None = None,
    ) -> MessageDocument:
        """Add a message as a provider has it, whole or not at all.

        Its texts, calls and results become blocks, those of a system message system blocks;
        `compile` in the same form gives it back as it was.
        """
        return self._operate("session-append-message", locals())

    def session_budget(
        self,
        name: str,
        *,
        limit: int | None = None,
        on_budget: str | None = None,
        unlimited: bool = False,
        agent: str | None = None,
    ) -> BudgetDocument:
        """The budget of a session and how much of it is used; changed where anything is given."""
        return self._operate("session-budget", locals())

    def session_pull(
        self,
        name: str,
        nodes: Sequence[str] = (),
        *,
        budget: int | None = None,
        ttl: int = 1,
        offset: int = -1,
        query: str | None = None,
        max_frames: int | None = None,
        require_fresh: bool = False,
        agent: str | None = None,
    ) -> PulledContextDocument:
        """Compose workspace context into the active head, as blocks that name their frames.

        Each is fenced as data: what a file says is nobody's words. All that is composed is
        appended, or nothing is.
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
        agent: str | None = None,
    ) -> ImportedSessionDocument:
        """A new session from an export, a snapshot or a chat log.

        It comes from a file or from what such a file would hold, checked whole before any is kept.
        """
        return self._operate("session-import", locals())

    def session_fork(
        self, name: str, new: str, *, at: str | None = None, agent: str | None = None
    ) -> ForkedDocument:
        """Begin a session that shares another one's log up to a snapshot.

        Without one it is the last commit; `@w` takes the work in progress along. Neither sees what
        the other does from then on, until one is merged.
        """
        return self._operate("session-fork", locals())

    def session_rename(self, name: str, new: str, *, agent: str | None = None) -> NamedDocument:
        """Call a session something else; its ids stay what they are."""
        return self._operate("session-rename", locals())

    def session_delete(self, name: str, *, agent: str | None = None) -> NamedDocument:
        """Take a session away.

        Its name is free again, and `session restore` brings it back until `compact` is asked for.
        """
        return self._operate("session-delete", locals())

    def session_restore(
        self, name: str, *, new: str | None = None, agent: str | None = None
    ) -> NamedDocument:
        """Bring back the session that was deleted last under a name, as another one on request."""
        return self._operate("session-restore", locals())

    def session_merge(
        self, name: str, other: str, *, check: bool = False, agent: str | None = None
    ) -> MergedDocument:
        """Append the sealed turns of a branch, in their order, and tell every conflict.

        What both sides changed is what the branch says, being later. With `check` it is only told.
        """
        return self._operate("session-merge", locals())

    def session_log(
        self, name: str, *, limit: int | None = None, before: int | None = None
    ) -> SessionLogDocument:
        """What was done to a session, newest first: by whom, when and why.

        `before` goes on with the records that are older than that number.
        """
        return self._operate("session-log", locals())

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
    ) -> FoundDocument | RangeDocument:
        """Ids that a selector finds, or what changed over a range of snapshots."""
        return self._operate("session-select", locals())

    def session_diff(
        self, name: str, older: str, newer: str, selector: str | None = None
    ) -> SnapshotDiffDocument:
        """What differs between two snapshots."""
        return self._operate("session-diff", locals())

    def session_render(self, name: str, snapshot: str | None = None) -> RenderedDocument:
        """The provider thread of a snapshot, as text; it stands under `thread`.

        Of `attempt:ID` it is what that attempt sent, byte for byte.
        """
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
        form: str | None = None,
    ) -> CompiledDocument:
        """The session as messages for a model, in a provider's form where one is named.

        With a stage's name, also what went through that stage. Context that no longer holds is
        labelled, or replaced by what was pulled later; `context` tells which.
        """
        return self._operate("session-compile", locals())

    def session_export(
        self, name: str, snapshot: str | None = None, *, form: str | None = None
    ) -> ExportedSessionDocument:
        """A session with its log, a snapshot, or a chat log; its text stands under `data`."""
        return self._operate("session-export", locals())

    def session_tree(
        self, name: str, *, stages: bool = False, policy: Mapping[str, Any] | None = None
    ) -> TreeDocument:
        """A session as a tree with a row for each block, and what the compiler makes of them.

        It shows the work in progress. Rows tell sizes, hashes and the beginning of a text;
        `stages` adds the documents of RAW, SPEC, HEADER and FROZEN.
        """
        return self._operate("session-tree", locals())

    def session_list(self, *, deleted: bool = False) -> SessionsDocument:
        """Every session, or every one that is deleted and can be restored."""
        return self._operate("session-list", locals())

    def session_show(
        self, name: str, *, snapshot: str | None = None, tree: bool = False
    ) -> ShownDocument | ShownTreeDocument:
        """One session in figures, with a snapshot's tree on request."""
        return self._operate("session-show", locals())
