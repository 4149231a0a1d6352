"""Every session command, with a service and without, and what reaches a terminal."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.chats import messages_of
from tests.support.processes import Forked

pytestmark = pytest.mark.usefixtures("kept_open")

HOSTILE = "evil\x1b[2J\u202e\x9b31m"


def ok(ran: Any) -> Any:
    assert ran.code == 0, ran.err + ran.out
    return ran


class Talk:
    """One session, spoken to through commands."""

    def __init__(self, root: Path, merkle: Any, name: str = "talk") -> None:
        self.root, self.merkle, self.name = root, merkle, name

    def run(self, command: str, *arguments: str | Path, **options: Any) -> Any:
        return self.merkle("-C", self.root, "session", command, self.name, *arguments, **options)

    def json(self, command: str, *arguments: str) -> Any:
        return ok(self.run(command, *arguments, "--json")).json

    def say(self, text: str, *arguments: str) -> Any:
        return self.json("append", "--type", "dialogue", "--text", text, *arguments)


def test_a_conversation_by_commands(
    anywhere: Path, merkle: Any, tmp_path: Path, kept_open: Any
) -> None:
    talk = Talk(anywhere, merkle)
    assert talk.json("new", "--budget", "1000", "--max-nodes", "50") == {
        "name": "talk",
        "cycle": 0,
        "budget": {"max_tokens": 1000, "action": "warn"},
        "prune": {"max_nodes": 50, "max_tokens": None, "protect_turns": 0},
    }
    law = talk.json("append", "--type", "instruction", "--text", "Be brief.")
    hello = talk.say("hello", "--id", "hello", "--role", "user")
    assert hello["id"] == "hello"
    assert hello["tokens"] == 1
    note = talk.json(
        "append", "--type", "tool_io", "--name", "grep", "--payload", '{"hits": 3}', "--ttl", "1",
        "--offset", "1", "--attr", "data_source=web", "--ref", "hello",
    )  # fmt: skip
    box = talk.json("group", "--offset", "2", "--id", "box")
    assert box["id"] == "box"
    moved = talk.json("move", note["id"], "box", "--offset", "0")
    assert moved == {"id": note["id"], "parent": "box", "offset": 0, "renamed": {}}
    draft = talk.say("draft", "--offset", "-1")
    assert talk.json("remove", draft["id"]) == {"removed": draft["id"]}
    sealed = talk.json("commit")
    assert (sealed["cycle"], sealed["expired"]) == (1, [])
    assert talk.json("commit")["expired"] == [note["id"]]
    edited = talk.json("edit", "hello", "--text", "hello again")
    assert edited["target"] == hello["commit"]
    assert talk.json("annotate", law["id"], "skip", "--reason", "too long")["priority"] == "skip"
    assert talk.json("select", "@t0 .mt .cb")["ids"] == ["hello"]
    assert talk.run("select", "@t0 .mt .cb").out == "hello\n"
    ranged = talk.json("select", "@t-1..@t0 .cb", "--include-content", "--max-changes", "9")
    assert [each["removed_ids"] for each in ranged["diffs"]] == [["box", note["id"]]]
    assert talk.json("diff", "@c1", "@c2", ".cb[role]")["removed"] == [note["id"]]
    compiled = talk.json("compile", "--show-edits", "--stage", "spec")
    assert compiled["messages"] == [{"role": "user", "content": "hello again [edited]"}]
    selected = compiled["stage"]["selected_ids"]
    assert [compiled["blocks"][each] for each in selected] == ["hello"]
    attempt = ("a1", "--provider", "p", "--model", "m", "--status")
    assert talk.json("attempt", *attempt, "running")["attempt"]["cycle_id"] == 3
    assert talk.json("attempt", *attempt, "completed", "--tokens-in", "5")["attempt"]["token_in"]
    shown = talk.json("show")
    assert (shown["cycle"], shown["commits"], len(shown["attempts"])) == (2, 5, 1)
    assert shown["tree"]["root"]["children"][0]["nodeType"] == "^sys"
    (listed,) = ok(merkle("-C", anywhere, "session", "list", "--json")).json["sessions"]
    assert (listed["name"], listed["cycle"]) == ("talk", 2)
    thread = ok(talk.run("render", "@t0")).out
    assert thread == talk.run("render", "@t0", "--json").out
    assert json.loads(thread)[-1] == {
        "id": "hello", "role": "user", "kind": "text", "content": "hello",
    }  # fmt: skip
    whole = ok(talk.run("export")).out
    # All of it is in the index, not only in what was open.
    kept_open.close()
    assert talk.run("export").out == whole
    (tmp_path / "talk.json").write_text(whole)
    again = Talk(anywhere, merkle, "again")
    taken = ok(
        merkle("-C", anywhere, "session", "import", tmp_path / "talk.json", "--name", "again")
    )
    assert "5 blocks" in taken.out
    assert ok(again.run("export")).out == whole
    piped = merkle("-C", anywhere, "session", "import", "-", "--name", "piped", stdin=whole)
    assert ok(piped)
    assert Talk(anywhere, merkle, "piped").run("export").out == whole
    assert ok(merkle("-C", anywhere, "validate")).code == 0
    for command in (["show"], ["show", "@t0"], ["compile"], ["diff", "@c1", "@w"], ["commit"]):
        assert ok(talk.run(*command)).out.strip()


def test_snapshots_and_chats_round_trip(anywhere: Path, merkle: Any, tmp_path: Path) -> None:
    talk = Talk(anywhere, merkle)
    ok(talk.run("new"))
    talk.json("append", "--type", "instruction", "--text", "Be brief.")
    talk.say("hello")
    talk.say("hi", "--role", "assistant")
    ok(talk.run("commit"))
    snapshot = ok(talk.run("export", "@t0")).out
    (tmp_path / "snapshot.json").write_text(snapshot)
    assert merkle(
        "-C", anywhere, "session", "import", tmp_path / "snapshot.json", "--name", "bare"
    ).code == 0  # fmt: skip
    bare = Talk(anywhere, merkle, "bare")
    assert bare.run("export", "@t0").out == snapshot
    assert bare.run("render").out == talk.run("render").out
    for form in ("openai", "anthropic"):
        chat = ok(talk.run("export", "--format", form)).out
        (tmp_path / "chat.json").write_text(chat)
        line = ("session", "import", tmp_path / "chat.json", "--name", form, "--format", form)
        ok(merkle("-C", anywhere, *line))
        assert Talk(anywhere, merkle, form).run("export", "--format", form).out == chat


UNNAMED_RESULT = '{"role": "user", "content": [{"type": "tool_result", "tool_use_id": []}]}'
UNNAMED_ANSWER = '{"role": "tool", "tool_call_id": {}, "content": "x"}'
REFUSED = [
    (["append", "--type", "poem", "--text", "x"], "usage"),
    (["append", "--type", "output"], "E_CONTENT_INVALID"),
    (["append", "--type", "output", "--text", "x", "--payload", "{}"], "E_CONTENT_INVALID"),
    (["append", "--type", "output", "--payload", "{"], "usage"),
    (["append", "--type", "output", "--payload", "[1]"], "usage"),
    (["append", "--type", "output", "--text", "x", "--ttl", "-1"], "usage"),
    (["append", "--type", "output", "--text", "x", "--offset", "9" * 30], "usage"),
    (["append", "--type", "output", "--text", "x", "--attr", "data_x"], "usage"),
    (["append", "--type", "output", "--text", "x", "--attr", "bad=1"], "E_ATTRIBUTE_INVALID"),
    (["append", "--type", "output", "--text", "x", "--id", "hello"], "E_ID_TAKEN"),
    (["append", "--type", "output", "--text", "x " * 99], "E_BUDGET_EXCEEDED"),
    (["edit", "nothing", "--text", "x"], "E_EDIT_TARGET"),
    (["annotate", "hello", "loud"], "usage"),
    (["annotate", "nothing", "skip"], "E_COMMIT_UNKNOWN"),
    (["move", "hello", "hello"], "E_CYCLE"),
    (["remove", "nothing"], "E_NODE_UNKNOWN"),
    (["select", ".cb[["], "E_SELECTOR_INVALID"),
    (["render", "@c99"], "E_SNAPSHOT_UNKNOWN"),
    (["diff", "@t0", "@t-99"], "E_SNAPSHOT_UNKNOWN"),
    (["compile", "--up-to", "nothing"], "E_COMMIT_UNKNOWN"),
    (["set", "hello", "--ttl", "9" * 5000], "usage"),
    (["append", "--format", "anthropic", "--payload", UNNAMED_RESULT], "E_CHAT_INVALID"),
    (["append", "--format", "openai", "--payload", UNNAMED_ANSWER], "E_CHAT_INVALID"),
    (["new"], "E_SESSION_EXISTS"),
]


def test_a_refusal_has_a_name_and_changes_nothing(anywhere: Path, merkle: Any) -> None:
    talk = Talk(anywhere, merkle)
    ok(talk.run("new", "--budget", "20", "--on-budget", "reject"))
    talk.say("hello", "--id", "hello")
    before = talk.run("export").out
    journal = sorted((anywhere / ".merkle" / "journal").glob("*"))
    sizes = [path.stat().st_size for path in journal]
    for arguments, code in REFUSED:
        ran = talk.run(*arguments, "--json")
        assert (ran.code, ran.json["error"]["code"]) == (2, code), arguments
    nobody = Talk(anywhere, merkle, "nobody").run("commit", "--json")
    assert nobody.json["error"]["code"] == "E_SESSION_UNKNOWN"
    assert [path.stat().st_size for path in journal] == sizes
    assert talk.run("export").out == before


def test_a_warning_goes_to_stderr(scanned: Path, merkle: Any) -> None:
    talk = Talk(scanned, merkle)
    ok(talk.run("new", "--budget", "1"))
    ran = talk.run("append", "--type", "output", "--text", "more than one token")
    assert "its budget is 1" in ok(ran).err
    assert "warning" not in ran.out


def test_nothing_hostile_reaches_a_terminal(scanned: Path, merkle: Any) -> None:
    talk = Talk(scanned, merkle, HOSTILE)
    shown = [talk.run("new"), talk.run("new")]
    said = ("--text", HOSTILE, "--id", f"id{HOSTILE}")
    shown.append(talk.run("append", "--type", "dialogue", *said))
    for command in (
        ["commit"], ["show"], ["compile"], ["select", "@w .cb"], ["diff", "@c0", "@w"],
        ["annotate", f"id{HOSTILE}", "pinned"], ["edit", f"id{HOSTILE}", "--text", HOSTILE],
        ["select", "@t0..@w .cb"], ["render", HOSTILE], ["remove", HOSTILE],
        ["group", "--id", f"g{HOSTILE}", "--offset", "1"], ["move", f"g{HOSTILE}", "ah"],
        ["attempt", HOSTILE, "--status", "error", "--provider", HOSTILE, "--model", HOSTILE],
        ["compile", "--as-of", HOSTILE],
    ):  # fmt: skip
        shown.append(talk.run(*command))
    shown.append(merkle("-C", scanned, "session", "list"))
    assert any("evil" in ran.out for ran in shown)
    for ran in shown:
        text = ran.out + ran.err
        assert not {"\x1b", "\x9b", "\u202e", "\r"} & set(text), text


def test_the_labels_of_an_imported_tree_are_made_safe(
    scanned: Path, merkle: Any, tmp_path: Path
) -> None:
    label = "evil\x1b]0;title\x07"
    block = {"id": "b", "nodeType": "cb:context", "content": "x", "merkle:freshness": label}
    head = {"nodeType": "^ah", "children": [block]}
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(json.dumps({"root": {"children": [head]}}))
    talk = Talk(scanned, merkle)
    ok(merkle("-C", scanned, "session", "import", snapshot, "--name", talk.name))
    shown = ok(talk.run("tree", "--stages")).out
    assert "evil" in shown
    assert not {"\x1b", "\x07"} & set(shown), shown


@pytest.mark.parametrize("command", ["render", "export"])
def test_bytes_are_exact_in_a_pipe_and_harmless_on_a_terminal(
    scanned: Path, merkle: Any, process: Any, command: str
) -> None:
    talk = Talk(scanned, merkle)
    ok(talk.run("new"))
    talk.say(HOSTILE, "--id", "x")
    ok(talk.run("commit"))
    with_pipe = process("-C", scanned, "session", command, "talk").out
    assert json.loads(with_pipe)
    if command == "render":
        assert "\u202e" in with_pipe
        assert not with_pipe.endswith("\n")
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen:
        # Without the bar, which a slow machine gets to see and which has marks of its own.
        showing = Forked(
            [sys.executable, "-m", "indexer.cli", "-C", scanned, "session", command, "talk"],
            stdout=follower, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert showing.wait(60) == 0
        os.close(follower)
        seen = b""
        try:
            while piece := screen.read(1 << 16):
                seen += piece
        except OSError:
            pass
    text = seen.decode()
    assert "evil" in text
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)


IN_ONE_PROCESS = """
import json, sys
from click.testing import CliRunner
from indexer.cli.group import cli
results = [CliRunner().invoke(cli, ["-C", sys.argv[1], *line]) for line in json.loads(sys.argv[2])]
assert not any(result.exit_code for result in results), [r.output for r in results if r.exit_code]
print(json.dumps([result.stdout for result in results]))
"""


@pytest.mark.parametrize(
    ("seed", "zone"),
    [("1", "Asia/Kolkata"), pytest.param("4242", "America/St_Johns", marks=pytest.mark.soak)],
)
def test_an_export_replays_to_the_same_bytes_in_another_process(
    scanned: Path, merkle: Any, tmp_path: Path, seed: str, zone: str
) -> None:
    talk = Talk(scanned, merkle)
    ok(talk.run("new", "--max-nodes", "6"))
    for number in range(3):
        talk.say(f"question {number}", "--attr", 'data_a={"z": 1, "b": [2]}')
        talk.say("note", "--ttl", "1", "--offset", "1")
        ok(talk.run("commit"))
    talk.say("unsealed")
    whole = talk.run("export").out
    (tmp_path / "talk.json").write_text(whole)
    commands = [
        ["export"], ["export", "@c2"], ["render", "@c1"], ["render", "@w"], ["compile", "--json"],
        ["select", "@* .cb", "--json"], ["select", "@t-2..@t0 .cb", "--json"],
        ["diff", "@c1", "@t0", "--json"],
    ]  # fmt: skip
    expected = [ok(talk.run(*command)).out for command in commands]
    other = tmp_path / "elsewhere"
    other.mkdir()
    lines = [["init"], ["session", "import", str(tmp_path / "talk.json"), "--name", "copy"]]
    lines += [["session", command[0], "copy", *command[1:]] for command in commands]
    ran = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, other, json.dumps(lines)],
        env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    assert json.loads(ran.stdout)[2:] == expected


def test_secrets_are_refused_with_the_words_of_put_frame(
    anywhere: Path, merkle: Any, tmp_path: Path
) -> None:
    secret = "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789"
    talk = Talk(anywhere, merkle)
    talk.json("new")
    said = talk.say("hello")
    append = ["append", "--type", "dialogue", "--text"]
    for line, what in (
        ([*append, secret], "content"),
        ([*append, "export DB_PASSWORD=hunter2"], "content"),
        ([*append, "x", "--metadata", json.dumps({"k": secret})], "metadata"),
        ([*append, "x", "--message", secret], "metadata"),
        (["edit", said["id"], "--text", secret], "content"),
        (["edit", said["id"], "--text", "x", "--metadata", json.dumps({"k": secret})], "metadata"),
    ):
        ran = talk.run(*line, "--json")
        assert ran.code == 2
        assert f"the {what} looks like it holds a secret" in ran.json["error"]["message"]
        assert "--allow-secrets" in ran.json["error"]["hint"]
        assert secret not in ran.out
        ok(talk.run(*line, "--allow-secrets"))
    exported = ok(merkle("-C", anywhere, "session", "export", "talk")).out
    (tmp_path / "talk.json").write_text(exported)
    again = ["-C", anywhere, "session", "import", tmp_path / "talk.json", "--name", "again"]
    assert merkle(*again).code == 2
    ok(merkle(*again, "--allow-secrets"))


def test_keeping_sessions_by_commands(anywhere: Path, merkle: Any, kept_open: Any) -> None:
    ok(merkle("-C", anywhere, "agent", "add", "ann", "--role", "writer"))
    talk = Talk(anywhere, merkle)
    talk.json("new", "--agent", "ann")
    said = talk.say("draft", "--id", "q", "--agent", "ann", "--message", "a first try")
    assert said["id"] == "q"
    done = talk.json(
        "set", "q", "--text", "What changed?", "--ttl", "3", "--priority", "2",
        "--attr", "data_source=web", "--agent", "ann",
    )  # fmt: skip
    assert (done["ttl"], done["priority"], done["attributes"]) == (3, 2, {"data_source": "web"})
    assert "stays" in ok(talk.run("set", "q", "--ttl", "none")).out
    assert talk.run("set", "q", "--ttl", "soon").code == 2
    assert talk.run("set", "q").code == 2
    talk.json("annotate", "q", "pinned", "--reason", "it matters", "--agent", "ann")
    talk.json("commit", "--agent", "ann")
    assert talk.run("set", "q", "--priority", "1").code == 2
    assert talk.run("commit", "--agent", "nobody").code == 2
    forked = talk.json("fork", "branch", "--at", "@t0", "--agent", "ann")
    assert (forked["of"], forked["cycle"], forked["left_out"]) == ("talk", 1, 0)
    branch = Talk(anywhere, merkle, "branch")
    branch.say("elsewhere", "--role", "assistant")
    branch.json("commit")
    assert "would append 1 turn" in ok(talk.run("merge", "branch", "--check")).out
    assert talk.json("merge", "branch", "--agent", "ann")["turns"] == 1
    assert branch.json("rename", "twig") == {"name": "twig", "was": "branch"}
    twig = Talk(anywhere, merkle, "twig")
    assert "session restore twig" in ok(twig.run("delete")).out
    kept_open.close()
    assert twig.run("show").code == 2
    listed = ok(merkle("-C", anywhere, "session", "list", "--deleted", "--json")).json
    assert [one["name"] for one in listed["sessions"]] == ["twig"]
    assert twig.json("restore", "--as", "leaf")["name"] == "leaf"
    law = talk.json("append", "--type", "instruction", "--text", "Be brief.")["id"]
    talk.json("commit")
    talk.json("set", law, "--text", "Be very brief.")
    talk.json("commit")
    shown = ok(talk.run("select", "@t-1..@t0 ^sys .cb", "--include-content")).out.splitlines()
    assert [line.strip() for line in shown if line.startswith("      ")] == [
        "--- older", "+++ newer", "@@ -1 +1 @@", "-Be brief.", "+Be very brief.",
    ]  # fmt: skip
    kept_open.close()
    shown = ok(talk.run("log")).out
    for words in ("What changed?", "a first try", "it matters", "ann", "merge", "replace"):
        assert words in shown, words
    told = talk.json("log", "-n", "2")
    assert [record["op"] for record in told["records"]] == ["seal", "replace"]
    merged = next(r for r in talk.json("log")["records"] if r["op"] == "merge")
    assert (merged["author"], merged["of"]) == ("ann", "branch")


def test_what_is_sent_by_commands(anywhere: Path, merkle: Any, kept_open: Any) -> None:
    talk = Talk(anywhere, merkle)
    ok(talk.run("new"))
    chat = messages_of("openai")[:6]
    for message in chat:
        added = talk.json("append", "--format", "openai", "--payload", json.dumps(message))
        assert added["ids"]
    sent = ok(talk.run("compile", "--format", "openai")).out
    assert json.loads(sent) == chat
    begun = ("--provider", "p", "--model", "m", "--status", "running", "--form", "openai")
    digest = hashlib.sha256(sent.encode()).hexdigest()
    attempt = talk.json("attempt", "a1", *begun, "--sent-sha256", digest)["attempt"]
    assert attempt["sent"]["sha256"] == digest
    assert talk.run("attempt", "a2", *begun, "--sent-sha256", "0" * 64).code == 3
    kept_open.close()
    ok(talk.run("commit"))
    ok(talk.run("append", "--type", "tool_io", "--direction", "call", "--name", "t", "--call-id",
                "c", "--payload", "{}"))  # fmt: skip
    assert ok(talk.run("render", "attempt:a1")).out == sent
    shown = talk.json("budget")
    assert (shown["max_tokens"], shown["left"]) == (None, None)
    assert talk.json("budget", "--limit", "5000")["left"] == 5000 - shown["live_tokens"]
    tree = ok(talk.run("tree")).out
    assert "instruction, pinned" in tree
    assert "You help with travel plans." in tree
    assert sorted(talk.json("tree", "--stages")["compiler"]["stages"])[0] == "FROZEN"
    for wrong in (["append", "--payload", "{}"], ["append", "--format", "openai", "--text", "x"],
                  ["append", "--format", "openai", "--ttl", "1", "--payload", "{}"]):  # fmt: skip
        assert talk.run(*wrong).code == 2
