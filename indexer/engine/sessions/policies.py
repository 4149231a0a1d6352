"""Policies of the staged compiler that run code of somebody's own, where the user agrees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indexer.compiler import PluginError, Plugins, custom_names, installed_plugins, parse_policy
from indexer.engine.settings import TRUST, is_trusted


def agreed_plugins(root: Path, policy: Mapping[str, Any] | None) -> Plugins | None:
    """The custom code that a policy names; refused unless the user trusts the workspace.

    A policy may have come with a repository, and which code runs is not a repository's to say.
    """
    rules = parse_policy(policy)
    names = custom_names(rules)
    if not names:
        return None
    if not is_trusted(root):
        named = ", ".join(repr(name) for name in names.values())
        raise PluginError(f"{named} is not built in, and would run code", hint=TRUST)
    return installed_plugins(rules)
