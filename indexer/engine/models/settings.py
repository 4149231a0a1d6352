"""The `[llm]` section: which server, which key variable, and the limits that keep it affordable."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from indexer.core.paths import on_screen
from indexer.engine.settings import FILE, ConfigError, Origin, parse_duration, read_document
from indexer.generators.llm.budget import Caps, Price
from indexer.generators.llm.client import Server

OPENAI: Final = "https://api.openai.com/v1"
LIMIT_NAMES: Final = ("max_completion_tokens", "max_tokens")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_TABLES: Final = ("prices", "windows")

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class LlmSetting:
    """One value of the section."""

    name: str
    default: Value
    parse: Callable[[object], Value]
    about: str

    @property
    def key(self) -> str:
        """As `merkle config` shows it."""
        return f"llm.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "MERKLE_LLM_" + self.name.upper()


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


def _flag(value: object) -> bool:
    if value in (True, "true", "1"):
        return True
    if value in (False, "false", "0"):
        return False
    raise ValueError("it is true or false")


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


_COUNT: Final = _whole(0, 10**9)
LLM_SETTINGS: Final = (
    LlmSetting("base_url", OPENAI, _url, "the server that is asked; any that is compatible"),
    LlmSetting("key_env", "OPENAI_API_KEY", _variable,
               "the environment variable with the key; empty: none is sent"),
    LlmSetting("limit_parameter", None, _limit_name,
               "how the output limit is called; unset: max_tokens, but not at OpenAI itself"),
    LlmSetting("timeout", 60.0, _seconds, "seconds before an attempt counts as failed"),
    LlmSetting("retries", 3, _whole(0, 20), "further attempts after a failure that may pass"),
    LlmSetting("max_wait", 60.0, _seconds, "longest pause in seconds before another attempt"),
    LlmSetting("concurrency", 4, _whole(1, 64), "calls under way at once"),
    LlmSetting("window", 16_000, _whole(1_000, 10_000_000),
               "tokens of input and output together, for models not under [llm.windows]"),
    LlmSetting("max_calls", None, _maybe(_COUNT), "calls of one run, retries included"),
    LlmSetting("max_cost", None, _maybe(parse_money), "cost of one run by [llm.prices]"),
    LlmSetting("ask_above_calls", 50, _COUNT, "a run that may make more calls needs --yes"),
    LlmSetting("ask_above_cost", 1.0, parse_money, "a run that may cost more needs --yes"),
    LlmSetting("watch", False, _flag, "whether the watcher may call models by itself"),
    LlmSetting("watch_calls_per_pass", 20, _COUNT,
               "the watcher leaves alone what would take more calls than this at once"),
    LlmSetting("watch_calls", 200, _COUNT, "calls of one watcher until it is started again"),
)  # fmt: skip
_BY_NAME: Final = {setting.name: setting for setting in LLM_SETTINGS}


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """The section in force."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]
    windows: Mapping[str, int]
    prices: Mapping[str, Price]

    @property
    def server(self) -> Server:
        """Where and how to ask."""
        official = self.values["base_url"] == OPENAI
        named = self.values["limit_parameter"] or LIMIT_NAMES[0 if official else 1]
        return Server(self.values["base_url"], self.values["timeout"], named)

    def window_of(self, model: str) -> int:
        """Tokens of input and output that a model takes together."""
        return self.windows.get(model, int(self.values["window"]))

    def key(self, environment: Mapping[str, str] | None = None) -> str | None:
        """The key itself: read when a call is about to be made, kept nowhere."""
        name = self.values["key_env"]
        if not name:
            return None
        value = (os.environ if environment is None else environment).get(name, "").strip()
        if not value:
            raise ConfigError(
                f"the environment variable {name} has no key for {self.values['base_url']}",
                hint=f'set it, or llm.key_env = "" in {FILE} for a server that needs none',
            )
        return value

    def caps(self, max_calls: int | None, max_cost: float | None) -> Caps:
        """What one run may use: what was asked for, else what is set."""
        calls = self.values["max_calls"] if max_calls is None else max_calls
        cost = self.values["max_cost"] if max_cost is None else max_cost
        return Caps(calls, None if cost is None else Decimal(str(cost)))


def load_llm_settings(root: Path, environment: Mapping[str, str] | None = None) -> LlmSettings:
    """The `[llm]` section of a workspace; the environment goes before the file."""
    variables = os.environ if environment is None else environment
    document = read_document(root / FILE) or {}
    section = document.get("llm", {})
    if not isinstance(section, dict):
        raise ConfigError(f"{FILE}: llm is a section: write [llm]")
    for name in section:
        if name not in _BY_NAME and name not in _TABLES:
            known = ", ".join((*_BY_NAME, *_TABLES))
            raise ConfigError(f"{FILE}: unknown key llm.{on_screen(name)}", hint=f"known: {known}")
    values: dict[str, Value] = {}
    origins: dict[str, Origin] = {}
    for setting in LLM_SETTINGS:
        value: object
        if variables.get(setting.variable):
            value, origin = variables[setting.variable], Origin("environment", setting.variable)
        elif setting.name in section:
            value, origin = section[setting.name], Origin("file", FILE)
        else:
            values[setting.name], origins[setting.name] = setting.default, Origin("default")
            continue
        try:
            values[setting.name], origins[setting.name] = setting.parse(value), origin
        except ValueError as error:
            named = origin.where if origin.kind == "environment" else f"{FILE}: {setting.key}"
            raise ConfigError(f"{named}: {error}", hint=setting.about) from None
    return LlmSettings(values, origins, _windows(section), _prices(section))


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


def _table(section: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = section.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{FILE}: write [llm.{name}]")
    return table


def _windows(section: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for model, value in _table(section, "windows").items():
        try:
            found[model] = _whole(1_000, 10_000_000)(value)
        except ValueError as error:
            raise ConfigError(f"{FILE}: llm.windows.{on_screen(model)}: {error}") from None
    return found


def _prices(section: Mapping[str, Any]) -> dict[str, Price]:
    found = {}
    for model, value in _table(section, "prices").items():
        shown = f"{FILE}: llm.prices.{on_screen(model)}"
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
