"""Waiting for what must come to pass, without a guess how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds that nothing here should ever need; a bound, not an expectation."""


def wait_until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Poll until the condition holds; its value is returned."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.02)
    return value
