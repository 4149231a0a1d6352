"""The operations on sessions as methods of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from indexer.engine.documents import JsonObject
from indexer.engine.late import LateModule

if TYPE_CHECKING:
    from indexer.engine import session_operations as operations
    from indexer.engine.workspace import Engine
else:
    operations = LateModule("indexer.engine.session_operations")


class Request(NamedTuple):
    """Which request a change belongs to, so that asking again does not do it again."""

    once: str
    again: bool


class SessionMethods:
    """One method per operation; only the engine mixes them in."""

    session_request: Request | None = None
    """The request that is being carried out; only the writing thread has one."""

    @contextmanager
    def requested(self, once: str, again: bool) -> Iterator[None]:
        """While this lasts, what is written is known by a token."""
        self.session_request = Request(once, again)
        try:
            yield
        finally:
            self.session_request = None

    @property
    def _owner(self) -> Engine:
        return cast("Engine", self)

    def session_new(
        self,
        name: str,
        *,
        budget: int | None = None,
        on_budget: str | None = None,
        max_nodes: int | None = None,
        max_tokens: int | None = None,
        protect_turns: int | None = None,
    ) -> JsonObject:
        """Begin a session, with a token budget and limits that pruning keeps."""
        return operations.session_writes.new(
            self._owner, name, budget=budget, on_budget=on_budget, max_nodes=max_nodes,
            max_tokens=max_tokens, protect_turns=protect_turns,
        )  # fmt: skip

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
    ) -> JsonObject:
        """Add a block; `label` names who speaks, the tool, or the kind of artifact."""
        writes = operations.session_writes
        values = {
            "region": region, "parent": parent, "offset": offset, "ttl": ttl,
            "priority": priority, "id": id, "node_type": node_type, "kind": kind,
            "attributes": attributes, "role": role if type != "dialogue" else None,
        }  # fmt: skip
        return writes.append(
            self._owner, name, type=type, role=role, text=text, payload=payload, label=label,
            where=writes.placement(values, references), note=operations.Note(message, metadata),
            allow_secrets=allow_secrets,
        )  # fmt: skip

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
    ) -> JsonObject:
        """Replace what a block says when compiled; what it said stays in the tree."""
        writes = operations.session_writes
        where = writes.placement({"ttl": ttl, "priority": priority, "id": id})
        return writes.edit(
            self._owner, name, target, type=type, role=role, text=text, payload=payload,
            label=label, where=where, note=operations.Note(message, metadata),
            allow_secrets=allow_secrets,
        )  # fmt: skip

    def session_annotate(
        self, name: str, target: str, priority: str, *, reason: str | None = None
    ) -> JsonObject:
        """Pin, skip or free a block."""
        return operations.session_writes.annotate(
            self._owner, name, target, priority, reason=reason
        )

    def session_commit(self, name: str) -> JsonObject:
        """Seal the cycle."""
        return operations.session_writes.commit(self._owner, name)

    def session_move(
        self, name: str, node: str, parent: str, *, offset: int | None = None
    ) -> JsonObject:
        """Hang a node elsewhere in the working tree."""
        return operations.session_writes.move(self._owner, name, node, parent, offset=offset)

    def session_remove(self, name: str, node: str) -> JsonObject:
        """Take a node out of the working tree."""
        return operations.session_writes.remove(self._owner, name, node)

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
    ) -> JsonObject:
        """Add an empty container."""
        writes = operations.session_writes
        where = writes.placement(
            {"parent": parent, "node_type": node_type, "offset": offset, "ttl": ttl,
             "priority": priority, "id": id}
        )  # fmt: skip
        return writes.group(self._owner, name, where=where, removable=removable)

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
    ) -> JsonObject:
        """Record a provider call, or how it ended."""
        return operations.session_writes.attempt(
            self._owner, name, attempt_id, status=status, provider=provider, model=model,
            params=params, token_in=token_in, token_out=token_out, error=error,
        )  # fmt: skip

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
        """Compose workspace context into the active head, as blocks that name their frames."""
        return operations.session_pull.pull(
            self._owner, name, nodes, budget=budget, ttl=ttl, offset=offset, query=query,
            max_frames=max_frames, require_fresh=require_fresh,
        )  # fmt: skip

    def session_import(
        self,
        name: str,
        *,
        file: Path | None = None,
        data: str | None = None,
        form: str | None = None,
        allow_secrets: bool = False,
    ) -> JsonObject:
        """A new session from an export, a snapshot or a chat log."""
        return operations.session_transfer.import_(
            self._owner, name, file=file, data=data, form=form, allow_secrets=allow_secrets
        )

    def session_select(
        self,
        name: str,
        selector: str,
        *,
        include_content: bool | None = None,
        content_mode: str | None = None,
        context_lines: int | None = None,
        max_snapshots: int | None = None,
        max_changes: int | None = None,
        materialize: Sequence[str] = (),
    ) -> JsonObject:
        """Ids that a selector finds, or what changed over a range of snapshots."""
        reads = operations.session_reads
        options = reads.select_options(
            {"include_content": include_content, "content_mode": content_mode,
             "context_lines": context_lines, "max_snapshots": max_snapshots,
             "max_changes_per_snapshot": max_changes, "materialize": tuple(materialize)}
        )  # fmt: skip
        return reads.select(self._owner, name, selector, options)

    def session_diff(
        self, name: str, older: str, newer: str, *, selector: str | None = None
    ) -> JsonObject:
        """What differs between two snapshots."""
        return operations.session_reads.diff(self._owner, name, older, newer, selector)

    def session_render(self, name: str, *, snapshot: str | None = None) -> JsonObject:
        """The provider thread, as text."""
        return operations.session_reads.render(self._owner, name, snapshot)

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
        """The session as messages for a model."""
        options = operations.CompileOptions(show_edits, dict(roles or {}), policy)
        return operations.session_reads.compile_(
            self._owner, name, as_of=as_of, up_to=up_to, options=options, stage=stage
        )

    def session_export(
        self, name: str, *, snapshot: str | None = None, form: str | None = None
    ) -> JsonObject:
        """A session with its log, a snapshot, or a chat log."""
        return operations.session_reads.export(self._owner, name, snapshot=snapshot, form=form)

    def session_list(self) -> JsonObject:
        """Every session."""
        return operations.session_reads.list_(self._owner)

    def session_show(
        self, name: str, *, snapshot: str | None = None, tree: bool = False
    ) -> JsonObject:
        """One session in figures, with a snapshot's tree on request."""
        return operations.session_reads.show(self._owner, name, snapshot=snapshot, tree=tree)
