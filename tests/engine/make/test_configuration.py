"""A change of configuration makes exactly the frames stale that depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.errors import UsageError
from tests.support.space import Space, prepared, python

BASE = '[types.outline]\nfile = "outline"\nfolder = "summarize"\n'
SECOND = '[types.text]\nfile = { use = "outline", head_lines = 3 }\nfolder = "concatenate"\n'
FOLDERS = {"", "src", "src/one", "src/two"}


def declare_apart(space: Space) -> None:
    space.declare(BASE + SECOND)
    space.settle()
    assert set(space.labels().values()) == {"fresh"}
    # Out of the tree, or every folder above it would change with it.
    space.write(".merkleignore", "merkle.toml\n")
    space.settle()
    assert not stale(space, "outline")
    assert not stale(space, "text")


def stale(space: Space, frame_type: str) -> set[str]:
    return {path for path, label in space.labels(frame_type).items() if label != "fresh"}


@pytest.fixture
def apart(template: Path) -> Iterator[Space]:
    made = prepared(declare_apart, template)
    yield made
    made.close()


def test_changing_a_policys_configuration_makes_exactly_its_frames_stale_and_explain_says_so(
    apart: Space,
) -> None:
    apart.declare(BASE.replace('"summarize"', '{ use = "summarize", max_tokens = 99 }') + SECOND)
    assert stale(apart, "outline") == FOLDERS
    assert stale(apart, "text") == set()
    told = apart.engine.explain("src", frame_type="outline")
    assert told["freshness"] == "stale"
    assert told["because"] == "the configuration of type outline changed"
    assert [(link["path"], link["input"]) for link in told["chain"]] == [("src", "configuration")]
    assert told["chain"][0]["old"] != told["chain"][0]["new"]
    assert apart.engine.explain("src/one/a.py", frame_type="outline")["freshness"] == "fresh"
    log = apart.events()
    assert {path for _, path in log} == FOLDERS
    assert stale(apart, "outline") == set()
    apart.valid()


def test_changing_a_generators_configuration_makes_exactly_its_frames_stale_and_explain_says_so(
    apart: Space,
) -> None:
    apart.declare(BASE.replace('"outline"\nf', '{ use = "outline", max_line = 80 }\nf') + SECOND)
    every = set(apart.labels())
    assert stale(apart, "outline") == every
    assert stale(apart, "text") == set()
    told = apart.engine.explain("src/one/a.py", frame_type="outline")
    assert told["because"] == "the configuration of type outline changed"
    assert told["chain"][0]["input"] == "configuration"
    log = apart.typed_events()
    assert {kind for _, kind, _ in log} == {"outline"}
    assert stale(apart, "outline") == set()
    apart.valid()


def test_back_to_the_old_configuration_runs_nothing(apart: Space) -> None:
    other = BASE.replace('"summarize"', '{ use = "summarize", max_tokens = 99 }') + SECOND
    apart.declare(other)
    apart.events()
    apart.declare(BASE + SECOND)
    assert stale(apart, "outline") == FOLDERS
    assert {action for action, _ in apart.events()} == {"reused"}
    apart.valid()


def test_there_and_back_without_regenerating_changes_nothing(apart: Space) -> None:
    apart.declare(BASE.replace('"outline"\nf', '{ use = "outline", max_line = 80 }\nf') + SECOND)
    assert stale(apart, "outline")
    apart.declare(BASE + SECOND)
    assert not stale(apart, "outline")
    assert apart.events() == []


def test_one_file_made_under_another_configuration_and_back_is_not_hidden_by_its_folder(
    apart: Space,
) -> None:
    apart.declare(BASE.replace('"outline"\nf', '{ use = "outline", max_line = 80 }\nf') + SECOND)
    apart.events("src/one/a.py", frame_type="outline", recursive=False)
    apart.declare(BASE + SECOND)
    assert stale(apart, "outline") == {"src/one/a.py", "src/one", "src", ""}
    assert ("reused", "src/one/a.py") in apart.events()
    assert not stale(apart, "outline")
    apart.valid()


def test_a_removed_type_is_unmanaged_and_comes_back_fresh(apart: Space) -> None:
    apart.declare(BASE)
    assert set(apart.labels("text").values()) == {"unmanaged"}
    assert set(apart.labels("outline").values()) == {"fresh"}
    told = apart.engine.explain("src", frame_type="text")
    assert told["freshness"] == "unmanaged"
    assert told["because"] == "type text is not declared"
    status = apart.engine.status()
    assert status["types"]["text"]["unmanaged"] == status["types"]["text"]["total"] > 0
    coverage = {agent["id"]: agent["nodes_with_frame"] for agent in status["agents"]}
    assert coverage["merkle:concatenate"] == 0
    assert apart.events() == []
    apart.declare(BASE + SECOND)
    assert set(apart.labels("text").values()) == {"fresh"}


def test_frames_of_a_removed_type_are_not_read_one_by_one(
    apart: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.declare(BASE)
    store, read = apart.engine.frames.store, list[bytes]()
    one = store.frame
    monkeypatch.setattr(store, "frame", lambda frame_id: read.append(frame_id) or one(frame_id))
    status = apart.engine.status()
    assert status["types"]["text"]["unmanaged"] > 2
    # One for each way that they were made: of files, and of folders.
    assert len(read) <= 2


def test_stale_frames_are_not_looked_up_folder_by_folder(
    apart: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.declare(BASE.replace('"summarize"', '{ use = "summarize", max_tokens = 99 }') + SECOND)
    monkeypatch.setattr("indexer.engine.frames.few.FEW", 1)
    apart.reopen()
    store, asked = apart.engine.frames.store, list[object]()
    some = store.heads_at
    monkeypatch.setattr(store, "heads_at", lambda places: asked.append(places) or some(places))
    assert apart.engine.status()["types"]["outline"]["stale"] == len(FOLDERS)
    assert len(asked) <= 1


def test_a_narrower_scope_leaves_the_rest_unmanaged(apart: Space) -> None:
    apart.declare(BASE + SECOND.replace("\nfile", '\nscope = "src/one"\nfile'))
    labels = apart.labels("text")
    assert {path for path, label in labels.items() if label == "fresh"} == {
        "src/one", "src/one/a.py", "src/one/b.py",
    }  # fmt: skip
    assert labels["src"] == labels[""] == labels["src/two/c.py"] == "unmanaged"
    apart.write("src/one/a.py", python("a", args="x, y"))
    apart.write("src/two/c.py", python("c", args="x, y"))
    log = apart.typed_events()
    assert {path for _, kind, path in log if kind == "text"} == {"src/one/a.py", "src/one"}
    # Wide again: what moved meanwhile is stale, and nothing above it is vouched for.
    apart.declare(BASE + SECOND)
    assert stale(apart, "text") == {"src/two/c.py", "src/two", "src", ""}
    apart.events()
    assert not stale(apart, "text")
    apart.valid()


def test_status_is_counted_anew_when_only_a_scope_moves(apart: Space) -> None:
    before = apart.engine.status()["frames"]["unmanaged"]
    apart.declare(BASE + SECOND.replace("\nfile", '\nscope = "src/one"\nfile'))
    assert apart.engine.status()["frames"]["unmanaged"] > before == 0


def test_another_generator_leaves_the_old_ones_frames_unmanaged(apart: Space) -> None:
    apart.declare(BASE.replace('"summarize"', '"concatenate"') + SECOND)
    heads = apart.engine.get_head("src", frame_type="outline")["heads"]
    assert [head["freshness"] for head in heads] == ["unmanaged"]
    apart.events()
    labels = {
        head["agent"]: head["freshness"]
        for head in apart.engine.get_head("src", frame_type="outline")["heads"]
    }
    assert labels == {"merkle:summarize": "unmanaged", "merkle:concatenate": "fresh"}
    assert apart.engine.explain("src", frame_type="outline")["agent"] == "merkle:concatenate"
    apart.valid()


def test_a_size_limit_takes_a_file_out_and_its_folder_notices(apart: Space) -> None:
    apart.declare("[scan]\nsize_limit = 60\n" + BASE + SECOND)
    apart.write("src/one/big.py", "# " + "x" * 200 + "\n")
    apart.engine.scan()
    apart.events()
    assert not apart.engine.get_head("src/one/big.py")["heads"]
    assert apart.freshness("src/one") == "fresh"
    apart.declare(BASE + SECOND)
    assert "src/one" in stale(apart, "outline")
    assert ("generated", "src/one/big.py") in apart.events()
    assert not stale(apart, "outline")
    apart.valid()


WRONG = [
    '[types."Bad Name"]\nfile = "outline"\n',
    '[types.content]\nfile = "outline"\n',
    '[types.x]\nscope = "src"\n',
    '[types.x]\nfile = "outline"\nsurprise = 1\n',
    '[types.x]\nfile = "outline"\nverify = "yes"\n',
    '[types.x]\nfile = "outline"\ninput = "y"\n',
    '[types.x]\nfile = "outline"\ninput = "y"\n[types.y]\nfile = "outline"\ninput = "x"\n',
    '[types.x]\nfile = "outline"\ninput = "y"\n[types.y]\nfolder = "summarize"\n',
    '[types.x]\nfile = "outline"\ninput = "y"\nscope = ""\n'
    '[types.y]\nfile = "outline"\nscope = "src"\n',
    "[types.x]\nfile = { max_line = 3 }\n",
    "[types.x\n",
]


def test_a_wrong_declaration_is_refused_and_changes_nothing(project: Space) -> None:
    before = project.engine.sql("SELECT count(*) FROM frames")["rows"]
    for text in WRONG:
        project.declare(text)
        with pytest.raises(UsageError) as refused:
            project.engine.regenerate()
        assert "merkle.toml" in refused.value.message, text
        assert project.engine.sql("SELECT count(*) FROM frames")["rows"] == before, text


def test_input_outline_edits_below_the_outline_cost_nothing(space: Space) -> None:
    space.declare(
        BASE + '[types.brief]\ninput = "outline"\nfile = { use = "outline", head_lines = 2 }\n'
        'folder = "concatenate"\n'
    )
    space.fill({"src/a.py": python("a"), "src/b.py": python("b")})
    space.engine.scan()
    first = space.typed_events()
    assert ("generated", "brief", "src/a.py") in first
    # It sees the outline and not the file.
    assert "return" not in space.frame("src/a.py", "brief")["content"]
    space.write("src/a.py", python("a", value=5))
    log = space.typed_events()
    assert [path for action, kind, path in log if action == "generated"] == ["src/a.py"]
    assert [event for event in log if event[1] == "brief"] == [
        ("reused", "brief", "src/a.py"),
        ("reused", "brief", "src"),
        ("reused", "brief", ""),
    ]
    space.write("src/a.py", python("a", args="b"))
    assert ("generated", "brief", "src/a.py") in space.typed_events()
    space.valid()


def test_regenerating_a_type_makes_the_type_it_reads_first(space: Space) -> None:
    space.declare(BASE + '[types.brief]\ninput = "outline"\nfile = "outline"\n')
    space.fill({"src/a.py": python("a")})
    space.engine.scan()
    log = space.typed_events(frame_type="brief")
    assert [event for event in log if event[0] == "failed"] == []
    assert space.freshness("src/a.py", "brief") == "fresh"


def test_a_type_is_not_fresh_while_what_it_reads_is_not(space: Space) -> None:
    space.declare(
        BASE + '[types.brief]\ninput = "outline"\nfile = "outline"\nfolder = "concatenate"\n'
    )
    space.fill({"src/a.py": python("a")})
    space.settle()
    old = (space.root / "src/a.py").read_bytes()
    space.write("src/a.py", python("a", args="b"))
    space.events(frame_type="outline")
    space.write("src/a.py", old)
    # Back to where `brief` was shown to be fresh, but its input has moved on.
    assert space.freshness("src/a.py", "brief") != "fresh"
    assert space.freshness("src", "brief") != "fresh"
    space.events()
    assert space.freshness("src", "brief") == "fresh"
    space.engine.invalidate("src/a.py", frame_type="outline")
    assert space.freshness("src/a.py", "brief") != "fresh"
    assert space.freshness("", "brief") != "fresh"
    space.events()
    assert space.freshness("", "brief") == "fresh"
    space.valid()


def test_a_type_that_was_away_while_what_it_reads_moved_does_not_come_back_fresh(
    space: Space,
) -> None:
    brief = '[types.brief]\ninput = "outline"\nfile = "outline"\nfolder = "concatenate"\n'
    alone = '[types.brief]\nfile = { use = "outline", head_lines = 1 }\n'
    space.write(".merkleignore", "merkle.toml\n")
    space.declare(BASE + brief)
    space.fill({"src/a.py": python("a"), "src/b.py": python("b")})
    space.settle()
    for meanwhile in ("", alone):
        space.declare(
            BASE.replace('"outline"\nf', '{ use = "outline", max_line = 80 }\nf') + meanwhile
        )
        space.events("src/a.py", frame_type="outline", recursive=False)
        space.declare(BASE + brief)
        assert stale(space, "outline") == stale(space, "brief") == {"src/a.py", "src", ""}
        space.events()
        assert not stale(space, "brief")
        space.valid()
