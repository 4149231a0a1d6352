"""Settings: precedence, origins, and clear refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.engine.settings import (
    RESERVED,
    SETTINGS,
    ConfigError,
    load_settings,
    parse_bytes,
    parse_duration,
)


def write(root: Path, text: str) -> None:
    (root / "merkle.toml").write_text(text)


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, environment={})
    assert settings.size_limit == 8 << 20
    assert (settings.debounce_ms, settings.settle_ms, settings.settle_max_ms) == (50, 400, 5000)
    assert (settings.rescan_s, settings.idle_exit_s, settings.wait_s) == (900, None, 30)
    assert settings.file is None
    assert {str(origin) for origin in settings.origins.values()} == {"default"}
    assert settings.values.keys() == {setting.key for setting in SETTINGS}


def test_flags_before_environment_before_file_before_default(tmp_path: Path) -> None:
    write(tmp_path, "[watch]\ndebounce = 1\nsettle = 2\nrescan = '3m'\n")
    environment = {"MERKLE_WATCH_DEBOUNCE": "10", "MERKLE_WATCH_SETTLE": "20ms"}
    settings = load_settings(
        tmp_path, {"watch.debounce": 100, "watch.idle_exit": None}, environment
    )
    assert (settings.debounce_ms, settings.settle_ms, settings.rescan_s) == (100, 20, 180)
    assert str(settings.origins["watch.debounce"]) == "flag"
    assert str(settings.origins["watch.settle"]) == "environment (MERKLE_WATCH_SETTLE)"
    assert str(settings.origins["watch.rescan"]) == "file (merkle.toml)"
    assert str(settings.origins["watch.idle_exit"]) == "default"
    assert settings.file == tmp_path / "merkle.toml"


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, environment={"MERKLE_SERVICE_WAIT": ""})
    assert settings.origins["service.wait"].kind == "default"


def test_none_can_be_said(tmp_path: Path) -> None:
    write(tmp_path, "[watch]\nidle_exit = '10m'\n")
    assert load_settings(tmp_path, environment={}).idle_exit_s == 600
    never = {"MERKLE_WATCH_IDLE_EXIT": "none"}
    assert load_settings(tmp_path, environment=never).idle_exit_s is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[wacth]\n", "unknown section [wacth]"),
        ("size_limit = 3\n", "unknown section [size_limit]"),
        ("[agents]\nalice = 'writer'\n", "unknown section [agents]"),
        ("watch = 3\n", "watch is a section"),
        ("[watch]\nspeed = 3\n", "unknown key watch.speed"),
        ("[watch]\ndebounce = true\n", "watch.debounce: True is not a time"),
        ("[watch]\ndebounce = [1]\n", "watch.debounce: [1] is not a time"),
        ("[watch]\ndebounce = -1\n", "watch.debounce: -1 is not a time"),
        ("[watch]\ndebounce = nan\n", "watch.debounce: nan is not a time"),
        ("[watch]\ndebounce = '5 parsecs'\n", "'parsecs' is no unit of time"),
        ("[watch]\nrescan = 0\n", "watch.rescan: it must be more than nothing"),
        ("[service]\nwait = '11000d'\n", "longer than ten years"),
        ("[scan]\nsize_limit = '8 MeB'\n", "'MeB' is no unit of size"),
        ("[scan]\nsize_limit = ''\n", "scan.size_limit: '' is not a size"),
        ("[watch\n", "not valid TOML"),
        ('["\\u001b[31m"]\n', "unknown section [\\x1b[31m]"),
    ],
)
def test_mistakes_name_file_and_key(text: str, named: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path, environment={})
    assert named in caught.value.message
    assert "merkle.toml" in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_a_hint_names_units_only_of_what_is_measured(tmp_path: Path) -> None:
    for variable, hint in (
        ("MERKLE_SERVICE_WAIT", "how long a command waits for the index; in s, by default 30"),
        ("MERKLE_SHARED_URL", "the team's store; none: no sharing; by default none"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_settings(tmp_path, environment={variable: "long"})
        assert caught.value.hint == hint


def test_a_mistake_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="MERKLE_SERVICE_WAIT: 'long' is not a time"):
        load_settings(tmp_path, environment={"MERKLE_SERVICE_WAIT": "long"})


def test_an_unknown_flag_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no setting watch\.speed"):
        load_settings(tmp_path, {"watch.speed": 1}, {})


def test_sections_of_others_are_tolerated(tmp_path: Path) -> None:
    write(tmp_path, "".join(f"[{name}.x]\nanything = [1]\n" for name in sorted(RESERVED)))
    assert load_settings(tmp_path, environment={}).origins["watch.settle"].kind == "default"


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "merkle.toml").write_bytes(b"[watch]\n# \xff\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_settings(tmp_path, environment={})
    (tmp_path / "merkle.toml").unlink()
    os.mkfifo(tmp_path / "merkle.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        load_settings(tmp_path, environment={})


def test_the_parser_is_loaded_only_for_a_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from indexer.engine.settings import load_settings\n"
        "load_settings(Path(sys.argv[1])); print('tomllib' in sys.modules)"
    )
    line = [sys.executable, "-c", program, str(tmp_path)]
    repository = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": repository}
    said = [subprocess.check_output(line, text=True, env=environment).strip()]
    write(tmp_path, "")
    said.append(subprocess.check_output(line, text=True, env=environment).strip())
    assert said == ["False", "True"]


@pytest.mark.parametrize(
    ("text", "count"),
    [(4096, 4096), ("8MiB", 8 << 20), ("1.5 GB", 1_500_000_000), ("2kb", 2000), ("0", 0)],
)
def test_sizes(text: object, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("10m", 600),
        ("2h", 7200),
        ("1.5d", 129600),
        (3, 3),
        (0.25, 0.25),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    if isinstance(text, int | float):
        assert parse_duration(text, unit="ms") == pytest.approx(seconds / 1000)
