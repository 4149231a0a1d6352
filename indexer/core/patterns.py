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
        # From now on its methods are attributes of this object, and cost no look-up more.
        self.__dict__.update((each, getattr(compiled, each)) for each in _USED)
        return getattr(compiled, name)


def pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A compiled pattern in all but type: `re`'s own functions do not take it."""
    return cast("re.Pattern[AnyStr]", _Pattern(source, flags))
