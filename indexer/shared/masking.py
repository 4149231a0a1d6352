"""An address and what is said about it, without the secrets in it."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from indexer.core.secrets import is_secret_name, redact

_HIDDEN: Final = "***"


def masked(url: str | None) -> str | None:
    """The address without what must not be seen."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
        user, at, host = parts.netloc.rpartition("@")
        if at:
            name, colon, _ = user.partition(":")
            user = f"{name}:{_HIDDEN}" if colon else name
        query = "&".join(
            f"{name}={_HIDDEN if is_secret_name(name) else value}"
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        )
        shown = f"{parts.scheme}://{user}{at}{host}{parts.path}"
        return f"{shown}?{query}" if query else shown
    except ValueError:
        return _HIDDEN


def secrets_of(url: str) -> tuple[str, ...]:
    """The parts of an address that must appear nowhere, longest first."""
    found = {url}
    try:
        parts = urlsplit(url)
        user, _, _ = parts.netloc.rpartition("@")
        word = user.partition(":")[2]
        found |= {word, unquote(word)}
        found |= {value for name, value in parse_qsl(parts.query) if is_secret_name(name)}
    except ValueError:
        pass
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def without_secrets(text: str, url: str) -> str:
    """A message of the driver or server with nothing of the address's secrets in it."""
    for secret in secrets_of(url):
        text = text.replace(secret, _HIDDEN)
    return redact(" ".join(text.split()))[:300]
