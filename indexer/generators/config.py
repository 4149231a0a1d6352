"""Configuration files by their top-level keys, with short scalar values, never secrets."""

from __future__ import annotations

import re

from indexer.core.patterns import pattern
from indexer.core.secrets import is_secret_name
from indexer.generators.lines import ELLIPSIS, cut, head, shown, squeezed

READ = 256 * 1024
MAX_VALUE = 60
MAX_TABLE = 120

# What is not closed ends with the text: looking for its end again from every place would take
# a time that grows with the square of the length.
_JSON = pattern(
    r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*|/\*.*?(?:\*/|\Z)|[{}\[\],:]|[^\s{}\[\],:"/]+|/', re.DOTALL
)
_YAML = pattern(r"(['\"]?)([^\s#'\"\-\[\]{}&*!|>%@`][^:#\n]{0,80}?)\1\s*:(?:\s+(.*))?$")
_TABLE = pattern(r"\s*\[\[?([^\[\]\n]++)\]\]?\s*(?:[#;].*)?$")
_PAIR = pattern(r"([\w.\"'-][^=:\n]{0,80}?)\s*[=:]\s*(.*)$")

Entry = tuple[str, str]


def config_outline(language: str, content: bytes, *, width: int, limit: int) -> str:
    """The outline of a JSON, YAML, TOML or INI file."""
    text = shown(head(content, READ))
    if language == "json":
        entries = _json(text, limit)
    elif language == "yaml":
        entries = _yaml(text)
    else:
        entries = _tables(text)
    names: list[str] = []
    lines: list[str] = []
    for name, value in entries[:limit]:
        names.append(name)
        lines.append(cut(f"{name}: {value}" if value else name, width))
    if len(entries) > limit:
        lines.append(f"… {len(entries) - limit} more keys")
    return "\n".join([cut(f"[{language}] {', '.join(names)}".rstrip(), width), *lines]) + "\n"


def _value(name: str, raw: str) -> str:
    said = squeezed(raw)
    if is_secret_name(name) and said:
        return ELLIPSIS
    return said if len(said) <= MAX_VALUE else ELLIPSIS


def _json(text: str, limit: int) -> list[Entry]:
    """Keys of the outermost object, by tokens: any depth, comments and broken ends allowed."""
    entries: list[Entry] = []
    depth = 0
    key = last = ""
    for found in _JSON.finditer(text):
        token = found[0]
        if token in "{[":
            depth += 1
            if depth == 2 and key:
                entries.append((key, "{…}" if token == "{" else "[…]"))
                key = ""
        elif token in "}]":
            depth -= 1
            if depth <= 0:
                break
        elif depth == 1 and not token.startswith(("//", "/*")):
            if token == ":":
                key = last.strip('"')
            elif token == ",":
                key = ""
            elif key:
                entries.append((key, _value(key, token)))
                key = ""
            last = token
        if len(entries) > 4 * limit:
            break
    return entries


def _yaml(text: str) -> list[Entry]:
    entries: list[Entry] = []
    for line in text.split("\n"):
        found = _YAML.match(line[:400])
        if found:
            raw = (found[3] or "").partition(" #")[0].strip()
            entries.append((found[2], "" if raw[:1] in "|>&{[" else _value(found[2], raw)))
    return entries


def _tables(text: str) -> list[Entry]:
    """Tables by name; pairs only where they stand before the first table."""
    entries: list[Entry] = []
    in_table = False
    seen: set[str] = set()
    for line in text.split("\n"):
        table = _TABLE.match(line[:400])
        # Blanks around a name are no part of it, unless there is nothing else.
        name = table[1].strip() or table[1][-1] if table else ""
        if 0 < len(name) <= MAX_TABLE:
            in_table = True
            # A lock file repeats one array of tables a thousand times.
            if name not in seen:
                seen.add(name)
                entries.append((f"[{name}]", ""))
            continue
        pair = None if in_table else _PAIR.match(line[:400])
        if pair:
            opened = pair[2][:1] in ("[", "{") and pair[2][-1:] not in ("]", "}")
            entries.append((pair[1], "[…]" if opened else _value(pair[1], pair[2])))
    return entries
