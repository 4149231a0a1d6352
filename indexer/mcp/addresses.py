"""The resources: `merkle://node/{path}` and `merkle://manifest/{id}`."""

from __future__ import annotations

import contextlib
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from indexer.errors import UsageError

NODE_TEMPLATE: Final = "merkle://node/{path}"
MANIFEST_TEMPLATE: Final = "merkle://manifest/{id}"


class AddressError(UsageError):
    """The address names no resource."""

    code = "unknown_resource"


def node_address(path: str) -> str:
    """The address of a path; the root's ends in a slash."""
    return f"merkle://node/{quote(path, safe='/')}"


def parse_address(uri: str) -> tuple[str, str]:
    """`node` with a path, or `manifest` with an id."""
    # An address that cannot be taken apart, or is no UTF-8 once unquoted, is a ValueError.
    with contextlib.suppress(ValueError):
        parts = urlsplit(uri)
        if parts.scheme == "merkle" and parts.netloc in ("node", "manifest"):
            # A `?` or `#` that came unquoted can only be part of a name.
            rest = uri[uri.index(parts.netloc) + len(parts.netloc) :].removeprefix("/")
            name = unquote(rest, errors="strict")
            if parts.netloc == "node" or name:
                return parts.netloc, name
    raise AddressError(
        f"{uri!r} is no resource of this server",
        hint=f"use {NODE_TEMPLATE} or {MANIFEST_TEMPLATE}, percent-encoded",
    )
