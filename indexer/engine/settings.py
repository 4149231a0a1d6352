"""Settings: flags, environment, the user's file, `merkle.toml`, defaults, each with its origin."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from indexer.core.paths import on_screen
from indexer.errors import UsageError
from indexer.shared.address import NAMESPACE, kind_of

FILE: Final = "merkle.toml"
RESERVED: Final = frozenset({"llm", "types"})
"""Sections of the file that other parts of the product read and check themselves."""

_NUMBER: Final = r"(\d{1,18}(?:\.\d{1,9})?)\s*([a-zA-Z]*)"
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
}  # fmt: skip
_MEASURES: Final = frozenset({"bytes", "ms", "s"})
_SCRIPTS: Final = ("javascript:", "data:", "vbscript:")
_LONGEST: Final = 10 * 365 * 86400.0

Value = int | float | str | None
"""What a setting can be."""

UNTRUSTED: Final = f"{FILE} is not trusted with it"
TRUST: Final = "`merkle config --trust` lets this workspace's merkle.toml set everything"
"""What to do about a setting that a repository made and may not make."""


class ConfigError(UsageError):
    """A setting that cannot be used; names the file or variable, and the key."""

    code = "bad_config"


class Origin(NamedTuple):
    """Where a value came from: `flag`, `environment`, `user`, `file` or `default`."""

    kind: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.where})" if self.where else self.kind


class Setting(NamedTuple):
    """One thing that can be set: its key, unit, default and meaning."""

    key: str
    unit: str
    default: Value
    parse: Callable[[object], Value]
    about: str
    named: str = ""
    """The environment variable, where it is not called after the key."""
    only_user: bool = False
    """Whether a repository may not set it: it sends something somewhere, or spends, or signs."""
    shown: Callable[[Any], Value] = lambda value: value
    """The value as it may be seen; an address can hold a password."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return self.named or "MERKLE_" + self.key.upper().replace(".", "_")


def parse_bytes(value: object) -> int:
    """A number of bytes: 4096, "8MiB", "1.5 GB"."""
    number, unit = _amount(value, "a size such as 8MiB")
    factor = _BYTES.get(unit.lower() or "b")
    if factor is None:
        raise ValueError(f"{unit!r} is no unit of size; use B, kB, MB, GB, KiB, MiB or GiB")
    return int(number * factor)


def parse_duration(value: object, unit: str = "s") -> float:
    """Seconds of a time such as "500ms", "30s", "10m", "2h"; a bare number is in `unit`."""
    number, named = _amount(value, "a time such as 30s")
    factor = _SECONDS.get(named or unit)
    if factor is None:
        raise ValueError(f"{named!r} is no unit of time; use ms, s, m, h or d")
    if number * factor > _LONGEST:
        raise ValueError(f"{value} is longer than ten years")
    return number * factor


def _amount(value: object, wanted: str) -> tuple[float, str]:
    """Number and unit; true and false are no numbers here."""
    text = str(value) if isinstance(value, int | float | str) else ""
    match = None if isinstance(value, bool) else re.fullmatch(_NUMBER, text.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"{on_screen(repr(value))} is not {wanted}")
    return float(match.group(1)), match.group(2)


def _milliseconds(value: object) -> float:
    return round(parse_duration(value, unit="ms") * 1000, 6)


def _positive_seconds(value: object) -> float:
    seconds = parse_duration(value)
    if seconds == 0:
        raise ValueError("it must be more than nothing")
    return seconds


def _seconds_or_none(value: object) -> float | None:
    return None if value in ("none", "never") else _positive_seconds(value)


def parse_flag(value: object) -> bool:
    """True or false, in one of the ways that people write it."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError(f"{on_screen(repr(value))} is neither true nor false")


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("it must be text such as postgresql://USER@HOST/DATABASE")
    kind_of(value)
    return value


def _masked(value: str | None) -> str | None:
    # Imported late: only `config` shows an address.
    from indexer.shared.masking import masked

    return masked(value)


def _namespace(value: object) -> str:
    if not isinstance(value, str) or not NAMESPACE.fullmatch(value):
        raise ValueError("use up to 100 letters, digits, dots, dashes, underscores and slashes")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{on_screen(repr(value))} is not a text")
    return value.strip()


def _editor(value: object) -> str:
    """The name of an editor, or an address that opens a file in one."""
    text = _text(value)
    named = re.fullmatch(r"[a-z][a-z0-9+.-]*:.*\{path\}.*", text) is not None
    if text in ("vscode", "zed", "nvim") or (named and not text.startswith(_SCRIPTS)):
        return text
    raise ValueError(
        f"{on_screen(repr(value))} is neither vscode, zed, nvim nor an address with {{path}}"
    )


def _positive_number(value: object) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII) or int(text) == 0:
        raise ValueError(f"{on_screen(repr(value))} is not a number of 1 or more")
    return int(text)


SETTINGS: Final = (
    Setting(
        "scan.size_limit", "bytes", 8 << 20, parse_bytes, "larger files get an id but no frames"
    ),
    Setting("watch.debounce", "ms", 50, _milliseconds, "quiet time before a batch"),
    Setting("watch.settle", "ms", 400, _milliseconds, "quiet time before a batch of many changes"),
    Setting("watch.settle_max", "ms", 5000, _milliseconds, "longest wait for things to settle"),
    Setting("watch.rescan", "s", 900, _positive_seconds, "time between full scans of the service"),
    Setting("watch.idle_exit", "s", None, _seconds_or_none, "stop the service when unused so long"),
    Setting(
        "history.keep", "s", 30 * 86400, parse_duration, "older roots and frames are forgotten"
    ),
    Setting("history.keep_count", "number", 1000, _positive_number, "most roots that are kept"),
    Setting("service.wait", "s", 30, parse_duration, "how long a command waits for the index"),
    Setting("service.ready", "flag", True, parse_flag,
            "keep a process ready, so that commands answer at once"),
    Setting("service.autostart", "flag", True, parse_flag,
            "start a service for a large workspace, in a terminal only"),
    Setting(
        "shared.url", "address", None, _address, "the team's store; none: no sharing",
        only_user=True, shown=_masked,
    ),
    Setting("shared.namespace", "name", "team", _namespace, "which results are one team's",
            only_user=True),
    Setting("shared.read_only", "flag", False, parse_flag,
            "use what others computed, give nothing"),
    Setting("shared.notes", "flag", False, parse_flag,
            "send notes through the team's store, signed, and take others'", only_user=True),
    Setting("shared.timeout", "s", 5, _positive_seconds, "longest wait for the team's store"),
    Setting("shared.lease", "s", 60, _positive_seconds,
            "after how long others do the work of a machine that stopped"),
    Setting("web.editor", "text", None, _editor,
            "where the page opens files: vscode, zed, nvim, or an address with {path} and {line}",
            only_user=True),
    Setting("mcp.agent", "text", None, _text, "in whose name `merkle mcp` writes", "MERKLE_AGENT",
            only_user=True),
)  # fmt: skip
_BY_KEY: Final = {setting.key: setting for setting in SETTINGS}
_SECTIONS: Final = frozenset(setting.key.partition(".")[0] for setting in SETTINGS)


class Settings(NamedTuple):
    """The values in force. Times carry their unit in the name."""

    size_limit: int
    debounce_ms: float
    settle_ms: float
    settle_max_ms: float
    rescan_s: float
    idle_exit_s: float | None
    wait_s: float
    ready: bool
    autostart: bool
    agent: str | None
    values: Mapping[str, Value]
    """The same values by key."""
    origins: Mapping[str, Origin]
    file: Path | None
    """The file that was read, None where there is none."""
    refused: tuple[str, ...] = ()
    """What the file sets and a repository may not set."""


class Found(NamedTuple):
    """What was found for some settings."""

    values: dict[str, Any]
    origins: dict[str, Origin]
    refused: tuple[str, ...]


def load_settings(
    root: Path,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of a workspace; `overrides` are flags by key, None meaning not given."""
    variables = os.environ if environment is None else environment
    flags = {key: value for key, value in (overrides or {}).items() if value is not None}
    if unknown := sorted(flags.keys() - _BY_KEY.keys()):
        raise ConfigError(f"there is no setting {unknown[0]}")
    path = root / FILE
    written = _read(path)
    user = user_file(variables)
    found = find_values(
        SETTINGS,
        flags,
        variables,
        (user, _read(user) or {}),
        written or {},
        is_trusted=is_trusted(root, variables),
    )
    values, origins = found.values, found.origins
    return Settings(
        size_limit=values["scan.size_limit"],
        debounce_ms=values["watch.debounce"],
        settle_ms=values["watch.settle"],
        settle_max_ms=values["watch.settle_max"],
        rescan_s=values["watch.rescan"],
        idle_exit_s=values["watch.idle_exit"],
        wait_s=values["service.wait"],
        ready=values["service.ready"],
        autostart=values["service.autostart"],
        agent=values["mcp.agent"],
        values=values,
        origins=origins,
        file=path if written is not None else None,
        refused=found.refused,
    )


def find_values(
    settings: Sequence[Setting],
    flags: Mapping[str, object],
    variables: Mapping[str, str],
    of_user: tuple[Path, Mapping[str, object]],
    of_repository: Mapping[str, object],
    *,
    is_trusted: bool,
) -> Found:
    """The values of some settings, from whoever may set them and comes first."""
    found = Found({}, {}, ())
    refused = []
    for setting in settings:
        key = setting.key
        value: object
        if key in flags:
            value, origin = flags[key], Origin("flag")
        elif variables.get(setting.variable):
            value, origin = variables[setting.variable], Origin("environment", setting.variable)
        elif key in of_user[1]:
            value, origin = of_user[1][key], Origin("user", str(of_user[0]))
        elif key in of_repository and (is_trusted or not setting.only_user):
            value, origin = of_repository[key], Origin("file", FILE)
        else:
            where = UNTRUSTED if key in of_repository else ""
            found.values[key], found.origins[key] = setting.default, Origin("default", where)
            refused += [key] if where else []
            continue
        found.values[key], found.origins[key] = _checked(setting, value, origin), origin
    return found._replace(refused=tuple(refused))


def user_file(variables: Mapping[str, str] | None = None) -> Path:
    """The user's own settings: the same sections as in merkle.toml, for every workspace."""
    return _user_folder(variables) / "config.toml"


def trust_file(variables: Mapping[str, str] | None = None) -> Path:
    """The workspaces whose merkle.toml may set everything, one on each line."""
    return _user_folder(variables) / "trusted"


def _user_folder(variables: Mapping[str, str] | None) -> Path:
    home = (os.environ if variables is None else variables).get("XDG_CONFIG_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".config") / "merkle"


def is_trusted(root: Path, variables: Mapping[str, str] | None = None) -> bool:
    """Whether the user lets this workspace's merkle.toml set everything.

    A line ends in `/*` where it means every workspace below that folder.
    """
    try:
        lines = trust_file(variables).read_bytes().split(b"\n")
    except OSError:
        return False
    place = os.fsencode(os.path.realpath(root))
    return any(
        place.startswith(line[:-1]) if line.endswith(b"/*") else place == line
        for line in lines
        if line.startswith(b"/")
    )


def trust(root: Path) -> Path:
    """Add a workspace to those that the user trusts; the file that says so."""
    place, file = os.path.realpath(root), trust_file()
    if "\n" in place:
        raise ConfigError("a folder with a line break in its name cannot be trusted")
    if not is_trusted(root):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Somebody may have written the last line by hand, and not ended it.
            begun = (_bytes_of(file) or b"\n").endswith(b"\n")
            with open(file, "ab") as opened:
                opened.write((b"" if begun else b"\n") + os.fsencode(place) + b"\n")
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error
    return file


def user_contents() -> tuple[bytes | None, bytes | None]:
    """What the user's own files say now, to notice when they change."""
    return _bytes_of(user_file()), _bytes_of(trust_file())


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _checked(setting: Setting, value: object, origin: Origin) -> Value:
    try:
        amount = setting.parse(value)
    except ValueError as error:
        named = origin.where if origin.kind == "environment" else setting.key
        place = f"{origin.where}: " if origin.kind in ("file", "user") else ""
        raise ConfigError(
            f"{place}{named}: {error}",
            hint=_hint(setting),
        ) from None
    # 50.0 ms and 50 ms are one setting; show it as people write it.
    return int(amount) if isinstance(amount, float) and amount.is_integer() else amount


def _hint(setting: Setting) -> str:
    measured = f"in {setting.unit}, " if setting.unit in _MEASURES else ""
    return f"{setting.about}; {measured}by default {setting.default or 'none'}"


def _read(path: Path) -> dict[str, object] | None:
    """Values of the file by key, None when there is no file."""
    document = read_document(path)
    return None if document is None else _known(document, path)


def read_document(path: Path) -> dict[str, Any] | None:
    """The whole file, None when there is none."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        # Opening a pipe of that name would wait for ever.
        raise ConfigError(f"{path} is not a regular file", hint="put a text file in its place")
    # Imported late: most workspaces have no such file.
    import tomllib

    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise _unreadable(path, error) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"{path.name} is not valid TOML: {error}", hint=f"mend it there: {on_screen(str(path))}"
        ) from error


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot read {path}: {error.strerror or error}", hint="let this user read it"
    )


def _known(document: Mapping[str, Any], path: Path) -> dict[str, object]:
    """The file's values by key, refusing whatever nothing would ever read."""
    found: dict[str, object] = {}
    file = path.name
    for section, entries in document.items():
        if section in RESERVED:
            if section == "types" and file != FILE:
                raise ConfigError(
                    f"{file}: frame types are declared in the {FILE} of a workspace",
                    hint=f"move [types] there from {on_screen(str(path))}",
                )
            continue
        if section not in _SECTIONS:
            raise ConfigError(
                f"{file}: unknown section [{on_screen(section)}]",
                hint=f"the sections are {', '.join(sorted(_SECTIONS | RESERVED))}",
            )
        if not isinstance(entries, dict):
            raise ConfigError(
                f"{file}: {section} is a section: write [{section}]",
                hint="and its settings on the lines below it",
            )
        for name, value in entries.items():
            key = f"{section}.{name}"
            if key not in _BY_KEY:
                known = ", ".join(k for k in _BY_KEY if k.startswith(section + "."))
                raise ConfigError(
                    f"{file}: unknown key {on_screen(key)}", hint=f"known here: {known}"
                )
            found[key] = value
    return found
