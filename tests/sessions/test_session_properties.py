"""Promises that hold after any sequence of acts."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.core.clock import ManualClock
from indexer.errors import UsageError
from indexer.sessions import Placement, PrunePolicy, Session, import_session, make_content
from indexer.sessions.view import in_sealed_core, preorder


class Actor:
    """Does random things to a session and remembers what has to stay true."""

    def __init__(self, seed: int, prune: PrunePolicy | None = None) -> None:
        self.random = Random(seed)
        self.clock = ManualClock(10**18)
        self.session = Session.new("s", clock=self.clock, prune=prune)
        self.exported: dict[int, bytes] = {}
        self.cores: dict[str, Any] = {}
        self.born: dict[str, tuple[int, int]] = {}

    def run(self, acts: int) -> None:
        choices = [self.append, self.append, self.append, self.edit, self.move, self.remove]
        choices += [self.group, self.annotate, self.commit, self.commit, self.set, self.replace]
        for _ in range(acts):
            self.clock.advance(self.random.choice([0, 0, 1, -5]))
            try:
                self.random.choice(choices)()
            except UsageError:
                continue

    def some_node(self) -> str:
        view = self.session.view("@w")
        return self.random.choice([node.id for node in preorder(view, view.root_id)])

    def append(self) -> None:
        ttl = self.random.choice([None, None, 0, 1, 2, 4])
        where = Placement(
            region=self.random.choice(["sys", "ah", "ah", "ah"]),
            parent=self.some_node() if self.random.random() < 0.2 else None,
            offset=self.random.choice([-2, -1, 0, 0, 0, 1]),
            ttl=ttl,
            priority=self.random.randint(0, 2),
            references=(self.some_node(),) if self.random.random() < 0.15 else (),
        )
        content = make_content("dialogue", text=self.random.choice("abcdef"))
        node = self.session.append(content, where).node_id
        if ttl is not None:
            self.born[node] = (self.session.state.working_cycle, ttl)

    def edit(self) -> None:
        self.session.edit(self.some_node(), make_content("dialogue", text="edited"))

    def set(self) -> None:
        node, ttl = self.some_node(), self.random.choice([None, 0, 1, 3])
        self.session.set(node, ttl=ttl, attributes={"data_n": self.random.choice([None, 1, 2])})
        self.born.pop(node, None)
        if ttl is not None:
            self.born[node] = (self.session.state.working_cycle, ttl)

    def replace(self) -> None:
        content = make_content("dialogue", text=self.random.choice("abcdefg"))
        self.session.replace(self.some_node(), content)

    def move(self) -> None:
        plan = self.session.plan_move(
            self.some_node(), self.some_node(), self.random.randint(-1, 1)
        )
        self.session.apply(plan)

    def remove(self) -> None:
        self.session.apply(self.session.plan_remove(self.some_node()))

    def group(self) -> None:
        where = Placement(
            parent=self.some_node(), node_type="cb:group", offset=self.random.choice([-1, 1])
        )
        self.session.apply(self.session.plan_group(where))

    def annotate(self) -> None:
        self.session.annotate(self.some_node(), self.random.choice(["pinned", "skip", "normal"]))

    def commit(self) -> None:
        cycle = self.session.commit()
        self.exported[cycle] = self.session.export_snapshot()
        view = self.session.view()
        for node in preorder(view, view.root_id):
            if in_sealed_core(view, node.id):
                known = self.cores.setdefault(node.id, (node, view.parent(node.id)))
                assert known == (node, view.parent(node.id))


SEEDS = st.integers(0, 1 << 32)
PRUNES = st.sampled_from(
    [None, PrunePolicy(max_nodes=4), PrunePolicy(max_nodes=6, protect_turns=1)]
)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(SEEDS, PRUNES)
def test_sealed_cores_and_snapshots_never_change(seed: int, prune: PrunePolicy | None) -> None:
    actor = Actor(seed, prune)
    actor.run(60)
    for cycle, exported in actor.exported.items():
        assert actor.session.export_snapshot(f"@c{cycle}") == exported


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(-1, 1)), max_size=20))
def test_nodes_expire_exactly_when_due(acts: list[tuple[int, int, int]]) -> None:
    """A node of cycle c with ttl n is in the snapshots c to c + n - 1, and in no other."""
    session = Session.new("s", clock=ManualClock(10**18))
    due: dict[str, tuple[int, int]] = {}
    for commits, ttl, offset in acts:
        for _ in range(commits):
            session.commit()
        region = "sys" if ttl % 2 else "ah"
        content = make_content("dialogue", text="x")
        where = Placement(region=region, offset=offset, ttl=ttl)
        due[session.append(content, where).node_id] = (session.cycle + 1, ttl)
    for _ in range(8):
        session.commit()
    for node, (cycle, ttl) in due.items():
        shown = [c for c in range(session.cycle + 1) if session.view(f"@c{c}").node(node)]
        assert shown == list(range(cycle, cycle + ttl))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS)
def test_nothing_outlives_its_time_unless_something_refers_to_it(seed: int) -> None:
    actor = Actor(seed)
    actor.run(60)
    for node, (cycle, ttl) in actor.born.items():
        if cycle + ttl <= actor.session.cycle:
            view = actor.session.state.at(cycle + ttl)
            below = {below.id for below in preorder(view, node)}
            referred = {t for n in preorder(view, view.root_id) for t in n.references}
            assert not below or below & referred


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS, PRUNES)
def test_replay_gives_the_same_session(seed: int, prune: PrunePolicy | None) -> None:
    actor = Actor(seed, prune)
    actor.run(50)
    again = Session.replay([record.to_json() for record in actor.session.records])
    assert again.export() == actor.session.export()
    assert again.export_snapshot("@w") == actor.session.export_snapshot("@w")
    for cycle, exported in actor.exported.items():
        assert again.export_snapshot(f"@c{cycle}") == exported


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS)
def test_pruning_is_deterministic(seed: int) -> None:
    policy = PrunePolicy(max_nodes=3)
    first, second = Actor(seed, policy), Actor(seed, policy)
    for actor in (first, second):
        actor.run(50)
    assert first.session.export() == second.session.export()
    for record in first.session.records:
        data = record.to_json()
        if data.get("op") == "seal":
            assert not set(data["pruned"]) & set(data["expired"])


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS)
def test_import_of_export_is_the_identity(seed: int) -> None:
    actor = Actor(seed)
    actor.run(40)
    for cycle, exported in actor.exported.items():
        again = import_session(exported, "again")
        assert again.export_snapshot() == exported
        assert again.render() == actor.session.render(f"@c{cycle}")
    whole = actor.session.export()
    assert import_session(whole, "again").export() == whole


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS)
def test_reading_has_no_side_effect(seed: int) -> None:
    actor = Actor(seed)
    actor.run(40)
    session = actor.session
    before = session.export(), session.export_snapshot("@w")
    for address in ("@t0", "@w"):
        assert session.render(address) == session.render(address)
        session.select(f"{address} .cb")
    session.compile()
    session.plan_commit()
    assert (session.export(), session.export_snapshot("@w")) == before


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS)
def test_every_sealed_turn_keeps_one_core_and_canonical_order(seed: int) -> None:
    actor = Actor(seed)
    actor.run(50)
    view = actor.session.view()
    for turn in view.turns():
        assert sum(child.canonical == "mc" for child in view.children(turn.id)) == 1
    for node in preorder(view, view.root_id):
        if node.node_type != "^root":
            keys = [child.sort_key for child in view.children(node.id)]
            assert keys == sorted(keys)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS)
def test_no_live_reference_ever_dangles(seed: int) -> None:
    actor = Actor(seed)
    actor.run(60)
    for address in [f"@c{cycle}" for cycle in actor.exported] + ["@w"]:
        view = actor.session.view(address)
        for node in preorder(view, view.root_id):
            assert all(view.node(target) is not None for target in node.references)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS)
def test_diffs_of_neighbours_add_up(seed: int) -> None:
    actor = Actor(seed)
    actor.run(50)
    session = actor.session
    shown: set[str] = set(session.select("@c0 *"))
    for cycle in range(1, session.cycle + 1):
        found = session.diff(f"@c{cycle - 1}", f"@c{cycle}")
        shown = (shown - set(found["removed"])) | set(found["added"])
        assert shown == set(session.select(f"@c{cycle} *"))
