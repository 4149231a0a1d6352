"""`merkle.lock`: the root and every folder's content id as lines of text, and what departs from it.

One line per folder, in byte order of the paths, and below it an indented line per file in it: a
change shows as the line of the file and those of the folders it lies in, up to the root. Folders'
ids decide; the first digits of files' ids only tell which files it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.hashing import HASHES, workspace_hash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Folder, Tree
from indexer.errors import UncheckedError

NAME: Final = "merkle.lock"
FORMAT: Final = 2
_READ: Final = (1, FORMAT)
"""The first one had no lines of files."""
_DIGITS: Final = 16
_NOTE: Final = (
    "# Ids of all folders and files. `merkle lock` writes this file; after a merge, again."
)
_HEADER: Final = re.compile(r"merkle-lock (\d{1,6}) (\w+)")
_ROOT: Final = re.compile(r"root ([0-9a-f]+)")
_FILE: Final = re.compile(r" ([0-9a-f]{16}) (.+)", re.DOTALL)
_LINE: Final = re.compile(r"([0-9a-f]+) (.+)", re.DOTALL)


class LockFileError(UncheckedError):
    """The lock cannot be read, so nothing can be compared with it."""

    code = "bad_lock"


@dataclass(frozen=True, slots=True)
class LockFile:
    """What a lock says."""

    hash_name: str
    root: str
    folders: dict[str, ContentId]
    files: dict[str, dict[str, str]]
    """Per folder the first digits of the ids of what is in it besides folders, by name."""
    names_files: bool


class Departure(NamedTuple):
    """A file that is not as locked, or a folder that came, went or cannot be told apart."""

    change: str
    """`added`, `changed` or `removed`."""
    path: str


def lock_text(tree: Tree) -> str:
    """The lock of a tree; equal trees have equal locks, wherever they are."""
    folders = sorted(tree.folders(), key=lambda item: paths.sort_key(item[0]))
    lines = [_NOTE, f"merkle-lock {FORMAT} {tree.algorithm.name}", f"root {tree.root_id.hex()}"]
    for path, folder in folders:
        lines.append(f"{folder.content_id.hex()} {path or '.'}")
        lines += [f" {digits} {name}" for name, digits in sorted(_files_of(folder).items())]
    return "\n".join(lines) + "\n"


def _files_of(folder: Folder) -> dict[str, str]:
    return {
        name: entry.content_id.hex()[:_DIGITS]
        for name, entry in folder.entries.items()
        if entry.folder is None
    }


def parse_lock(raw: bytes) -> LockFile:
    """Read a lock, refusing what `lock_text` could not have written."""
    try:
        # A checkout may have turned line ends; no path holds a bare carriage return.
        text = raw.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _malformed("it is not UTF-8 text") from error
    if not text.endswith("\n"):
        raise _malformed("its last line is cut short")
    lines = [line for line in text.split("\n")[:-1] if not line.startswith("#")]
    if any(line.startswith(("<<<<<<<", "=======", ">>>>>>>")) for line in lines):
        raise _malformed("a merge left its marks in it")
    head = _HEADER.fullmatch(lines[0]) if lines else None
    root = _ROOT.fullmatch(lines[1]) if len(lines) > 1 else None
    if head is None or root is None:
        raise _malformed("its first lines are not those of a lock")
    if int(head.group(1)) not in _READ or head.group(2) not in HASHES:
        raise LockFileError(
            f"{NAME} has format {head.group(1)} with {head.group(2)}, which this release "
            "does not read",
            hint="upgrade merkle, or run `merkle lock` to write it anew",
        )
    files: dict[str, dict[str, str]] = {}
    folders = dict(_folders(lines[2:], head.group(2), files))
    lock = LockFile(head.group(2), root.group(1), folders, files, int(head.group(1)) == FORMAT)
    _check_root(lock)
    return lock


def _folders(
    lines: list[str], hash_name: str, files: dict[str, dict[str, str]]
) -> Iterator[tuple[str, ContentId]]:
    """The lines of folders; what stands below one of them goes into `files`."""
    digits, last, path = workspace_hash(hash_name).size * 2, None, ""
    for line in lines:
        if last is not None and (file := _FILE.fullmatch(line)) is not None:
            if not paths.is_name(file.group(2)) or file.group(2) in files.setdefault(path, {}):
                raise _malformed(f"{paths.on_screen(file.group(2))[:100]!r} is no name, or twice")
            files[path][file.group(2)] = file.group(1)
            continue
        match = _LINE.fullmatch(line)
        if match is None or len(match.group(1)) != digits:
            raise _malformed(f"the line {paths.on_screen(line)[:100]!r} is none of a lock")
        path = "" if match.group(2) == "." else match.group(2)
        if path and not all(map(paths.is_name, path.split("/"))):
            raise _malformed(f"{paths.on_screen(path)[:100]!r} is no path")
        if last is not None and paths.sort_key(path) <= last:
            raise _malformed("its lines are not in order, each path once")
        last = paths.sort_key(path)
        yield path, ContentId(bytes.fromhex(match.group(1)))


def _check_root(lock: LockFile) -> None:
    if "" not in lock.folders:
        raise _malformed("the workspace itself has no line")
    for path in lock.folders:
        if path and paths.split(path)[0] not in lock.folders:
            raise _malformed(f"the folder around {paths.on_screen(path)} has no line")
    algorithm = workspace_hash(lock.hash_name)
    if algorithm.node_id(Kind.DIRECTORY, b"", lock.folders[""]).hex() != lock.root:
        raise _malformed("its root does not follow from the workspace's content id")


def _malformed(why: str) -> LockFileError:
    return LockFileError(f"{NAME} is damaged: {why}", hint="`merkle lock` writes it anew")


def departures(lock: LockFile, tree: Tree) -> list[Departure]:
    """The files that differ from a lock, in byte order of their paths.

    Of what was added or removed as a whole, the outermost folder is named. A folder is named as
    changed where its own entries are and the lock does not tell which.
    """
    children: dict[str, dict[str, ContentId]] = {}
    for path, content_id in lock.folders.items():
        if path:
            parent, name = paths.split(path)
            children.setdefault(parent, {})[name] = content_id
    found: list[Departure] = []
    stack = [(paths.ROOT, tree.root)]
    while stack:
        path, folder = stack.pop()
        if lock.folders[path] == folder.content_id:
            continue
        locked = children.get(path, {})
        if _with_folders(tree, folder, locked) != lock.folders[path]:
            named = _changed_files(lock.files.get(path, {}), folder, path)
            found += named if lock.names_files and named else [Departure("changed", path)]
        for name, entry in folder.entries.items():
            if entry.folder is not None and name in locked:
                stack.append((paths.join(path, name), entry.folder))
            elif entry.folder is not None:
                found.append(Departure("added", paths.join(path, name)))
        for name in locked:
            now = folder.entries.get(name)
            if now is None or now.folder is None:
                found.append(Departure("removed", paths.join(path, name)))
    return sorted(found, key=lambda one: (paths.sort_key(one.path), one.change))


def _changed_files(locked: dict[str, str], folder: Folder, path: str) -> list[Departure]:
    """What differs among the files of a folder."""
    now = _files_of(folder)
    words = {name: "changed" for name in locked if name in now and locked[name] != now[name]}
    words |= {name: "removed" for name in locked if name not in now}
    words |= {name: "added" for name in now if name not in locked}
    return [Departure(word, paths.join(path, name)) for name, word in words.items()]


def _with_folders(tree: Tree, folder: Folder, locked: dict[str, ContentId]) -> ContentId:
    """The content id of a folder with its own entries as now and the folders in it as locked."""
    entries = [
        (paths.text_to_bytes(name), entry.kind, entry.content_id)
        for name, entry in folder.entries.items()
        if entry.folder is None
    ]
    entries += [
        (paths.text_to_bytes(name), Kind.DIRECTORY, found) for name, found in locked.items()
    ]
    encoded = [tree.algorithm.encode_child(*entry) for entry in sorted(entries)]
    return tree.algorithm.of_folder(encoded, len(encoded))
