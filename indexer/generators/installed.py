"""Which versions of packages are installed, as `importlib.metadata` says, without loading it.

It parses all metadata of a package as if it were mail, which takes longer than parsing a source
file. One line of that is wanted; whatever is not the usual case is left to it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from typing import Final

_METADATA: Final = (".dist-info", ".egg-info")


class _UnusualError(Exception):
    """Packages are kept in a way that only `importlib.metadata` can read."""


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """The version of each of these packages that is installed."""
    names = list(names)
    try:
        metadata: dict[str, str | None] = {}
        for found in map(_metadata_in, _places()):
            # What comes first on the path is what is imported.
            metadata = {**found, **metadata}
        spelled = {name: _spelled(name) for name in names}
        return {name: _version(metadata[key]) for name, key in spelled.items() if key in metadata}
    except _UnusualError:
        return dict(_by_metadata(names))


def _spelled(name: str) -> str:
    """A name in the form in which all its spellings are the same."""
    return re.sub(r"[-_.]+", "_", name).lower()


def _places() -> Iterator[str]:
    """The folders that packages are imported from."""
    if any(hasattr(each, "find_distributions") for each in sys.meta_path if each is not PathFinder):
        raise _UnusualError
    for place in sys.path:
        if place.lower().endswith(".egg") or os.path.isfile(place):
            raise _UnusualError
        if os.path.isdir(place or "."):
            yield place or "."


def _metadata_in(place: str) -> dict[str, str | None]:
    """The metadata folder of each package in a folder of packages; None where there are two."""
    found: dict[str, str | None] = {}
    for name in os.listdir(place):
        if name.lower().endswith(_METADATA):
            key = _spelled(name.rpartition(".")[0].partition("-")[0])
            found[key] = os.path.join(place, name) if key not in found else None
    return found


def _version(metadata: str | None) -> str:
    """The version that a package's metadata names above the empty line that its text follows."""
    if metadata is None:
        raise _UnusualError
    try:
        with open(os.path.join(metadata, "METADATA"), encoding="utf-8") as file:
            for line in file:
                field, _, value = line.partition(":")
                if not line.strip():
                    break
                if field.lower() == "version":
                    return value.strip()
    except (OSError, ValueError) as error:
        raise _UnusualError from error
    raise _UnusualError


def _by_metadata(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    # Imported late: it is loaded only where packages are kept in an unusual way.
    from importlib.metadata import PackageNotFoundError, version

    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
