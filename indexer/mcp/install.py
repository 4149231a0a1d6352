"""Entering the server into a client's configuration, and taking it out again."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from indexer.errors import MerkleError, UncheckedError, UsageError
from indexer.mcp import json_edit, toml_edit
from indexer.mcp.clients import Client, Entry, Scope, find_client
from indexer.mcp.json_edit import KeyPath, UneditableError
from indexer.store.atomic import write_atomically

_MARK: Final = "\ufeff"
_NAME_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
)


class ChangedError(UncheckedError):
    """The file changed while it was being edited."""

    code = "changed"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one client's entry goes."""

    client: Client
    scope_name: str
    scope: Scope
    root: Path
    name: str

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.scope.file(self.root)

    @property
    def keys(self) -> KeyPath:
        """Where in it the entry is."""
        return (*self.scope.servers(self.root), self.name)


def find_place(client: str, scope: str | None, root: Path, name: str = "merkle") -> Place:
    """The place that is meant, checked."""
    if not name or not _NAME_CHARACTERS.issuperset(name):
        raise UsageError(f"{name!r} cannot name a server", hint="use letters, digits, - and _")
    found = find_client(client)
    return Place(found, *found.scope(scope), root, name)


def snippet(place: Place, entry: Entry) -> str:
    """The entry alone, as it would stand in an empty file."""
    if place.client.format == "toml":
        return toml_edit.block(place.keys, entry)
    value: Any = entry
    for key in reversed(place.keys):
        value = {key: value}
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def install(place: Place, entry: Entry) -> bool:
    """Write the entry; False where it already stood there as it is."""
    before = _read(place)
    text = _text_of(before)
    try:
        if not text.strip():
            after = text + snippet(place, entry)
        elif place.client.format == "toml":
            wanted = _merged(json_edit.value_at(toml_edit.parse(text), place.keys), entry)
            after = toml_edit.with_table(text, place.keys, wanted) if wanted else text
        else:
            wanted = _merged(json_edit.value_at(json_edit.parse(text), place.keys), entry)
            after = json_edit.with_member(text, place.keys, wanted) if wanted else text
    except UneditableError as error:
        raise _left_alone(place, error, f"put this in yourself:\n{snippet(place, entry)}") from None
    return _write(place, before, text, after)


def _merged(known: Any, entry: Entry) -> Entry | None:
    """The entry with what somebody added to it before; None where it is as it should be."""
    wanted = {**known, **entry} if isinstance(known, dict) else entry
    return None if wanted == known else wanted


def uninstall(place: Place) -> bool:
    """Take the entry out; False where there was none."""
    before = _read(place)
    text = _text_of(before)
    if not text.strip():
        return False
    try:
        after = _without(place, text)
    except UneditableError as error:
        hint = f"take the entry {'.'.join(place.keys)} out yourself"
        raise _left_alone(place, error, hint) from None
    return _write(place, before, text, after)


def _without(place: Place, text: str) -> str:
    if place.client.format == "toml":
        return toml_edit.without_table(text, place.keys)
    after = json_edit.without_member(text, place.keys)
    for length in range(len(place.keys) - 1, 0, -1) if after != text else ():
        # A list of servers that is empty came with the entry, or says nothing without it.
        if json_edit.value_at(json_edit.parse(after), place.keys[:length]) == {}:
            after = json_edit.without_member(after, place.keys[:length])
    return after


def _left_alone(place: Place, error: MerkleError, hint: str) -> UneditableError:
    return UneditableError(f"{place.file} was left as it is: {error.message}", hint=hint)


def _read(place: Place) -> bytes | None:
    """The file's bytes, None where there is none."""
    path = place.file
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise UneditableError(f"{path} is not a regular file", hint="look what it is")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UncheckedError(f"cannot read {path}: {error.strerror or error}") from error


def _text_of(content: bytes | None) -> str:
    try:
        return (content or b"").decode("utf-8").removeprefix(_MARK)
    except UnicodeDecodeError as error:
        raise UneditableError(
            f"the file is not UTF-8: {error}", hint="nothing was changed"
        ) from None


def _write(place: Place, before: bytes | None, text: str, after: str) -> bool:
    """Replace the file as a whole, unless somebody else did meanwhile; remove it when empty."""
    if after == text:
        return False
    mark = _MARK if before is not None and before.startswith(_MARK.encode()) else ""
    try:
        content = (mark + after).encode()
    except UnicodeEncodeError:
        raise UneditableError(
            f"{place.file} was left as it is: the entry names a path that is not UTF-8",
            hint="move the workspace to a folder whose name is plain text",
        ) from None
    # Through a link, so that a file kept elsewhere stays where it is kept.
    target = Path(os.path.realpath(place.file))
    try:
        if _read(place) != before:
            raise ChangedError(f"{place.file} has just been changed", hint="run the command again")
        if after.strip() in ("", "{}"):
            target.unlink()
            return True
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content)
    except OSError as error:
        raise UncheckedError(f"cannot write {target}: {error.strerror or error}") from error
    return True
