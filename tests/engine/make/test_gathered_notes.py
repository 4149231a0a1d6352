"""Folders' frames made from what agents wrote: of a declared type, of any other, and of all."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.core import paths
from indexer.core.frames import Freshness, Head
from indexer.core.tree import Entry
from indexer.engine.frames.freshness import ON, SHA256, fresh_in, judge, note_basis
from indexer.engine.frames.recipe import expected_basis
from indexer.engine.frames.types import FrameType, undeclared_type
from indexer.errors import UsageError
from tests.support.space import Space, python, settled

NOTES = '[types.outline]\nfile = "outline"\n[types.note]\nfolder = "concatenate"\n'


@pytest.fixture
def noted(space: Space) -> Space:
    space.declare(NOTES)
    space.fill({"src/a.py": python("a"), "src/deep/b.py": python("b"), "doc/c.md": "# c\n"})
    space.settle()
    return space


def test_a_declared_type_without_a_generator_takes_in_agents_notes(noted: Space) -> None:
    noted.note("src/a.py", "about a")
    noted.note("src/deep/b.py", "about b", agent="bob")
    noted.events()
    assert "about a" in noted.frame("src", "note")["content"]
    assert "about b" in noted.frame("", "note")["content"]
    assert "about" not in noted.frame("doc", "note")["content"]
    assert noted.freshness("", "note") == "fresh"
    noted.valid()


def test_a_new_note_makes_exactly_the_folders_above_it_stale(noted: Space) -> None:
    noted.note("src/deep/b.py", "first")
    noted.events()
    noted.note("src/deep/b.py", "second", replace_mine=True)
    labels = noted.labels("note")
    stale = {path for path, label in labels.items() if label == "stale"}
    assert stale == {"", "src", "src/deep"}
    assert {path for _, path in noted.events()} == stale
    assert noted.events() == []
    assert "second" in noted.frame("src", "note")["content"]
    assert "first" not in noted.frame("src", "note")["content"]


def test_a_note_gone_stale_takes_no_part_until_it_is_fresh_again(noted: Space) -> None:
    noted.note("src/a.py", "about a")
    noted.events()
    with_note = noted.frame("", "note")
    noted.write("src/a.py", python("other"))
    assert noted.freshness("", "note") == "stale"
    noted.events()
    assert "about a" not in noted.frame("", "note")["content"]
    noted.write("src/a.py", python("a"))
    noted.events()
    assert noted.frame("", "note")["frame_id"] == with_note["frame_id"]
    noted.valid()


def test_several_agents_notes_on_one_file_are_all_taken_in_order(noted: Space) -> None:
    for agent in ("zoe", "ann", "bob"):
        noted.note("src/a.py", f"says {agent}", agent=agent)
    noted.events()
    content = noted.frame("src", "note")["content"]
    assert [content.index(f"says {agent}") for agent in ("ann", "bob", "zoe")] == sorted(
        content.index(f"says {agent}") for agent in ("ann", "bob", "zoe")
    )
    chain = noted.engine.explain("src", frame_type="note")["chain"]
    assert chain[0]["input"] == "src/a.py" or any(one["input"] == "src/a.py" for one in chain)


def test_a_note_bound_to_an_outline_follows_it(noted: Space) -> None:
    noted.note("src/a.py", "about the outline", on="outline")
    noted.events()
    before = noted.frame("src", "note")["content"]
    noted.write("src/a.py", python("a", value=9))
    noted.events()
    assert noted.frame("src", "note")["content"] == before
    noted.write("src/a.py", python("renamed"))
    noted.events()
    assert "about the outline" not in noted.frame("src", "note")["content"]
    assert set(noted.labels("note").values()) <= {"fresh", "stale"}
    assert noted.freshness("", "note") == "fresh"
    noted.valid()


def test_agents_write_such_a_type_on_files_and_not_on_folders(noted: Space) -> None:
    journal = noted.engine.records.journal.last
    with pytest.raises(UsageError, match="made from their children's"):
        noted.note("src", "about a folder", agent="ann")
    # Only the agent was registered.
    assert noted.engine.records.journal.last == journal + 1
    with pytest.raises(UsageError, match="kept by a generator"):
        noted.note("src/a.py", "x", frame_type="outline")


def test_notes_in_a_renamed_folder_are_taken_in_where_they_are_carried(noted: Space) -> None:
    noted.note("src/deep/b.py", "about b")
    noted.events()
    noted.move("src/deep", "doc/deep")
    noted.settle()
    assert "about b" in noted.frame("doc", "note")["content"]
    assert "about b" not in noted.frame("src", "note")["content"]
    assert noted.freshness("", "note") == "fresh"
    noted.valid()


def test_synthesis_of_a_type_that_is_not_declared(project: Space) -> None:
    project.note("src/one/a.py", "risky", frame_type="review")
    made = project.engine.synthesize("src", frame_type="review")
    assert made["generated"] == 3
    shown = project.frame("src", "review")
    assert shown["frame_id"] == made["frame_id"]
    assert "risky" in shown["content"]
    assert (shown["freshness"], shown["agent"]) == ("fresh", "merkle:concatenate")
    # Nothing above the folder that was asked for, and nothing twice.
    assert project.engine.get_head("", frame_type="review")["heads"] == []
    assert project.engine.synthesize("src", frame_type="review")["frames"] == 0
    project.note("src/one/a.py", "safe now", frame_type="review", replace_mine=True)
    told = {path: project.frame(path, "review") for path in ("src", "src/one", "src/two")}
    assert [one["freshness"] for one in told.values()] == ["stale", "stale", "fresh"]
    assert told["src"]["because"] == "the frames of src/one/a.py changed"
    again = project.engine.synthesize("src", frame_type="review")
    assert again["frame_id"] != made["frame_id"]
    assert "safe now" in project.frame("src", "review")["content"]
    assert "risky" not in project.frame("src", "review")["content"]
    for change, because in (
        (lambda: project.write("src/one/a.py", "other"), "the frames of src/one/a.py changed"),
        (lambda: project.write("src/one/new.py", "new"), "src/one/new.py came"),
        (lambda: (project.root / "src/one/b.py").unlink(), "src/one/b.py is gone"),
    ):
        change()
        shown = project.frame("src", "review")
        assert (shown["freshness"], shown["because"]) == ("stale", because)
        assert project.engine.explain("src", frame_type="review")["because"] == because
        project.engine.synthesize("src", frame_type="review")
        assert project.frame("src", "review")["freshness"] == "fresh"
    project.reopen()
    assert project.frame("src", "review")["freshness"] == "fresh"
    project.valid()


def test_synthesis_of_every_type_takes_all_frames_of_the_children(project: Space) -> None:
    project.note("src/one/a.py", "a remark")
    project.engine.synthesize("src", frame_type="*")
    content = project.frame("src/one", "*")["content"]
    assert "a remark" in content
    assert "def a" in content
    # The next level has what the one below has, and the frames beside it.
    assert "a remark" in project.frame("src", "*")["content"]
    before = project.engine.get_head("src", frame_type="*")["heads"][0]["frame_id"]
    assert project.engine.synthesize("src", frame_type="*")["frames"] == 0
    project.write("src/one/a.py", python("changed"))
    project.engine.regenerate()
    project.engine.synthesize("src", frame_type="*")
    after = project.engine.get_head("src", frame_type="*")["heads"][0]["frame_id"]
    assert after != before
    # The note is stale now, and so is no longer part of it.
    assert "a remark" not in project.frame("src/one", "*")["content"]
    assert "changed" in project.frame("src/one", "*")["content"]


def test_a_name_that_is_no_type_is_refused(project: Space) -> None:
    for name in ("", "Two Words", "**", "../x"):
        with pytest.raises(UsageError, match="no frame type"):
            project.engine.synthesize("src", frame_type=name)


def test_an_unknown_policy_is_refused_and_nothing_is_stored(project: Space) -> None:
    before = project.engine.sql("SELECT count(*) FROM frames")["rows"]
    with pytest.raises(UsageError):
        project.engine.synthesize("src", frame_type="review", policy="nonsense")
    assert project.engine.sql("SELECT count(*) FROM frames")["rows"] == before


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["edit", "note", "note-on-outline", "regenerate", "config", "remove"]),
        st.sampled_from(["src/a.py", "src/deep/b.py", "doc/c.md"]),
        st.integers(0, 2),
    ),
    max_size=12,
)


@settings(max_examples=4, deadline=None)
@given(STEPS)
@example(
    # A configuration that goes and comes back, as with a change of branches.
    [("regenerate", "doc/c.md", 0), ("config", "doc/c.md", 1), ("note-on-outline", "src/a.py", 0),
     ("config", "doc/c.md", 0)]
)  # fmt: skip
def test_after_any_steps_the_folders_are_what_a_rebuild_makes_of_them(
    steps: list[tuple[str, str, int]],
) -> None:
    check_against_a_rebuild(steps)


@pytest.mark.soak
@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_after_many_steps_the_folders_are_what_a_rebuild_makes_of_them(
    steps: list[tuple[str, str, int]],
) -> None:
    check_against_a_rebuild(steps)


def check_against_a_rebuild(steps: list[tuple[str, str, int]]) -> None:
    files = {"src/a.py": python("a"), "src/deep/b.py": python("b"), "doc/c.md": "# c\n"}
    space, rebuilt = settled(files, NOTES), None
    try:
        for action, path, number in steps:
            _take(space, action, path, number)
        fresh = _fresh_folders(space)
        space.settle()
        assert fresh.items() <= _fresh_folders(space).items()
        space.valid()
        pack = space.base / "pack"
        space.engine.export_pack(pack)
        rebuilt = _rebuild(space, pack)
        for path in ("", "src", "src/deep", "doc"):
            ours = space.engine.get_node(path, frame_type="note")["frames"]
            theirs = rebuilt.engine.get_node(path, frame_type="note")["frames"]
            assert [one["frame_id"] for one in ours] == [one["frame_id"] for one in theirs]
            assert {one["freshness"] for one in ours} <= {"fresh"}
    finally:
        space.close()
        if rebuilt is not None:
            rebuilt.close()


def _fresh_folders(space: Space) -> dict[str, str]:
    return {
        path: head["frame_id"]
        for path in ("", "src", "src/deep", "doc")
        if (space.root / path).exists()
        for head in space.engine.get_head(path, frame_type="note")["heads"]
        if head["freshness"] == "fresh"
    }


def _take(space: Space, action: str, path: str, number: int) -> None:
    there = (space.root / path).exists()
    if action == "edit":
        space.write(path, python(f"f{number}", value=number))
    elif action == "remove" and there:
        (space.root / path).unlink()
    elif action == "note" and there:
        space.engine.scan()
        space.note(path, f"note {number}", agent=f"agent{number}")
    elif action == "note-on-outline" and there:
        space.settle()
        space.note(path, f"outlined {number}", on="outline")
    elif action == "regenerate":
        space.settle()
    elif action == "config":
        limit = f'file = {{ use = "outline", max_line = {200 + number} }}'
        space.declare(NOTES.replace('file = "outline"', limit, 1) if number else NOTES)


def _rebuild(space: Space, pack: Path) -> Space:
    """The same files and notes in a workspace that never saw how they came about."""
    other = space.clone()
    other.engine.scan()
    other.engine.import_pack(pack, trust=True)
    other.engine.regenerate()
    return other


# -- proofs against a full recomputation

BOUND = """
[types.outline]
file = "outline"
folder = "concatenate"
[types.brief]
input = "outline"
file = "outline"
folder = "summarize"
[types.review]
folder = "concatenate"
"""
FILES, FOLDERS = ["src/a.py", "src/deep/b.py"], ["", "src", "src/deep"]
KEPT = ["outline", "brief", "review"]
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("edit"), st.sampled_from(FILES), st.sampled_from("xy")),
        st.tuples(st.just("review"), st.sampled_from(FILES), st.sampled_from(KEPT[:2])),
        st.tuples(st.just("remark"), st.sampled_from(FOLDERS[1:]), st.sampled_from(KEPT[:2])),
        st.tuples(
            st.sampled_from(["make", "make alone", "invalidate"]),
            st.sampled_from(FOLDERS + FILES),
            st.sampled_from(KEPT),
        ),
        st.tuples(st.just("gather"), st.sampled_from(FOLDERS), st.sampled_from(["*", "remark"])),
    ),
    max_size=14,
)


def move(space: Space, action: str, path: str, what: str) -> None:
    if action == "edit":
        space.write(path, python(what))
    elif action in ("review", "remark"):
        with contextlib.suppress(UsageError):
            # Refused where there is no fresh frame to be bound to.
            space.note(path, f"on {what}", frame_type=action, on=what)
    elif action == "invalidate":
        space.engine.invalidate(path, frame_type=what)
    elif action == "gather":
        space.engine.synthesize(path, frame_type=what)
    else:
        space.engine.regenerate(path, frame_type=what, recursive=action == "make")


class Recomputed:
    """What is fresh by its definition alone: nothing that was proved before is believed."""

    def __init__(self, space: Space) -> None:
        self.frames = space.engine.frames
        self.tree = space.engine.tree_as_on_disk("")

    def declared(self, kind: str) -> FrameType:
        tokens = self.frames.declared.tokens
        return self.frames.types.get(kind) or undeclared_type(kind, "", None, {}, tokens)

    def holds(self, path: str, kind: str, agent: str, head: Head) -> bool:
        declared, entry = self.declared(kind), self.tree.get(path)
        rules = declared.rules
        if entry is None or not rules.wants(entry) or agent != rules.agent_for(entry):
            return False
        if head.config != rules.config_for(entry):
            return False
        below = [(path, declared.input, entry)] if declared.input else []
        if entry.folder is not None:
            inside = entry.folder.entries.items()
            below = [(paths.join(path, name), kind, child) for name, child in inside]
        if not all(self._is_made(*one) for one in below):
            return False
        # What is taken in is what is proved now, and each of those proofs is checked itself.
        is_fresh = fresh_in(self.frames, self.tree)
        return expected_basis(self.frames, declared, path, entry, is_fresh) == head.basis

    def _is_made(self, path: str, kind: str, entry: Entry) -> bool:
        rules = self.declared(kind).rules
        head = self.frames.heads.head(path, kind, rules.agent_for(entry))
        if head is None:
            return not rules.wants(entry)
        return not rules.wants(entry) or self.holds(path, kind, rules.agent_for(entry), head)

    def _is_fresh_note(self, path: str, head: Head) -> bool:
        document, entry = self.frames.note_inputs(head.frame_id), self.tree.get(path)
        assert document is not None
        assert entry is not None
        on = document[ON]
        made = self.frames.heads.head(path, on, self.declared(on).rules.agent_for(entry))
        if made is None or not self._is_made(path, on, entry):
            return False
        now = {ON: on, SHA256: made.content.hex()}
        return note_basis(self.frames.algorithm, path, now) == head.basis

    def check(self) -> None:
        """Whatever counts as fresh, or as not to be made again, is so."""
        for (kind, agent), heads in self.frames.heads.slots.items():
            for path, head in heads.items():
                entry = self.tree.get(path)
                assert entry is not None
                if not agent.startswith("merkle:"):
                    judged = judge(self.frames, self.tree, path, kind, agent, head)
                    if judged.freshness is Freshness.FRESH:
                        assert self._is_fresh_note(path, head), (path, kind, agent)
                elif self.declared(kind).rules.is_current(head, entry):
                    assert self.holds(path, kind, agent, head), (path, kind, agent)


@settings(max_examples=6, deadline=None)
@given(MOVES)
@example(
    [
        ("edit", "src/deep/b.py", "x"),
        ("make alone", "src/deep/b.py", "outline"),
        ("gather", "src", "*"),
        ("make alone", "src/deep", "outline"),
    ]
)
@example(
    [
        ("remark", "src/deep", "outline"),
        ("edit", "src/deep/b.py", "x"),
        ("make alone", "src/deep/b.py", "outline"),
        ("gather", "src", "remark"),
        ("edit", "src/deep/b.py", "b"),
        ("make", "src/deep", "outline"),
        ("gather", "src", "remark"),
        ("invalidate", "src/deep", "outline"),
    ]
)
def test_what_counts_as_proved_is_what_a_full_recomputation_finds(
    moves: list[tuple[str, str, str]],
) -> None:
    check_against_a_recomputation(moves)


@pytest.mark.soak
@settings(max_examples=300, deadline=None)
@given(MOVES)
def test_what_counts_as_proved_after_many_moves_is_what_a_full_recomputation_finds(
    moves: list[tuple[str, str, str]],
) -> None:
    check_against_a_recomputation(moves)


def check_against_a_recomputation(moves: list[tuple[str, str, str]]) -> None:
    space = settled({"src/a.py": python("a"), "src/deep/b.py": python("b")}, BOUND)
    try:
        for one in moves:
            move(space, *one)
            Recomputed(space).check()
    finally:
        space.close()
