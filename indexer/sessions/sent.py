"""What an attempt sent: its hash, and what it takes to give the same bytes again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from indexer.compiler import Plugins
from indexer.core.canonical import canonical_json
from indexer.core.tokens import NullTokenCounter
from indexer.errors import UncheckedError, UsageError
from indexer.sessions.chat_export import chat_bytes, chat_of
from indexer.sessions.compile import Compiled, CompileOptions, compile_blocks
from indexer.sessions.context import RULES, Label
from indexer.sessions.effective import Effective
from indexer.sessions.pairing import call_ids, unpaired
from indexer.sessions.providers import FORMATS
from indexer.sessions.records import CommitRecord
from indexer.sessions.stored_records import RecordList

THREAD: Final = "thread"
MESSAGES: Final = "messages"
FORMS: Final = (THREAD, MESSAGES, *FORMATS)
"""The provider thread of the work in progress, or the session compiled: our way or a provider's."""


class SentError(UncheckedError):
    """What an attempt sent cannot be given again."""

    code = "E_SENT_UNKNOWN"


@dataclass(frozen=True, slots=True)
class Sending:
    """In which form and by which options a session is sent."""

    form: str = THREAD
    show_edits: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, Any] | None = None
    labels: Mapping[str, Label] = field(default_factory=dict)
    rules: int = RULES

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise UsageError(f"unknown form {self.form!r}", hint=f"use one of: {', '.join(FORMS)}")
        if self.rules not in range(1, RULES + 1):
            raise UsageError(f"there are no rules {self.rules!r} of what is sent")

    def options(self, plugins: Plugins | None = None) -> CompileOptions:
        """How the session is compiled for it."""
        return CompileOptions(
            self.show_edits, self.roles, self.policy, self.labels, plugins, self.rules
        )

    def to_json(self) -> dict[str, Any]:
        """What is kept of it; options that say nothing are left out."""
        data: dict[str, Any] = {"form": self.form}
        if self.form == THREAD:
            return data
        data["rules"] = self.rules
        if self.show_edits:
            data["show_edits"] = True
        for key in ("roles", "policy"):
            if getattr(self, key):
                data[key] = dict(getattr(self, key))
        if self.labels:
            data["labels"] = {key: list(label) for key, label in sorted(self.labels.items())}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sending:
        """The sending written by `to_json`."""
        return cls(
            data["form"],
            data.get("show_edits", False),
            data.get("roles", {}),
            data.get("policy"),
            {key: Label(*label) for key, label in data.get("labels", {}).items()},
            data.get("rules", RULES),
        )


def provider_items(used: Sequence[Effective]) -> tuple[list[Effective], list[str]]:
    """The blocks that a provider takes, and those it would not: calls and results left alone."""
    lone = unpaired(used, call_ids(used))
    return [item for item in used if item.node.id not in lone], lone


def compiled_bytes(compiled: Compiled, form: str, rules: int = RULES) -> bytes:
    """A compiled session as the bytes that are sent."""
    if form == MESSAGES:
        return canonical_json([message.to_json() for message in compiled.messages])
    return chat_bytes(chat_of(provider_items(compiled.used)[0], form, rules))


def sent_bytes(
    found: Sequence[Effective], sending: Sending, plugins: Plugins | None = None
) -> bytes:
    """The bytes that blocks are sent as, in any form but the thread's."""
    return compiled_bytes(
        compile_blocks(found, sending.options(plugins), NullTokenCounter()),
        sending.form,
        sending.rules,
    )


def sent_data(data: bytes, sending: Sending, records: int) -> dict[str, Any]:
    """What an attempt keeps: the hash of what it sent, and how many records it was made from."""
    told = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "records": records}
    return {**told, **sending.to_json()}


def came_with(records: RecordList, node_id: str) -> int:
    """The number of the record that a block came with."""
    for seq in range(len(records) - 1, -1, -1):
        record = records[seq]
        if isinstance(record, CommitRecord) and record.node_id == node_id:
            return seq
    raise SentError(
        f"there is no block {node_id!r} in this session",
        hint="`merkle session log NAME` lists them with their ids",
    )


def is_sent_data(told: Mapping[str, Any], records: int) -> bool:
    """Whether an attempt that is record number `records` can have kept this."""
    try:
        sending = Sending.from_json(told)
    except (KeyError, TypeError, AttributeError, UsageError):
        return False
    digest, made_from = told.get("sha256"), told.get("records")
    return (
        type(made_from) is int
        and 0 < made_from <= records
        and isinstance(digest, str)
        and re.fullmatch("[0-9a-f]{64}", digest) is not None
        and type(told.get("bytes")) is int
        and told == {**sent_data(b"", sending, made_from), "sha256": digest, "bytes": told["bytes"]}
    )


def check_sent(data: bytes, told: Mapping[str, Any], attempt_id: str) -> bytes:
    """The bytes, where they are those that were sent."""
    if hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise SentError(
            f"the blocks of attempt {attempt_id} no longer give the bytes that it sent",
            hint="it was recorded by another version, or its log was put together anew",
        )
    return data
