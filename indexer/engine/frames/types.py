"""The declared frame types: which frames are kept, where, by which generator and policy."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from indexer.core import paths, secrets
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    ON_CONTENT,
    ON_LISTING,
    Fingerprint,
    fingerprint,
)
from indexer.core.hashing import prefixed
from indexer.core.tokens import TiktokenCounter
from indexer.engine.frames.proofs import OtherTypes
from indexer.engine.models.prompt_files import own_prompts, prompt_contents, read_prompt
from indexer.engine.settings import (
    FILE,
    TRUST,
    Settings,
    is_trusted,
    load_settings,
    read_document,
    user_contents,
)
from indexer.errors import UsageError
from indexer.generators import base as generators
from indexer.generators.base import Generator
from indexer.generators.llm import MODEL
from indexer.generators.registry import (
    custom_policy,
    generator_names,
    is_installed,
    make_generator,
)
from indexer.regenerate.plan import EVERY_TYPE, Rules, readers_of
from indexer.synthesis import base as policies
from indexer.synthesis.base import Policy, Tokens
from indexer.synthesis.registry import make_policy, policy_names

if TYPE_CHECKING:
    from indexer.generators.llm.writer import ModelWriter

DEFAULT_TYPES: Final[dict[str, Any]] = {"outline": {"file": "outline", "folder": "summarize"}}
DEFAULT_POLICY: Final = "concatenate"
"""How frames of a type that is not declared are put together."""
_KEYS: Final = {"scope", "file", "folder", "input", "verify", "share"}
TYPE_NAME: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


class TypeConfigError(UsageError):
    """A `[types.NAME]` table in merkle.toml is wrong."""

    code = "type_config"


class FileMaker(NamedTuple):
    """A file generator as a type declares it."""

    generator: Generator | ModelWriter
    name: str
    options: Mapping[str, object]
    print: Fingerprint
    verify: bool
    """Whether it is run more than once and its outputs compared."""

    @property
    def writer(self) -> ModelWriter | None:
        """What asks a model, where a model writes these frames."""
        return cast("ModelWriter", self.generator) if self.name == MODEL else None


class FolderMaker(NamedTuple):
    """A folder policy as a type declares it."""

    policy: Policy | ModelWriter
    print: Fingerprint
    name: str
    options: Mapping[str, object]
    verify: bool = False
    """Whether it is run more than once and its outputs compared."""

    @property
    def writer(self) -> ModelWriter | None:
        """What asks a model, where a model writes these frames."""
        return cast("ModelWriter", self.policy) if self.name == MODEL else None


class FrameType(NamedTuple):
    """One declared type."""

    name: str
    file: FileMaker | None
    folder: FolderMaker | None
    input: str | None
    rules: Rules
    share: bool = True
    """Whether the team is asked for its results, and given them."""

    @property
    def writers(self) -> tuple[ModelWriter, ...]:
        """The models that write frames of this type."""
        made = [maker.writer for maker in (self.file, self.folder) if maker is not None]
        return tuple(writer for writer in made if writer is not None)


class DeclaredTypes:
    """The types that merkle.toml declares, read again when it or a prompt of theirs changes."""

    def __init__(self, root: Path, counter: TiktokenCounter) -> None:
        self._root = root
        self.tokens = Tokens(counter.encoding_name, counter.count_text)
        self._read: tuple[bytes | None, ...] | None = None
        """The contents of the file and of the prompts that the types were read with."""
        self._prompts: tuple[str, ...] = ()
        self._types: dict[str, FrameType] = {}
        self._settings: Settings | None = None

    @property
    def types(self) -> dict[str, FrameType]:
        """The declared types, as last read."""
        if self._read is None:
            self.refresh()
        return self._types

    @property
    def settings(self) -> Settings:
        """The settings that were read with them."""
        if self._settings is None:
            self.refresh()
            assert self._settings is not None
        return self._settings

    def refresh(self) -> None:
        """Read everything again when something has changed."""
        try:
            text: bytes | None = (self._root / FILE).read_bytes()
        except OSError:
            text = None
        ours = user_contents()
        if self._read != (text, *ours, *prompt_contents(self._root, self._prompts)):
            settings = load_settings(self._root)
            types = load_types(self._root, settings.size_limit, self.tokens)
            self._prompts = own_prompts(types.values())
            self._settings, self._types = settings, types
            self._read = (text, *ours, *prompt_contents(self._root, self._prompts))

    def digest(self) -> str:
        """What stands for all that the declared types decide on."""
        self.refresh()
        declared = [
            (
                name,
                one.rules,
                one.input,
                one.file and one.file.print,
                one.folder and one.folder.print,
            )
            for name, one in self._types.items()
        ]
        return hashlib.sha256(repr(declared).encode()).hexdigest()


MakeWriter = Callable[[str, Mapping[str, object]], "ModelWriter"]


def load_types(root: Path, size_limit: int, tokens: Tokens) -> dict[str, FrameType]:
    """The types that merkle.toml declares, or the built-in default."""
    declared = _declared(root)
    types: dict[str, FrameType] = {}

    def write(kind: str, options: Mapping[str, object]) -> ModelWriter:
        # Imported late: most workspaces declare no model.
        from indexer.engine.models.settings import load_llm_settings
        from indexer.generators.llm.options import make_writer

        windows = load_llm_settings(root).window_of
        return make_writer(kind, options, windows, lambda path: read_prompt(root, path))

    if not is_trusted(root):
        _refuse_custom_code(declared)
    for name in _inputs_first(declared):
        types[name] = _frame_type(name, declared[name], types, size_limit, tokens, write)
    return _gatherers_last(types)


def _refuse_custom_code(declared: Mapping[str, Any]) -> None:
    """Refuse makers that are none of ours: which code runs is not a repository's to say."""
    ours = {"file": {*generator_names(), MODEL}, "folder": {*policy_names(), MODEL}}
    for name, table in declared.items():
        for key, known in ours.items():
            maker = _maker(name, key, table.get(key))
            if maker is not None and maker[0] not in known and is_installed(maker[0]):
                raise TypeConfigError(
                    f"merkle.toml: types.{name}.{key}: {maker[0]!r} is not built in, and would run"
                    " code that this repository chose",
                    hint=TRUST,
                )


def _gatherers_last(types: Mapping[str, FrameType]) -> dict[str, FrameType]:
    """Types that take in notes after all others: a note may be bound to any other frame."""
    kept = {name: one for name, one in types.items() if not one.rules.gathers}
    others = [
        part for one in kept.values() for part in (one.rules.file_config, one.rules.folder_config)
    ]
    for name, one in types.items():
        if one.rules.gathers:
            config = _hash(one.rules.folder_config, *others)
            kept[name] = one._replace(rules=one.rules._replace(folder_config=config))
    return kept


class NoTypeNameError(UsageError):
    """No frame type can be called so."""

    code = "type_name"


def undeclared_type(
    name: str, scope: str, policy: str | None, options: Mapping[str, object], tokens: Tokens
) -> FrameType:
    """A type that only an explicit request makes: folders' frames out of what agents wrote."""
    if name != EVERY_TYPE and not TYPE_NAME.fullmatch(name):
        raise NoTypeNameError(
            f"{name!r} is no frame type",
            hint="use lower-case letters, digits, dot, dash and underscore, or * for every type",
        )
    folder = folder_maker(policy or DEFAULT_POLICY, options, tokens)
    agent = GENERATED_AGENT_PREFIX + folder.policy.name
    # Nobody declared it, so nobody said that others may have it.
    rules = requested_rules(name, scope, agent, folder.print)
    return FrameType(name, None, folder, None, rules, share=False)


def requested_rules(name: str, scope: str, agent: str, made_by: Fingerprint) -> Rules:
    """What a type that is not declared takes in, by whom and by what it is made."""
    return Rules(
        type=name,
        scopes=(scope,),
        file_config=b"",
        folder_config=_hash(b"", made_by, b"0"),
        size_limit=0,
        has_file_frames=False,
        has_folder_frames=True,
        file_agent=GENERATED_AGENT_PREFIX + "none",
        folder_agent=agent,
        gathers=name,
    )


def file_maker(
    name: str, options: Mapping[str, object], *, verify: bool | None = None
) -> FileMaker:
    """A file generator by name; custom code is checked unless told otherwise."""
    checked = name not in generator_names() if verify is None else verify
    made = make_generator(name, options)
    generator = generators.verified(made) if checked else made
    return FileMaker(generator, name, options, masked_print(generator), checked)


def folder_maker(
    name: str, options: Mapping[str, object], tokens: Tokens, *, verify: bool | None = None
) -> FolderMaker:
    """A folder policy by name, built in or custom; custom code is checked in the same way."""
    if name == MODEL:
        raise TypeConfigError(
            "a model needs to be declared before it can describe folders",
            hint='in merkle.toml: folder = { use = "llm", model = "…" }',
        )
    custom = name not in policy_names()
    made: Policy
    made = (
        custom_policy(name, options, built_in=(*policy_names(), MODEL))
        if custom
        else make_policy(name, options, tokens=tokens)
    )
    checked = custom if verify is None else verify
    policy = policies.verified(made) if checked else made
    return FolderMaker(policy, masked_print(policy), name, options, checked)


def masked_print(maker: Generator | Policy) -> Fingerprint:
    """What stands for a maker and for the masking of what it makes: both decide on the body."""
    return fingerprint(sorted((*maker.fingerprint_parts(), ("merkle.secrets", secrets.VERSION))))


def folder_config(file_config: bytes, folder: FolderMaker | None, size_limit: int) -> bytes:
    """What a folder's frame depends on: its policy, and what decides its children's frames."""
    return _hash(file_config, folder.print if folder else b"", str(size_limit).encode())


def others_than(types: Mapping[str, FrameType], name: str) -> OtherTypes:
    """The declared types beside one, by whether they read it."""
    reading = readers_of({one.name: one.input for one in types.values()}, name)
    readers: dict[str, Rules] = {}
    bystanders: dict[str, Rules] = {}
    for other, declared in types.items():
        if other != name and not declared.rules.gathers:
            (readers if other in reading else bystanders)[other] = declared.rules
    return OtherTypes(name in types, readers, bystanders)


def _declared(root: Path) -> dict[str, Any]:
    document = read_document(root / FILE) or {}
    types = document.get("types")
    if types is None:
        return DEFAULT_TYPES
    if not isinstance(types, dict) or not all(isinstance(t, dict) for t in types.values()):
        raise TypeConfigError("merkle.toml: [types] must hold one table per frame type")
    for name in types:
        if not TYPE_NAME.fullmatch(name) or name in (ON_CONTENT, ON_LISTING):
            raise TypeConfigError(
                f"merkle.toml: {name!r} cannot be the name of a frame type",
                hint="use lower-case letters, digits, dot, dash and underscore;"
                f" {ON_CONTENT} and {ON_LISTING} are what a note can be bound to",
            )
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
    write: MakeWriter,
) -> FrameType:
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise TypeConfigError(
            f"merkle.toml: types.{name}.{unknown[0]} is not a setting",
            hint=f"known are: {', '.join(sorted(_KEYS))}",
        )
    verify, share = table.get("verify"), table.get("share")
    for setting, value in (("verify", verify), ("share", share)):
        if value is not None and not isinstance(value, bool):
            raise TypeConfigError(f"merkle.toml: types.{name}.{setting} is neither true nor false")
    of_file = _maker(name, "file", table.get("file"))
    of_folder = _maker(name, "folder", table.get("folder"))
    if verify and MODEL in (of_file or ("",))[0:1] + (of_folder or ("",))[0:1]:
        raise TypeConfigError(
            f"merkle.toml: types.{name}.verify cannot be kept: a model is not asked twice",
            hint="leave `verify` out",
        )
    file = folder = None
    if of_file:
        with _placed(f"types.{name}.file"):
            file = _written(write, *of_file) or file_maker(*of_file, verify=verify)
    if of_folder:
        with _placed(f"types.{name}.folder"):
            folder = _written_folder(write, *of_folder)
            folder = folder or folder_maker(*of_folder, tokens, verify=verify)
    if file is None and folder is None:
        raise TypeConfigError(f"merkle.toml: types.{name} names neither `file` nor `folder`")
    source = known[table["input"]] if table.get("input") is not None else None
    if source is not None and (file is None or source.file is None):
        raise TypeConfigError(
            f"merkle.toml: types.{name}.input needs a `file` here and in types.{source.name}",
            hint="a generator of files reads the other type's frame of the same file",
        )
    scopes = _scopes(name, table.get("scope"), source)
    below = source.rules.file_config if source else b""
    file_config = _hash(file.print if file else b"", below)
    rules = Rules(
        type=name,
        scopes=scopes,
        file_config=file_config,
        folder_config=folder_config(file_config, folder, size_limit),
        size_limit=size_limit,
        has_file_frames=file is not None,
        has_folder_frames=folder is not None,
        file_agent=GENERATED_AGENT_PREFIX + (file.generator.name if file else "none"),
        folder_agent=GENERATED_AGENT_PREFIX + (folder.policy.name if folder else "none"),
        gathers="" if file else name,
    )
    return FrameType(name, file, folder, source.name if source else None, rules, share is not False)


@contextmanager
def _placed(key: str) -> Iterator[None]:
    """Say where in merkle.toml it stands what a generator or policy refuses."""
    try:
        yield
    except UsageError as error:
        if error.message.startswith("merkle.toml"):
            raise
        raise type(error)(f"merkle.toml: {key}: {error.message}", hint=error.hint) from error


def _written(write: MakeWriter, name: str, options: dict[str, object]) -> FileMaker | None:
    if name != MODEL:
        return None
    writer = write("file", options)
    return FileMaker(writer, name, options, fingerprint(writer.fingerprint_parts()), False)


def _written_folder(write: MakeWriter, name: str, options: dict[str, object]) -> FolderMaker | None:
    if name != MODEL:
        return None
    writer = write("folder", options)
    return FolderMaker(writer, fingerprint(writer.fingerprint_parts()), name, options)


def _hash(*fields: bytes) -> bytes:
    return hashlib.sha256(b"".join(prefixed(field) for field in fields)).digest()


def _scopes(name: str, value: object, source: FrameType | None) -> tuple[str, ...]:
    """The declared scopes; a type that reads another one stays where that one is kept."""
    if value is None:
        return source.rules.scopes if source else (paths.ROOT,)
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise TypeConfigError(f"merkle.toml: types.{name}.scope must be a path or a list of paths")
    scopes = tuple(sorted({paths.parse(item) for item in listed}))
    outside = [scope for scope in scopes if source and not source.rules.covers(scope)]
    if source is not None and outside:
        raise TypeConfigError(
            f"merkle.toml: types.{name}.scope has {outside[0] or 'the whole workspace'!r},"
            f" where its input {source.name} is not kept",
            hint=f"widen the scope of types.{source.name}, or leave this one out",
        )
    return scopes


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
