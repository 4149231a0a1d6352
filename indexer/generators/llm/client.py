"""One attempt at a chat completion, through the official client; everything said is without key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from indexer.core.secrets import redact
from indexer.errors import UncheckedError, UsageError
from indexer.generators.llm.writer import Request

MAX_ANSWER: Final = 256 * 1024
"""Characters of an answer; a server that sends more does not keep to its own limit."""

_SAID: Final = 200
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NO_KEY: Final = "none"


class ModelExtraError(UncheckedError):
    """The client library is not installed."""

    code = "llm_extra"


class ModelKeyError(UsageError):
    """The key cannot be used; it is never shown."""

    code = "llm_key"


@dataclass(frozen=True, slots=True)
class Server:
    """Where and how to ask."""

    base_url: str
    timeout: float
    limit_parameter: str
    """Under which name the output limit is sent."""


class Answer(NamedTuple):
    """What a model said, and what that took as the server counts; None where it does not tell."""

    text: str
    tokens_in: int | None
    tokens_out: int | None
    is_cut: bool
    """Whether the output limit ended it."""


class CallFailed(Exception):
    """An attempt without an answer."""

    def __init__(
        self,
        message: str,
        *,
        retry: bool = False,
        after: float | None = None,
        fatal: bool = False,
        billed: bool = True,
        usage: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry = retry
        self.after = after
        """Seconds that the server asks to wait."""
        self.fatal = fatal
        """Whether every other request would fail in the same way."""
        self.billed = billed
        """Whether it may have been charged; where nobody can tell, it counts as charged."""
        self.usage = usage


def check_extra() -> None:
    """Refuse to go on where the client library is not installed; without loading it."""
    if find_spec("openai") is None:
        raise ModelExtraError(
            "frames that a model writes need the openai package",
            hint="pip install 'merkle[llm]'",
        )


class ModelClient:
    """A connection pool to one server; safe to use from many threads."""

    def __init__(self, server: Server, key: str | None) -> None:
        self._server = server
        self._key = _checked_key(key)
        check_extra()
        self._openai: Any = import_module("openai")
        self._client: Any = self._openai.OpenAI(
            api_key=self._key or _NO_KEY,
            base_url=server.base_url,
            timeout=server.timeout,
            # Every attempt is a call that a cap counts, so repeating is not left to the client.
            max_retries=0,
        )
        # Taken from the environment otherwise; what is sent is what merkle.toml says.
        self._client.organization = self._client.project = None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, request: Request) -> Answer:
        """One attempt; raises `CallFailed`."""
        options: dict[str, Any] = {self._server.limit_parameter: request.max_output_tokens}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        openai = self._openai
        try:
            made = self._client.chat.completions.create(
                model=request.model, messages=[dict(one) for one in request.messages], **options
            )
            return _answer(made)
        except CallFailed:
            raise
        except openai.APITimeoutError:
            seconds = self._server.timeout
            raise CallFailed(f"no answer within {seconds:g} s", retry=True) from None
        except openai.APIStatusError as error:
            raise self._status(error) from None
        except openai.APIConnectionError as error:
            said = self._plain(str(error.__cause__ or error))
            # A connection that was never made cannot have been charged.
            refused = type(error.__cause__).__name__ == "ConnectError"
            raise CallFailed(f"no connection: {said}", retry=True, billed=not refused) from None
        except Exception as error:
            # Broken JSON and answers of another shape arrive as whatever the parser raises.
            said = self._plain(f"{type(error).__name__}: {error}")
            raise CallFailed(f"the answer cannot be read: {said}", retry=True) from None

    def _status(self, error: Any) -> CallFailed:
        code = int(error.status_code)
        if code in (401, 403):
            return CallFailed(f"the server refuses the key (HTTP {code})", fatal=True, billed=False)
        said = self._plain(str(getattr(error, "message", "")))
        message = f"HTTP {code}: {said}" if said else f"HTTP {code}"
        if code == 404:
            return CallFailed(message, fatal=True, billed=False)
        retry = code in (408, 409, 425, 429) or code >= 500
        return CallFailed(
            message, retry=retry, after=_retry_after(error.response.headers), billed=code >= 500
        )

    def _plain(self, text: str) -> str:
        """What a server or library said, short, on one line, without the key or any secret."""
        if self._key:
            text = text.replace(self._key, "[key]")
        said = " ".join(_CONTROL.sub(" ", redact(text)).split())
        return said if len(said) <= _SAID else said[:_SAID] + "…"


def tidy(text: str) -> str:
    """An answer as a frame holds it: no control characters, one line break at the end."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", plain).strip() + "\n"


def _answer(made: Any) -> Answer:
    usage = _usage(getattr(made, "usage", None))
    choices = getattr(made, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise CallFailed("the answer is empty", retry=True, usage=usage)
    choice = choices[0]
    reason = getattr(choice, "finish_reason", None)
    text = getattr(getattr(choice, "message", None), "content", None)
    if reason == "content_filter":
        raise CallFailed("the server's content filter stopped the answer", usage=usage)
    if not isinstance(text, str) or len(tidy(text)) == 1:
        if reason == "length":
            raise CallFailed(
                "the output limit ended the answer before its first word; raise max_output_tokens",
                usage=usage,
            )
        raise CallFailed("the answer is empty", retry=True, usage=usage)
    if len(text) > MAX_ANSWER:
        raise CallFailed(f"the answer has {len(text)} characters", usage=usage)
    tokens_in, tokens_out = usage or (None, None)
    return Answer(tidy(text), tokens_in, tokens_out, reason == "length")


def _usage(usage: Any) -> tuple[int, int] | None:
    counts = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    if all(isinstance(count, int) and 0 <= count < 1 << 40 for count in counts):
        return counts  # type: ignore[return-value]  # both were looked at
    return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from a Retry-After header, as a number or as a date beside the server's own."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            then, now = parsedate_to_datetime(value), parsedate_to_datetime(headers["date"])
            seconds = (then - now).total_seconds()
        except (KeyError, TypeError, ValueError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _checked_key(key: str | None) -> str | None:
    # A key with a line break would make the HTTP library quote it in its error.
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelKeyError(
            "the key has characters that cannot be sent",
            hint="look for a line break or a space in the environment variable",
        )
    return key or None
