"""A real service in a process of its own, and the one assertion that matters: convergence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from indexer.core.hashing import workspace_hash
from indexer.core.tree import Tree
from indexer.scan.assemble import assemble
from indexer.scan.previous import NothingBefore
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Walker
from indexer.service.client import Client, connect
from tests.support.processes import REPOSITORY, Forked
from tests.support.waiting import PATIENCE, wait_until

_MAIN = """
import ctypes, json, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # not to outlive a test run that is cut short
from pathlib import Path
from indexer.errors import MerkleError
from indexer.service.run import run_service
import indexer.watch.inotify
options = json.loads(sys.argv[2])
exec(options.pop("inject", ""))
try:
    run_service(Path(sys.argv[1]), **options)
except MerkleError as error:
    print(error.message, error.hint, sep="\\n", file=sys.stderr)
    sys.exit(int(error.exit_code))
"""


def root_from_nothing(root: Path) -> str:
    """The root id of what is on disk, by a walk that knows nothing from before."""
    algorithm = workspace_hash("xxh3_128")
    walker = Walker(root, algorithm, Scopes(root), NothingBefore(), time.time_ns())
    folder = assemble(Tree.empty(algorithm), walker.walk())
    assert folder is not None
    return Tree(algorithm, folder).root_id.hex()


class Service:
    """One `run_service` in a process of its own."""

    def __init__(self, root: Path, runtime: Path, options: dict[str, Any]) -> None:
        self.root = root
        self.log = runtime / f"log-{time.monotonic_ns()}"
        environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(runtime),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with self.log.open("wb") as log:
            self.process = Forked(
                [sys.executable, "-c", _MAIN, str(root), json.dumps(options)],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = self.process.pid

    @property
    def client(self) -> Client:
        """A client of this service, waited for."""
        found = wait_until(lambda: connect(self.root) or not self.is_running(), "it listens")
        assert isinstance(found, Client), self.output()
        return found

    def is_running(self) -> bool:
        return self.process.poll() is None

    def ended(self) -> Service | None:
        """Itself once it has ended."""
        return None if self.is_running() else self

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def health(self) -> dict[str, Any]:
        return self.client.get("/v1/health")

    def status(self) -> dict[str, Any]:
        return self.client.get("/v1/status")

    def ready(self) -> Service:
        """Wait for the first scan."""
        wait_until(lambda: self.health()["state"] != "starting", "the first scan is done")
        return self

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the process to end and return its exit code."""
        return self.process.wait(PATIENCE)

    def stop(self) -> int:
        """End it the polite way."""
        if self.is_running():
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it the rude way."""
        if self.is_running():
            self.process.kill()
        self.process.wait()

    # -- what it should come to

    def converges(self) -> dict[str, Any]:
        """The index says it is current, and equals a scan from nothing."""
        status = wait_until(self._current, "the status is current")
        assert status["root"] == root_from_nothing(self.root)
        return status

    def _current(self) -> dict[str, Any] | None:
        status = self.status()
        return status if status["state"] == "current" else None

    def ticks(self) -> int:
        """CPU time used so far, in ticks of 10 ms."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return int(fields[11]) + int(fields[12])

    def goes_idle(self, seconds: float = 0.3, most: int = 2) -> None:
        """At some point it uses next to no CPU for a while."""

        def rests() -> bool:
            before = self.ticks()
            time.sleep(seconds)
            return self.ticks() - before <= most

        wait_until(rests, "the process is idle")

    def switches(self) -> dict[str, int]:
        """How often each thread but the main one went to sleep: equal means it never woke."""
        found = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            if task.name != str(self.pid):
                for line in (task / "status").read_text().splitlines():
                    if line.startswith("voluntary_ctxt_switches"):
                        found[task.name] = int(line.split()[1])
        return found
