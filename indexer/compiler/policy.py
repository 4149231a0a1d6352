"""What the compiler is told to keep, show and collapse; every setting is optional."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from indexer.errors import UsageError

HeaderMode = Literal["hash_only", "sanitized_preview"]

HEADER_MODES: Final = ("hash_only", "sanitized_preview")
COLLAPSE_MODES: Final = ("none", "all_but_last")
SUMMARIES: Final = ("reference", "first_line")
"""What stands for a collapsed message; other names, like other modes, are those of plug-ins."""

# A preview is for looking, not for carrying a transcript.
MAX_PREVIEW_CHARS: Final = 4_000

_PLUGIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_COUNT: Final = "must be a whole number, 0 or more, or null"


class PolicyError(UsageError):
    """A policy has an unknown key or a value of the wrong type."""

    code = "policy"


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """Which nodes are candidates; None is no limit, 0 and the empty list keep nothing.

    What is pinned stays whatever the limits are.
    """

    kind_allowlist: tuple[str, ...] | None = None
    max_nodes: int | None = None
    max_turns: int | None = None
    max_chars: int | None = None
    pin_latest: bool = False
    pin_first_system: bool = False

    def to_json(self) -> dict[str, object]:
        """The settings as SPEC echoes them."""
        kinds = self.kind_allowlist
        return {
            "kind_allowlist": None if kinds is None else list(kinds),
            "max_chars": self.max_chars,
            "max_nodes": self.max_nodes,
            "max_turns": self.max_turns,
            "pin_first_system": self.pin_first_system,
            "pin_latest": self.pin_latest,
        }


@dataclass(frozen=True, slots=True)
class HeaderPolicy:
    """What HEADER shows of a payload, and whether FROZEN may show it too."""

    mode: HeaderMode = "hash_only"
    preview_chars: int = 200
    freeze_previews: bool = False


@dataclass(frozen=True, slots=True)
class CollapsePolicy:
    """How many nodes stay, which of those shrink, and to what."""

    target: int | None = None
    mode: str = COLLAPSE_MODES[0]
    kind_allowlist: tuple[str, ...] | None = None
    summary: str = SUMMARIES[0]


@dataclass(frozen=True, slots=True)
class Policy:
    """The three groups of settings."""

    selection: SelectionPolicy = field(default_factory=SelectionPolicy)
    header: HeaderPolicy = field(default_factory=HeaderPolicy)
    collapse: CollapsePolicy = field(default_factory=CollapsePolicy)


def parse_policy(data: Mapping[str, object] | Policy | None) -> Policy:
    """Read a policy file's object; unknown keys and wrong types are refused by name."""
    if isinstance(data, Policy):
        return data
    groups = _Group("", {} if data is None else data)
    groups.refuse_unknown("selection", "header", "collapse")
    selection = groups.group("selection")
    selection.refuse_unknown(
        "kind_allowlist", "max_nodes", "max_turns", "max_chars", "pin_latest", "pin_first_system"
    )
    header = groups.group("header")
    header.refuse_unknown("mode", "preview_chars", "freeze_previews")
    collapse = groups.group("collapse")
    collapse.refuse_unknown("target", "mode", "kind_allowlist", "summary")
    return Policy(
        SelectionPolicy(
            kind_allowlist=selection.kinds("kind_allowlist"),
            max_nodes=selection.count("max_nodes"),
            max_turns=selection.count("max_turns"),
            max_chars=selection.count("max_chars"),
            pin_latest=selection.flag("pin_latest"),
            pin_first_system=selection.flag("pin_first_system"),
        ),
        HeaderPolicy(
            mode=cast(HeaderMode, header.choice("mode", HEADER_MODES)),
            preview_chars=header.bounded("preview_chars", HeaderPolicy().preview_chars),
            freeze_previews=header.flag("freeze_previews"),
        ),
        CollapsePolicy(
            target=collapse.count("target"),
            mode=collapse.named("mode", COLLAPSE_MODES),
            kind_allowlist=collapse.kinds("kind_allowlist"),
            summary=collapse.named("summary", SUMMARIES),
        ),
    )


class _Group:
    """One object of a policy file, read key by key."""

    def __init__(self, name: str, data: object) -> None:
        if not isinstance(data, Mapping):
            where = f"policy key {name!r}" if name else "a policy"
            raise PolicyError(f"{where} must be an object, not {_type_name(data)}")
        self._name = name
        self._data = data

    def refuse_unknown(self, *known: str) -> None:
        for key in self._data:
            if key not in known:
                raise PolicyError(
                    f"unknown policy key {self._path(key)!r}", hint=f"Known: {', '.join(known)}."
                )

    def group(self, key: str) -> _Group:
        return _Group(self._path(key), self._data.get(key, {}))

    def count(self, key: str) -> int | None:
        value = self._data.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, _COUNT)
        return value

    def bounded(self, key: str, default: int) -> int:
        value = self._data.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, f"must be a whole number from 0 to {MAX_PREVIEW_CHARS}")
        if not 0 <= value <= MAX_PREVIEW_CHARS:
            raise self._wrong(key, f"must be from 0 to {MAX_PREVIEW_CHARS}")
        return value

    def flag(self, key: str) -> bool:
        value = self._data.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "must be true or false")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self._data.get(key, choices[0])
        if not isinstance(value, str) or value not in choices:
            raise self._wrong(key, f"must be one of {', '.join(choices)}")
        return value

    def named(self, key: str, built_in: tuple[str, ...]) -> str:
        """One of those built in, or a word by which a plug-in may be known."""
        value = self._data.get(key, built_in[0])
        if not isinstance(value, str) or not _PLUGIN_NAME.fullmatch(value):
            known = ", ".join(built_in)
            raise self._wrong(key, f"must be one of {known}, or the name of a plug-in")
        return value

    def kinds(self, key: str) -> tuple[str, ...] | None:
        value = self._data.get(key)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(isinstance(k, str) for k in value):
            raise self._wrong(key, "must be a list of kinds, or null")
        if any("\ud800" <= character <= "\udfff" for kind in value for character in kind):
            raise self._wrong(key, "must not hold lone surrogates")
        # Sorted and each once, because neither order nor repetition may move a hash.
        return tuple(sorted(set(value)))

    def _path(self, key: object) -> str:
        return f"{self._name}.{key}" if self._name else str(key)

    def _wrong(self, key: str, rule: str) -> PolicyError:
        found = _type_name(self._data.get(key))
        return PolicyError(f"policy key {self._path(key)!r} {rule}; it is {found}")


def _type_name(value: object) -> str:
    """A value's JSON type, with the value itself where that is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value!r:.40}"
    if isinstance(value, str):
        return f"the text {value!r:.40}"
    return "an object" if isinstance(value, Mapping) else "a list"
