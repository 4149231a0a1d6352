"""JSON as it may be shown: every character that a reader would not see is escaped."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from indexer.core.paths import is_unsafe

_UNDECODABLE: Final = re.compile("[\udc80-\udcff]")
_PERHAPS_UNSAFE: Final = re.compile(r"[^\n -~]")


def json_text(document: Any, *, indent: int | None = None) -> str:
    """A document on one line, or on many: in UTF-8 it is the same value as the document.

    Only bytes of a file name that are not UTF-8 have no value in JSON: they get the path text form.
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(document, ensure_ascii=False, indent=indent, separators=separators)
    text = _UNDECODABLE.sub(lambda found: f"\\\\x{ord(found.group()) - 0xDC00:02x}", text)
    # Outside of strings JSON is ASCII, so whatever is found stands inside of one.
    return _PERHAPS_UNSAFE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    char = found.group()
    # JSON's own escaping leaves out DEL, which is ASCII to it.
    return (json.dumps(char)[1:-1] if char > "\x7f" else "\\u007f") if is_unsafe(char) else char
