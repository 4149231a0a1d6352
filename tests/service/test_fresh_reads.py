"""A served read never calls fresh what it did not look at, whatever events fail to tell."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.core.hashing import workspace_hash

NO_EVENTS = "indexer.watch.inotify.InotifyWatcher.add = lambda self, path: None\n"
"""The watcher lives and cookies come back, but nothing is told of the workspace itself."""

OUT_OF_WATCHES = (
    "indexer.watch.inotify.InotifyWatcher.add = lambda self, path: self._unwatched.add(path)\n"
)

ROUNDS = 24


def python(number: int) -> str:
    return f"def f{number}():\n    pass\n"


def content_id(path: Path) -> str:
    return workspace_hash("xxh3_128").of_file(path.read_bytes()).hex()


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "src").mkdir()
    (folder / "src" / "a.py").write_text(python(0))
    (folder / "src" / "b.py").write_text(python(0))
    return folder


def settled(service: Any, until: Callable[..., Any]) -> None:
    """Every frame is made: nothing is missing and nothing stale."""

    def done() -> bool:
        frames = service.status()["frames"]
        return not frames["missing"] and frames["fresh"] == frames["total"] > 0

    until(done, "all frames are made")


def reads(client: Any, node: str, kind: int) -> list[dict[str, Any]]:
    """The labels that one of the reads gives for a node, each with what it was made from."""
    if kind == 0:
        found = client.post("/v1/get-node", {"node": node})
        return [{**one, "of": found["content_id"]} for one in found["frames"]]
    if kind == 1:
        return list(client.post("/v1/list-frames", {"node": node, "limit": 1})["frames"])
    if kind == 2:
        return list(client.post("/v1/get-head", {"node": node})["heads"])
    if kind == 3:
        return [client.post("/v1/explain", {"node": node})]
    composed = client.post("/v1/compose", {"nodes": [node]} if kind == 4 else {})
    return [item for item in composed["items"] if item["path"] == node]


def outline_of(path: Path) -> str:
    """The name of the one function that a file has now."""
    return path.read_text().partition("(")[0].removeprefix("def ")


def wrong_labels(service: Any, shown: str, change: Callable[[int], None]) -> list[str]:
    """Change a file and read it, in every way: which fresh labels stood on an older text."""
    client, path, wrong = service.client, service.root / shown, []
    for number in range(1, ROUNDS + 1):
        change(number)
        kind = number % 6
        for label in reads(client, shown, kind):
            if label["freshness"] != "fresh":
                continue
            frame = client.post("/v1/list-frames", {"node": shown, "content": True})["frames"]
            said = next(one["content"] for one in frame if one["frame_id"] == label["frame_id"])
            if outline_of(path) not in said:
                wrong.append(f"round {number}, read {kind}")
    return wrong


def test_a_hard_link_changed_under_another_name(
    services: Callable[..., Any], project: Path, shm: Path, until: Callable[..., Any]
) -> None:
    outside = Path(tempfile.mkdtemp(prefix="out-", dir=shm)) / "other-name"
    os.link(project / "src" / "a.py", outside)
    service = services(project).ready()
    settled(service, until)
    assert wrong_labels(service, "src/a.py", lambda n: overwrite(outside, python(n))) == []
    # The folder and the status follow as well: such files are looked at before every answer.
    overwrite(outside, python(1000))
    status = service.status()
    assert status["state"] == "current"
    node = service.client.post("/v1/get-node", {"node": "src/a.py"})
    assert node["content_id"] == content_id(outside)
    assert service.converges()["root"] == status["root"]


def overwrite(path: Path, text: str) -> None:
    """Change a file in place, with its old times."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_folder_above_a_hard_link_is_not_fresh_either(
    services: Callable[..., Any], project: Path, until: Callable[..., Any]
) -> None:
    (project / "beside").mkdir()
    service = services(project).ready()
    settled(service, until)
    # An event comes for the new name only, and so it does for every change by it.
    other = project / "beside" / "a.py"
    os.link(project / "src" / "a.py", other)
    settled(service, until)
    for number in range(1, 11):
        overwrite(other, python(number))
        (head,) = service.client.post("/v1/get-head", {"node": "src"})["heads"]
        if head["freshness"] == "fresh":
            shown = service.client.post("/v1/get-node", {"node": "src"})["frames"][0]["content"]
            assert f"f{number}" in shown


def test_lost_events(
    services: Callable[..., Any], project: Path, until: Callable[..., Any]
) -> None:
    service = services(project, inject=NO_EVENTS).ready()
    settled(service, until)
    path = project / "src" / "a.py"
    assert wrong_labels(service, "src/a.py", lambda n: overwrite(path, python(n))) == []


def test_a_note_is_bound_to_what_is_on_disk(
    services: Callable[..., Any], project: Path, until: Callable[..., Any]
) -> None:
    service = services(project, inject=NO_EVENTS).ready()
    settled(service, until)
    client, path = service.client, project / "src" / "a.py"
    client.post("/v1/agent-add", {"agent_id": "ann", "role": "writer"})
    path.write_text(python(7))
    note = {"node": "src/a.py", "content": "of 7", "frame_type": "note", "agent": "ann"}
    assert client.post("/v1/put-frame", note)["freshness"] == "fresh"
    node = client.post("/v1/get-node", {"node": "src/a.py", "frame_type": "note"})
    assert node["content_id"] == content_id(path)
    assert node["frames"][0]["freshness"] == "fresh"


@pytest.mark.parametrize("mounted", ["", "src"])
def test_a_file_system_without_events_is_polled(
    services: Callable[..., Any], project: Path, tmp_path: Path, mounted: str
) -> None:
    table = tmp_path / "mountinfo"
    place = os.path.realpath(project / mounted).replace(" ", "\\040")
    table.write_text(
        f"1 0 0:1 / / rw - ext4 /dev/root rw\n2 1 0:2 / {place} rw - fuse.sshfs host: rw\n"
    )
    inject = f"import indexer.watch.mounts\nindexer.watch.mounts.TABLE = {str(table)!r}\n"
    service = services(project, inject=inject + NO_EVENTS).ready()
    health = service.health()
    assert health["state"] == "degraded"
    assert "fuse.sshfs" in health["reason"]
    where = "below src" if mounted else "in this workspace"
    assert where in health["reason"]
    never_fresh_unless_looked_at(service)


@pytest.mark.parametrize("mounted", ["src", "src/a.py"])
def test_what_is_here_by_two_names_is_looked_at(
    services: Callable[..., Any], project: Path, from_nothing: Callable[[Path], str], mounted: str
) -> None:
    """A folder that is mounted a second time has one watch, which tells of one of its names."""
    other = project / "other"
    if mounted == "src":
        other.mkdir()
    else:
        other.write_text("")
    bind = ["mount", "--bind", str(project / mounted), str(other)]
    if subprocess.run(bind, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        service = services(project).ready()
        for number, name in enumerate([mounted, "other"] * 2, 1):
            named = project / name if mounted != "src" else project / name / "a.py"
            overwrite(named, python(number))
            status = service.status()
            assert status["state"] != "current" or status["root"] == from_nothing(project)
        assert "other is here by another name too" in service.health()["reason"]
        service.stop()
    finally:
        subprocess.run(["umount", "--lazy", str(other)], check=True)


def test_watches_that_ran_out(services: Callable[..., Any], project: Path) -> None:
    service = services(project, inject=OUT_OF_WATCHES).ready()
    assert "cannot be watched" in service.health()["reason"]
    never_fresh_unless_looked_at(service)


def never_fresh_unless_looked_at(service: Any) -> None:
    """Of files and of folders, what is fresh was made from what is on disk."""
    client, path = service.client, service.root / "src" / "a.py"
    for number in range(1, 9):
        overwrite(path, python(number))
        status = service.status()
        assert status["state"] in ("degraded", "stale")
        for node in ("src/a.py", "src", ""):
            for head in client.post("/v1/get-head", {"node": node})["heads"]:
                if head["freshness"] == "fresh":
                    shown = client.post("/v1/get-node", {"node": node})["frames"]
                    assert f"f{number}" in shown[0]["content"], node


DENY = """
import os
real = os.open
def denying(path, *rest, **named):
    if str(path) == "a.py" and os.path.exists({flag!r}):
        raise PermissionError(13, "Permission denied", path)
    return real(path, *rest, **named)
os.open = denying
"""


def test_what_cannot_be_read_is_unknown_with_the_reason(
    services: Callable[..., Any], project: Path, tmp_path: Path, until: Callable[..., Any]
) -> None:
    flag = tmp_path / "denied"
    service = services(project, inject=DENY.format(flag=str(flag))).ready()
    settled(service, until)
    client = service.client
    flag.touch()
    (project / "src" / "a.py").write_text(python(9))
    for node, reason in (
        ("src/a.py", "it cannot be read now: permission denied"),
        ("src", "1 of the files below it cannot be read now"),
    ):
        (head,) = client.post("/v1/get-head", {"node": node})["heads"]
        assert (head["freshness"], head["because"]) == ("unknown", reason)
    status = service.status()
    assert status["frames"]["unknown"] == 3
    assert status["unreadable"] == [{"path": "src/a.py", "reason": "permission denied"}]
    assert all(
        item["freshness"] == "unknown"
        for item in client.post("/v1/compose", {})["items"]
        if item["path"] in ("src/a.py", "src", "")
    )
    flag.unlink()
    settled(service, until)
    assert client.post("/v1/get-node", {"node": "src/a.py"})["content_id"] == content_id(
        project / "src" / "a.py"
    )
