"""A folder's direct entries as byte strings: what stat said, and what the content ids are.

The first is compared whole with what a walk sees, so that an unchanged folder costs one
comparison. A tree that is read from listings decodes a folder when somebody looks into it.
"""

from __future__ import annotations

import struct
import threading
from typing import Any, Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import (
    KEEP_ENCODED,
    Entry,
    Folder,
    PackedEntries,
    Totals,
    encode_entries,
    packed,
)
from indexer.errors import CorruptError

_HEADER: Final = struct.Struct(">BH")
_TOTALS: Final = struct.Struct(">5Q")
_BYTES: Final = Totals._fields.index("bytes")
# Looking a kind up is cheaper than making it from its number.
_KINDS: Final = {int(kind): kind for kind in Kind}
HEADERS: Final = tuple(
    tuple(_HEADER.pack(kind, size) for size in range(1025)) for kind in range(max(Kind) + 1)
)
"""What stands before a name in the `stats` string, by the kind's number and the name's length.

Looking a header up is cheaper than packing it. Names have up to 255 bytes, through FUSE up to 1024.
"""


class Listing(NamedTuple):
    """One folder in the stat cache."""

    stats: bytes
    ids: bytes
    totals: bytes
    """What lies below the folder, and how much of it could not be read."""


class Listed(NamedTuple):
    """One entry read back from a listing."""

    name: str
    kind: Kind
    content_id: ContentId
    stat: bytes


def encode(folder: Folder) -> Listing:
    """The listing of a folder: per entry header, name and, but for a folder, stat; and the ids."""
    if isinstance(folder, ListedFolder) and (found := folder.listing()) is not None:
        return found
    stats: list[bytes] = []
    ids: list[bytes] = []
    for name, (kind, content_id, _, stat, _) in folder.entries.items():
        raw = name.encode() if "\\" not in name else paths.text_to_bytes(name)
        stats += (HEADERS[kind][len(raw)], raw, stat)
        ids.append(content_id)
    return Listing(b"".join(stats), b"".join(ids), _TOTALS.pack(*folder.totals, folder.unreadable))


def nodes_in(listing: Listing) -> int:
    """How many nodes lie below a folder, itself included."""
    try:
        files, folders, links, _, _ = _TOTALS.unpack(listing.totals)
    except (struct.error, TypeError):
        raise _damaged() from None
    return int(files + folders + links)


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


def ids(listing: Listing, id_size: int) -> list[ContentId]:
    """The content ids of a listing, in byte order of the names."""
    return [ContentId(listing.ids[at : at + id_size]) for at in range(0, len(listing.ids), id_size)]


def _columns(
    listing: Listing, id_size: int
) -> tuple[list[str], list[Kind], list[ContentId], list[bytes]]:
    """Names, kinds, content ids and stats; those of folders are empty."""
    stats = listing.stats
    raws: list[bytes] = []
    kinds: list[Kind] = []
    found: list[bytes] = []
    position, header_size, stat_size = 0, _HEADER.size, filestat.PACKED_SIZE
    unpack, folder = _HEADER.unpack_from, Kind.DIRECTORY
    try:
        while position < len(stats):
            code, length = unpack(stats, position)
            kind = _KINDS[code]
            position += header_size
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
    whole = len(listing.ids) == len(raws) * id_size
    if position != len(stats) or not whole or len(names) != len(raws):
        raise _damaged()
    return names, kinds, ids(listing, id_size), found


def _names(raws: list[bytes]) -> list[str]:
    """The names in text form, all at once: none has a slash in it."""
    return paths.bytes_to_text(b"/".join(raws)).split("/") if raws else []


def _damaged() -> CorruptError:
    return CorruptError(
        "the stat cache contains a listing that is no listing",
        hint="run `merkle doctor` for what to do",
    )


class ListedFolder(Folder):
    """A folder out of listings, decoded and checked when its entries are first asked for."""

    __slots__ = ("_algorithm", "_listings", "_path")

    def __init__(
        self,
        algorithm: WorkspaceHash,
        listings: dict[str, Listing],
        path: str,
        content_id: ContentId | None,
    ) -> None:
        found = listings.get(path)
        if found is None:
            raise CorruptError(
                f"the stat cache has no entry for {path or 'the root'}",
                hint="run `merkle doctor` for what to do",
            )
        try:
            *totals, unreadable = _TOTALS.unpack(found.totals)
        except (struct.error, TypeError):
            raise _damaged() from None
        self._algorithm, self._listings, self._path = algorithm, listings, path
        self.totals, self.unreadable = Totals(*totals), unreadable
        self._begin()
        if content_id is None:
            # Nobody lists the root: it is what its entries add up to.
            self.content_id, self.entries, self._encoded = self._decoded(found)
            del listings[path]
        else:
            self.content_id = content_id

    def __getattr__(self, name: str) -> Any:
        """Decode the folder when its entries, or their encoded form, are first asked for."""
        if name not in ("entries", "_encoded"):
            raise AttributeError(name)
        with _decoding:
            found = self._listings.get(self._path)
            # Gone where another thread has decoded it while this one waited.
            if found is not None:
                content_id, entries, encoded = self._decoded(found)
                if content_id != self.content_id:
                    raise _damaged()
                self._encoded, self.entries = encoded, entries
                del self._listings[self._path]
        return object.__getattribute__(self, name)

    def listed_sizes(self, path: str, least: int) -> list[tuple[str, Kind, int]] | None:
        """What a folder below has of at least so many bytes; None once its listing is decoded."""
        found, sizes = self._listings.get(path), list[tuple[str, Kind, int]]()
        if found is None:
            return None
        stats, position, end = found.stats, 0, len(found.stats)
        # Looked up once: of a large workspace all listings are gone through.
        header_at, header_size, size_of = _HEADER.unpack_from, _HEADER.size, filestat.size_of
        stat_size, directory = filestat.PACKED_SIZE, int(Kind.DIRECTORY)
        try:
            while position < end:
                code, length = header_at(stats, position)
                start = position + header_size
                position = start + length
                if code == directory:
                    name = paths.bytes_to_text(stats[start:position])
                    inside = self._listings[paths.join(path, name)]
                    size = _TOTALS.unpack(inside.totals)[_BYTES]
                    if size >= least:
                        sizes.append((name, Kind.DIRECTORY, size))
                    continue
                size = size_of(stats, position)
                if size >= least:
                    name = paths.bytes_to_text(stats[start : start + length])
                    sizes.append((name, _KINDS[code], size))
                position += stat_size
        except (struct.error, KeyError):
            # A folder in it is being decoded, or is damaged, which is told when it is decoded.
            return None
        return sizes

    def listing(self) -> Listing | None:
        """The folder's listing; None once it is decoded."""
        return self._listings.get(self._path)

    def listings(self) -> dict[str, Listing]:
        """The listings of this folder and of all below it; none once it is decoded."""
        inside = f"{self._path}/" if self._path else ""
        # Whoever decodes a folder meanwhile takes its listing out.
        with _decoding:
            if self._path not in self._listings:
                return {}
            return {
                path: found
                for path, found in self._listings.items()
                if path == self._path or path.startswith(inside)
            }

    def listing_of(self, path: str) -> Listing | None:
        """The listing of this folder or of one below it, by path; None once that one is decoded."""
        return self._listings.get(path)

    def _decoded(self, found: Listing) -> tuple[ContentId, PackedEntries, dict[str, bytes] | None]:
        algorithm, entries = self._algorithm, dict[str, bytes | Entry]()
        columns = names, kinds, ids, _ = _columns(found, algorithm.size)
        for name, kind, content_id, stat in zip(*columns, strict=True):
            if stat:
                entries[name] = packed(kind, stat, content_id)
            else:
                path = paths.join(self._path, name)
                below = ListedFolder(algorithm, self._listings, path, content_id)
                entries[name] = below.as_entry()
        encoded = encode_entries(algorithm, zip(names, kinds, ids, strict=True))
        keep = len(entries) >= KEEP_ENCODED
        kept = dict(zip(entries, encoded, strict=True)) if keep else None
        return algorithm.of_folder(encoded, len(encoded)), PackedEntries(entries), kept


_decoding: Final = threading.RLock()


def below(path: str, folder: Folder) -> dict[str, Listing]:
    """The listings of a folder and of all folders below it."""
    found: dict[str, Listing] = {}
    stack = [(path, folder)]
    while stack:
        path, folder = stack.pop()
        if isinstance(folder, ListedFolder) and (listings := folder.listings()):
            # As long as it is not decoded, nothing below it is.
            found.update(listings)
            continue
        found[path] = encode(folder)
        for name in _folder_names(folder):
            if (inner := _below(folder, name)) is not None:
                stack.append((paths.join(path, name), inner))
    return found


def changed(old: Folder | None, new: Folder | None) -> dict[str, Listing | None]:
    """Listings of the folders that are another object than before; None for those gone."""
    found: dict[str, Listing | None] = {}
    stack: list[tuple[str, Folder | None, Folder | None]] = [(paths.ROOT, old, new)]
    while stack:
        path, before, after = stack.pop()
        if before is after:
            continue
        if before is None and after is not None:
            found.update(below(path, after))
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
