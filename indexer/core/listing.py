"""A folder's direct entries as two byte strings: what stat said, and what the content ids are.

The first is compared whole with what a walk sees, so that an unchanged folder costs one
comparison and is never decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Folder
from indexer.errors import CorruptError

_HEAD: Final = struct.Struct(">BH")
# Looking a kind up is cheaper than making it from its number.
_KINDS: Final = {int(kind): kind for kind in Kind}
HEADS: Final = tuple(
    tuple(_HEAD.pack(kind, size) for size in range(1025)) for kind in range(max(Kind) + 1)
)
"""What stands before a name in the `stats` string, by the kind's number and the name's length.

Looking a head up is cheaper than packing it. Names have up to 255 bytes, through FUSE up to 1024.
"""


class Listing(NamedTuple):
    """One folder in the stat cache."""

    stats: bytes
    ids: bytes


class Listed(NamedTuple):
    """One entry read back from a listing."""

    name: str
    kind: Kind
    content_id: ContentId
    stat: bytes


def encode(folder: Folder) -> Listing:
    """The listing of a folder: per entry head, name and, but for a folder, stat; and the ids."""
    stats: list[bytes] = []
    ids: list[bytes] = []
    for name, (kind, content_id, _, stat, _) in folder.entries.items():
        raw = name.encode() if "\\" not in name else paths.text_to_bytes(name)
        stats += (HEADS[kind][len(raw)], raw, stat)
        ids.append(content_id)
    return Listing(b"".join(stats), b"".join(ids))


def decode(listing: Listing, id_size: int) -> Iterator[Listed]:
    """The entries of a listing, in byte order of their names."""
    stats, ids = listing
    position = index = 0
    head_size, unpack = _HEAD.size, _HEAD.unpack_from
    try:
        while position < len(stats):
            code, length = unpack(stats, position)
            kind = _KINDS[code]
            position += head_size
            raw = stats[position : position + length]
            position += length
            stat = filestat.NO_STAT
            if kind is not Kind.DIRECTORY:
                stat = stats[position : position + filestat.PACKED_SIZE]
                position += filestat.PACKED_SIZE
            content_id = ContentId(ids[index : index + id_size])
            index += id_size
            yield Listed(paths.bytes_to_text(raw), kind, content_id, stat)
    except (struct.error, ValueError, KeyError):
        raise _damaged() from None
    if position != len(stats) or index != len(ids):
        raise _damaged()


def _damaged() -> CorruptError:
    return CorruptError(
        "the stat cache contains a listing that is no listing",
        hint="run `merkle doctor` for what to do",
    )


def changed(old: Folder | None, new: Folder | None) -> dict[str, Listing | None]:
    """Listings of the folders that are another object than before; None for those gone."""
    found: dict[str, Listing | None] = {}
    stack: list[tuple[str, Folder | None, Folder | None]] = [(paths.ROOT, old, new)]
    while stack:
        path, before, after = stack.pop()
        if before is after:
            continue
        found[path] = None if after is None else encode(after)
        names = dict.fromkeys(_folder_names(before))
        names.update(dict.fromkeys(_folder_names(after)))
        for name in names:
            stack.append((paths.join(path, name), _below(before, name), _below(after, name)))
    return found


def _folder_names(folder: Folder | None) -> list[str]:
    if folder is None:
        return []
    return [name for name, entry in folder.entries.items() if entry.folder is not None]


def _below(folder: Folder | None, name: str) -> Folder | None:
    entry = folder.entries.get(name) if folder else None
    return entry.folder if entry else None
