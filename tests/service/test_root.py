"""The workspace itself goes away, comes back, is emptied or replaced: deletion needs evidence."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.service.client import RemoteError
from indexer.service.workspace import Workspace


def test_moved_away_and_back(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    before = service.converges()
    away = sample.with_name(sample.name + "-away")
    client = service.client
    sample.rename(away)
    until(lambda: client.get("/v1/health")["state"] == "unavailable", "it is noticed")
    status = client.get("/v1/status")
    assert status["state"] == "unavailable"
    assert status["root"] == before["root"]
    assert status["nodes"] == before["nodes"]
    (away / "pkg0" / "new").write_text("made while away")
    shutil.rmtree(away / "pkg1")
    away.rename(sample)
    # No waiting here: asking is enough to make it look.
    assert client.get("/v1/status")["state"] == "current"
    service.converges()
    (sample / "pkg0" / "new").write_text("and watched again")
    service.converges()
    service.goes_idle()
    assert service.stop() == 0


def test_folder_around_it_moved_away_and_back(folder: Path, services: Callable[..., Any]) -> None:
    """No event tells of this; the next question finds out."""
    root = folder / "outer" / "inner"
    root.mkdir(parents=True)
    (root / "file").write_text("x")
    service = services(root).ready()
    service.converges()
    client = service.client
    (folder / "outer").rename(folder / "elsewhere")
    assert client.get("/v1/status")["state"] == "unavailable"
    (folder / "elsewhere").rename(folder / "outer")
    service.converges()
    (root / "file").write_text("y")
    service.converges()


def test_stopped_while_away(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    (sample / "pkg0" / "edit").write_text("x")
    root = service.converges()["root"]
    client = service.client
    away = sample.with_name(sample.name + "-away")
    sample.rename(away)
    until(lambda: client.get("/v1/health")["state"] == "unavailable", "it is noticed")
    assert service.stop() == 0, service.output()
    assert not sample.exists()
    away.rename(sample)
    with Workspace.open(sample) as workspace:
        status = workspace.status()
        assert status["state"] == "current"
        assert status["root"] == root
        assert workspace.validate(content=True)["valid"]


def test_deleted(sample: Path, services: Callable[..., Any], until: Callable[..., Any]) -> None:
    service = services(sample).ready()
    client = service.client
    shutil.rmtree(sample)

    def noticed() -> bool:
        return not service.is_running() or client.get("/v1/health")["state"] == "unavailable"

    until(noticed, "it is noticed")
    if service.is_running():
        # What is there later is not the workspace that was opened.
        sample.mkdir()
    assert service.wait() == 3
    assert "no longer holds the index" in service.output()


def test_emptied(sample: Path, services: Callable[..., Any], until: Callable[..., Any]) -> None:
    service = services(sample).ready()
    before = service.converges()
    for path in sample.iterdir():
        if path.name != ".merkle":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    client = service.client
    until(lambda: client.get("/v1/health")["state"] == "unavailable", "it is noticed")
    status = client.get("/v1/status")
    assert status["state"] == "unavailable"
    assert status["nodes"] > 1
    assert "suddenly empty" in status["service"]["degraded"]
    with pytest.raises(RemoteError, match="suddenly empty"):
        client.post("/v1/scan", {})
    service.goes_idle()
    scanned = client.post("/v1/scan", {"accept_empty": True})
    assert scanned["nodes"] == 1
    assert service.converges()["nodes"] == 1
    assert scanned["root"] != before["root"]
    (sample / "fresh").write_text("a new beginning")
    assert service.converges()["nodes"] == 2


def test_emptied_and_filled_again(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    before = service.converges()
    aside = sample.with_name(sample.name + "-aside")
    aside.mkdir()
    moved = [path for path in sample.iterdir() if path.name != ".merkle"]
    for path in moved:
        path.rename(aside / path.name)
    client = service.client
    until(lambda: client.get("/v1/health")["state"] == "unavailable", "it is noticed")
    for path in moved:
        (aside / path.name).rename(path)
    assert service.converges()["root"] == before["root"]
    (sample / "pkg2" / "inner" / "more").write_text("x")
    service.converges()


def test_replaced_by_another_folder(
    sample: Path, folder: Path, services: Callable[..., Any]
) -> None:
    service = services(sample).ready()
    service.converges()
    sample.rename(sample.with_name(sample.name + "-old"))
    sample.mkdir()
    (sample / "other").write_text("somebody else's")
    assert service.wait() == 3
    assert "no longer holds the index" in service.output()
    assert "merkle scan" in service.output()
    assert sorted(path.name for path in sample.iterdir()) == ["other"]


def test_replaced_by_another_workspace(sample: Path, services: Callable[..., Any]) -> None:
    other = sample.with_name(sample.name + "-other")
    shutil.copytree(sample, other, ignore=shutil.ignore_patterns(".merkle"))
    with Workspace.open(other) as workspace:
        other_root = workspace.scan()["root"]
    service = services(sample).ready()
    (sample / "edit").write_text("recorded, with its stat cache still to be written")
    service.converges()
    sample.rename(sample.with_name(sample.name + "-old"))
    other.rename(sample)
    assert service.wait() == 3
    assert "another folder now" in service.output()
    # Nothing of the old service ended up in the other index.
    with Workspace.open(sample) as workspace:
        assert workspace.validate()["valid"]
        assert workspace.status()["root"] == other_root


def test_index_deleted_under_the_service(sample: Path, services: Callable[..., Any]) -> None:
    service = services(sample).ready()
    service.converges()
    shutil.rmtree(sample / ".merkle")
    assert service.wait() == 3
    assert "no longer holds the index" in service.output()
    with Workspace.open(sample) as workspace:
        assert workspace.scan()["nodes"] > 30


def test_folder_of_cookies_deleted(sample: Path, services: Callable[..., Any]) -> None:
    service = services(sample).ready()
    for number in range(3):
        shutil.rmtree(sample / ".merkle" / "cookies")
        (sample / "edit").write_text(str(number))
        service.converges()
    assert service.health()["state"] == "watching"


def test_a_deleted_index_acknowledges_nothing(folder: Path, services: Callable[..., Any]) -> None:
    """A session needs no look at the disk, so nothing else would have noticed."""
    (folder / "file").write_text("x")
    service = services(folder).ready()
    client = service.client
    client.post("/v1/session-new", {"name": "kept"})
    shutil.rmtree(folder / ".merkle")
    with pytest.raises(RemoteError, match="no longer holds the index"):
        client.post("/v1/session-new", {"name": "lost"})
    assert service.wait() == 3
    assert "no longer holds the index" in service.output()


def test_unmounted_and_mounted_again(
    folder: Path, services: Callable[..., Any], until: Callable[..., Any]
) -> None:
    root = Path(tempfile.mkdtemp(prefix="merkle-mount-", dir="/tmp"))
    (folder / "file").write_text("x")
    bind = ["mount", "--bind", str(folder), str(root)]
    if subprocess.run(bind, capture_output=True).returncode != 0:
        root.rmdir()
        pytest.skip("mounting is not allowed here")
    try:
        if root.stat().st_dev == root.parent.stat().st_dev:
            pytest.skip("both folders are on one file system here")
        service = services(root).ready()
        before = service.converges()
        client = service.client
        subprocess.run(["umount", "--lazy", str(root)], check=True)
        assert client.get("/v1/status")["state"] == "unavailable"
        assert client.get("/v1/health")["state"] == "unavailable"
        subprocess.run(bind, check=True)
        until(lambda: client.get("/v1/health")["state"] == "watching", "it is back")
        assert client.get("/v1/status")["root"] == before["root"]
        (root / "file").write_text("y")
        service.converges()
        assert service.stop() == 0
    finally:
        subprocess.run(["umount", "--lazy", str(root)], capture_output=True)
        root.rmdir()
