"""What the database held when it was last closed, in two files that are read without it.

Most looks at a workspace find that nothing has changed, and then opening the database is most of
the work. `listings` is the stat cache, packed; `standing` says what the newest root is, what goes
with it, and of which database file that is true. It is removed before anything is written to that
file, and written again when it has been closed: whoever finds it and finds the file as it names it
has what the database would say. Nothing is lost with either, and nothing is synced for them.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
from array import array
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from indexer.core.hashing import DEFAULT_HASH, workspace_hash
from indexer.core.ids import ContentId, NodeId
from indexer.core.listing import Listing
from indexer.core.tree import Totals
from indexer.store.atomic import write_atomically
from indexer.store.layout import Layout
from indexer.store.migrations import MIGRATIONS
from indexer.store.own_folder import PRIVATE_FILE, read_own_file
from indexer.store.roots import Remarks, Root

_MADE_BY: Final = [1, len(MIGRATIONS), sys.byteorder]
"""The form of these files, the schema of the database they stand for, and the order of bytes."""

_SIZES: Final = struct.Struct("<II")
_digest: Final = workspace_hash(DEFAULT_HASH).of_file


class Standing(NamedTuple):
    """What is recorded, as far as a look that finds nothing changed has need of it."""

    root: Root
    remarks: Remarks
    listed: str
    """The hash of the file with the listings."""
    counts: dict[str, Any] | None = None
    """What `status` counted besides, with what that depends on; None where nobody has asked."""


def stamp_of(layout: Layout) -> list[int] | None:
    """What tells one state of the database file from another; None while it has a log beside it."""
    try:
        if os.path.lexists(layout.wal):
            return None
        stat = os.lstat(layout.database)
    except OSError:
        return None
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def journal_stamp(layout: Layout) -> list[list[Any]]:
    """What tells one state of the journal from another: its files, and those of a replacement."""
    found = []
    for folder in (layout.journal, *layout.folder.glob(layout.journal.name + ".*")):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                stat = entry.stat(follow_symlinks=False)
                times = (stat.st_mtime_ns, stat.st_ctime_ns)
                found.append([f"{folder.name}/{entry.name}", stat.st_ino, stat.st_size, *times])
    return sorted(found)


def read_standing(layout: Layout) -> Standing | None:
    """What stands; None where nothing does, or for another state of the database."""
    try:
        text, _, checksum = read_own_file(layout.standing).rpartition(b"\n")
        if _digest(text).hex().encode() != checksum:
            return None
        found = json.loads(text)
        if found["made_by"] != _MADE_BY or found["database"] != stamp_of(layout):
            return None
        seq, root, content_id, at_ns, cause, totals, *changes = found["root"]
        return Standing(
            Root(
                seq, NodeId(bytes.fromhex(root)), ContentId(bytes.fromhex(content_id)), at_ns,
                cause, Totals(*totals), *changes,
            ),
            Remarks(*(tuple((path, why) for path, why in each) for each in found["remarks"])),
            found["listed"],
            found["counts"],
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_standing(layout: Layout, standing: Standing) -> None:
    """Say what stands, of the database as it is now that it is closed."""
    stamp = stamp_of(layout)
    if stamp is None:
        return
    root = standing.root
    document = {
        "made_by": _MADE_BY,
        "database": stamp,
        "root": [root.seq, root.root.hex(), root.content_id.hex(), *root[3:]],
        "remarks": standing.remarks,
        "listed": standing.listed,
        "counts": standing.counts,
    }
    text = json.dumps(document).encode()
    checksum = _digest(text).hex().encode()
    # Where it cannot be written, the database is opened next time.
    with contextlib.suppress(OSError):
        _write(layout.standing, text + b"\n" + checksum)


def forget_standing(layout: Layout) -> None:
    """Remove what was said to stand: the database is about to be written to."""
    with contextlib.suppress(OSError):
        os.unlink(layout.standing)


# -- the listings


def write_listings(layout: Layout, listings: Mapping[str, Listing]) -> str | None:
    """Write the stat cache; gives the hash of the file, None where it cannot be written."""
    paths = "\0".join(listings).encode()
    columns = list(zip(*listings.values(), strict=True))
    content = b"".join(
        (
            _SIZES.pack(len(listings), len(paths)),
            *(array("I", map(len, column)).tobytes() for column in columns),
            paths,
            *(part for column in columns for part in column),
        )
    )
    try:
        _write(layout.listings, content)
    except OSError:
        return None
    return _digest(content).hex()


def read_listings(layout: Layout, listed: str) -> dict[str, Listing] | None:
    """The stat cache that has this hash; None where it is not there."""
    try:
        content = read_own_file(layout.listings)
        if _digest(content).hex() != listed:
            return None
        count, size = _SIZES.unpack_from(content)
        end = _SIZES.size
        columns = []
        for _ in Listing._fields:
            column = array("I")
            column.frombytes(content[end : end + count * column.itemsize])
            end += count * column.itemsize
            columns.append(column)
        paths = content[end : end + size].decode().split("\0") if count else []
        end += size
        parts = []
        for column in columns:
            ends = list(accumulate(column, initial=end))
            parts.append([content[a:b] for a, b in pairwise(ends)])
            end = ends[-1]
        if end != len(content):
            return None
        return dict(zip(paths, map(Listing, *parts), strict=True))
    except (OSError, ValueError, struct.error):
        return None


def _write(path: Path, content: bytes) -> None:
    write_atomically(path, content, mode=PRIVATE_FILE, durable=False)
