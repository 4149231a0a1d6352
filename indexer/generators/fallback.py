"""What can be said of any file: the head of a text, the kind and size of a binary."""

from __future__ import annotations

import re

from indexer.core.patterns import pattern
from indexer.generators.lines import cut, head, shown, squeezed

READ = 8 * 1024
MAX_TEXT = 2000

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"PK\x05\x06", "ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"\x7fELF", "ELF binary"),
    (b"MZ", "Windows binary"),
    (b"\xca\xfe\xba\xbe", "Java class or universal binary"),
    (b"\xcf\xfa\xed\xfe", "Mach-O binary"),
    (b"\x00asm", "WebAssembly module"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"PAR1", "Parquet data"),
    (b"\x00\x00\x01\x00", "icon"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"OTTO", "font"),
    (b"\x00\x01\x00\x00", "font"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
)
_UTF16 = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_COMMENT = pattern(r"\s*(?:#+!?|//+!?|/\*+|\*+/?|--+|;+|%+|<!--|\"\"\"|\"|REM\b|dnl\b)\s?")
_TITLE = pattern(r"<title[^<>]{0,200}>([^<>]{1,300})</title>", re.IGNORECASE)
_EMPTY_SAID = pattern(r"[\W_]*$", re.ASCII)


def as_text(content: bytes) -> bytes | None:
    """The content as UTF-8 where it is text, else None."""
    for mark, encoding in _UTF16:
        if content.startswith(mark):
            # A half character at the end is no reason to give up the rest.
            return content[2:].decode(encoding, "replace").encode("utf-8", "replace")
    if b"\x00" in content[:READ]:
        return None
    return content.removeprefix(b"\xef\xbb\xbf")


def binary_outline(content: bytes) -> str:
    """Kind and size of a file that is no text."""
    kind = next((name for magic, name in _MAGIC if content.startswith(magic)), "data")
    if content.startswith(b"RIFF") and content[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        kind = {b"WEBP": "WebP image", b"WAVE": "WAVE audio"}.get(content[8:12], "AVI video")
    elif content[4:8] == b"ftyp":
        kind = "MP4 media"
    return f"[binary] {kind}, {len(content)} bytes\n"


def head_outline(label: str, content: bytes, *, width: int, lines: int) -> str:
    """The first lines of a text; its first words of prose or code come first of all."""
    kept: list[str] = []
    size = 0
    beginning = shown(head(content, READ))
    for raw in beginning.split("\n"):
        line = cut(raw.rstrip(), width - len("| "))
        if not line.strip():
            continue
        size += len(line) + 1
        if len(kept) == lines or size > MAX_TEXT:
            break
        kept.append("| " + line)
    markup = _TITLE.search(beginning)
    if markup is not None:
        title = squeezed(markup[1])
    else:
        title = next((said for line in kept if (said := _said(line[2:]))), "")
    return "\n".join([cut(f"[{label}] {title}".rstrip(), width), *kept]) + "\n"


def _said(line: str) -> str:
    if line.startswith("#!"):
        return ""
    mark = _COMMENT.match(line)
    said = squeezed(line[mark.end() :] if mark else line)
    # A rule of dashes says nothing; other scripts than Latin do.
    return "" if said.isascii() and _EMPTY_SAID.match(said) else said
