"""`merkle repair`: what agents wrote comes back, and nothing is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NOTE = ["--type", "note", "--agent", "alice"]


@pytest.fixture
def noted(peopled: Path, merkle: Any) -> Path:
    """A workspace with a note that only the journal can bring back."""
    assert merkle("-C", peopled, "put-frame", "src", "-", *NOTE, stdin="remember").code == 0
    return peopled


def the_note(merkle: Any, root: Path) -> str:
    (frame,) = merkle("-C", root, "--json", "get-node", "src", "--type", "note").json["frames"]
    return str(frame["content"])


def test_nothing_to_repair(noted: Path, merkle: Any) -> None:
    ran = merkle("-C", noted, "repair")
    assert ran.code == 0
    assert ran.out.startswith("nothing to repair: root ")
    assert not (noted / ".merkle" / "quarantine").exists()


def test_a_damaged_database_is_rebuilt(noted: Path, merkle: Any) -> None:
    database = noted / ".merkle" / "index.duckdb"
    damaged = b"this was a database once\n" * 500
    database.write_bytes(damaged)
    assert merkle("-C", noted, "get-node", "src").code == 4
    ran = merkle("-C", noted, "repair")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("repaired: root ")
    assert "the database was put aside" in ran.out
    assert "gone\n  older deterministic frames" in ran.out
    aside = ".merkle/quarantine/database-1/index.duckdb"
    assert f"put aside\n  {aside}" in ran.out
    assert (noted / aside).read_bytes() == damaged
    assert the_note(merkle, noted) == "remember"
    assert merkle("-C", noted, "validate", "--content").code == 0


def test_a_lost_database_comes_back(noted: Path, merkle: Any) -> None:
    (noted / ".merkle" / "index.duckdb").unlink()
    (noted / ".merkle" / "index.duckdb.wal").unlink(missing_ok=True)
    ran = merkle("-C", noted, "--json", "repair")
    assert ran.code == 0
    assert ran.json["nodes"] == 7
    assert the_note(merkle, noted) == "remember"


def test_a_damaged_journal_is_written_anew(noted: Path, merkle: Any) -> None:
    segment = next((noted / ".merkle" / "journal").iterdir())
    raw = bytearray(segment.read_bytes())
    raw[raw.index(b"bob") + 1] ^= 1
    segment.write_bytes(raw)
    ran = merkle("-C", noted, "--json", "repair")
    assert ran.code == 0
    assert ran.json["repaired"] is True
    assert ran.json["gone"]
    assert ran.json["quarantined"]
    assert the_note(merkle, noted) == "remember"
    assert merkle("-C", noted, "--json", "repair").json["repaired"] is False


def test_no_workspace_is_5(tmp_path: Path, merkle: Any) -> None:
    assert merkle("-C", tmp_path, "repair").code == 5
    assert not (tmp_path / ".merkle").exists()
