"""What `lstat` said of a file, packed: equal bytes vouch for equal content."""

from __future__ import annotations

import os
import struct
from typing import Final

_STAT: Final = struct.Struct(">QQqq")
_SIZE: Final = struct.Struct(">8xQ")
_LOW: Final = (1 << 63) - 1
_SECOND_NS: Final = 1_000_000_000
_COARSE_NS: Final = 2 * _SECOND_NS
_TICK_NS: Final = 20_000_000

PACKED_SIZE: Final = _STAT.size
PACK: Final = _STAT.pack
"""`pack` without its care for late years, for the four numbers that it takes of a stat."""
NO_STAT: Final = b""
"""Folders have no stat of their own: their entries speak for them."""
NO_INODE: Final = bytes(8)
"""How a stat begins that vouches for nothing."""


def pack(stat: os.stat_result) -> bytes:
    """Inode, size, mtime and ctime in nanoseconds."""
    try:
        return _STAT.pack(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    except struct.error:
        # Beyond the year 2262 nanoseconds need more than 64 bits; the low ones still tell apart.
        mtime, ctime = stat.st_mtime_ns & _LOW, stat.st_ctime_ns & _LOW
        return _STAT.pack(stat.st_ino, stat.st_size, mtime, ctime)


def unvouched(size: int) -> bytes:
    """A stat that equals none on disk: the content has to be read again next time."""
    return _STAT.pack(0, size, 0, 0)


def unreadable(size: int, problem: int) -> bytes:
    """A stat that vouches for nothing and keeps why: `problem` is the system's error number."""
    return _STAT.pack(0, size, 0, problem)


def problem_of(packed: bytes) -> int:
    """The error number that a stat has in it, 0 where the content could be read."""
    if not packed.startswith(NO_INODE):
        return 0
    _, _, modified, problem = _STAT.unpack(packed)
    return 0 if modified else int(problem)


def inode_of(packed: bytes) -> int:
    """The inode in a packed stat, 0 where it vouches for nothing."""
    inode: int = _STAT.unpack(packed)[0]
    return inode


def modified_of(packed: bytes) -> int:
    """When the file was modified, in nanoseconds; 0 where a stat vouches for nothing."""
    return int(_STAT.unpack(packed)[2]) if packed else 0


def size_of(packed: bytes, at: int = 0) -> int:
    """The file size in a packed stat, which may be in the midst of others."""
    size: int = _SIZE.unpack_from(packed, at)[0]
    return size


def is_racy(stat: os.stat_result, seen_ns: int) -> bool:
    """Whether the file changed so shortly before `seen_ns` that a later write could look the same.

    File systems stamp with the kernel's tick (up to 10 ms); some keep whole seconds only.
    """
    newest = max(stat.st_mtime_ns, stat.st_ctime_ns)
    if newest < seen_ns - _COARSE_NS:
        return False
    coarse = stat.st_mtime_ns % _SECOND_NS == 0 and stat.st_ctime_ns % _SECOND_NS == 0
    return coarse or newest >= seen_ns - _TICK_NS


def vouching(stat: os.stat_result, seen_ns: int, open_to_others: bool = False) -> bytes:
    """The packed stat of content read at `seen_ns`.

    It vouches for nothing when it is racy, or while somebody may still write under that stamp.
    """
    return unvouched(stat.st_size) if open_to_others or is_racy(stat, seen_ns) else pack(stat)
