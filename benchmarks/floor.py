"""The floor: walk, stat, read and hash in plain Python, with nothing kept.

`python -m benchmarks.floor walk DIR` only walks and stats; `... hash DIR` also reads and hashes.
"""

from __future__ import annotations

import os
import sys

import xxhash


def walk(root: str) -> list[tuple[str, int, int, int, int]]:
    """Every regular file with what lstat says of it; a link is nothing to read."""
    files = []
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name == ".merkle" or entry.name == ".git":
                    continue
                stat = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    files.append(
                        (
                            entry.path,
                            stat.st_ino,
                            stat.st_size,
                            stat.st_mtime_ns,
                            stat.st_ctime_ns,
                        )
                    )
    return files


def hash_all(files: list[tuple[str, int, int, int, int]]) -> dict[str, bytes]:
    """The hash of every file's content."""
    ids = {}
    for path, *_ in files:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        content = os.read(descriptor, 262144)
        if len(content) == 262144:
            pieces = [content]
            while piece := os.read(descriptor, 262144):
                pieces.append(piece)
            content = b"".join(pieces)
        os.close(descriptor)
        ids[path] = xxhash.xxh3_128_digest(content)
    return ids


if __name__ == "__main__":
    found = walk(sys.argv[2])
    if sys.argv[1] == "hash":
        hash_all(found)
