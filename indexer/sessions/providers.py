"""The two forms in which providers take a conversation, and what blocks remember of them."""

from __future__ import annotations

from typing import Final

from indexer.errors import UsageError

OPENAI: Final = "openai"
ANTHROPIC: Final = "anthropic"
FORMATS: Final = (OPENAI, ANTHROPIC)

MESSAGE: Final = "chat:message"
"""The attribute that tells which message a block was part of, and how that was written."""
ARGUMENTS: Final = "chat:arguments"
"""The arguments of a call as they were spelled."""
FUNCTION: Final = "function"
"""The role of a tool's result from before calls had ids; a call of then is `function_call`."""
PART: Final = "chat:part"
"""Fields of a part that its content does not hold."""


class ChatError(UsageError):
    """A document is no chat log that can be read."""

    code = "E_CHAT_INVALID"


def check_format(form: str) -> None:
    """Refuse what is none of the forms."""
    if form not in FORMATS:
        raise ChatError(f"unknown chat format {form!r}", hint=f"use {' or '.join(FORMATS)}")
