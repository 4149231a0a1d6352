"""Any edits, batch by batch: the incremental tree is the tree of a scan from nothing."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from indexer.core import listing, paths
from indexer.core.clock import ManualClock, SystemClock
from indexer.core.hashing import HASHES, WorkspaceHash
from indexer.core.kinds import Kind
from indexer.core.tree import Tree
from indexer.scan.assemble import assemble
from indexer.scan.previous import ListingsBefore, NothingBefore, Previous, TreeBefore
from indexer.scan.reconcile import reconcile
from indexer.scan.scopes import RULE_FILES, Scopes
from indexer.scan.walk import Walker
from indexer.store.layout import initialise
from tests.support.engines import Engine

NAMES = [b"a", b"b", b"B", b"x.log", b"\xff", b"new\nline", "é".encode(), b"e\xcc\x81", b"out"]
RULES = [b"", b"*.log\n", b"a\n", b"/b/\n!x.log\n", b"*\n!*/\n!a\n!keep\n", b"out\n*.log\n!x.log\n"]
CONTENTS = st.binary(max_size=2)
TARGETS = [b"a", b"..", b"nowhere", b"\xff"]
EDITS = [
    "write", "save_atomically", "make_folder", "make_link", "make_pipe", "delete", "rename",
    "touch", "edit_rules",
]  # fmt: skip

Flat = dict[str, tuple[Kind, bytes]]


def flat(tree: Tree) -> Flat:
    return {path: (entry.kind, entry.content_id) for path, entry in tree.walk()}


def from_nothing(root: Path, algorithm: WorkspaceHash) -> Tree:
    walker = Walker(root, algorithm, Scopes(root), NothingBefore(), time.time_ns())
    folder = assemble(Tree.empty(algorithm), walker.walk())
    assert folder is not None
    return Tree(algorithm, folder)


class Edits(RuleBasedStateMachine):
    """A workspace that is edited at will, and an engine that is told by scans or by events."""

    where = "/tmp"

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="mk", dir=self.where))
        self.root = self.base / "w"
        self.root.mkdir()
        self.ticks = itertools.count(1)
        self.events: list[tuple[str, bool]] = []
        self.history: dict[int, Flat] = {}

    @initialize(hash_name=st.sampled_from(sorted(HASHES)), late=st.booleans())
    def begin(self, hash_name: str, late: bool) -> None:
        # Seen from a day later nothing is young, and every stat has to vouch for its file.
        self.late = late
        initialise(self.root, hash_name)
        (self.root / "keep").write_bytes(b"so that the root is never empty")
        self.open()
        self.engine.scan()
        self.check()

    def open(self) -> None:
        clock = ManualClock(time.time_ns() + 86400 * 10**9) if self.late else SystemClock()
        self.engine = Engine(self.root, clock=clock)
        self.looked = 0

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
        shutil.rmtree(self.base)

    # -- the disk

    def full(self, path: str) -> bytes:
        return os.path.join(os.fsencode(self.root), paths.text_to_bytes(path))

    def folders(self) -> list[str]:
        """Every real folder, ignored ones too."""
        found = [""]
        for path in found:
            with os.scandir(self.full(path)) as listing:
                found += sorted(
                    paths.join(path, paths.bytes_to_text(entry.name))
                    for entry in listing
                    if entry.is_dir(follow_symlinks=False) and entry.name != b".merkle"
                )
        return found

    def entries(self) -> list[str]:
        """Everything there is, except what must stay."""
        found = []
        for folder in self.folders():
            names = sorted(os.listdir(self.full(folder)))
            found += [paths.join(folder, paths.bytes_to_text(name)) for name in names]
        return [path for path in found if path not in (".merkle", "keep")]

    def draw_folder(self, data: st.DataObject) -> str:
        shallow = [path for path in self.folders() if paths.depth(path) < 3]
        return data.draw(st.sampled_from(shallow), label="folder")

    def draw_place(self, data: st.DataObject) -> str:
        folder = self.draw_folder(data)
        name = data.draw(st.sampled_from(NAMES), label="name")
        return paths.join(folder, paths.bytes_to_text(name))

    def stamp(self, path: str) -> None:
        """A time no other edit has, so that a stat always tells two contents apart."""
        if self.late:
            tick = next(self.ticks)
            os.utime(self.full(path), ns=(tick, tick), follow_symlinks=False)

    def notice(self, path: str, *, is_folder: bool = False, deep: bool = False) -> None:
        """What the watcher tells and the service keeps."""
        name = paths.split(path)[1]
        if name in RULE_FILES or not self.engine.disk.scopes.ignores(path, is_folder):
            self.events.append((path, deep))

    def remove(self, path: str) -> None:
        """Remove whatever is there, with the events that come from below."""
        full = self.full(path)
        if os.path.isdir(full) and not os.path.islink(full):
            for name in os.listdir(full):
                self.remove(paths.join(path, paths.bytes_to_text(name)))
            os.rmdir(full)
            self.notice(path, is_folder=True)
        elif os.path.lexists(full):
            os.unlink(full)
            self.notice(path)

    # -- edits

    def write(self, data: st.DataObject) -> None:
        path = self.draw_place(data)
        full = self.full(path)
        if os.path.islink(full) or not os.path.isfile(full):
            self.remove(path)
        Path(os.fsdecode(full)).write_bytes(data.draw(CONTENTS, label="content"))
        self.stamp(path)
        self.notice(path)

    def save_atomically(self, data: st.DataObject) -> None:
        """Write a temporary file and rename it, as editors do."""
        path = self.draw_place(data)
        if not os.path.isfile(self.full(path)) and not os.path.islink(self.full(path)):
            self.remove(path)
        temporary = path + "~"
        Path(os.fsdecode(self.full(temporary))).write_bytes(data.draw(CONTENTS, label="content"))
        self.stamp(temporary)
        os.rename(self.full(temporary), self.full(path))
        self.notice(temporary)
        self.notice(path)

    def make_folder(self, data: st.DataObject) -> None:
        path = self.draw_place(data)
        self.remove(path)
        os.mkdir(self.full(path))
        self.notice(path, is_folder=True, deep=True)

    def make_link(self, data: st.DataObject) -> None:
        path = self.draw_place(data)
        self.remove(path)
        os.symlink(data.draw(st.sampled_from(TARGETS), label="target"), self.full(path))
        self.stamp(path)
        self.notice(path)

    def make_pipe(self, data: st.DataObject) -> None:
        path = self.draw_place(data)
        self.remove(path)
        os.mkfifo(self.full(path))
        self.notice(path)

    def delete(self, data: st.DataObject) -> None:
        if entries := self.entries():
            self.remove(data.draw(st.sampled_from(entries), label="path"))

    def rename(self, data: st.DataObject) -> None:
        entries = self.entries()
        if not entries:
            return
        old = data.draw(st.sampled_from(entries), label="old")
        new = self.draw_place(data)
        if paths.is_within(new, old) or paths.is_within(old, new):
            return
        self.remove(new)
        is_folder = os.path.isdir(self.full(old)) and not os.path.islink(self.full(old))
        os.rename(self.full(old), self.full(new))
        self.notice(old, is_folder=is_folder, deep=is_folder)
        self.notice(new, is_folder=is_folder, deep=is_folder)

    def touch(self, data: st.DataObject) -> None:
        if entries := self.entries():
            path = data.draw(st.sampled_from(entries), label="path")
            os.utime(self.full(path), follow_symlinks=False)
            self.stamp(path)
            self.notice(path)

    def edit_rules(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([".gitignore", ".merkleignore"]), label="rule file")
        path = paths.join(self.draw_folder(data), name)
        text = data.draw(st.sampled_from(RULES), label="rules")
        if text:
            Path(os.fsdecode(self.full(path))).write_bytes(text)
            self.stamp(path)
        else:
            self.remove(path)
        self.notice(path)

    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        """Some edits that nobody looks at yet."""
        for what in data.draw(st.lists(st.sampled_from(EDITS), min_size=1, max_size=5)):
            note(what)
            getattr(self, what)(data)

    # -- the index

    @rule(data=st.data(), force=st.booleans())
    def scan(self, data: st.DataObject, force: bool) -> None:
        self.edit(data)
        before = flat(self.engine.tree)
        document = self.engine.scan(force=force)
        self.events.clear()
        self.check()
        changed = before != flat(self.engine.tree)
        told = document["added"] + document["modified"] + document["removed"]
        assert bool(told) == changed

    @rule(data=st.data(), extra=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans())))
    def reconcile(self, data: st.DataObject, extra: list[tuple[bytes, bool]]) -> None:
        """Look where the events point, in any order, with repeated, stale and outer paths."""
        self.edit(data)
        root, _, unsettled = self.engine.reconcile(self.dirty(data, extra))
        self.events.clear()
        assert not unsettled
        assert root.root == self.engine.tree.root_id
        self.check()

    def dirty(self, data: st.DataObject, extra: list[tuple[bytes, bool]]) -> list[tuple[str, bool]]:
        noise = [(paths.bytes_to_text(name), deep) for name, deep in extra]
        noise += [(paths.split(path)[0], False) for path, _ in self.events[:2] if "/" in path]
        merged: dict[str, bool] = {}
        for path, deep in self.events + noise:
            merged[path] = deep or merged.get(path, False)
        dirty = list(merged.items()) + self.events[:1]
        return data.draw(st.permutations(dirty), label="dirty")

    @rule()
    def status(self) -> None:
        head = self.engine.trees.head()
        document = self.engine.status()
        now = flat(from_nothing(self.root, self.engine.algorithm))
        known = flat(self.engine.tree)
        assert document["state"] == ("current" if now == known else "stale")
        assert document["changes"]["added"] == sorted(now.keys() - known.keys(), key=paths.sort_key)
        assert document["changes"]["removed"] == sorted(
            known.keys() - now.keys(), key=paths.sort_key
        )
        assert self.engine.trees.head() == head

    @precondition(lambda self: self.looked)
    @rule()
    def reopen(self) -> None:
        before = self.engine.tree
        self.engine.close()
        self.open()
        assert self.engine.trees.listings() is not None
        assert self.engine.tree.root_id == before.root_id
        assert flat(self.engine.tree) == flat(before)

    @precondition(lambda self: self.looked)
    @rule()
    def crash(self) -> None:
        """End without the last write of the stat cache: what was recorded is all there."""
        before = self.engine.tree
        # As if the process had died before.
        self.engine.flush_listings = lambda: None  # type: ignore[method-assign]
        self.engine.close()
        self.open()
        assert flat(self.engine.tree) == flat(before)
        head = self.engine.trees.head()
        assert head is not None
        assert self.engine.tree.root_id == head.root

    # -- what must hold after every batch

    def check(self) -> None:
        engine = self.engine
        self.looked += 1
        now = from_nothing(self.root, engine.algorithm)
        assert flat(engine.tree) == flat(now)
        assert engine.tree.root_id == now.root_id
        assert engine.tree.root.totals == now.root.totals
        head = engine.trees.head()
        assert head is not None
        assert (head.root, head.totals) == (now.root_id, now.root.totals)
        report = engine.validate(content=True)
        assert report["valid"], report
        self.history[head.seq] = flat(now)
        self.check_history(head.seq)

    def check_history(self, newest: int) -> None:
        trees = self.engine.trees
        assert sorted(self.history) == list(range(1, newest + 1))
        chance = random.Random(newest)
        pairs = {(newest, 1), (1, newest), (newest - 1 or 1, newest), (newest, newest)}
        pairs |= {(chance.randint(1, newest), chance.randint(1, newest)) for _ in range(2)}
        for old, new in pairs:
            state = dict(self.history[old])
            for path, was, now in trees.changes_between(old, new):
                assert state.get(path) == (was and was[:2])
                assert state.get(path) != (now and now[:2])
                if now is None:
                    del state[path]
                else:
                    state[path] = now[:2]
            assert state == self.history[new]
            assert flat(trees.tree_at(old)) == self.history[old]
        self.check_view(newest)

    def check_view(self, newest: int) -> None:
        """The `changes` view, applied one after the other to the first tree, gives the last."""
        rows: list[list[Any]] = self.engine.sql(
            "SELECT path, change, kind, new_content_id FROM changes WHERE seq > 1 ORDER BY seq",
            limit=1_000_000,
        )["rows"]
        state = {path: (kind.label, cid.hex()) for path, (kind, cid) in self.history[1].items()}
        for path, change, kind, content_id in rows:
            assert (path in state) == (change != "added")
            if change == "removed":
                assert state.pop(path)[0] == kind
            else:
                state[path] = (kind, content_id)
        wanted = {p: (kind.label, cid.hex()) for p, (kind, cid) in self.history[newest].items()}
        assert state == wanted


class Memory:
    """A tree kept by walks and events alone, without a store: many more batches a second."""

    def __init__(self, root: Path, algorithm: WorkspaceHash, late: bool) -> None:
        self.root, self.algorithm, self.late = root, algorithm, late
        self.scopes = Scopes(root)
        # Asked for by the name that the engine has for it.
        self.disk = self
        self.tree = Tree.empty(algorithm)

    def walker(self, before: Previous, *, trust: bool = True) -> Walker:
        now = time.time_ns() + (86400 * 10**9 if self.late else 0)
        return Walker(self.root, self.algorithm, self.scopes, before, now, trust=trust)

    def scan(self, *, force: bool, from_listings: bool) -> None:
        before: Previous = TreeBefore(self.tree)
        if from_listings:
            found = listing.changed(None, self.tree.root)
            before = ListingsBefore({k: v for k, v in found.items() if v}, self.algorithm.size)
        observed = self.walker(before, trust=not force).walk()
        folder = assemble(self.tree, observed)
        assert folder is not None
        self.tree = Tree(self.algorithm, folder)

    def reconcile(self, dirty: list[tuple[str, bool]]) -> tuple[Any, None, list[str]]:
        found = reconcile(self.walker(TreeBefore(self.tree)), self.tree, dirty)
        self.tree = found.tree
        return found, None, found.unsettled

    def close(self) -> None:
        pass


class EditsInMemory(Edits):
    """The same edits, with the tree in memory only."""

    # The model has no such step, or stands in for an engine.
    status = reopen = crash = None  # type: ignore[assignment]

    def open(self) -> None:
        self.looked = 0
        # The model has no such step, or stands in for an engine.
        self.engine = Memory(self.root, HASHES["xxh3_128"], self.late)  # type: ignore[assignment]

    @initialize(late=st.booleans())
    def begin(self, late: bool) -> None:  # type: ignore[override]  # the model needs fewer choices
        self.late = late
        (self.root / "keep").write_bytes(b"so that the root is never empty")
        self.open()
        self.check_scan(force=False, from_listings=False)

    def check_scan(self, *, force: bool, from_listings: bool) -> None:
        # The model takes one more.
        self.engine.scan(force=force, from_listings=from_listings)  # type: ignore[call-arg]
        self.events.clear()
        self.check()

    @rule(data=st.data(), force=st.booleans(), from_listings=st.booleans())
    def scan(  # type: ignore[override]  # the model needs fewer choices
        self, data: st.DataObject, force: bool, from_listings: bool
    ) -> None:
        self.edit(data)
        self.check_scan(force=force, from_listings=from_listings)

    @rule(data=st.data(), extra=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans())))
    def reconcile(self, data: st.DataObject, extra: list[tuple[bytes, bool]]) -> None:
        self.edit(data)
        self.engine.reconcile(self.dirty(data, extra))
        self.events.clear()
        self.check()

    def check(self) -> None:
        now = from_nothing(self.root, self.engine.algorithm)
        assert flat(self.engine.tree) == flat(now)
        assert self.engine.tree.root_id == now.root_id
        assert self.engine.tree.root.totals == now.root.totals


# A shorter example takes minutes to find: remove this while looking for one.
PHASES = [Phase.generate]
_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.timeout(900)
def test_incremental_equals_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edits, "where", str(tmp_path))
    run_state_machine_as_test(
        Edits, settings=settings(max_examples=3, stateful_step_count=15, phases=PHASES)
    )


@pytest.mark.timeout(900)
def test_incremental_in_memory_equals_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Edits, "where", str(tmp_path))
    run_state_machine_as_test(
        EditsInMemory, settings=settings(max_examples=25, stateful_step_count=15, phases=PHASES)
    )


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("machine", "examples"), [(Edits, 60), (EditsInMemory, 300)])
def test_incremental_equals_from_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: type[Edits], examples: int
) -> None:
    monkeypatch.setattr(Edits, "where", str(tmp_path))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, phases=PHASES,
            suppress_health_check=_CHECKS,
        ),
    )  # fmt: skip
