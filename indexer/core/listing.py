"""A folder's direct entries as two byte strings: what stat said, and what the content ids are.

The first is compared whole with what a walk sees, so that an unchanged folder costs one
comparison and is never decoded.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Folder
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


def decode(listing: Listing, id_size: int) -> list[Listed]:
    """The entries of a listing, in byte order of their names."""
    return list(map(Listed._make, zip(*_columns(listing, id_size), strict=True)))


def leaves(listing: Listing, id_size: int) -> dict[str, Entry]:
    """The files and links of a listing."""
    size_of = filestat.size_of
    return {
        name: Entry(kind, content_id, size_of(stat), stat)
        for name, kind, content_id, stat in zip(*_columns(listing, id_size), strict=True)
        if stat
    }


def _columns(
    listing: Listing, id_size: int
) -> tuple[list[str], list[Kind], list[ContentId], list[bytes]]:
    """Names, kinds, content ids and stats; those of folders are empty."""
    stats, ids = listing
    raws: list[bytes] = []
    kinds: list[Kind] = []
    found: list[bytes] = []
    position, head_size, stat_size = 0, _HEAD.size, filestat.PACKED_SIZE
    unpack, folder = _HEAD.unpack_from, Kind.DIRECTORY
    try:
        while position < len(stats):
            code, length = unpack(stats, position)
            kind = _KINDS[code]
            position += head_size
            raws.append(stats[position : position + length])
            kinds.append(kind)
            position += length
            if kind is folder:
                found.append(filestat.NO_STAT)
            else:
                found.append(stats[position : position + stat_size])
                position += stat_size
    except (struct.error, KeyError):
        raise _damaged() from None
    names = _names(raws)
    if position != len(stats) or len(ids) != len(raws) * id_size or len(names) != len(raws):
        raise _damaged()
    content_ids = [ContentId(ids[at : at + id_size]) for at in range(0, len(ids), id_size)]
    return names, kinds, content_ids, found


def _names(raws: list[bytes]) -> list[str]:
    """The names in text form, all at once: none has a slash in it."""
    return paths.bytes_to_text(b"/".join(raws)).split("/") if raws else []


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
