"""Workspace paths as text: readable, reversible to the exact bytes on disk.

A path is relative to the workspace, `/`-separated, and the root is the empty string.
Valid UTF-8 stays as it is; a backslash, a control character and a byte that is not UTF-8
become `\\xNN`, byte by byte. Two different byte strings never share a text.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import Final

from indexer.errors import UsageError

ROOT: Final = ""

# C0, DEL, C1, backslash, and the surrogates that os.fsdecode uses for undecodable bytes.
_ESCAPED: Final = re.compile("[\\\\\x00-\x1f\x7f-\x9f\udc80-\udcff]")
_ESCAPE: Final = re.compile(rb"\\x([0-9a-f]{2})")
_PLAIN: Final = bytes(code for code in range(0x20, 0x7F) if code != ord("\\"))
"""Bytes that are their own text."""


class PathError(UsageError):
    """A path that cannot name anything inside a workspace."""

    code = "bad_path"


def name_to_text(name: str) -> str:
    """The text form of a name as `os.scandir` gives it (surrogates for undecodable bytes)."""
    if _ESCAPED.search(name) is None:
        return name
    return _ESCAPED.sub(_escape, name)


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(match.group()))


def bytes_to_text(raw: bytes) -> str:
    """The text form of raw path or name bytes."""
    if not raw.translate(None, _PLAIN):
        # Told in a tenth of the time that looking for what has to be escaped takes.
        return raw.decode("ascii")
    return name_to_text(raw.decode("utf-8", "surrogateescape"))


def text_to_bytes(text: str) -> bytes:
    """The bytes on disk that a path text stands for."""
    raw = text.encode("utf-8", "surrogateescape")
    if "\\" not in text:
        return raw
    return _ESCAPE.sub(lambda match: bytes((int(match.group(1), 16),)), raw)


def text_to_os(text: str) -> str:
    """The path text as the string that `os` functions take."""
    if "\\" not in text:
        return text
    return os.fsdecode(text_to_bytes(text))


def join(parent: str, name: str) -> str:
    """The path of an entry called `name` in the folder `parent`."""
    return f"{parent}/{name}" if parent else name


def split(path: str) -> tuple[str, str]:
    """Folder and last name of a path; the root has no name."""
    parent, _, name = path.rpartition("/")
    return parent, name


def ancestors(path: str) -> list[str]:
    """Every folder above the path, nearest first, ending with the root."""
    found = []
    while path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found


def depth(path: str) -> int:
    """How many folders lie around a path; the root has none."""
    return path.count("/") + bool(path)


def is_within(path: str, folder: str) -> bool:
    """Whether the path is the folder itself or lies below it."""
    return not folder or path == folder or path.startswith(folder + "/")


def sort_key(text: str) -> bytes:
    """The key that puts names in the byte order they have on disk."""
    return text_to_bytes(text)


def parse(text: str) -> str:
    """A path text from outside, checked and in its one canonical form."""
    if "\x00" in text:
        raise PathError("the path contains a NUL character", hint="no file can be called that")
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PathError(
            f"{on_screen(text)} is not Unicode text", hint="no file can be called that"
        ) from None
    if text.startswith("/"):
        raise PathError(
            f"{on_screen(text)} is an absolute path",
            hint="name the file relative to the workspace root",
        )
    parts = [part for part in raw.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise PathError(
            f"{on_screen(text)} leads outside the workspace", hint="use a path without `..`"
        )
    typed = b"/".join(parts)
    as_text = typed.decode("utf-8", "surrogateescape")
    # A name typed with a raw control character or an unescaped backslash gets its text form.
    return as_text if _is_text_form(as_text) else bytes_to_text(typed)


def _is_text_form(text: str) -> bool:
    meant = text_to_bytes(text)
    return bytes_to_text(meant) == text and b"\x00" not in meant


def is_name(text: object) -> bool:
    """Whether a value is the text form of one name, as a folder's entries have it."""
    if not isinstance(text, str) or text in ("", ".", "..") or "/" in text:
        return False
    try:
        return _is_text_form(text)
    except UnicodeEncodeError:
        return False


def on_screen(text: str) -> str:
    """Text made safe for a terminal: nothing that moves the cursor or turns the reading order."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char == "\t" or not is_unsafe(char) else _visible(char) for char in text)


def is_unsafe(char: str) -> bool:
    """Whether a character cannot be seen, moves the cursor or turns the reading order."""
    # Cc controls, Cf format marks (bidi among them), Cs surrogates, Zl/Zp separators.
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _visible(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
