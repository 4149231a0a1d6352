"""What `doctor` asks about the team's store."""

from __future__ import annotations

import contextlib
from pathlib import Path

from indexer.cli.columns import counted
from indexer.cli.machine_checks import Check
from indexer.engine.settings import load_settings
from indexer.errors import UsageError


def check_team(root: Path) -> list[Check]:
    """Whether the store that is set can be reached, and what protects it; nothing without one."""
    try:
        settings = load_settings(root)
    except UsageError:
        # Told already, where the settings are looked at.
        return []
    if settings.values["shared.url"] is None:
        return []
    # Imported late: most workspaces have no team.
    from indexer.engine.team.exchange import membership
    from indexer.shared.base import SharedError
    from indexer.shared.client import Client
    from indexer.shared.masking import masked
    from indexer.shared.seal import TEAM_KEY

    member = membership(settings)
    assert member is not None
    where = f"{masked(member.url)}, namespace {member.namespace}"
    with contextlib.closing(Client(member)) as asked:
        try:
            usage = asked.usage()
        except SharedError as error:
            return [Check("team", "warn", f"{where}: {error.message}", error.hint)]
    checks = [Check("team", "ok", f"{where}: {counted(usage.entries, 'result')}")]
    if not member.team_key:
        advice = f"set {TEAM_KEY} for every member: a secret that the server never sees"
        checks.append(
            Check("team key", "ok", "not set: changes made on purpose are not noticed", advice)
        )
    return checks
