"""From an exception to an exit status: every way a command can fail, said in one form."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from indexer.cli.output import print_json, print_text
from indexer.cli.signals import Ended
from indexer.core.paths import on_screen
from indexer.errors import ExitCode, MerkleError

INTERRUPTED: Final = 128 + signal.SIGINT
PIPE_CLOSED: Final = 128 + signal.SIGPIPE
_SEVERAL_LINES: Final = frozenset({"bad_query"})
"""Codes whose message is laid out in lines; in all others a line break is part of a name."""


def run(parse_and_call: Callable[[], Any], *, as_json: bool) -> int:
    """Call, report what goes wrong, and return the exit status."""
    try:
        try:
            result = parse_and_call()
            return int(result) if isinstance(result, int) else ExitCode.FINE
        except BrokenPipeError:
            raise
        except Exception as error:
            return _report(error, as_json)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing may be written at exit either.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        # What went wrong could not be told on stdout; stderr may still take it.
        with contextlib.suppress(OSError):
            _report(error, as_json=False)
        return ExitCode.UNCHECKED
    except KeyboardInterrupt as error:
        return _interrupted(error)


def _interrupted(error: BaseException | None) -> int:
    return error.status if isinstance(error, Ended) else INTERRUPTED


def _report(error: Exception, as_json: bool) -> int:
    match error:
        case click.Abort():
            return _interrupted(error.__cause__)
        case MerkleError():
            print_error(error.code, error.message, error.hint, as_json)
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError() if not as_json:
            print_text(error.format_message(), err=True)
            return ExitCode.USAGE
        case click.exceptions.NoArgsIsHelpError():
            print_error("usage", "no command was given", _usage_hint(error), as_json)
            return ExitCode.USAGE
        case click.ClickException():
            print_error("usage", _lowered(error.format_message()), _usage_hint(error), as_json)
            return ExitCode.USAGE
        case OSError():
            name = f"{error.filename}: " if error.filename else ""
            print_error("system", f"{name}{error.strerror or error}", _system_hint(error), as_json)
            return ExitCode.UNCHECKED
        case _:
            return _report_surprise(error, as_json)


def _system_hint(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "let this user read and write it, or run merkle as the user it belongs to"
    return "see to it that the disk is there and has room, then try again; `merkle doctor` looks"


def _report_surprise(error: Exception, as_json: bool) -> int:
    if os.environ.get("MERKLE_DEBUG"):
        # Imported late: a command that works as it should never needs it.
        import traceback

        traceback.print_exception(error)
    print_error(
        "internal",
        f"merkle failed in a way it should not: {type(error).__name__}: {error}",
        "run it again with MERKLE_DEBUG=1 and report the traceback with `merkle --version`",
        as_json,
    )
    return ExitCode.UNCHECKED


def print_error(code: str, message: str, hint: str, as_json: bool) -> None:
    """Tell what went wrong, in the one form that every command has for it."""
    if as_json:
        print_json({"error": {"code": code, "message": message, "hint": hint}})
        return
    lines = message.split("\n") if code in _SEVERAL_LINES else [message]
    shown = "\n".join(on_screen(line) for line in lines)
    text = click.style("error:", fg="red", bold=True) + f" {shown}"
    if hint:
        text += "\n" + click.style("hint:", fg="cyan") + f" {on_screen(hint)}"
    print_text(text, err=True)


def _lowered(message: str) -> str:
    """A click message in our form: one line, no capital, no full stop."""
    # It lists choices on lines of their own; a line break in a name is not followed by a tab.
    message = message.strip().replace("\n\t", " ").removesuffix(".")
    return message[:1].lower() + message[1:]


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "merkle"
    return f"`{path} --help` tells how it is used"
