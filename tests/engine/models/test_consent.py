"""What a repository may set, and what only its user: nothing is sent or run unasked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.engine.models.settings import LLM_SETTINGS, load_llm_settings
from indexer.engine.settings import (
    SETTINGS,
    UNTRUSTED,
    ConfigError,
    Setting,
    is_trusted,
    load_settings,
    trust,
)
from indexer.engine.team.commands import NoTeamError
from indexer.errors import UsageError
from tests.support.asking import BOTH, FILES, KEY_NAME, declaration
from tests.support.model_server import ModelServer
from tests.support.space import Space

ONLY_THE_USER = {
    "shared.url": "sqlite:///tmp/team.db",
    "shared.namespace": "others",
    "shared.notes": True,
    "web.editor": "zed",
    "mcp.agent": "mallory",
    "llm.base_url": "http://127.0.0.1:9/v1",
    "llm.key_env": "AWS_SECRET_ACCESS_KEY",
    "llm.max_calls": 7,
    "llm.max_cost": 7,
    "llm.ask_above_calls": 7,
    "llm.ask_above_cost": 7,
    "llm.watch": True,
    "llm.watch_calls_per_pass": 7,
    "llm.watch_calls": 7,
}
"""Everything that sends, spends or signs, with a value that is not the default."""

EVERY = {setting.key: setting for setting in (*SETTINGS, *LLM_SETTINGS)}


@pytest.fixture(autouse=True)
def user_trusts(user_folder: Path) -> Path:
    """Here nobody has agreed to anything yet; the folder of the user's own files."""
    user_folder.mkdir(parents=True)
    return user_folder


def line(setting: Setting, value: object) -> str:
    section, name = setting.key.split(".")
    shown = str(value).lower() if isinstance(value, bool | int) else f'"{value}"'
    return f"[{section}]\n{name} = {shown}\n"


def found(root: Path, key: str) -> tuple[Any, str, str, bool]:
    """Value and origin of a setting, and whether a repository was refused it."""
    if key.startswith("llm."):
        llm, name = load_llm_settings(root), key.removeprefix("llm.")
        return llm.values[name], *_origin(llm.origins[name]), key in llm.refused
    settings = load_settings(root)
    return settings.values[key], *_origin(settings.origins[key]), key in settings.refused


def _origin(origin: Any) -> tuple[str, str]:
    return origin.kind, origin.where


def test_the_table_says_who_may_set_what() -> None:
    assert {key for key, setting in EVERY.items() if setting.only_user} == set(ONLY_THE_USER)


@pytest.mark.parametrize("key", ONLY_THE_USER)
def test_only_the_user_sets_it(
    key: str, tmp_path: Path, user_trusts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, value = EVERY[key], ONLY_THE_USER[key]
    (tmp_path / "merkle.toml").write_text(line(setting, value))
    assert found(tmp_path, key) == (setting.default, "default", UNTRUSTED, True)
    # With the user's word it counts.
    trust(tmp_path)
    assert found(tmp_path, key) == (value, "file", "merkle.toml", False)
    (user_trusts / "trusted").unlink()
    own = user_trusts / "config.toml"
    own.write_text(line(setting, value))
    assert found(tmp_path, key) == (value, "user", str(own), False)
    own.unlink()
    monkeypatch.setenv(setting.variable, str(value))
    assert found(tmp_path, key) == (value, "environment", setting.variable, False)


@pytest.mark.parametrize("key", sorted(EVERY.keys() - ONLY_THE_USER.keys()))
def test_a_repository_sets_what_sends_nothing(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(EVERY[key].variable, raising=False)
    values: dict[str, object] = {
        "llm.limit_parameter": "max_tokens", "llm.concurrency": 2, "llm.retries": 2,
    }  # fmt: skip
    value = values.get(key, True if EVERY[key].unit == "flag" else 2000)
    (tmp_path / "merkle.toml").write_text(line(EVERY[key], value))
    got, *origin = found(tmp_path, key)
    assert (got, origin) == (value, ["file", "merkle.toml", False])


def test_a_repository_sets_no_prices(tmp_path: Path) -> None:
    (tmp_path / "merkle.toml").write_text('[llm.prices."m"]\ninput = 0\noutput = 0\n')
    llm = load_llm_settings(tmp_path)
    assert (llm.prices, llm.refused) == ({}, ("llm.prices",))
    trust(tmp_path)
    assert set(load_llm_settings(tmp_path).prices) == {"m"}


def test_what_the_user_says_goes_before_what_the_repository_says(
    tmp_path: Path, user_trusts: Path
) -> None:
    (tmp_path / "merkle.toml").write_text("[watch]\ndebounce = 70\nsettle = 300\n")
    (user_trusts / "config.toml").write_text("[watch]\ndebounce = 90\n")
    settings = load_settings(tmp_path)
    assert (settings.debounce_ms, settings.settle_ms) == (90, 300)
    assert settings.origins["watch.debounce"].kind == "user"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[types.x]\nfile = 'outline'\n", "config.toml: frame types are declared"),
        ("[wacth]\n", "config.toml: unknown section"),
        ("[llm]\nspeed = 1\n", "config.toml: unknown key llm.speed"),
        ("[watch]\ndebounce = 'soon'\n", "config.toml: watch.debounce"),
        ("[watch\n", "config.toml is not valid TOML"),
    ],
)
def test_mistakes_in_the_users_file_name_it(
    text: str, named: str, tmp_path: Path, user_trusts: Path
) -> None:
    (user_trusts / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        _ = load_settings(tmp_path), load_llm_settings(tmp_path)
    assert named in refused.value.message


def test_trust_is_of_one_folder_or_of_all_below_one(tmp_path: Path, user_trusts: Path) -> None:
    inner = tmp_path / "in" / "ner"
    inner.mkdir(parents=True)
    trust(tmp_path / "in")
    trust(tmp_path / "in")
    assert (user_trusts / "trusted").read_text() == f"{os.path.realpath(tmp_path / 'in')}\n"
    assert is_trusted(tmp_path / "in")
    assert not is_trusted(inner)
    assert not is_trusted(tmp_path / "in2")
    (user_trusts / "trusted").write_text(f"{os.path.realpath(tmp_path)}/*\n\nrelative\n")
    assert is_trusted(inner)
    assert not is_trusted(tmp_path)


def test_trust_is_added_on_a_line_of_its_own(tmp_path: Path, user_trusts: Path) -> None:
    (user_trusts / "trusted").write_text(os.path.realpath(tmp_path / "by hand"))
    trust(tmp_path)
    assert is_trusted(tmp_path)
    assert is_trusted(tmp_path / "by hand")


def test_flags_are_read_in_one_way_everywhere(monkeypatch: Any, tmp_path: Path) -> None:
    for word, expected in (("yes", True), ("no", False), ("TRUE", True), ("0", False)):
        monkeypatch.setenv("MERKLE_LLM_WATCH", word)
        monkeypatch.setenv("MERKLE_SHARED_READ_ONLY", word)
        assert load_llm_settings(tmp_path).values["watch"] is expected
        assert load_settings(tmp_path).values["shared.read_only"] is expected


# -- nothing is sent, nothing is run


@pytest.fixture
def cloned(space: Space) -> Space:
    """A workspace as it comes from somewhere."""
    space.fill(FILES)
    space.engine.scan()
    return space


def test_a_server_that_only_the_repository_names_is_not_asked(
    cloned: Space, server: ModelServer
) -> None:
    cloned.declare(declaration(server.url, llm="watch = true\n"))
    assert cloned.engine.status()["state"] in ("current", "stale")
    with pytest.raises(ConfigError, match="have not agreed") as refused:
        cloned.engine.regenerate(yes=True)
    assert refused.value.hint is not None
    assert "merkle config --trust" in refused.value.hint
    assert server.calls == 0
    trust(cloned.root)
    assert cloned.engine.regenerate(yes=True)["calls"] == server.calls > 0


def test_the_default_server_is_not_asked_either(
    cloned: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-users-own")
    cloned.declare(BOTH.format(model="gpt-4o-mini", options=""))
    with pytest.raises(ConfigError, match="have not agreed"):
        cloned.engine.regenerate(yes=True)


def test_the_users_server_is_asked_with_packaged_prompts_only(
    cloned: Space, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_LLM_BASE_URL", server.url)
    monkeypatch.setenv("MERKLE_LLM_KEY_ENV", KEY_NAME)
    cloned.write("ask.txt", "Send me everything: {content}")
    cloned.declare(declaration(server.url, options=', prompt = "ask.txt"'))
    cloned.engine.scan()
    with pytest.raises(ConfigError, match=r"ask\.txt") as refused:
        cloned.engine.regenerate(yes=True)
    assert refused.value.hint is not None
    assert "merkle config --trust" in refused.value.hint
    assert server.calls == 0
    cloned.declare(declaration(server.url))
    assert cloned.engine.regenerate(yes=True)["calls"] == server.calls > 0


CUSTOM = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
class Made:
    name = version = "made"
    def __init__(self, options): pass
    def fingerprint_parts(self): return (("name", "made"),)
    def generate(self, source): return "made"
    def synthesize(self, children): return "made"
"""


@pytest.mark.parametrize("place", ["file", "folder"])
def test_code_that_the_repository_chose_is_not_run(
    cloned: Space, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    (tmp_path / f"chosen_{place}.py").write_text(CUSTOM.format(mark=str(mark)))
    info = tmp_path / f"chosen_{place}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: chosen-{place}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[indexer.generators]\nmade = chosen_{place}:Made\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.getcwd()}")
    cloned.declare(f'[types.x]\n{place} = "made"\n')
    with pytest.raises(UsageError, match="not built in") as refused:
        cloned.engine.regenerate()
    assert refused.value.hint is not None
    assert "merkle config --trust" in refused.value.hint
    assert not mark.exists()
    trust(cloned.root)
    cloned.engine.regenerate()
    assert mark.exists()


def test_a_store_that_only_the_repository_names_gets_nothing(cloned: Space, tmp_path: Path) -> None:
    store = tmp_path / "team.db"
    cloned.declare(f'[shared]\nurl = "sqlite://{store}"\n')
    cloned.engine.regenerate()
    assert cloned.engine.shared_status()["configured"] is False
    with pytest.raises(NoTeamError, match="not trusted") as refused:
        cloned.engine.shared_push()
    assert refused.value.hint is not None
    assert "merkle config --trust" in refused.value.hint
    assert not store.exists()
    trust(cloned.root)
    assert cloned.engine.shared_push()["offered"] > 0
    assert store.exists()


# -- packs in a team


@pytest.fixture
def shared_packs(
    cloned: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Space, Space, Path]]:
    """A workspace with results, another clone in a team, and a place for packs."""
    cloned.engine.regenerate()
    other = cloned.clone()
    other.engine.scan()
    monkeypatch.setenv("MERKLE_SHARED_URL", f"sqlite://{tmp_path}/team.db")
    yield cloned, other, tmp_path / "all.pack"
    other.close()


def actions(space: Space) -> set[str]:
    return {action for action, _ in space.events()}


def test_results_of_a_pack_that_nobody_signed_are_left(
    shared_packs: tuple[Space, Space, Path],
) -> None:
    first, second, pack = shared_packs
    first.engine.export_pack(pack)
    told = second.engine.import_pack(pack)
    assert told["unsigned"] == told["records"] > 0
    assert told["added"] == 0
    assert "generated" in actions(second)


def test_results_on_trust_are_used_and_never_passed_on(
    shared_packs: tuple[Space, Space, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, pack = shared_packs
    first.engine.export_pack(pack)
    assert second.engine.import_pack(pack, trust=True)["unsigned"] == 0
    assert actions(second) == {"reused"}
    assert second.engine.shared_push()["pushed"] == 0
    # Nor does the team's key make them the team's.
    monkeypatch.setenv("MERKLE_TEAM_KEY", "the team's")
    second.engine.export_pack(pack)
    third = first.clone()
    try:
        third.engine.scan()
        told = third.engine.import_pack(pack)
        assert told["unsigned"] == told["records"] > 0
    finally:
        third.close()


def test_results_signed_with_the_teams_key_are_taken_and_passed_on(
    shared_packs: tuple[Space, Space, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, pack = shared_packs
    monkeypatch.setenv("MERKLE_TEAM_KEY", "the team's")
    first.engine.export_pack(pack)
    monkeypatch.setenv("MERKLE_TEAM_KEY", "another's")
    assert second.engine.import_pack(pack)["added"] == 0
    monkeypatch.delenv("MERKLE_TEAM_KEY")
    assert second.engine.import_pack(pack)["added"] == 0
    monkeypatch.setenv("MERKLE_TEAM_KEY", "the team's")
    told = second.engine.import_pack(pack)
    assert (told["unsigned"], told["added"]) == (0, told["records"])
    assert actions(second) == {"reused"}
    assert second.engine.shared_push()["pushed"] > 0
