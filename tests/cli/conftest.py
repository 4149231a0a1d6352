"""Running `merkle`: as a real process for statuses and streams, in this one for the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from indexer.cli.group import cli
from indexer.engine.workspace import Engine
from indexer.service import workspace as opening
from indexer.service.client import connect
from tests.support.copies import copy_workspace
from tests.support.processes import Forked
from tests.support.processes import run as run_forked
from tests.support.short import SHORT
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)


Merkle = Callable[..., Ran]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, user_folder: Path) -> Iterator[None]:
    """Nothing of the developer's own settings, and sockets in a folder of the test's own."""
    for name in [*os.environ]:
        if name not in ("XDG_CONFIG_HOME", "XDG_STATE_HOME") and (
            name.startswith(("MERKLE_", "XDG_")) or name in ("NO_COLOR", "FORCE_COLOR")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("MERKLE_SERVICE_READY", "no")
    # Not in tmp_path: socket paths end at 107 bytes.
    with tempfile.TemporaryDirectory(prefix="mk", dir=SHORT) as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield


class _Kept(Engine):
    """An index that stays open when a command lets go of it."""

    def close(self) -> None:
        pass


class KeptOpen:
    """The indexes that stay open from one command in this process to the next."""

    def __init__(self) -> None:
        self._engines: dict[Path, _Kept] = {}

    def load(self) -> Callable[..., Engine]:
        """In place of the function that loads the engine: it finds what is open already."""

        def found(root: Path, **options: Any) -> Engine:
            if root not in self._engines:
                self._engines[root] = _Kept(root, **options)
            return self._engines[root]

        return found

    def close(self) -> None:
        """Let go of all: the next command opens its index anew."""
        while self._engines:
            Engine.close(self._engines.popitem()[1])


_kept = KeptOpen()


@pytest.fixture
def kept_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptOpen]:
    """Commands in this process leave the index open for those that come after them.

    For tests of what commands do and say one after the other: opening the index takes longer than
    most of them. That each can open it alone is for tests without this, and what is a process of
    its own, or a service, finds it free.
    """
    monkeypatch.setattr(opening, "_load_engine", _kept.load)
    yield _kept
    _kept.close()


@pytest.fixture
def process(tmp_path: Path) -> Merkle:
    """Run `merkle` as a process of its own."""

    def run(
        *arguments: str | bytes | Path, cwd: Path = tmp_path, stdin: bytes = b"", **env: str
    ) -> Ran:
        assert not {name for name in env if name.startswith(("PYTHON", "LC_", "TZ"))}, "started()"
        _kept.close()
        line = ["-m", "indexer.cli", *arguments]
        return Ran(*run_forked(line, cwd=cwd, stdin=stdin, env={**os.environ, **env}))

    return run


@pytest.fixture
def started(tmp_path: Path) -> Merkle:
    """The same from a start of its own, where it matters what Python reads and loads at one."""

    def run(*arguments: str | Path, cwd: Path = tmp_path, **env: str) -> Ran:
        _kept.close()
        done = subprocess.run(
            [sys.executable, "-m", "indexer.cli", *arguments],
            cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
            env={**os.environ, **env},
        )  # fmt: skip
        # Strict: what is printed must be UTF-8 whatever the names on disk are.
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def merkle() -> Merkle:
    """Run `merkle` in this process."""

    def run(*arguments: str | Path, stdin: str = "", colour: bool = False) -> Ran:
        runner = CliRunner()
        result = runner.invoke(cli, [str(each) for each in arguments], input=stdin, color=colour)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small workspace, not indexed yet."""
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "README.md").write_text("# Tide tables\n")
    (root / "src" / "main.py").write_text("print('tide')\n")
    (root / "src" / "deep" / "table.csv").write_text("1,2\n" * 500)
    (root / ".gitignore").write_text("*.log\n")
    (root / "noise.log").write_text("ignored\n")
    return root


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an index that many tests begin with is kept, once it was made."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def scanned(workspace: Path, made: Path, merkle: Merkle) -> Path:
    """The small workspace, indexed."""
    if not (made / "scanned").exists():
        assert merkle("-C", workspace, "scan").code == 0
        _kept.close()
        shutil.move(workspace, made / "scanned")
    return copy_workspace(made / "scanned", workspace)


@pytest.fixture
def service(scanned: Path) -> Iterator[subprocess.Popen[str]]:
    """A service for the small workspace in a process of its own, its frames made."""
    _kept.close()
    running = Forked(
        [sys.executable, "-m", "indexer.cli", "-C", str(scanned), "watch"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def is_done() -> bool:
        assert running.poll() is None, running.communicate()
        client = connect(scanned)
        return client is not None and not client.get("/v1/status")["frames"]["missing"]

    # Commands are let in before that, and what they give would depend on the moment.
    wait_until(is_done, "the service has made all frames")
    yield running
    if running.poll() is None:
        running.kill()
        running.communicate()


@pytest.fixture(params=["local", "service"])
def anywhere(scanned: Path, request: pytest.FixtureRequest) -> Path:
    """The small workspace, once without a service and once with one running."""
    if request.param == "service":
        request.getfixturevalue("service")
    return scanned


@pytest.fixture
def peopled(workspace: Path, made: Path, merkle: Merkle, request: pytest.FixtureRequest) -> Path:
    """The small workspace with its outlines made, a writer, a reader and a synthesizer."""
    if not (made / "peopled").exists():
        request.getfixturevalue("scanned")
        for name, role in (("alice", "writer"), ("bob", "reader"), ("carol", "synthesis")):
            assert merkle("-C", workspace, "agent", "add", name, "--role", role).code == 0
        assert merkle("-C", workspace, "regenerate").code == 0
        _kept.close()
        shutil.move(workspace, made / "peopled")
    return copy_workspace(made / "peopled", workspace)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """Make a folder's file system read-only for the rest of the test; skips where not allowed."""
    mounted: list[Path] = []

    def freeze(folder: Path) -> None:
        for options in (["--bind", str(folder)], ["-o", "remount,bind,ro"]):
            try:
                done = subprocess.run(["mount", *options, str(folder)], capture_output=True)
            except OSError as error:
                pytest.skip(f"cannot mount: {error}")
            if done.returncode:
                pytest.skip(f"cannot mount: {done.stderr.decode().strip()}")
            if folder not in mounted:
                mounted.append(folder)

    yield freeze
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def content_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """A way to prove that a refusal changed nothing."""
    return content_of
