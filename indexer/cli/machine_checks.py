"""What `doctor` asks the machine: Python, packages, file system, limits, git."""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from indexer.cli.columns import counted, size
from indexer.watch.mounts import is_silent

PACKAGES: Final = (
    "click",
    "duckdb",
    "starlette",
    "tiktoken",
    "uvicorn",
    "watchdog",
    "xxhash",
)
MOUNTS: Final = Path("/proc/self/mounts")
MAX_WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_watches")
LITTLE_SPACE: Final = 256 << 20
NO_SPACE: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the list: what was looked at, how it is, and what to do about it."""

    name: str
    state: str
    """`ok`, `warn` or `fail`."""
    message: str
    advice: str = ""


def check_python() -> Check:
    """The interpreter."""
    # An older one than merkle supports would not have come as far as this line.
    return Check("python", "ok", f"{platform.python_implementation()} {platform.python_version()}")


def check_packages() -> Check:
    """The packages merkle needs, found without importing any."""
    found, absent = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            absent.append(name)
    if absent:
        return Check(
            "packages", "fail", f"not installed: {', '.join(absent)}", "install merkle again"
        )
    return Check("packages", "ok", ", ".join(found))


def check_git(root: Path) -> Check:
    """Git, which is asked which tracked files are ignored here."""
    program = shutil.which("git")
    if program is not None:
        return Check("git", "ok", program)
    if (root / ".git").exists():
        advice = "install git, so that `merkle validate` can warn about tracked, ignored files"
        return Check("git", "warn", "not found, though this is a git repository", advice)
    return Check("git", "ok", "not found, not needed here")


def check_file_system(root: Path, mounts: Path = MOUNTS) -> Check:
    """Whether the workspace is on a file system that tells about changes made elsewhere."""
    kind = file_system_of(root, mounts)
    if kind is None:
        return Check("file system", "ok", "unknown")
    if is_silent(kind):
        return Check(
            "file system",
            "warn",
            f"{kind}, a network file system",
            "changes made elsewhere cause no events; a watcher looks from time to time",
        )
    return Check("file system", "ok", kind)


def file_system_of(root: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system that holds a folder, as the kernel calls it."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return None
    folder = os.path.realpath(os.fsencode(root)) + b"/"
    found: tuple[int, str | None] = (0, None)
    for line in lines:
        _, point, kind, *_ = line.split(b" ")
        # The kernel writes space, tab, newline and backslash in octal.
        point = re.sub(rb"\\([0-7]{3})", lambda octal: bytes((int(octal.group(1), 8),)), point)
        prefix = point.rstrip(b"/") + b"/"
        # The later of two mounts on one place hides the earlier.
        if folder.startswith(prefix) and len(prefix) >= found[0]:
            found = (len(prefix), kind.decode("ascii", "replace"))
    return found[1]


def check_space(root: Path) -> Check:
    """Room for the index to grow."""
    try:
        free = shutil.disk_usage(root).free
    except OSError as error:
        return Check("disk space", "warn", f"cannot be told: {error.strerror or error}")
    message = f"{size(free)} free"
    if free < NO_SPACE:
        return Check("disk space", "fail", message, "the index cannot be written: make room")
    if free < LITTLE_SPACE:
        return Check("disk space", "warn", message, "make room before the next large scan")
    return Check("disk space", "ok", message)


def check_inotify(folders: int | None, limit_file: Path = MAX_WATCHES) -> Check:
    """Whether every folder can be watched."""
    try:
        limit = int(limit_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check("inotify", "ok", "no limit known")
    allowed = counted(limit, "watch", "watches")
    if folders is None:
        return Check("inotify", "ok", f"{allowed} allowed; the number of folders is not known yet")
    message = f"{allowed} allowed, {counted(folders, 'folder')} to watch"
    if folders > limit:
        advice = f"sudo sysctl fs.inotify.max_user_watches={max(524288, 2 * folders)}"
        return Check("inotify", "warn", message, advice)
    return Check("inotify", "ok", message)
