"""What git's last commit holds, read without running anything that a repository may name.

Only commands are used that read objects and git's own index: no hook, no filter, no external diff
and no monitor of files is run, nothing is fetched, and nothing is written.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.kinds import Kind
from indexer.core.quiet_git import git_command, git_environment

_TIMEOUT: Final = 60
_LONGEST: Final = 64 << 20
"""Bytes of a file of a commit that are read; a longer one is passed over."""
_VERSIONS: Final = 50
"""Commits of a file that are looked through for one of its texts."""
_KINDS: Final = {"100644": Kind.FILE, "100755": Kind.FILE, "100664": Kind.FILE, "120000": Kind.LINK}


class Blob(NamedTuple):
    """A file or link as a commit has it."""

    kind: Kind
    object: str


class Commit(NamedTuple):
    """The last commit, as far as it lies in a folder."""

    id: str
    files: dict[str, Blob]
    touched: set[str]
    """The paths that may differ from it on disk, by git's index; others are the same."""


def last_commit(root: Path) -> Commit | None:
    """What HEAD has at and below a folder; None where there is no git, or no commit yet."""
    found = _run(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if found is None:
        return None
    commit = found.decode().strip()
    listed = _run(root, "ls-tree", "-r", "-z", "--full-tree" if _is_top(root) else "-z", commit)
    # Without looking into files: what git's index is not sure of is compared here.
    touched = _run(
        root, "diff-index", "-z", "--name-only", "--relative", "--no-renames", "--no-ext-diff",
        "--no-textconv", "--ignore-submodules=all", commit, "--",
    )  # fmt: skip
    if listed is None or touched is None:
        return None
    names = {*map(_path, filter(None, touched.split(b"\0"))), *_not_looked_at(root)}
    return Commit(commit, dict(_blobs(listed)), names)


def _not_looked_at(root: Path) -> Iterator[str]:
    """The paths of which git was told to take them for unchanged, or to leave them alone."""
    for line in filter(None, (_run(root, "ls-files", "-v", "-z") or b"").split(b"\0")):
        tag, _, raw = line.partition(b" ")
        if tag.islower() or tag == b"S":
            yield _path(raw)


def versions(root: Path, path: str) -> Iterator[bytes]:
    """What the last commits that changed a file made of it, the newest first."""
    name = paths.text_to_bytes(path)
    if b"\n" in name:
        # Names of objects are told apart by lines.
        return
    listed = _run(root, "rev-list", f"-n{_VERSIONS}", "HEAD", "--", os.fsdecode(b"./" + name))
    commits = (listed or b"").decode().split()
    for content in contents(root, (f"{one}:./{os.fsdecode(name)}" for one in commits)):
        if content is not None:
            yield content


def tracked(root: Path) -> list[str]:
    """The paths at and below a folder that git's index has."""
    listed = (_run(root, "ls-files", "-z") or b"").rstrip(b"\0")
    # All names at once, where none has anything to escape.
    if "\\" not in paths.bytes_to_text(listed.replace(b"\0", b"")):
        return listed.decode().split("\0") if listed else []
    return list(map(_path, listed.split(b"\0")))


def _is_top(root: Path) -> bool:
    return (root / ".git").exists()


def _blobs(listed: bytes) -> Iterator[tuple[str, Blob]]:
    for line in filter(None, listed.split(b"\0")):
        told, _, raw = line.partition(b"\t")
        mode, _, name = told.decode().split(" ")
        # A submodule is a folder of somebody else's.
        if mode in _KINDS:
            yield _path(raw), Blob(_KINDS[mode], name)


def _path(raw: bytes) -> str:
    return paths.bytes_to_text(raw)


def contents(root: Path, blobs: Iterable[str]) -> Iterator[bytes | None]:
    """The bytes of some objects, in order; None for one that is missing or very long."""
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                git_command(root, "cat-file", "--batch"), env=git_environment(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        stack.callback(process.kill)
        assert process.stdin is not None
        assert process.stdout is not None
        for name in blobs:
            process.stdin.write(os.fsencode(name) + b"\n")
            process.stdin.flush()
            told = process.stdout.readline().split()
            # Id, kind and size; or the name, which may be of several words, and what is wrong.
            if len(told) != 3 or not told[2].isdigit():
                yield None
                continue
            size = int(told[2])
            if size <= _LONGEST:
                yield process.stdout.read(size + 1)[:-1]
                continue
            left = size + 1
            while left and (piece := process.stdout.read(min(left, 1 << 20))):
                left -= len(piece)
            yield None


def _run(root: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            git_command(root, *arguments), env=git_environment(), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_TIMEOUT,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
