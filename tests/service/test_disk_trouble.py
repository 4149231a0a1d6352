"""No room, no permission, no writing at all: a service lives on, and whoever only reads can."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.service.client import RemoteError
from indexer.store import lock as locking
from indexer.store.database import ReadOnlyError
from tests.support.engines import Engine
from tests.support.processes import REPOSITORY, run
from tests.support.service import Service
from tests.support.waiting import wait_until

SOON = "import indexer.service.writing_thread as w; w.DEGRADED_POLL = 0.2"


def merkle(root: Path, *arguments: str) -> tuple[int, Any, str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    code, out, err = run(
        ["-m", "indexer.cli", "-C", str(root), "--json", *arguments], env=environment
    )
    assert "Traceback" not in err
    return code, json.loads(out) if out else None, err


@pytest.fixture
def mounted() -> Iterator[Callable[..., Path]]:
    """File systems of a size, where this process may mount any."""
    made: list[Path] = []

    def mount(size: str) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="mkm", dir="/tmp"))
        told = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder],
            capture_output=True, text=True,
        )  # fmt: skip
        if told.returncode:
            folder.rmdir()
            pytest.skip(f"nothing can be mounted here: {told.stderr.strip()}")
        made.append(folder)
        root = folder / "w"
        root.mkdir()
        return root

    try:
        yield mount
    finally:
        for folder in made:
            subprocess.run(["umount", "-l", folder], check=True)
            folder.rmdir()


def fill(root: Path) -> Path:
    """Take all the room that is left beside a workspace."""
    path = root.parent / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    assert shutil.disk_usage(root).free == 0
    return path


def prepare(root: Path) -> None:
    for number in range(20):
        (root / f"f{number}.py").write_text(f"def f{number}(): ...\n")


def note(service: Service, text: str) -> Any:
    body = {"node": "f1.py", "content": text, "frame_type": "note", "agent": "ann"}
    return service.client.post("/v1/put-frame", body)


def notes(service: Service) -> list[str]:
    query = {"node": "f1.py", "frame_type": "note"}
    ids = [one["frame_id"] for one in service.client.post("/v1/list-frames", query)["frames"]]
    whole = [service.client.post("/v1/get-frame", {"frame": one}) for one in ids]
    return sorted(one["content"] for one in whole)


def refused(service: Service, text: str) -> None:
    with pytest.raises(RemoteError) as caught:
        note(service, text * 100_000)
    assert caught.value.exit_code == 3


def lives_on(service: Service, root: Path, make_room: Callable[[], object]) -> None:
    """Nothing can be written for a while; `make_room` ends that."""
    refused(service, "not kept")
    with (root / "f1.py").open("r+") as file:
        # In place: there is no room for another.
        file.write("def g")
    health = wait_until(
        lambda: found if (found := service.health())["state"] == "unhealthy" else None,
        "it says that it is not well",
    )
    assert "cannot" in health["reason"]
    status = service.status()
    assert status["state"] in ("degraded", "stale")
    assert "cannot" in status["service"]["degraded"]
    # What is read is judged by the disk as it is.
    shown = service.client.post("/v1/get-node", {"node": "f1.py"})
    assert {one["freshness"] for one in shown["frames"]} == {"stale"}
    code, told, _ = merkle(root, "doctor")
    assert code == 1
    advice = {check["name"]: check for check in told["checks"]}["service"]
    assert advice["state"] == "warn"
    assert "by itself" in advice["advice"]
    refused(service, "nor this")
    make_room()
    wait_until(lambda: service.health()["state"] == "watching", "it is well again by itself")
    service.converges()
    note(service, "kept again")
    assert notes(service) == ["kept", "kept again"]
    assert service.client.post("/v1/validate", {"content": True})["errors"] == []
    assert service.stop() == 0
    assert "Traceback" not in service.output()
    assert merkle(root, "validate", "--content")[0] == 0


def begin(root: Path, services: Callable[..., Any]) -> Service:
    prepare(root)
    service: Service = services(root, inject=SOON).ready()
    service.client.post("/v1/agent-add", {"agent_id": "ann", "role": "writer"})
    note(service, "kept")
    wait_until(lambda: service.status()["frames"]["missing"] == 0, "all frames are made")
    service.goes_idle()
    return service


def test_a_full_disk_is_lived_through(
    mounted: Callable[..., Path], services: Callable[..., Any]
) -> None:
    root = mounted("24m")
    service = begin(root, services)
    filler = fill(root)
    lives_on(service, root, filler.unlink)


def test_files_that_must_not_grow_are_lived_through(
    folder: Path, services: Callable[..., Any]
) -> None:
    service = begin(folder, services)

    def limit(size: int) -> None:
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    limit(1)
    lives_on(service, folder, lambda: limit(resource.RLIM_INFINITY))


# -- where nothing can be written


def index(root: Path) -> None:
    prepare(root)
    with Engine.create(root) as engine:
        engine.scan()
        engine.regenerate()
        engine.add_agent("ann", "writer")
        engine.put_frame("f1.py", "a note", frame_type="note", agent="ann")


def contents(root: Path) -> dict[str, bytes]:
    found = (root / ".merkle").rglob("*")
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def test_what_changed_cannot_be_recorded_on_a_read_only_file_system(
    mounted: Callable[..., Path],
) -> None:
    root = mounted("32m")
    index(root)
    (root / "f1.py").write_text("def another(): pass\n")
    subprocess.run(["mount", "-o", "remount,ro", root.parent], check=True)
    assert merkle(root, "status")[1]["changes"]["modified"] == ["f1.py"]
    for arguments in (("scan",), ("scan", "--force")):
        code, document, _ = merkle(root, *arguments)
        assert (code, document["error"]["code"]) == (3, "read_only"), arguments


def test_reads_work_on_a_read_only_file_system(mounted: Callable[..., Path]) -> None:
    root = mounted("32m")
    index(root)
    subprocess.run(["mount", "-o", "remount,ro", root.parent], check=True)
    code, status, _ = merkle(root, "status")
    assert (code, status["state"], status["read_only"]) == (0, "current", True)
    assert status["frames"]["fresh"] == status["frames"]["total"] > 20
    texts = [one["content"] for one in merkle(root, "get-node", "f1.py")[1]["frames"]]
    assert "a note" in texts
    for arguments in (
        ("log",), ("explain", "f1.py"), ("sql", "SELECT count(*) FROM nodes"), ("validate",),
        ("compose", "f1.py", "--query", "note"), ("list-frames", "f1.py"), ("agent", "list"),
        ("scan",), ("scan", "--force"),
    ):  # fmt: skip
        code, document, err = merkle(root, *arguments)
        assert code == 0, (arguments, document, err)
    for arguments in (("invalidate", "f1.py"), ("watch",)):
        code, document, _ = merkle(root, *arguments)
        assert (code, document["error"]["code"]) == (3, "read_only"), arguments
    code, told, _ = merkle(root, "doctor")
    assert code == 1
    named = {check["name"]: check for check in told["checks"]}
    assert "read-only" in named["folder"]["message"]
    assert named["database"]["state"] == named["journal"]["state"] == "ok"


def test_whoever_only_reads_writes_nothing(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(workspace)
    before, real = contents(workspace), locking.open_own_file

    def refuse(folder: int, path: Path, flags: int) -> int:
        if flags & (os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(folder, path, flags)

    monkeypatch.setattr(locking, "open_own_file", refuse)
    with Engine(workspace) as engine, locking.OwnerLock(engine.layout.lock, "other") as other:
        # Whoever else only reads need not wait.
        other.acquire(0)
        assert engine.status()["read_only"]
        assert engine.status()["state"] == "current"
        assert len(engine.get_node("f1.py")["frames"]) == 2
        with pytest.raises(ReadOnlyError):
            engine.put_frame("f1.py", "more", frame_type="note", agent="ann")
    assert contents(workspace) == before
