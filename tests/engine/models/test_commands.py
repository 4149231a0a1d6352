"""The command line: plans with prices, caps, the question before a large run, what config knows."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from indexer.cli.group import cli
from tests.support.asking import KEY, KEY_NAME, Asking
from tests.support.model_server import ModelServer, fails
from tests.support.processes import Forked

PRICES = '[llm.prices."gpt-4o-mini"]\ninput = 0.15\noutput = 0.6\n'
Run = Callable[..., Any]


@pytest.fixture
def merkle() -> Run:
    def run(*arguments: str | Path) -> Any:
        return CliRunner().invoke(cli, [str(each) for each in arguments])

    return run


@pytest.fixture
def root(asking: Asking) -> Path:
    space = asking(llm=PRICES)
    space.engine.close()
    return space.root


def test_a_plan_is_told_with_tokens_and_prices(
    root: Path, merkle: Run, server: ModelServer
) -> None:
    ran = merkle("-C", root, "regenerate", "--plan")
    assert ran.exit_code == 0
    assert "workspace: 8 to make" in ran.stdout
    assert "up to 8 calls" in ran.stdout
    assert "cost up to 0.0" in ran.stdout
    plan = json.loads(merkle("-C", root, "regenerate", "--plan", "--json").stdout)
    assert plan["plan"][0].keys() >= {
        "path", "type", "action", "because", "tokens", "tokens_out", "cost", "calls", "model",
    }  # fmt: skip
    assert plan["totals"].keys() >= {"calls", "tokens", "tokens_out", "cost", "reused"}
    assert server.calls == 0


def test_a_capped_run_says_so_and_exits_with_1(
    root: Path, merkle: Run, server: ModelServer
) -> None:
    ran = merkle("-C", root, "regenerate", "--max-calls", "3")
    assert (ran.exit_code, server.calls) == (1, 3)
    assert "3 calls" in ran.stdout
    assert "no more calls are allowed; 5 frames left" in ran.stdout
    document = json.loads(merkle("-C", root, "--json", "regenerate", "--max-cost", "0.5").stdout)
    assert (document["stopped"], document["calls"]) == (None, 5)
    assert 0 < document["cost"] < 0.5
    assert merkle("-C", root, "regenerate").exit_code == 0


def test_a_failure_is_listed_and_exits_with_1(root: Path, merkle: Run, server: ModelServer) -> None:
    server.then(fails(400, "it\x1b[31m is too long"))
    ran = merkle("-C", root, "--json", "regenerate")
    assert ran.exit_code == 1
    (failed,) = json.loads(ran.stdout)["failed"]
    assert failed.keys() >= {"path", "type", "message"}
    server.then(fails(400, "it\x1b[31m is too long"))
    ran = merkle("-C", root, "regenerate")
    assert ran.exit_code == 1
    assert "HTTP 400" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_amounts_are_checked(root: Path, merkle: Run) -> None:
    for option, value in (("--max-cost", "lots"), ("--max-cost", "-1"), ("--max-calls", "-2")):
        assert merkle("-C", root, "regenerate", option, value).exit_code == 2


def test_without_a_terminal_a_large_run_is_refused(
    asking: Asking, merkle: Run, server: ModelServer
) -> None:
    space = asking(llm="ask_above_calls = 3")
    space.engine.close()
    ran = merkle("-C", space.root, "--json", "regenerate")
    assert ran.exit_code == 2
    error = json.loads(ran.stdout)["error"]
    assert error["code"] == "needs_yes"
    assert "up to 8 calls" in error["message"]
    assert server.calls == 0
    assert merkle("-C", space.root, "regenerate", "--yes").exit_code == 0
    assert server.calls == 8


@pytest.mark.parametrize(("said", "calls"), [(b"n\n", 0), (b"y\n", 8)])
def test_on_a_terminal_it_asks(
    asking: Asking, server: ModelServer, said: bytes, calls: int
) -> None:
    space = asking(llm="ask_above_calls = 3")
    space.engine.close()
    ours, theirs = pty.openpty()
    process = Forked(
        [sys.executable, "-m", "indexer.cli", "-C", str(space.root), "regenerate"],
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TERM": "dumb"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"Go on?" not in shown:
        assert select.select([ours], [], [], 60)[0], shown
        shown += os.read(ours, 4096)
    assert b"up to 8 calls" in shown
    os.write(ours, said)
    try:
        while select.select([ours], [], [], 60)[0] and (piece := os.read(ours, 4096)):
            shown += piece
    except OSError:
        pass  # the other end is closed
    assert process.wait(60) == (2 if calls == 0 else 0)
    os.close(ours)
    assert server.calls == calls


def test_one_pass_of_the_watcher_asks_nobody_by_itself(
    root: Path, merkle: Run, server: ModelServer
) -> None:
    assert merkle("-C", root, "watch", "--once").exit_code == 0
    assert server.calls == 0
    text = (root / "merkle.toml").read_text()
    (root / "merkle.toml").write_text(text.replace("[llm]", "[llm]\nwatch = true"))
    assert merkle("-C", root, "watch", "--once").exit_code == 0
    assert server.calls == 8


def test_a_synthesis_takes_the_same_caps(root: Path, merkle: Run, server: ModelServer) -> None:
    line = ("-C", root, "--json", "synthesize", "src", "--type", "summary")
    ran = merkle(*line, "--max-calls", "2")
    assert (ran.exit_code, server.calls) == (1, 2)
    ran = merkle(*line)
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["frame_id"]
    assert server.calls == 6


def test_explain_tells_the_model_and_what_was_cut(
    asking: Asking, merkle: Run, server: ModelServer
) -> None:
    space = asking({"long.txt": "a word or two\n" * 4000}, llm="window = 1500")
    space.engine.regenerate()
    space.engine.close()
    out = merkle("-C", space.root, "explain", "long.txt").stdout
    assert "written by gpt-4o-mini, prompt summary" in out
    assert "its input was cut to the model's window: characters 56000" in out


def test_config_and_doctor_know_the_settings_but_not_the_key(
    root: Path, merkle: Run, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = merkle("-C", root, "config", "--origin")
    assert server.url in ran.stdout
    assert "llm.watch_calls_per_pass" in ran.stdout
    monkeypatch.setenv("MERKLE_LLM_RETRIES", "9")
    found = json.loads(merkle("-C", root, "config", "--json").stdout)["settings"]
    retries = next(one for one in found if one["key"] == "llm.retries")
    assert (retries["value"], retries["origin"]) == (9, "environment")
    doctor = merkle("-C", root, "doctor").stdout
    assert "gpt-4o-mini at http://127.0.0.1" in doctor
    assert KEY not in doctor + ran.stdout + json.dumps(found)
    monkeypatch.delenv(KEY_NAME)
    assert f"the environment variable {KEY_NAME} has no key" in merkle("-C", root, "doctor").stdout
    assert server.calls == 0
