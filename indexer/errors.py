"""The one base class of every error the product raises on purpose, with its exit code."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """What a command's exit status means (documented in README)."""

    FINE = 0
    FINDINGS = 1
    USAGE = 2
    UNCHECKED = 3
    CORRUPT = 4
    NO_WORKSPACE = 5
    LOCKED = 6


class MerkleError(Exception):
    """An expected failure: says what happened, and in `hint` what to do next."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[ExitCode] = ExitCode.UNCHECKED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # A traceback shows it too: whoever calls from Python is told what to do as well.
            self.add_note(f"hint: {hint}")


class UsageError(MerkleError):
    """The request itself is wrong; nothing was done."""

    code = "usage"
    exit_code = ExitCode.USAGE


class MalformedError(UsageError):
    """An argument is not what it may be by itself, whatever there is in the workspace."""


class ArgumentsError(UsageError):
    """Each argument may be what it is; together they say nothing that can be done."""

    code = "arguments"


class UncheckedError(MerkleError):
    """The request was fine but could not be carried out or checked."""

    code = "unchecked"
    exit_code = ExitCode.UNCHECKED


class CorruptError(MerkleError):
    """Stored data contradicts itself."""

    code = "corrupt"
    exit_code = ExitCode.CORRUPT


class NoWorkspaceError(MerkleError):
    """There is no workspace here, or it has never been initialised."""

    code = "no_workspace"
    exit_code = ExitCode.NO_WORKSPACE


class LockedError(MerkleError):
    """Another process owns the workspace and did not let go in time."""

    code = "locked"
    exit_code = ExitCode.LOCKED
