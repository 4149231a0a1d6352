"""`merkle config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import click

from indexer.cli.columns import table
from indexer.cli.opening import root_of
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.engine.models.settings import LLM_SETTINGS, load_llm_settings
from indexer.engine.settings import (
    FILE,
    SETTINGS,
    TRUST,
    Origin,
    Setting,
    Value,
    load_settings,
    trust,
)
from indexer.errors import ExitCode


class SettingDocument(TypedDict):
    """One setting, and where its value came from."""

    key: str
    value: Any
    unit: str
    origin: str
    where: str | None
    variable: str
    about: str


class ConfigDocument(TypedDict):
    """Result of `config`."""

    workspace: str
    file: str | None
    trusted: bool
    refused: list[str]
    settings: list[SettingDocument]


@merkle_command("config", gives=(ConfigDocument,))
@click.option("--origin", is_flag=True, help="Also tell where each value came from.")
@click.option(
    "--trust",
    "trusting",
    is_flag=True,
    help="Let this workspace's merkle.toml set everything from now on.",
)
def command(options: Globals, origin: bool, trusting: bool) -> int:
    """Show the settings in force.

    A flag goes before the environment (MERKLE_WATCH_DEBOUNCE for watch.debounce), that before
    your own config.toml (in ~/.config/merkle, or $XDG_CONFIG_HOME/merkle), that before merkle.toml
    in the workspace, and that before the default. What sends, spends or signs in your name is not
    a repository's to set: merkle.toml counts there once you trust the workspace.

    \b
    Examples:
      merkle config --origin
      merkle config --trust
    """
    root = root_of(options)
    if trusting:
        trust(root)
    document = _document(root)
    if options.json:
        print_json(document)
    else:
        print_text(_text(document, origin))
        if trusting:
            print_text(f"{FILE} of {on_screen(str(root))} may set everything from now on")
    return ExitCode.FINE


def _document(root: Path) -> ConfigDocument:
    settings, llm = load_settings(root), load_llm_settings(root)
    rows = [(one, settings.values[one.key], settings.origins[one.key]) for one in SETTINGS]
    for one in LLM_SETTINGS:
        name = one.key.partition(".")[2]
        rows.append((one, llm.values[name], llm.origins[name]))
    return {
        "workspace": str(root),
        "file": str(settings.file) if settings.file else None,
        "trusted": llm.is_trusted,
        "refused": [*settings.refused, *llm.refused],
        "settings": [_row(*row) for row in rows],
    }


def _row(setting: Setting, value: Value, origin: Origin) -> SettingDocument:
    return {
        "key": setting.key,
        "value": setting.shown(value),
        "unit": setting.unit,
        "origin": origin.kind,
        "where": origin.where,
        "variable": setting.variable,
        "about": setting.about,
    }


def _text(document: ConfigDocument, origin: bool) -> str:
    rows = []
    for each in document["settings"]:
        value = _shown(each["value"], each["unit"])
        where = f" ({on_screen(each['where'])})" if each["where"] else ""
        row = [each["key"], value, click.style(each["about"], dim=True)]
        if origin:
            row.insert(2, click.style(each["origin"] + where, fg="cyan"))
        rows.append(row)
    shown = table(rows, right=frozenset({1}))
    if document["refused"]:
        names = ", ".join(document["refused"])
        shown += f"\n{FILE} sets {names}, which is not a repository's to set\nhint: {TRUST}"
    return shown


def _shown(value: object, unit: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,} {unit}".rstrip()
    return "none" if value is None else on_screen(str(value)) or '""'
