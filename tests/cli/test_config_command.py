"""`merkle config`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_values_and_their_origin(
    tmp_path: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "merkle.toml").write_text("[watch]\nsettle = '1s'\n")
    monkeypatch.setenv("MERKLE_WATCH_DEBOUNCE", "75")
    lines = merkle("-C", tmp_path, "config", "--origin").out.splitlines()
    assert any("75 ms  environment (MERKLE_WATCH_DEBOUNCE)" in line for line in lines)
    assert any("1,000 ms  file (merkle.toml)" in line for line in lines)
    assert "default" not in merkle("-C", tmp_path, "config").out
    document = merkle("-C", tmp_path, "config", "--json").json
    assert document["file"] == str(tmp_path / "merkle.toml")
    by_key = {each["key"]: each for each in document["settings"]}
    assert by_key["watch.debounce"]["value"] == 75
    assert by_key["watch.idle_exit"]["value"] is None
    assert not (tmp_path / ".merkle").exists()


def test_a_mistake_is_wrong_use(tmp_path: Path, merkle: Any) -> None:
    (tmp_path / "merkle.toml").write_text("[nonsense]\n")
    ran = merkle("-C", tmp_path, "config", "--json")
    assert ran.code == 2
    assert ran.json["error"]["code"] == "bad_config"
    assert "merkle.toml: unknown section [nonsense]" in ran.json["error"]["message"]
