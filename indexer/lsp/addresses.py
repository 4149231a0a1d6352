"""Files as editors name them, and as the workspace does."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urlsplit

from indexer.core import paths


def uri_of(root: Path, path: str) -> str:
    """The address of a file of the workspace; bytes that are no text are kept."""
    return "file://" + quote(os.fsencode(root / paths.text_to_os(path)))


def local_name(uri: str) -> str | None:
    """The absolute path of the file or folder that an address names, None on another machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    raw = unquote_to_bytes(parts.path)
    return None if b"\0" in raw else os.path.normpath(os.fsdecode(raw))


def path_in(root: Path, uri: str) -> str | None:
    """The workspace's path of a file, None outside; a folder that is a link is looked through."""
    name = local_name(uri)
    if name is None:
        return None
    folder, last = os.path.split(name)
    for place, top in (
        (name, str(root)),
        (os.path.join(os.path.realpath(folder), last), os.path.realpath(root)),
    ):
        if place.startswith(top.rstrip("/") + "/"):
            return paths.name_to_text(place[len(top.rstrip("/")) + 1 :])
    return None
