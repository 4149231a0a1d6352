"""A real `merkle watch --web` in a process of its own, and ways to ask it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from indexer import Workspace
from tests.support.processes import REPOSITORY, Forked
from tests.support.short import SHORT
from tests.support.waiting import PATIENCE, wait_until


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: str


class Site:
    """One served workspace."""

    def __init__(self, root: Path, runtime: Path, *options: str) -> None:
        self.root = root
        self.environment = {
            **os.environ, "XDG_RUNTIME_DIR": str(runtime), "PYTHONPATH": str(REPOSITORY),
        }  # fmt: skip
        # A run that is cut short must not leave it behind for ever.
        watch = ["watch", "--idle-exit", "1h", "--web", *options]
        self.process = Forked(
            [sys.executable, "-m", "indexer.cli", "-C", root, "--json", *watch],
            cwd="/",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.said = self._document()
        self.url: str = self.said["web"]
        parts = urlsplit(self.url)
        self.port = parts.port or 0
        self.netloc = parts.netloc
        self.target = f"{parts.path}?{parts.query}"
        self.cookie = ""

    def _document(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = ""
        for line in self.process.stdout:
            text += line
            if line == "}\n":
                return dict(json.loads(text))
        raise AssertionError(f"it ended with {self.process.wait()}: {text}")

    def ask(self, target: str = "/", *, method: str = "GET", **headers: str) -> Answer:
        """One request with exactly these headers; a Host is added where none is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            sent = {"Host": self.netloc, **{k.replace("_", "-"): v for k, v in headers.items()}}
            for name, value in sent.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read().decode())
        finally:
            connection.close()

    def enter(self) -> Site:
        """Come in by the address that was printed."""
        answer = self.ask(self.target)
        assert answer.status == 303
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, target: str = "/") -> Answer:
        """A page, as its own browser asks for it."""
        return self.ask(target, Cookie=self.cookie)

    def workspace(self) -> Workspace:
        """The same workspace through the service."""
        return Workspace.open(self.root)

    def settles(self) -> None:
        """Wait until every declared frame is made."""

        def fresh() -> bool:
            with self.workspace() as workspace:
                status = workspace.status()
            counts = status["frames"]
            return status["state"] == "current" and counts["total"] >= status["nodes"]

        wait_until(fresh, "every frame is made")

    def stop(self) -> int:
        """End it by its own process id."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def make_sample(root: Path) -> Path:
    """A copy of the sample workspace, with an agent to write notes."""
    shutil.copytree(REPOSITORY / "sample_workspace", root, ignore=shutil.ignore_patterns(".merkle"))
    return root


@pytest.fixture(scope="session")
def base() -> Iterator[Path]:
    """A folder in memory for the workspaces."""
    folder = Path(tempfile.mkdtemp(prefix="mkw"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def runtime(base: Path) -> Iterator[Path]:
    """The runtime folder of the services, here and in the processes."""
    folder = Path(tempfile.mkdtemp(prefix="mk", dir=SHORT))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def runtime_dir(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of a runtime folder per test: the services are asked by several."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return runtime


@pytest.fixture(autouse=True)
def same_runtime(runtime_dir: Path) -> None:
    """Every test here uses it."""


@pytest.fixture(scope="session")
def sites(base: Path, runtime: Path) -> Iterator[Callable[..., Site]]:
    """Serve workspaces; whatever still runs at the end is ended."""
    started: list[Site] = []

    def serve(root: Path, *options: str) -> Site:
        started.append(Site(root, runtime, *options))
        return started[-1]

    yield serve
    for site in started:
        site.stop()


@pytest.fixture(scope="session")
def site(base: Path, sites: Callable[..., Site]) -> Site:
    """The sample workspace, served, with a note by an agent and every frame made."""
    served = sites(make_sample(base / "sample")).enter()
    with served.workspace() as workspace:
        workspace.agent_add("reviewer", "writer")
    served.settles()
    return served
