"""What a shell may complete beyond commands and options: paths, and names that a service knows.

A shell asks with every press of a key, also in a folder that nobody trusts. So nothing is opened
that a service does not have open already, nothing is started, and names with anything but plain
characters are left out: what a shell would do with them is not ours to find out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from indexer.service.client import Client, connect
from indexer.service.whose_socket import nearest_workspace

_PLAIN: Final = re.compile(r"[\w@+][\w.@:+/-]{0,200}")
_MOST: Final = 200
_PATHS: Final = frozenset(("node", "nodes", "related", "paths", "why_ignored", "file", "files"))


def _agents(client: Client) -> list[str]:
    return [one["id"] for one in client.post("/v1/agents", {})["agents"]]


def _types(client: Client) -> list[str]:
    query = {"query": "SELECT DISTINCT type FROM heads ORDER BY type", "limit": _MOST}
    return [row[0] for row in client.post("/v1/sql", query)["rows"]]


def _sessions(client: Client) -> list[str]:
    return [one["name"] for one in client.post("/v1/session-list", {})["sessions"]]


def _roots(client: Client) -> list[str]:
    roots = client.get("/v1/log", {"limit": "20"})["roots"]
    return [f"@-{place}" for place in range(len(roots))] + [one["root"][:12] for one in roots]


_KNOWN: Final[Mapping[str, Callable[[Client], list[str]]]] = {
    "agent": _agents,
    "agents": _agents,
    "frame_type": _types,
    "types": _types,
    "old": _roots,
    "new": _roots,
    "base": _roots,
}


Offer = Callable[[click.Context, str], list[CompletionItem]]


def offered(parameter: click.Parameter) -> Offer:
    """What a parameter offers to a shell: what is known here, else what it would anyway."""
    usual = parameter.shell_complete

    def offer(context: click.Context, incomplete: str) -> list[CompletionItem]:
        found = _known(context, str(parameter.name), incomplete)
        return usual(context, incomplete) if found is None else found

    return offer


def _known(context: click.Context, name: str, incomplete: str) -> list[CompletionItem] | None:
    """What a value could be; None where it is none of what is known here."""
    if name in _PATHS:
        # The shell knows best how to complete a path, and how to quote one.
        return [CompletionItem(incomplete, type="file")]
    ask = _KNOWN.get(name)
    group = context.parent.info_name if context.parent is not None else None
    if ask is None and group == "session" and name in ("name", "session", "other"):
        ask = _sessions
    if ask is None:
        return None
    return [CompletionItem(one) for one in _asked(context, ask) if one.startswith(incomplete)]


def _asked(context: click.Context, ask: Callable[[Client], list[Any]]) -> list[str]:
    given = context.find_root().params.get("directory")
    place = os.path.abspath(given) if given else nearest_workspace(os.getcwd())
    try:
        client = connect(Path(place))
        found = [] if client is None else ask(client)
    except Exception:
        # Nobody wants to read about it on the line that is being typed.
        return []
    return [one for one in found[:_MOST] if isinstance(one, str) and _PLAIN.fullmatch(one)]
