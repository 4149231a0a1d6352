"""The commands, the settings, and that a password is seen nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from indexer.cli.group import cli
from indexer.engine.settings import ConfigError, load_settings
from indexer.service.workspace import Workspace
from indexer.service.writing_thread import WritingThread
from indexer.shared.client import Client, Membership
from indexer.shared.masking import masked, without_secrets
from indexer.shared.opening import NotInstalledError, open_store
from tests.support.postgres import Postgres
from tests.support.team import Member, files, ran

WORD = "Xq7-very-secret-9"


def merkle(member: Member, *arguments: str) -> Any:
    """Run a command in this process: exit status, stdout and stderr."""
    member.end()
    return CliRunner().invoke(cli, ["-C", str(member.root), *arguments])


def document(member: Member, *arguments: str, code: int = 0) -> Any:
    ran_it = merkle(member, "--json", *arguments)
    assert ran_it.exit_code == code, ran_it.output
    return json.loads(ran_it.stdout)


@pytest.fixture
def member(members: list[Member], counted: Path) -> Member:
    members.append(Member(files(5)))
    return members[-1]


# -- commands


def test_the_whole_round_by_commands(
    any_url: str, member: Member, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", any_url)
    made = document(member, "watch", "--once")
    assert made["shared"]["pushed"] == made["generated"]
    status = document(member, "shared", "status")
    assert (status["reachable"], status["entries"]) == (True, made["generated"])
    assert (status["pending"], status["leases"], status["refused"]) == (0, 0, 0)
    shown = merkle(member, "shared", "status").stdout
    assert "only accidents are detected" in shown
    assert "reads and writes" in shown
    assert document(member, "shared", "push")["pushed"] == 0
    other = Member(files(5))
    members.append(other)
    assert document(other, "shared", "pull")["pulled"] == made["generated"]
    assert document(other, "watch", "--once")["generated"] == 0
    would = document(other, "shared", "gc", "--unused", "0", "--dry-run")
    assert would == {"dropped": made["generated"], "bodies": would["bodies"], "dry_run": True}
    assert document(other, "shared", "gc")["dropped"] == 0
    # Uses are noted once a day: less cannot be told.
    refused = document(other, "shared", "gc", "--unused", "23h", code=2)["error"]
    assert "once a day" in refused["message"]
    assert document(other, "shared", "gc", "--unused", "1d")["dropped"] == 0
    assert document(other, "shared", "gc", "--unused", "0")["dropped"] == made["generated"]
    assert document(member, "shared", "status")["entries"] == 0
    # The store forgot; the member has all of it still, and can give it again.
    assert document(member, "shared", "push")["pushed"] == made["generated"]
    assert "team: 0 fetched, 0 pushed" in merkle(member, "regenerate").stdout


def test_without_a_store_the_commands_say_what_to_do(member: Member) -> None:
    status = document(member, "shared", "status")
    assert (status["configured"], status["reachable"]) == (False, None)
    assert "MERKLE_SHARED_URL" in merkle(member, "shared", "status").stdout
    for command in ("push", "pull", "gc"):
        error = document(member, "shared", command, code=2)["error"]
        assert error["code"] == "no_team"
        assert "MERKLE_SHARED_URL" in error["hint"]
    assert merkle(member, "shared", "gc", "--unused", "soon").exit_code == 2


def test_an_unreachable_store_is_an_error_only_where_it_was_asked_for(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", f"postgresql://u:{WORD}@/d?host=/no/such/folder")
    made = document(member, "watch", "--once")
    assert made["failed"] == []
    assert "cannot be reached" in made["shared"]["problem"]
    status = document(member, "shared", "status", code=3)
    assert status["pending"] == made["generated"]
    for command in ("push", "pull", "gc"):
        error = document(member, "shared", command, code=3)["error"]
        assert error["code"] == "shared_unreachable"
        assert "work goes on" in error["hint"]


def test_through_a_service_as_without_one(
    url: str, member: Member, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    first = Member(files(5))
    members.append(first)
    total = first.full_pass()["regenerated"]
    running = member.start("watch")
    try:
        deadline = time.monotonic() + 60
        while not (member.root / ".merkle" / "socket").exists():
            assert running.poll() is None, running.communicate()
            time.sleep(0.02)
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with Workspace.open(member.root) as workspace:
            workspace.status()
            assert workspace.is_remote
            while workspace.status()["frames"]["fresh"] < total:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert workspace.shared_status()["entries"] == total
            assert workspace.shared_pull()["pulled"] == 0
            assert workspace.shared_push()["pushed"] == 0
            assert workspace.shared_gc(1e6)["dropped"] == 0
    finally:
        running.terminate()
        running.communicate(timeout=30)
    # The service made everything from what the first had given.
    assert member.full_pass()["regenerated"] == 0
    assert set(ran(Path(os.environ["COUNTED_RUNS"])).values()) == {1}


def test_doctor_tells_of_the_team(
    url: str, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def team() -> dict[str, Any]:
        checks = json.loads(merkle(member, "--json", "doctor").stdout)["checks"]
        return {check["name"]: check for check in checks if check["name"].startswith("team")}

    assert team() == {}
    monkeypatch.setenv("MERKLE_SHARED_URL", url)
    assert team()["team"]["state"] == "ok"
    assert "not noticed" in team()["team key"]["message"]
    monkeypatch.setenv("MERKLE_TEAM_KEY", WORD)
    assert "team key" not in team()
    monkeypatch.setenv("MERKLE_SHARED_URL", f"postgresql://u:{WORD}@/d?host=/no/such/folder")
    found = team()["team"]
    assert found["state"] == "warn"
    assert WORD not in str(found)


# -- settings


def test_settings_and_their_origin(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    member.write(
        "merkle.toml",
        f'[shared]\nurl = "postgresql://ann:{WORD}@db.test/team"\nnamespace = "tides"\n'
        'read_only = true\ntimeout = "2s"\n',
    )
    monkeypatch.setenv("MERKLE_SHARED_LEASE", "5m")
    settings = {one["key"]: one for one in document(member, "config", "--origin")["settings"]}
    assert settings["shared.url"]["value"] == "postgresql://ann:***@db.test/team"
    assert settings["shared.namespace"]["value"] == "tides"
    assert settings["shared.read_only"]["value"] is True
    assert settings["shared.timeout"]["value"] == 2
    assert settings["shared.lease"]["value"] == 300
    assert settings["shared.lease"]["origin"] == "environment"
    shown = merkle(member, "config", "--origin").stdout
    assert "true  file (merkle.toml)" in shown
    assert WORD not in shown


@pytest.mark.parametrize(
    "line",
    [
        f'url = "mysql://ann:{WORD}@db/team"',
        f'url = "ann:{WORD}@db"',
        'url = "sqlite://relative.db"',
        "url = 7",
        'namespace = "no spaces"',
        'namespace = ""',
        'read_only = "perhaps"',
        'timeout = "0s"',
        f'team_key = "{WORD}"',
    ],
)
def test_a_bad_setting_is_named_and_not_repeated(line: str, tmp_path: Path) -> None:
    (tmp_path / "merkle.toml").write_text(f"[shared]\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path)
    assert f"shared.{line.partition(' ')[0]}" in refused.value.message
    assert WORD not in refused.value.message + refused.value.hint


def test_share_is_a_yes_or_no(member: Member) -> None:
    member.write("merkle.toml", '[types.outline]\nfile = "outline"\nshare = "maybe"\n')
    error = document(member, "regenerate", code=2)["error"]
    assert "types.outline.share is neither true nor false" in error["message"]


# -- secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://ann:{WORD}@h:1/d", "postgresql://ann:***@h:1/d"),
        (f"postgresql://h/d?user=ann&password={WORD}", "postgresql://h/d?user=ann&password=***"),
        (f"postgres://:{WORD}@h/d?sslpassword={WORD}", "postgres://:***@h/d?sslpassword=***"),
        ("postgresql://ann@h/d", "postgresql://ann@h/d"),
        ("sqlite:///srv/team.db", "sqlite:///srv/team.db"),
        (f"postgresql://ann:{WORD}@[bad/d", "postgresql://ann:***@[bad/d"),
        (f"postgresql://ann:a/{WORD}@h/d", "postgresql://ann:***@h/d"),
        (f"postgresql://ann:a?{WORD}@h/d", "postgresql://***"),
        (f"postgresql://ann:a@{WORD}@h/d", "postgresql://ann:***@h/d"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert masked(url) == shown
    assert WORD not in (masked(url) or "")
    if WORD in url:
        assert WORD not in without_secrets(f"cannot use {url} with {WORD}", url)


def test_no_secret_reaches_any_output(
    url: str, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to fail that can be arranged, in a process of its own, with tracebacks on."""
    bad = [
        f"postgresql://ann:{WORD}@/d?host=/no/such/folder",
        f"postgresql://ann:{WORD}@127.0.0.1:1/d",
        f"postgresql://ann:{WORD}@/d?host=/tmp&no_such_option=1",
        f"postgresql://ann:{WORD}@[half/d",
        url.replace("://merkle@", f"://nobody_such:{WORD}@"),
    ]
    monkeypatch.setenv("MERKLE_TEAM_KEY", f"{WORD}-key")
    monkeypatch.setenv("MERKLE_DEBUG", "1")
    monkeypatch.setenv("MERKLE_SHARED_TIMEOUT", "1s")
    commands = (["shared", "status"], ["--json", "shared", "push"], ["doctor"], ["config"])
    for address in bad:
        running = [member.start(*command, MERKLE_SHARED_URL=address) for command in commands[:1]]
        outputs = [process.communicate(timeout=60) for process in running]
        monkeypatch.setenv("MERKLE_SHARED_URL", address)
        for command in commands:
            done = merkle(member, *command)
            outputs.append((done.stdout, done.stderr))
        for out, err in outputs:
            assert out.strip() or err.strip()
            assert WORD not in out + err


def test_a_membership_is_printed_without_address_and_key() -> None:
    shown = repr(Membership(f"postgresql://a:{WORD}@h/d", "team", team_key=WORD))
    assert WORD not in shown
    assert "team" in shown


def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "indexer.shared.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(NotInstalledError) as refused:
        open_store("postgresql://h/d", "team", 1)
    assert "merkle-indexer[shared]" in refused.value.hint


# -- the client's patience


class Flaky:
    """Opens a store that is down until told otherwise."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.down = True
        self.tried = 0

    def __call__(self, url: str, namespace: str, timeout: float) -> Any:
        self.tried += 1
        return open_store("sqlite:///no/such/team.db" if self.down else self.url, namespace, 1)


def test_a_store_that_failed_is_left_alone_for_longer_each_time(tmp_path: Path) -> None:
    now = [0.0]
    flaky = Flaky(f"sqlite://{tmp_path}/team.db")
    client = Client(Membership("sqlite:///x", "team"), opener=flaky, clock=lambda: now[0])
    attempts = []
    for second in range(200):
        now[0] = float(second)
        before = flaky.tried
        with pytest.raises(Exception, match="cannot be used"):
            client.has([])
        if flaky.tried > before:
            attempts.append(second)
    assert attempts == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    flaky.down, now[0] = False, 1000.0
    assert client.has([]) == {}
    assert client.problem is None
    client.close()


def test_a_connection_that_died_is_made_again_once(url: str) -> None:
    client = Client(Membership(url, "team"))
    assert client.usage().entries == 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'merkle' AND datname = current_database()"
        )
    assert client.usage().entries == 0
    assert client.problem is None
    client.close()


def test_nothing_of_it_is_imported_where_there_is_no_team(member: Member) -> None:
    code = (
        "import sys; from indexer.service.workspace import Workspace\n"
        f"with Workspace.open({str(member.root)!r}) as w:\n"
        "    w.scan(); w.regenerate()\n"
        "print([m for m in sys.modules if m in ('psycopg', 'sqlite3', 'indexer.shared.client')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_service_pushes_what_is_due_at_its_next_look(
    own_server: Postgres, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_SHARED_URL", own_server.url)
    own_server.kill()
    engine = member.open()
    engine.serve()
    keeper = WritingThread(engine)
    keeper.start()
    try:
        deadline = time.monotonic() + 30
        while keeper.call(lambda: engine.shared_status()["pending"]) < 15:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        own_server.start()
        client = engine.exchange.client
        while keeper.call(lambda: engine.shared_status()["pending"]):
            assert time.monotonic() < deadline
            # No file has changed; the pause after a failure is over.
            monkeypatch.setattr(client, "_again_at", 0.0)
            keeper.call(lambda: keeper.accept_scan(force=False, accept_empty=False))
            time.sleep(0.02)
        assert keeper.call(lambda: engine.shared_status()["entries"]) == 15
    finally:
        keeper.stop()
