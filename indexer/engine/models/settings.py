"""The `[llm]` section: which server, which key variable, and the limits that keep it affordable."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from indexer.core.paths import on_screen
from indexer.engine.settings import (
    FILE,
    TRUST,
    ConfigError,
    Origin,
    Setting,
    Value,
    find_values,
    is_trusted,
    parse_duration,
    parse_flag,
    read_document,
    user_file,
)

if TYPE_CHECKING:
    from indexer.generators.llm.budget import Caps, Price
    from indexer.generators.llm.client import Server

OPENAI: Final = "https://api.openai.com/v1"
LIMIT_NAMES: Final = ("max_completion_tokens", "max_tokens")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_TABLES: Final = ("prices", "windows")


def _url(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or " " in value:
        raise ValueError("it is not an address such as https://models.example.org/v1")
    try:
        parts = urlsplit(value)
    except ValueError:
        # What the parser says may quote the password of what it could not read.
        raise ValueError("it is not an address such as https://models.example.org/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not an address such as https://models.example.org/v1")
    if parts.username or parts.password or parts.query:
        raise ValueError("it must not hold a user name, password or query: keys belong into the"
                         " environment")  # fmt: skip
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError("it must be https: key and files would cross the network in the clear")
    return value.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _variable(value: object) -> str:
    if not isinstance(value, str) or (value and not _VARIABLE.fullmatch(value)):
        # Not quoted: somebody may have put the key itself here.
        raise ValueError("it must be the name of an environment variable, never the key itself")
    return value


def _limit_name(value: object) -> str:
    if value not in LIMIT_NAMES:
        raise ValueError(f"it is one of: {', '.join(LIMIT_NAMES)}")
    return str(value)


def _whole(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        text = value if isinstance(value, str) else str(value)
        if isinstance(value, bool) or not re.fullmatch(r"\d{1,12}", text, re.ASCII):
            raise ValueError(f"it is not a whole number from {low} to {high}")
        if not low <= int(text) <= high:
            raise ValueError(f"it is not a whole number from {low} to {high}")
        return int(text)

    return parse


def _maybe(parse: Callable[[object], Value]) -> Callable[[object], Value]:
    return lambda value: None if value == "none" else parse(value)


def parse_money(value: object) -> float:
    """An amount in the currency of the price table."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("it is not an amount such as 2.50")
    try:
        amount = float(Decimal(str(value)))
    except InvalidOperation:
        raise ValueError("it is not an amount such as 2.50") from None
    if not math.isfinite(amount) or not 0 <= amount < 1e9:
        raise ValueError("it is not an amount such as 2.50")
    return amount


def _seconds(value: object) -> float:
    seconds = parse_duration(value)
    if not 0 < seconds <= 3600:
        raise ValueError("it must be more than nothing and at most an hour")
    return seconds


def _row(
    name: str,
    default: Value,
    parse: Callable[[object], Value],
    about: str,
    *,
    only_user: bool = False,
) -> Setting:
    return Setting(f"llm.{name}", "", default, parse, about, only_user=only_user)


_COUNT: Final = _whole(0, 10**9)
LLM_SETTINGS: Final = (
    _row("base_url", OPENAI, _url, "the server that is asked; any that is compatible",
         only_user=True),
    _row("key_env", "OPENAI_API_KEY", _variable,
         "the environment variable with the key; empty: none is sent", only_user=True),
    _row("limit_parameter", None, _limit_name,
         "how the output limit is called; unset: max_tokens, but not at OpenAI itself"),
    _row("timeout", 60, _seconds, "seconds before an attempt counts as failed"),
    _row("retries", 3, _whole(0, 20), "further attempts after a failure that may pass"),
    _row("max_wait", 60, _seconds, "longest pause in seconds before another attempt"),
    _row("concurrency", 4, _whole(1, 64), "calls under way at once"),
    _row("window", 16_000, _whole(1_000, 10_000_000),
         "tokens of input and output together, for models not under [llm.windows]"),
    _row("max_calls", None, _maybe(_COUNT), "calls of one run, retries included", only_user=True),
    _row("max_cost", None, _maybe(parse_money), "cost of one run by [llm.prices]", only_user=True),
    _row("ask_above_calls", 50, _COUNT, "a run that may make more calls needs --yes",
         only_user=True),
    _row("ask_above_cost", 1, parse_money, "a run that may cost more needs --yes",
         only_user=True),
    _row("watch", False, parse_flag, "whether the watcher may call models by itself",
         only_user=True),
    _row("watch_calls_per_pass", 20, _COUNT,
         "the watcher leaves alone what would take more calls than this at once", only_user=True),
    _row("watch_calls", 200, _COUNT, "calls of one watcher until it is started again",
         only_user=True),
)  # fmt: skip
_NAMES: Final = tuple(setting.key.partition(".")[2] for setting in LLM_SETTINGS)
_OWN: Final = frozenset({"environment", "user"})
"""Where a value comes from that the user set, whatever the repository says."""


class LlmSettings(NamedTuple):
    """The section in force."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]
    windows: Mapping[str, int]
    prices: Mapping[str, Price]
    is_trusted: bool = False
    """Whether the user lets this workspace's merkle.toml say what is sent where."""
    refused: tuple[str, ...] = ()
    """What merkle.toml sets and a repository may not set."""

    def check_consent(self, prompts: Sequence[str] = ()) -> None:
        """Raise unless the user has agreed that a model is asked, with these prompts of the files.

        A repository can declare types that models write. Whether anything is sent is the user's
        to say, by trusting the workspace or by naming the server for all of them.
        """
        if self.is_trusted:
            return
        if self.origins["base_url"].kind not in _OWN:
            raise ConfigError(
                f"{FILE} of this workspace asks a model, and you have not agreed to that",
                hint=f"{TRUST}; or set {LLM_SETTINGS[0].variable}, or llm.base_url in"
                f" {on_screen(str(user_file()))}, for every workspace",
            )
        if prompts:
            raise ConfigError(
                f"{FILE} asks a model with a prompt of this workspace, {on_screen(prompts[0])}",
                hint=TRUST,
            )

    @property
    def server(self) -> Server:
        """Where and how to ask."""
        # Imported late, as all below it: most workspaces declare no model.
        from indexer.generators.llm.client import Server

        official = self.values["base_url"] == OPENAI
        named = self.values["limit_parameter"] or LIMIT_NAMES[0 if official else 1]
        return Server(self.values["base_url"], self.values["timeout"], named)

    def window_of(self, model: str) -> int:
        """Tokens of input and output that a model takes together."""
        return self.windows.get(model, int(self.values["window"]))

    def key(self, environment: Mapping[str, str] | None = None) -> str | None:
        """The key itself: read when a call is about to be made, kept nowhere."""
        self.check_consent()
        name = self.values["key_env"]
        if not name:
            return None
        value = (os.environ if environment is None else environment).get(name, "").strip()
        if not value:
            raise ConfigError(
                f"the environment variable {name} has no key for {self.values['base_url']}",
                hint='set it, or llm.key_env = "" for a server that needs none',
            )
        return value

    def caps(self, max_calls: int | None, max_cost: float | None) -> Caps:
        """What one run may use: what was asked for, else what is set."""
        from indexer.generators.llm.budget import Caps

        calls = self.values["max_calls"] if max_calls is None else max_calls
        cost = self.values["max_cost"] if max_cost is None else max_cost
        return Caps(calls, None if cost is None else Decimal(str(cost)))


def load_llm_settings(root: Path, environment: Mapping[str, str] | None = None) -> LlmSettings:
    """The `[llm]` section of a workspace, by the same rules as every other setting."""
    variables = os.environ if environment is None else environment
    user, trusted = user_file(variables), is_trusted(root, variables)
    ours, theirs = _section(user), _section(root / FILE)
    found = find_values(
        LLM_SETTINGS,
        {},
        variables,
        (user, _values(ours)),
        _values(theirs),
        is_trusted=trusted,
    )
    # A price decides what a cap on costs lets through.
    prices = {**(_prices(theirs, FILE) if trusted else {}), **_prices(ours, user.name)}
    return LlmSettings(
        {name: found.values[f"llm.{name}"] for name in _NAMES},
        {name: found.origins[f"llm.{name}"] for name in _NAMES},
        {**_windows(theirs, FILE), **_windows(ours, user.name)},
        prices,
        trusted,
        (*found.refused, *(("llm.prices",) if theirs.get("prices") and not trusted else ())),
    )


def _section(path: Path) -> Mapping[str, Any]:
    """The section of a file, refused where it has what nothing would ever read."""
    section = (read_document(path) or {}).get("llm", {})
    if not isinstance(section, dict):
        raise ConfigError(f"{path.name}: llm is a section: write [llm]")
    for name in section:
        if name not in _NAMES and name not in _TABLES:
            known = ", ".join((*_NAMES, *_TABLES))
            raise ConfigError(
                f"{path.name}: unknown key llm.{on_screen(name)}", hint=f"known: {known}"
            )
    return section


def _values(section: Mapping[str, Any]) -> dict[str, object]:
    return {f"llm.{name}": value for name, value in section.items() if name not in _TABLES}


def declared_models(root: Path) -> list[str]:
    """The models that types in the file name, without making anything of them."""
    types = (read_document(root / FILE) or {}).get("types")
    makers = [
        maker
        for declared in (types.values() if isinstance(types, dict) else ())
        if isinstance(declared, dict)
        for maker in (declared.get("file"), declared.get("folder"))
        if isinstance(maker, dict) and maker.get("use") == "llm"
    ]
    return sorted({str(maker.get("model")) for maker in makers if maker.get("model")})


def _table(section: Mapping[str, Any], name: str, file: str) -> Mapping[str, Any]:
    table = section.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: write [llm.{name}]")
    return table


def _windows(section: Mapping[str, Any], file: str) -> dict[str, int]:
    found = {}
    for model, value in _table(section, "windows", file).items():
        try:
            found[model] = _whole(1_000, 10_000_000)(value)
        except ValueError as error:
            raise ConfigError(f"{file}: llm.windows.{on_screen(model)}: {error}") from None
    return found


def _prices(section: Mapping[str, Any], file: str) -> dict[str, Price]:
    table = _table(section, "prices", file)
    if not table:
        return {}
    from indexer.generators.llm.budget import Price

    found = {}
    for model, value in table.items():
        shown = f"{file}: llm.prices.{on_screen(model)}"
        if not isinstance(value, dict) or set(value) != {"input", "output"}:
            raise ConfigError(
                f"{shown} needs `input` and `output`, per million tokens",
                hint=f'for example [llm.prices."{on_screen(model)}"] input = 0.15, output = 0.60',
            )
        try:
            parsed = {name: Decimal(str(parse_money(amount))) for name, amount in value.items()}
        except ValueError as error:
            raise ConfigError(f"{shown}: {error}") from None
        found[model] = Price(parsed["input"], parsed["output"])
    return found
