"""Patterns that are compiled when they are first used: most commands need few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

_USED: Final = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class _Pattern:
    def __init__(self, source: Any, flags: int) -> None:
        self._given = source, flags

    def __getattr__(self, name: str) -> Any:
        compiled: re.Pattern[Any] = re.compile(*self._given)
        # From now on they are found here, as quickly as in what is compiled.
        self.__dict__.update((each, getattr(compiled, each)) for each in _USED)
        return getattr(compiled, name)


def pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, but for `re`'s own functions, which want that itself."""
    return cast("re.Pattern[AnyStr]", _Pattern(source, flags))
