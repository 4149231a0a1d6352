"""What the compiler is told to keep, show and collapse; every setting is optional."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from indexer.errors import UsageError

HeaderMode = Literal["hash_only", "sanitized_preview"]
CollapseMode = Literal["none", "all_but_last"]

HEADER_MODES: Final = ("hash_only", "sanitized_preview")
COLLAPSE_MODES: Final = ("none", "all_but_last")

# A preview is for looking, not for carrying a transcript.
MAX_PREVIEW_CHARS: Final = 4_000

_COUNT: Final = "must be a whole number, 0 or more, or null"


class PolicyError(UsageError):
    """A policy has an unknown key or a value of the wrong type."""

    code = "policy"


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """Which nodes are candidates; None is no limit, 0 and the empty list keep nothing."""

    kind_allowlist: tuple[str, ...] | None = None
    max_nodes: int | None = None
    max_turns: int | None = None
    pin_latest: bool = False

    def to_json(self) -> dict[str, object]:
        """The settings as SPEC echoes them."""
        kinds = self.kind_allowlist
        return {
            "kind_allowlist": None if kinds is None else list(kinds),
            "max_nodes": self.max_nodes,
            "max_turns": self.max_turns,
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
    """How many nodes stay, and which of those shrink to a reference."""

    target: int | None = None
    mode: CollapseMode = "none"
    kind_allowlist: tuple[str, ...] | None = None


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
    selection.refuse_unknown("kind_allowlist", "max_nodes", "max_turns", "pin_latest")
    header = groups.group("header")
    header.refuse_unknown("mode", "preview_chars", "freeze_previews")
    collapse = groups.group("collapse")
    collapse.refuse_unknown("target", "mode", "kind_allowlist")
    return Policy(
        SelectionPolicy(
            kind_allowlist=selection.kinds("kind_allowlist"),
            max_nodes=selection.count("max_nodes"),
            max_turns=selection.count("max_turns"),
            pin_latest=selection.flag("pin_latest"),
        ),
        HeaderPolicy(
            mode=cast(HeaderMode, header.choice("mode", HEADER_MODES)),
            preview_chars=header.bounded("preview_chars", HeaderPolicy().preview_chars),
            freeze_previews=header.flag("freeze_previews"),
        ),
        CollapsePolicy(
            target=collapse.count("target"),
            mode=cast(CollapseMode, collapse.choice("mode", COLLAPSE_MODES)),
            kind_allowlist=collapse.kinds("kind_allowlist"),
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

    def kinds(self, key: str) -> tuple[str, ...] | None:
        value = self._data.get(key)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(isinstance(k, str) for k in value):
            raise self._wrong(key, "must be a list of kinds, or null")
        if any("\ud800" <= character <= "\udfff" for kind in value for character in kind):
            raise self._wrong(key, "must not hold lone surrogates")
        # A set in all but name: neither order nor repetition may move a hash.
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
