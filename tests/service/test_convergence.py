"""Whatever happens to the files, the index comes to equal what is on disk, and then rests."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def service(shm: Path, services: Callable[..., Any]) -> Any:
    """One service for all scenarios of this module, each in a folder of its own."""
    root = Path(tempfile.mkdtemp(prefix="ws-", dir=shm))
    (root / "base").mkdir()
    (root / "base" / "file.txt").write_text("there from the start\n")
    return services(root).ready()


@pytest.fixture
def place(service: Any, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of this scenario, with a few files, known to the service, which rests in the end."""
    place: Path = service.root / request.node.name.replace("[", "_").replace("]", "")
    for name in ("a", "a/b", "c"):
        (place / name).mkdir(parents=True, exist_ok=True)
        for number in range(3):
            (place / name / f"f{number}.txt").write_text(f"{name} {number}\n")
    service.converges()
    yield place
    service.goes_idle()
    # What one scenario has left would be read anew in every comparison of those after it.
    shutil.rmtree(place, ignore_errors=True)


def storm(place: Path, files: int) -> None:
    for number in range(files):
        folder = place / f"d{number % 97}" / f"e{number % 7}"
        if number < 97 * 7:
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(str(number))


def test_storm(service: Any, place: Path) -> None:
    storm(place, 2000)
    status = service.converges()
    assert status["files"] >= 2000


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_storm_of_forty_thousand_files(service: Any, place: Path) -> None:
    storm(place, 40_000)
    assert service.converges()["files"] >= 40_000
    for number in range(0, 40_000, 2):
        (place / f"d{number % 97}" / f"e{number % 7}" / f"{number}.txt").write_text("again")
    service.converges()
    shutil.rmtree(place)
    service.converges()


def test_made_and_deleted_at_once(service: Any, place: Path) -> None:
    for turn in range(20):
        storm(place / "x", 100)
        shutil.rmtree(place / "x")
        if turn % 5 == 0:
            service.status()
    storm(place / "x", 50)
    service.converges()


def test_deep_folders_are_written_to_as_they_are_made(service: Any, place: Path) -> None:
    def worker(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(60):
            depth = chance.randint(1, 8)
            deep = place.joinpath(*(f"w{chance.randint(0, 3)}" for _ in range(depth)))
            deep.mkdir(parents=True, exist_ok=True)
            (deep / f"{seed}-{number}").write_text(str(number))

    threads = [threading.Thread(target=worker, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        # Whoever asks while it happens gets an answer, and looks at half-made folders are done.
        assert service.status()["state"] in ("current", "degraded")
    for thread in threads:
        thread.join()
    service.converges()


def test_renames_of_folders_race_with_looks(service: Any, place: Path) -> None:
    chance = random.Random(7)
    names = [f"r{number}" for number in range(6)]
    (place / "r0" / "x" / "y").mkdir(parents=True)
    (place / "r0" / "x" / "y" / "f").write_text("0")
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            service.status()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        here = place / "r0"
        for number in range(300):
            there = place / chance.choice(names)
            if chance.random() < 0.5:
                there = place / "nest" / there.name
                there.parent.mkdir(exist_ok=True)
            if not there.exists():
                here.rename(there)
                here = there
            (here / "x" / "y" / f"f{number % 5}").write_text(str(number))
    finally:
        stop.set()
        asking.join()
    service.converges()
    # Every watch is where it should be: the next edit is noticed without another look.
    (here / "x" / "y" / "last").write_text("last")
    service.converges()


def git(place: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
        cwd=place, check=True, capture_output=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"},
    )  # fmt: skip


def two_branches(place: Path, files: int) -> None:
    git(place, "init", "-q", "-b", "main")
    (place / ".gitignore").write_text("*.log\n")
    for number in range(files):
        folder = place / f"m{number % 40}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.py").write_text(f"main {number}\n")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "main")
    git(place, "checkout", "-q", "-b", "other")
    for number in range(files):
        path = place / f"m{number % 40}" / f"{number}.py"
        if number % 3 == 0:
            path.unlink()
        elif number % 3 == 1:
            path.write_text(f"other {number}\n")
        else:
            (place / f"o{number % 30}").mkdir(exist_ok=True)
            path.rename(place / f"o{number % 30}" / f"{number}.py")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "other")


@pytest.mark.parametrize(
    "files",
    [300, pytest.param(5000, marks=[pytest.mark.soak, pytest.mark.timeout(300)])],
)
def test_checkout_of_another_branch(service: Any, place: Path, files: int) -> None:
    two_branches(place, files)
    other = service.converges()["root"]
    git(place, "checkout", "-q", "main")
    main = service.converges()["root"]
    assert main != other
    git(place, "checkout", "-q", "other")
    assert service.converges()["root"] == other


def test_editors_save_by_renaming(service: Any, place: Path) -> None:
    target = place / "a" / "f0.txt"
    for number in range(20):
        fresh = target.with_name(".f0.txt.swp")
        fresh.write_text(f"by rename {number}")
        fresh.replace(target)
    service.converges()
    for number in range(20):
        target.rename(target.with_name("f0.txt~"))
        target.write_text(f"by creating anew {number}")
    service.converges()


def test_folder_moved_out_then_edited_there(service: Any, place: Path, shm: Path) -> None:
    outside = Path(tempfile.mkdtemp(prefix="out-", dir=shm))
    watches = service.health()["watches"]
    (place / "a").rename(outside / "a")
    service.converges()
    health = service.health()
    assert health["watches"] == watches - 2
    for number in range(10):
        (outside / "a" / "b" / f"new{number}").write_text("outside")
    service.converges()
    assert service.health()["batches"] == health["batches"]


def test_folder_moved_out_and_made_anew(service: Any, place: Path, shm: Path) -> None:
    outside = Path(tempfile.mkdtemp(prefix="out-", dir=shm))
    for number in range(10):
        (place / "a").rename(outside / f"a{number}")
        (place / "a" / "b").mkdir(parents=True)
        (place / "a" / "b" / "f").write_text(str(number))
        (outside / f"a{number}" / "b" / "elsewhere").write_text("x")
    watches = service.converges()["service"]["watches"]
    assert watches == len([1 for path, *_ in os.walk(service.root) if ".merkle" not in path
                           and ".git" not in path])  # fmt: skip


def test_folder_moved_in(service: Any, place: Path, shm: Path) -> None:
    outside = Path(tempfile.mkdtemp(prefix="out-", dir=shm))
    storm(outside / "in", 200)
    (outside / "in").rename(place / "in")
    (place / "in" / "d1" / "e1" / "late").write_text("written after the move")
    service.converges()
    (place / "in" / "d1" / "e1" / "later").write_text("and noticed later too")
    service.converges()


def test_folder_renamed_and_edited(service: Any, place: Path) -> None:
    (place / "a").rename(place / "z")
    (place / "z" / "b" / "f0.txt").write_text("after the rename")
    service.converges()
    (place / "z" / "b" / "f1.txt").write_text("and once more")
    (place / "z").rename(place / "a")
    (place / "a" / "b" / "f2.txt").write_text("and back")
    service.converges()


def test_rename_that_changes_only_case(service: Any, place: Path) -> None:
    (place / "a" / "f0.txt").rename(place / "a" / "F0.txt")
    (place / "c").rename(place / "C")
    service.converges()
    relative = place.relative_to(service.root)
    assert service.client.get("/v1/resolve", {"node": f"{relative}/C/f1.txt"})["kind"] == "file"


def test_file_becomes_folder_becomes_link(service: Any, place: Path) -> None:
    spot = place / "spot"
    for _ in range(5):
        spot.write_text("file")
        spot.unlink()
        spot.mkdir()
        (spot / "inside").write_text("x")
        shutil.rmtree(spot)
        spot.symlink_to("a")
        spot.unlink()
    spot.mkdir()
    (spot / "inside").write_text("last")
    service.converges()
    (spot / "inside").write_text("edited")
    service.converges()


def test_links_are_swapped(service: Any, place: Path) -> None:
    link = place / "link"
    for number in range(30):
        fresh = place / "fresh"
        fresh.symlink_to(("a", "c", "nowhere", "/etc")[number % 4])
        fresh.replace(link)
    (place / "a").rename(place / "real")
    (place / "a").symlink_to("real")
    (place / "real" / "b" / "f0.txt").write_text("behind the link")
    service.converges()


def test_rules_are_edited(service: Any, place: Path) -> None:
    before = service.converges()
    (place / ".gitignore").write_text("a/\n*.log\n")
    (place / "c" / "x.log").write_text("ignored")
    hidden = service.converges()
    assert hidden["files"] == before["files"] - 6 + 1
    assert hidden["service"]["watches"] == before["service"]["watches"] - 2
    batches = service.health()["batches"]
    (place / "a" / "b" / "unseen").write_text("x")
    (place / "c" / "x.log").write_text("still ignored")
    service.converges()
    assert service.health()["batches"] == batches
    (place / ".gitignore").write_text("")
    shown = service.converges()
    assert shown["files"] == before["files"] + 3
    assert shown["service"]["watches"] == before["service"]["watches"]
    (place / "a" / "b" / "unseen").write_text("seen")
    service.converges()
    (place / ".gitignore").unlink()
    service.converges()


def test_rules_are_edited_while_files_come(service: Any, place: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            (place / "c" / f"n{number % 200}.log").write_text(str(number))
            number += 1

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for turn in range(12):
            (place / ".gitignore").write_text("*.log\n" if turn % 2 else "")
            service.status()
    finally:
        stop.set()
        writing.join()
    service.converges()


def test_special_files_are_left_out(service: Any, place: Path) -> None:
    before = service.status()["nodes"]
    os.mkfifo(place / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        assert service.converges()["nodes"] == before
    (place / "c" / "f0.txt").unlink()
    os.mkfifo(place / "c" / "f0.txt")
    service.converges()
    (place / "c" / "f0.txt").unlink()
    (place / "c" / "f0.txt").write_text("a file again")
    service.converges()


def test_file_that_is_appended_to_all_the_time(service: Any, place: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        with (place / "growing").open("ab", buffering=0) as file:
            # A thousand times a second: as fast as can be, it would only be more to hash.
            while not stop.wait(0.001):
                file.write(b"x" * 100)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(5):
            (place / "beside").write_text(str(number))
            status = service.status()
            assert status["state"] in ("current", "stale", "degraded")
            assert service.health()["state"] == "watching"
    finally:
        stop.set()
        writing.join()
    service.converges()


def test_modes_and_times_do_not_matter(service: Any, place: Path) -> None:
    before = service.converges()["root"]
    os.utime(place / "a", ns=(1, 1))
    os.utime(place / "a" / "f0.txt", ns=(1, 1))
    (place / "a" / "b").chmod(0o700)
    assert service.converges()["root"] == before


def test_every_change_so_far_left_a_sound_index(service: Any) -> None:
    document = service.client.post("/v1/validate", {"content": True})
    assert document["valid"], document
