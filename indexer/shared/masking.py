"""An address and what is said about it, without the secrets in it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote

from indexer.core.secrets import is_secret_name, redact

_HIDDEN: Final = "***"


def masked(url: str | None) -> str | None:
    """The address without what must not be seen."""
    if not url:
        return None
    scheme, user, place, query = _parts(url)
    if "@" in query:
        # A question mark in a password cuts it in two; nothing of it is shown then.
        return f"{scheme}://{_HIDDEN}"
    name, colon, _ = user.partition(":")
    shown = f"{scheme}://{name}{colon and ':' + _HIDDEN}{'@' if user else ''}{place}"
    options = "&".join(
        f"{name}={_HIDDEN if is_secret_name(name) else value}"
        for name, value in parse_qsl(query, keep_blank_values=True)
    )
    return f"{shown}?{options}" if options else shown


def _parts(url: str) -> tuple[str, str, str, str]:
    """Scheme, user with password, place and options; never fails, however odd an address is."""
    scheme, _, rest = url.partition("://")
    before, _, query = rest.partition("?")
    user, _, place = before.rpartition("@")
    return scheme, user, place, query


def secrets_of(url: str) -> tuple[str, ...]:
    """The parts of an address that must appear nowhere, longest first."""
    _, user, _, query = _parts(url)
    word = user.partition(":")[2]
    # Also its parts: a driver that cuts an odd address elsewhere names a part only.
    found = {url, word, unquote(word), *re.split("[@/?]", word)}
    found |= {value for name, value in parse_qsl(query) if is_secret_name(name)}
    if "@" in query:
        found |= set(url.partition("://")[2].rpartition("@")[0].partition(":")[2].split("?"))
    # A part of a letter or two would black out the whole message.
    return tuple(sorted((one for one in found if len(one) > 2), key=len, reverse=True))


def without_secrets(text: str, url: str) -> str:
    """A message of the driver or server with nothing of the address's secrets in it."""
    for secret in secrets_of(url):
        text = text.replace(secret, _HIDDEN)
    return redact(" ".join(text.split()))[:300]
