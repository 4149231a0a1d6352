"""The declared frame types: which frames are kept, where, by which generator and policy."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from indexer.core import paths
from indexer.core.frames import GENERATED_AGENT_PREFIX, Fingerprint, fingerprint
from indexer.core.hashing import prefixed
from indexer.errors import UsageError
from indexer.generators.base import Generator
from indexer.generators.registry import custom_policy, make_generator
from indexer.regenerate.plan import Rules
from indexer.synthesis.base import Policy, Tokens
from indexer.synthesis.registry import make_policy, policy_names

DEFAULT_TYPES: Final[dict[str, Any]] = {"outline": {"file": "outline", "folder": "summarize"}}
DEFAULT_TOKENIZER: Final = "o200k_base"
_KEYS: Final = {"scope", "file", "folder", "input"}


class TypeConfigError(UsageError):
    """A `[types.NAME]` table in merkle.toml is wrong."""

    code = "type_config"


@dataclass(frozen=True, slots=True)
class FileMaker:
    """A file generator as a type declares it."""

    generator: Generator
    name: str
    options: Mapping[str, object]
    print: Fingerprint


@dataclass(frozen=True, slots=True)
class FolderMaker:
    """A folder policy as a type declares it."""

    policy: Policy
    print: Fingerprint


@dataclass(frozen=True, slots=True)
class FrameType:
    """One declared type."""

    name: str
    file: FileMaker | None
    folder: FolderMaker | None
    input: str | None
    rules: Rules


def load_types(root: Path, size_limit: int, tokens: Tokens) -> dict[str, FrameType]:
    """The types that merkle.toml declares, or the built-in default."""
    declared = _declared(root)
    types: dict[str, FrameType] = {}
    for name in _inputs_first(declared):
        types[name] = _frame_type(name, declared[name], types, size_limit, tokens)
    return types


def _declared(root: Path) -> dict[str, Any]:
    path = root / "merkle.toml"
    if not path.exists():
        return DEFAULT_TYPES
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TypeConfigError(f"merkle.toml: {error}", hint="mend the file") from error
    types = document.get("types")
    if types is None:
        return DEFAULT_TYPES
    if not isinstance(types, dict) or not all(isinstance(t, dict) for t in types.values()):
        raise TypeConfigError("merkle.toml: [types] must hold one table per frame type")
    return types


def _inputs_first(declared: Mapping[str, Any]) -> list[str]:
    """Type names so that each comes after the type it reads."""
    ordered: list[str] = []
    pending = sorted(declared)
    while pending:
        ready = [name for name in pending if declared[name].get("input") in (None, *ordered)]
        if not ready:
            raise TypeConfigError(
                f"merkle.toml: types.{pending[0]} has an input that is not declared, or a cycle",
                hint="`input` names another declared type",
            )
        ordered += ready
        pending = [name for name in pending if name not in ready]
    return ordered


def _frame_type(
    name: str,
    table: Mapping[str, Any],
    known: Mapping[str, FrameType],
    size_limit: int,
    tokens: Tokens,
) -> FrameType:
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise TypeConfigError(
            f"merkle.toml: types.{name}.{unknown[0]} is not a setting",
            hint=f"known are: {', '.join(sorted(_KEYS))}",
        )
    source = table.get("input")
    file = _file_maker(name, table.get("file"))
    folder = _folder_maker(name, table.get("folder"), tokens)
    if file is None and folder is None:
        raise TypeConfigError(f"merkle.toml: types.{name} names neither `file` nor `folder`")
    rules = Rules(
        type=name,
        scopes=_scopes(name, table.get("scope", "")),
        config=_config_hash(
            file, folder, known[source].rules.config if source else b"", size_limit
        ),
        size_limit=size_limit,
        has_file_frames=file is not None,
        has_folder_frames=folder is not None,
        file_agent=GENERATED_AGENT_PREFIX + (file.generator.name if file else "none"),
        folder_agent=GENERATED_AGENT_PREFIX + (folder.policy.name if folder else "none"),
    )
    return FrameType(name, file, folder, source, rules)


def _config_hash(
    file: FileMaker | None, folder: FolderMaker | None, source: bytes, size_limit: int
) -> bytes:
    fields = (
        file.print if file else b"",
        folder.print if folder else b"",
        source,
        str(size_limit).encode(),
    )
    return hashlib.sha256(b"".join(prefixed(field) for field in fields)).digest()


def _scopes(name: str, value: object) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise TypeConfigError(f"merkle.toml: types.{name}.scope must be a path or a list of paths")
    return tuple(sorted({paths.parse(item) for item in listed}))


def _maker(name: str, key: str, value: object) -> tuple[str, dict[str, object]] | None:
    """A name, or a table with `use` and the options beside it."""
    if value is None:
        return None
    if isinstance(value, str):
        return value, {}
    if isinstance(value, dict) and isinstance(value.get("use"), str):
        return value["use"], {option: v for option, v in value.items() if option != "use"}
    raise TypeConfigError(
        f"merkle.toml: types.{name}.{key} must be a name or a table with `use`",
        hint=f'for example {key} = {{ use = "outline" }}',
    )


def _file_maker(name: str, value: object) -> FileMaker | None:
    made = _maker(name, "file", value)
    if made is None:
        return None
    generator = make_generator(*made)
    return FileMaker(generator, made[0], made[1], fingerprint(generator.fingerprint_parts()))


def _folder_maker(name: str, value: object, tokens: Tokens) -> FolderMaker | None:
    made = _maker(name, "folder", value)
    if made is None:
        return None
    policy: Policy
    if made[0] in policy_names():
        policy = make_policy(made[0], made[1], tokens=tokens)
    else:
        policy = custom_policy(made[0], made[1])
    return FolderMaker(policy, fingerprint(policy.fingerprint_parts()))
