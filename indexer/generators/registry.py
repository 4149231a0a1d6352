"""Look-up of generators, and of custom folder policies, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from indexer.core.twice import Maker
from indexer.generators.base import Generator, GeneratorBrokenError, UnknownGeneratorError
from indexer.generators.outline import OutlineGenerator

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "indexer.generators"

Options = Mapping[str, object]

_BUILT_IN: dict[str, Callable[[Options], Generator]] = {
    "outline": OutlineGenerator.from_options,
}
_GENERATOR_PARTS = ("name", "version", "fingerprint_parts", "generate")
_POLICY_PARTS = ("name", "version", "fingerprint_parts", "synthesize")


class FolderPolicy(Maker, Protocol):
    """The shape of a custom folder policy, spelled without importing the layer above."""

    def synthesize(self, children: Sequence[Any]) -> str:
        """The frame's body."""
        ...


def generator_names() -> tuple[str, ...]:
    """The built-in generators, in order of name."""
    return tuple(sorted(_BUILT_IN))


def is_installed(name: str) -> bool:
    """Whether an installed package offers a generator or policy of that name; loads nothing."""
    return bool(_offers(name))


def _offers(name: str) -> list[EntryPoint]:
    # Reading package metadata costs more than everything else here, so only on a miss.
    from importlib.metadata import entry_points

    return sorted(entry_points(group=ENTRY_POINT_GROUP, name=name), key=lambda e: e.value)


def make_generator(name: str, options: Options | None = None) -> Generator:
    """The file generator declared as `name`, configured by its TOML table."""
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        return built_in(options or {})
    known = (*generator_names(), "llm")
    return cast(Generator, _custom(name, options or {}, "file generator", _GENERATOR_PARTS, known))


def custom_policy(
    name: str, options: Options | None = None, *, built_in: Sequence[str] = ()
) -> FolderPolicy:
    """The installed folder policy declared as `name`; `built_in` is what else could be meant."""
    made = _custom(name, options or {}, "folder policy", _POLICY_PARTS, built_in)
    return cast(FolderPolicy, made)


def _custom(
    name: str, options: Options, kind: str, parts: tuple[str, ...], built_in: Sequence[str]
) -> object:
    found = _offers(name)
    if not found:
        raise UnknownGeneratorError(
            f"there is no {kind} {name!r}",
            hint=f"built in are: {', '.join(built_in)}; others are found by the"
            f" entry point group {ENTRY_POINT_GROUP!r}",
        )
    if len({entry.value for entry in found}) > 1:
        raise GeneratorBrokenError(
            f"{name!r} is offered by more than one installed package:"
            f" {', '.join(entry.value for entry in found)}",
            hint="uninstall all but one of them",
        )
    try:
        factory = found[0].load()
    except Exception as error:
        raise GeneratorBrokenError(
            f"{kind} {name!r} ({found[0].value}) cannot be imported: {error}",
            hint="repair or uninstall the package that offers it",
        ) from error
    made = factory(dict(options))
    missing = [part for part in parts if not hasattr(made, part)]
    if missing:
        raise GeneratorBrokenError(
            f"{name!r} ({found[0].value}) is no {kind}: it lacks {', '.join(missing)}",
            hint="its entry point must be a callable that takes the options and returns one",
        )
    return made
