"""docs/cli.md is what the commands say now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from indexer.cli.group import COMMANDS, cli
from indexer.cli.reference import JSON_KEYS, TARGET, reference


def test_the_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == reference(), "run `just docs`"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_in_it(name: str) -> None:
    page = TARGET.read_text(encoding="utf-8")
    assert f"\n## merkle {name}\n" in page
    section = page.split(f"\n## merkle {name}\n")[1].split("\n## ")[0]
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option) and option.expose_value:
            assert all(f"`{opt}" in section for opt in option.opts if opt.startswith("-"))


LINES = {
    "init": ["init"], "scan": ["scan"], "status": ["status"], "validate": ["validate"],
    "watch": ["watch", "--once"], "log": ["log"], "diff": ["diff", "@-0", "@-0"],
    "sql": ["sql", "SELECT 1"], "config": ["config"], "doctor": ["doctor"],
    "completion": ["completion", "bash"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_the_json_keys_are_true(name: str, scanned: Path, merkle: Any) -> None:
    assert tuple(merkle("-C", scanned, "--json", *LINES[name]).json) == JSON_KEYS[name]
