"""One attempt at a chat completion, through the official client; everything said is without key."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, TypeGuard

from indexer.core.secrets import redact
from indexer.errors import UncheckedError, UsageError
from indexer.generators.llm.writer import ModelRequest

MAX_ANSWER: Final = 256 * 1024
"""Characters of an answer; a server that sends more does not keep to its own limit."""

MAX_BYTES: Final = 8 << 20
"""Bytes of an answer with everything around it, unpacked; no more is read."""

_SAID: Final = 200
"""Characters of what a server or library says about a failure that are shown."""
_MAX_SAID: Final = 64 * 1024
"""Bytes of a failure's body that are read."""
_TIMEOUTS: Final = frozenset({"ReadTimeout", "WriteTimeout", "PoolTimeout", "ConnectTimeout"})
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NO_KEY: Final = "none"


class ModelExtraError(UncheckedError):
    """The client library is not installed."""

    code = "llm_extra"


class ModelKeyError(UsageError):
    """The key cannot be used; it is never shown."""

    code = "llm_key"


class Server(NamedTuple):
    """Where and how to ask."""

    base_url: str
    timeout: float
    limit_parameter: str
    """The name that the output limit is sent under."""


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
            hint="pip install 'merkle-indexer[llm]'",
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
            http_client=self._openai.DefaultHttpxClient(
                # What is sent goes to the address in the settings, whatever a server there says.
                follow_redirects=False,
                event_hooks={"response": [self._refuse_status]},
            ),
        )
        # Taken from the environment otherwise; what is sent is what merkle.toml says.
        self._client.organization = self._client.project = None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, request: ModelRequest) -> Answer:
        """One attempt; raises `CallFailed`."""
        options: dict[str, Any] = {self._server.limit_parameter: request.max_output_tokens}
        if request.temperature is not None:
            options["temperature"] = request.temperature
        openai = self._openai
        # Read piece by piece: the library's own limit is on the silence between two pieces.
        create = self._client.chat.completions.with_streaming_response.create
        try:
            begun = time.monotonic()
            with create(
                model=request.model, messages=[dict(one) for one in request.messages], **options
            ) as response:
                raw = _read(response.iter_bytes(), begun + self._server.timeout)
            answer = _answer(json.loads(raw))
        except CallFailed:
            raise
        except (openai.APITimeoutError, TimeoutError):
            raise self._too_late() from None
        except openai.APIConnectionError as error:
            raise self._broken_off(error.__cause__ or error) from None
        except (ValueError, RecursionError) as error:
            # From the parser: broken JSON, or none at all.
            said = self._plain(f"{type(error).__name__}: {error}")
            raise CallFailed(f"the answer cannot be read: {said}", retry=True) from None
        except Exception as error:
            # While an answer is read, the HTTP library's errors come as they are.
            if type(error).__name__ in _TIMEOUTS:
                raise self._too_late() from None
            raise self._broken_off(error) from None
        return answer._replace(text=self._without_key(answer.text))

    def _too_late(self) -> CallFailed:
        return CallFailed(f"no answer within {self._server.timeout:g} s", retry=True)

    def _broken_off(self, cause: BaseException) -> CallFailed:
        # A connection that was never made cannot have been charged.
        billed = type(cause).__name__ != "ConnectError"
        said = self._plain(str(cause) or type(cause).__name__)
        return CallFailed(f"no connection: {said}", retry=True, billed=billed)

    def _refuse_status(self, response: Any) -> None:
        """Raise what a status other than success means, before the library reads all of it."""
        code = int(response.status_code)
        if 200 <= code < 300:
            return
        if code in (401, 403):
            raise CallFailed(f"the server refuses the key (HTTP {code})", fatal=True, billed=False)
        if code < 400:
            raise CallFailed(
                f"the server sends elsewhere (HTTP {code}), which is not followed:"
                " set llm.base_url to where it is",
                fatal=True,
                billed=False,
            )
        said = self._plain(_said(self._beginning(response)))
        message = f"HTTP {code}: {said}" if said else f"HTTP {code}"
        if code == 404:
            raise CallFailed(message, fatal=True, billed=False)
        retry = code in (408, 409, 425, 429) or code >= 500
        raise CallFailed(
            message, retry=retry, after=_retry_after(response.headers), billed=code >= 500
        )

    def _beginning(self, response: Any) -> bytes:
        """As much of what a server says about its failure as comes in time."""
        deadline, raw = time.monotonic() + self._server.timeout, b""
        try:
            for piece in response.iter_bytes():
                raw += piece
                if len(raw) > _MAX_SAID or time.monotonic() > deadline:
                    break
        except Exception as error:
            # The status says enough; a failure to explain it is no other failure.
            return raw or type(error).__name__.encode()
        return raw[:_MAX_SAID]

    def _plain(self, text: str) -> str:
        """What a server or library said, short, on one line, without the key or any secret."""
        said = " ".join(_CONTROL.sub(" ", redact(self._without_key(text))).split())
        return said if len(said) <= _SAID else said[:_SAID] + "…"

    def _without_key(self, text: str) -> str:
        """A text in which nobody can find the key, also not as JSON spells it."""
        for spelled in {self._key, json.dumps(self._key)[1:-1]} if self._key else ():
            text = text.replace(spelled, "[key]")
        return text


def _read(pieces: Iterator[bytes], deadline: float) -> bytes:
    """All of an answer, as long as it comes in time and is of a sane length."""
    raw = bytearray()
    for piece in pieces:
        raw += piece
        if len(raw) > MAX_BYTES:
            raise CallFailed(f"the answer has more than {MAX_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(raw)


def _said(raw: bytes) -> str:
    """The message in a failure's body: where the protocol has it, else all of it."""
    text = raw.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    error = document.get("error", document) if isinstance(document, dict) else document
    said = error.get("message", error) if isinstance(error, dict) else error
    return said if isinstance(said, str) else text


def tidy(text: str) -> str:
    """An answer as a frame holds it: no control characters, one line break at the end."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", plain).strip() + "\n"


def _answer(document: object) -> Answer:
    usage = _usage(_member(document, "usage"))
    choices = _member(document, "choices")
    if not isinstance(choices, list):
        raise CallFailed("the answer is no chat completion", retry=True, usage=usage)
    choice = choices[0] if choices else None
    reason = _member(choice, "finish_reason")
    text = _member(_member(choice, "message"), "content")
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


def _member(value: object, name: str) -> object:
    """A member of what may be an object."""
    return value.get(name) if isinstance(value, dict) else None


def _usage(usage: object) -> tuple[int, int] | None:
    tokens_in, tokens_out = (
        _member(usage, name) for name in ("prompt_tokens", "completion_tokens")
    )
    if _is_count(tokens_in) and _is_count(tokens_out):
        return tokens_in, tokens_out
    return None


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from a Retry-After header, as a number or as a date beside the server's own."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        # Imported late: few servers name a date.
        from email.utils import parsedate_to_datetime

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
