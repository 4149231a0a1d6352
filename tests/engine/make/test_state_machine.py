"""Edits, notes, configuration changes and partial passes in any order: what is labelled fresh is
what a rebuild from nothing gives."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from indexer.core.frames import GENERATED_AGENT_PREFIX
from tests.support.space import Space, python

FOLDERS = ["", "p", "p/q", "r"]
NAMES = ["a.py", "b.py", "c.txt", "__init__.py"]
CONTENTS = [
    python("f"), python("f", value=2), python("f", args="x"), python("g"), "", "plain words\n",
    "x" * 150 + "\n",
]  # fmt: skip
OUTLINE = "[types.outline]\n"
TYPES = [
    'file = "outline"\nfolder = "summarize"\n',
    'file = "outline"\nfolder = "concatenate"\n',
    'file = "outline"\nfolder = { use = "concatenate", headings = false }\n',
    'file = { use = "outline", max_line = 40 }\nfolder = "concatenate"\n',
    'file = "outline"\n',
    'scope = ["p", "r"]\nfile = "outline"\nfolder = "concatenate"\n',
]
SECOND = [
    "",
    '[types.brief]\ninput = "outline"\nfile = "outline"\nfolder = "concatenate"\n',
    '[types.brief]\nfile = { use = "outline", head_lines = 1 }\nfolder = "concatenate"\n',
    '[types.brief]\ninput = "outline"\nfile = "outline"\n',
]
LIMITS = ["", "[scan]\nsize_limit = 100\n"]

paths_of_files = st.builds(
    lambda folder, name: f"{folder}/{name}".lstrip("/"),
    st.sampled_from(FOLDERS), st.sampled_from(NAMES),
)  # fmt: skip


class Frames(RuleBasedStateMachine):
    """One workspace; after every step its labels are held against a clone made from nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.space = Space()
        self.notes = 0

    @initialize()
    def begin(self) -> None:
        # Outside of the tree, so that a change of configuration is only that.
        self.space.write(".merkleignore", "merkle.toml\n")
        self.space.write("keep.md", "# Kept\n")
        self.space.write("p/q/a.py", python("f"))
        self.space.settle()
        self.space.engine.add_agent("ann", "writer")
        self.types, self.second, self.limit = TYPES[0], "", ""

    def teardown(self) -> None:
        self.space.close()

    # -- files

    @rule(path=paths_of_files, content=st.sampled_from(CONTENTS))
    def edit(self, path: str, content: str) -> None:
        target = self.space.root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        if target.is_symlink():
            target.unlink()
        if target.parent.is_file() or target.parent.is_symlink():
            target.parent.unlink()
        self.space.write(path, content)

    @rule(path=paths_of_files)
    def remove(self, path: str) -> None:
        target = self.space.root / path
        if target.is_file() or target.is_symlink():
            target.unlink()

    @rule(path=paths_of_files, kind=st.sampled_from(["folder", "link"]))
    def swap(self, path: str, kind: str) -> None:
        target = self.space.root / path
        if not target.parent.is_dir() or (target.is_dir() and not target.is_symlink()):
            return
        target.unlink(missing_ok=True)
        if kind == "folder":
            target.mkdir()
        else:
            target.symlink_to("keep.md")

    @rule(old=st.sampled_from(["p", "p/q", "r", "s"]), new=st.sampled_from(["r", "s", "p/s"]))
    def move_folder(self, old: str, new: str) -> None:
        source, target = self.space.root / old, self.space.root / new
        if source.is_dir() and not target.exists() and not new.startswith(old + "/"):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(source, target)

    @rule(old=paths_of_files, new=paths_of_files)
    def move_file(self, old: str, new: str) -> None:
        source, target = self.space.root / old, self.space.root / new
        if source.is_file() and target.parent.is_dir() and not target.exists():
            os.rename(source, target)

    # -- configuration

    @rule(types=st.sampled_from(TYPES), second=st.sampled_from(SECOND))
    def configure(self, types: str, second: str) -> None:
        if "input" in second and "scope" in types:
            second = ""
        self.types, self.second = types, second
        self._declare()

    @rule(limit=st.sampled_from(LIMITS))
    def limit_size(self, limit: str) -> None:
        self.limit = limit
        self._declare()

    def _declare(self) -> None:
        self.space.declare(self.limit + OUTLINE + self.types + self.second)

    # -- frames

    @rule()
    def scan(self) -> None:
        self.space.engine.scan()

    @rule()
    def regenerate(self) -> None:
        self.space.engine.scan()
        self.space.engine.regenerate()
        made = {
            label
            for (_, _, agent), (_, label) in self._labels().items()
            if agent.startswith(GENERATED_AGENT_PREFIX)
        }
        assert made <= {"fresh", "orphaned", "unmanaged"}

    @rule(
        node=st.sampled_from(["", "p", "p/q", "r", "p/q/a.py", "p/a.py"]),
        recursive=st.booleans(),
        kind=st.sampled_from([None, "outline", "brief"]),
    )
    def regenerate_a_part(self, node: str, recursive: bool, kind: str | None) -> None:
        engine = self.space.engine
        engine.frames.declared.refresh()
        if engine.tree.get(node) is not None and (kind is None or kind in engine.frames.types):
            engine.regenerate(node, frame_type=kind, recursive=recursive)

    @rule(node=st.sampled_from(["", "p", "p/q/a.py"]))
    def synthesize_with_another_policy(self, node: str) -> None:
        engine = self.space.engine
        engine.scan()
        if engine.tree.folder(node) is not None:
            engine.synthesize(node, frame_type="outline", policy="filter")

    @rule(node=st.sampled_from(["", "p", "p/q/a.py"]))
    def invalidate(self, node: str) -> None:
        if self.space.engine.tree.get(node) is not None:
            self.space.engine.invalidate(node)

    @rule(
        node=st.sampled_from(["", "p", "p/q", "p/q/a.py", "p/a.py"]),
        on=st.sampled_from([None, "content", "outline"]),
        text=st.sampled_from(["one", "two"]),
    )
    def write_note(self, node: str, on: str | None, text: str) -> None:
        engine = self.space.engine
        engine.frames.declared.refresh()
        engine.scan()
        if engine.tree.get(node) is None:
            return
        if on == "outline":
            heads = engine.get_head(node, frame_type="outline")["heads"]
            if "fresh" not in {head["freshness"] for head in heads}:
                return
        written = engine.put_frame(node, text, frame_type="note", agent="ann", on=on)
        assert written["freshness"] == "fresh"
        self.notes += 1

    @precondition(lambda self: self.notes)
    @rule()
    def reopen(self) -> None:
        self.space.reopen()

    # -- what must hold

    def _labels(self) -> dict[tuple[str, str, str], tuple[str, str]]:
        """FrameID and label of every head, judged against the disk, by (path, type, agent)."""
        engine = self.space.engine
        found = {}
        for frame_type, agent in list(engine.frames.heads.slots):
            for path in engine.frames.heads.slots[frame_type, agent].places():
                for head in engine.get_head(path, frame_type=frame_type, agent=agent)["heads"]:
                    found[path, frame_type, agent] = (head["frame_id"], head["freshness"])
        return found

    @invariant()
    def nothing_labelled_fresh_differs_from_a_rebuild(self) -> None:
        if not hasattr(self, "types"):
            return
        labels = self._labels()
        clone = self.space.clone()
        try:
            clone.settle()
            for (path, frame_type, agent), (frame_id, label) in labels.items():
                if label != "fresh":
                    continue
                if agent.startswith(GENERATED_AGENT_PREFIX):
                    made = clone.engine.get_head(path, frame_type=frame_type, agent=agent)["heads"]
                    assert [head["frame_id"] for head in made] == [frame_id], (path, frame_type)
                    assert made[0]["freshness"] == "fresh"
                else:
                    self._check_note(clone, path, frame_type, frame_id)
        finally:
            clone.close()

    def _check_note(self, clone: Space, path: str, frame_type: str, frame_id: str) -> None:
        """A note that is fresh has the id that it would get if it were written now."""
        engine = self.space.engine
        # Plain bytes serve as the id.
        document: Any = engine.frames.note_inputs(bytes.fromhex(frame_id))  # type: ignore[arg-type]
        listed = engine.get_node(path, frame_type=frame_type)["frames"]
        (shown,) = (one for one in listed if one["frame_id"] == frame_id)
        clone.engine.add_agent("ann", "writer")
        again = clone.engine.put_frame(
            path, shown["content"], frame_type=frame_type, agent="ann", on=document["/on"]
        )
        assert again["frame_id"] == frame_id

    @invariant()
    def everything_stored_holds(self) -> None:
        if hasattr(self, "types"):
            assert self.space.engine.validate()["errors"] == []


STORY: list[tuple[str, dict[str, object]]] = [
    ("write_note", {"node": "p/q/a.py", "on": "content", "text": "one"}),
    ("edit", {"path": "p/q/a.py", "content": python("g")}),
    ("regenerate", {}),
    ("write_note", {"node": "p", "on": "outline", "text": "two"}),
    ("configure", {"types": TYPES[1], "second": SECOND[1]}),
    ("regenerate_a_part", {"node": "p", "recursive": False, "kind": None}),
    ("move_folder", {"old": "p/q", "new": "r"}),
]


def test_nothing_labelled_fresh_differs_from_what_a_rebuild_gives() -> None:
    """In one short story; others are for long runs."""
    machine = Frames()
    try:
        machine.begin()
        for step, arguments in STORY:
            getattr(machine, step)(**arguments)
            machine.nothing_labelled_fresh_differs_from_a_rebuild()
            machine.everything_stored_holds()
    finally:
        machine.teardown()


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_nothing_labelled_fresh_differs_from_what_a_rebuild_gives_at_length() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]  # hypothesis does not type it
        Frames, settings=settings(max_examples=12, stateful_step_count=20)
    )
