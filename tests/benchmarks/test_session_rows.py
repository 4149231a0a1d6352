"""The benchmark of sessions measures what it says it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import session_rows


def test_a_conversation_has_the_turns_it_should() -> None:
    document = json.loads(session_rows.conversation(7))
    assert document["cycle"] == 7
    assert sum(record["kind"] == "commit" for record in document["records"]) == 15


def test_every_size_is_measured_on_a_session_of_that_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_rows, "SIZES", (3, 30))
    rows = list(session_rows.session_rows(tmp_path, 1))
    assert [row.name for row in rows if "30 turns" in row.name] == [row.name for row in rows]
    (stored,) = [row for row in rows if row.name.startswith("rows stored")]
    assert stored.ratio == 1
    assert all(row.value > 0 for row in rows)
