"""The operations on sessions as methods, for whoever can run an operation by name."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

Document = dict[str, Any]
Json = Mapping[str, Any]


class SessionCommands(ABC):
    """One method per session command; every answer is the document that --json prints."""

    def _session(self, operation: str, session: str | None, **arguments: Any) -> Document:
        # The operation's own name and the session's are both called name, one level apart.
        named = {} if session is None else {"name": session}
        plain = {k: dict(v) if isinstance(v, Mapping) else v for k, v in arguments.items()}
        return self.operate_with(f"session-{operation}", {**named, **plain})

    @abstractmethod
    def operate_with(self, operation: str, arguments: Mapping[str, Any]) -> Document:
        """The same with the arguments as a mapping."""

    def session_new(
        self,
        name: str,
        *,
        budget: int | None = None,
        on_budget: str | None = None,
        max_nodes: int | None = None,
        max_tokens: int | None = None,
        protect_turns: int | None = None,
    ) -> Document:
        """Begin a session, with a token budget and limits that pruning keeps."""
        return self._session(
            "new", name, budget=budget, on_budget=on_budget, max_nodes=max_nodes,
            max_tokens=max_tokens, protect_turns=protect_turns,
        )  # fmt: skip

    def session_append(
        self,
        name: str,
        *,
        type: str,
        role: str | None = None,
        text: str | None = None,
        payload: Json | None = None,
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
        attributes: Json | None = None,
        message: str | None = None,
        metadata: Json | None = None,
        allow_secrets: bool = False,
    ) -> Document:
        """Add a block; `label` names who speaks, the tool, or the kind of artifact."""
        return self._session(
            "append", name, type=type, role=role, text=text, payload=payload, label=label,
            region=region, parent=parent, offset=offset, ttl=ttl, priority=priority, id=id,
            node_type=node_type, kind=kind, references=list(references) or None,
            attributes=attributes, message=message, metadata=metadata,
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
        payload: Json | None = None,
        label: str | None = None,
        ttl: int | None = None,
        priority: int | None = None,
        id: str | None = None,
        message: str | None = None,
        metadata: Json | None = None,
        allow_secrets: bool = False,
    ) -> Document:
        """Replace what a block says when compiled; what it said stays in the tree."""
        return self._session(
            "edit", name, target=target, type=type, role=role, text=text, payload=payload,
            label=label, ttl=ttl, priority=priority, id=id, message=message, metadata=metadata,
            allow_secrets=allow_secrets,
        )  # fmt: skip

    def session_annotate(
        self, name: str, target: str, priority: str, *, reason: str | None = None
    ) -> Document:
        """Pin, skip or free a block."""
        return self._session("annotate", name, target=target, priority=priority, reason=reason)

    def session_commit(self, name: str) -> Document:
        """Seal the cycle."""
        return self._session("commit", name)

    def session_move(
        self, name: str, node: str, parent: str, *, offset: int | None = None
    ) -> Document:
        """Hang a node elsewhere in the working tree; `parent` may be sys or ah."""
        return self._session("move", name, node=node, parent=parent, offset=offset)

    def session_remove(self, name: str, node: str) -> Document:
        """Take a node out of the working tree."""
        return self._session("remove", name, node=node)

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
    ) -> Document:
        """Add an empty container."""
        return self._session(
            "group", name, parent=parent, node_type=node_type, offset=offset, ttl=ttl,
            priority=priority, id=id, removable=removable,
        )  # fmt: skip

    def session_attempt(
        self,
        name: str,
        attempt_id: str,
        *,
        status: str,
        provider: str,
        model: str,
        params: Json | None = None,
        token_in: int | None = None,
        token_out: int | None = None,
        error: str | None = None,
    ) -> Document:
        """Record a provider call, or how it ended, beside the history."""
        return self._session(
            "attempt", name, attempt_id=attempt_id, status=status, provider=provider,
            model=model, params=params, token_in=token_in, token_out=token_out, error=error,
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
    ) -> Document:
        """Compose workspace context into the active head, as blocks that name their frames."""
        return self._session(
            "pull", name, nodes=list(nodes), budget=budget, ttl=ttl, offset=offset, query=query,
            max_frames=max_frames, require_fresh=require_fresh,
        )  # fmt: skip

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
    ) -> Document:
        """Ids that a selector finds, or what changed over a range of snapshots."""
        return self._session(
            "select", name, selector=selector, include_content=include_content,
            content_mode=content_mode, context_lines=context_lines, max_snapshots=max_snapshots,
            max_changes=max_changes, materialize=list(materialize) or None,
        )  # fmt: skip

    def session_diff(
        self, name: str, older: str, newer: str, selector: str | None = None
    ) -> Document:
        """What differs between two snapshots."""
        return self._session("diff", name, older=older, newer=newer, selector=selector)

    def session_render(self, name: str, snapshot: str | None = None) -> Document:
        """The provider thread of a snapshot; its text is under `thread`."""
        return self._session("render", name, snapshot=snapshot)

    def session_compile(
        self,
        name: str,
        *,
        as_of: str | None = None,
        up_to: str | None = None,
        show_edits: bool = False,
        stage: str | None = None,
        roles: Mapping[str, str] | None = None,
        policy: Json | None = None,
    ) -> Document:
        """The session as messages for a model."""
        return self._session(
            "compile", name, as_of=as_of, up_to=up_to, show_edits=show_edits, stage=stage,
            roles=dict(roles) if roles else None, policy=policy,
        )  # fmt: skip

    def session_export(
        self, name: str, snapshot: str | None = None, *, form: str | None = None
    ) -> Document:
        """A session with its log, a snapshot, or a chat log; its text is under `data`."""
        return self._session("export", name, snapshot=snapshot, form=form)

    def session_import(
        self,
        file: str | os.PathLike[str] | None = None,
        *,
        name: str,
        data: str | None = None,
        form: str | None = None,
        allow_secrets: bool = False,
    ) -> Document:
        """A new session from a file, or from what such a file would hold."""
        path = os.path.abspath(file) if file is not None else None
        return self._session(
            "import", name, file=path, data=data, form=form, allow_secrets=allow_secrets
        )

    def session_list(self) -> Document:
        """Every session."""
        return self._session("list", None)

    def session_show(
        self, name: str, *, snapshot: str | None = None, tree: bool = False
    ) -> Document:
        """One session in figures, with a snapshot's tree on request."""
        return self._session("show", name, snapshot=snapshot, tree=tree)
