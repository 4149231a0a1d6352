"""Engines are made by the hundred here."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(fast_path: Path) -> Path:
    """Every workspace here is made where a sync costs nothing."""
    return fast_path
