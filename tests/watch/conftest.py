"""A sink that writes down what it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Recorder:
    """Everything told, in order, and a way to wait for it."""

    def __init__(self, cookies: Path) -> None:
        self._cookies = cookies
        self._number = 0
        self.told: list[tuple[str, bool, bool]] = []
        self.seen: set[str] = set()
        self.losses: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def changed(self, path: str, is_folder: bool, deep: bool) -> None:
        self.gate.wait(60)
        self.told.append((path, is_folder, deep))

    def cookie(self, name: str) -> None:
        self.seen.add(name)

    def lost(self, reason: str) -> None:
        self.losses.append(reason)

    def paths(self) -> set[str]:
        """What was told until now, everything before this call included; starts over."""
        self._number += 1
        name = f"cookie{self._number}"
        (self._cookies / name).touch()
        self.until(lambda: name in self.seen)
        told, self.told = self.told, []
        return {path for path, *_ in told}

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a place for cookies."""
    root = tmp_path / "workspace"
    (root / ".merkle" / "cookies").mkdir(parents=True)
    return root


@pytest.fixture
def cookies(root: Path) -> Path:
    return root / ".merkle" / "cookies"


@pytest.fixture
def sink(cookies: Path) -> Recorder:
    return Recorder(cookies)
