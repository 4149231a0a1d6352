"""`merkle config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from indexer.cli.columns import table
from indexer.cli.opening import root_of
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.engine.models.settings import LLM_SETTINGS, LlmSetting, load_llm_settings
from indexer.engine.settings import SETTINGS, Settings, load_settings
from indexer.errors import ExitCode


@merkle_command("config")
@click.option("--origin", is_flag=True, help="Also tell where each value came from.")
def command(options: Globals, origin: bool) -> int:
    """Show the settings in force.

    A flag goes before the environment (MERKLE_WATCH_DEBOUNCE for watch.debounce), that before
    merkle.toml in the workspace, and that before the default.

    \b
    Example:
      merkle config --origin
    """
    root = root_of(options)
    document = _document(root, load_settings(root))
    if options.json:
        print_json(document)
    else:
        print_text(_text(document, origin))
    return ExitCode.FINE


def _document(root: Path, settings: Settings) -> dict[str, Any]:
    return {
        "workspace": str(root),
        "file": str(settings.file) if settings.file else None,
        "settings": [
            {
                "key": setting.key,
                "value": setting.shown(settings.values[setting.key]),
                "unit": setting.unit,
                "origin": settings.origins[setting.key].kind,
                "where": settings.origins[setting.key].where,
                "variable": setting.variable,
                "about": setting.about,
            }
            for setting in SETTINGS
        ]
        + [_llm_setting(setting, root) for setting in LLM_SETTINGS],
    }


def _llm_setting(setting: LlmSetting, root: Path) -> dict[str, Any]:
    found = load_llm_settings(root)
    origin = found.origins[setting.name]
    return {
        "key": setting.key,
        "value": found.values[setting.name],
        "unit": "",
        "origin": origin.kind,
        "where": origin.where,
        "variable": setting.variable,
        "about": setting.about,
    }


def _text(document: dict[str, Any], origin: bool) -> str:
    rows = []
    for each in document["settings"]:
        value = _shown(each["value"], each["unit"])
        where = f" ({on_screen(each['where'])})" if each["where"] else ""
        row = [each["key"], value, click.style(each["about"], dim=True)]
        if origin:
            row.insert(2, click.style(each["origin"] + where, fg="cyan"))
        rows.append(row)
    return table(rows, right=frozenset({1}))


def _shown(value: object, unit: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,} {unit}".rstrip()
    return "none" if value is None else on_screen(str(value)) or '""'
