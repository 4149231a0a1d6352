"""Cycles: expiry, cascade, pruning, sealing, snapshots and attempts."""

from __future__ import annotations

import pytest

from indexer.sessions import (
    Attempt,
    OpRecord,
    Placement,
    PrunePolicy,
    Session,
    TokenBudget,
    import_session,
    make_content,
)
from indexer.sessions.apply import open_data, open_state
from indexer.sessions.documents import snapshot_document
from indexer.sessions.history import History, Version
from indexer.sessions.node import HeaderError
from indexer.sessions.operations import AttemptError, plan_seal
from indexer.sessions.placement import SealedError
from indexer.sessions.state import SnapshotUnknownError


def alive(session: Session, node: str) -> list[int]:
    """The cycles whose snapshots show a node."""
    return [c for c in range(1, session.cycle + 1) if session.select(f"@c{c} #{node}")]


@pytest.mark.parametrize("ttl", [0, 1, 2, 3, 5])
def test_a_node_expires_exactly_at_its_cycle_plus_ttl(session, say, ttl):
    session.commit()
    node = say(session, "x", ttl=ttl)
    for _ in range(8):
        session.commit()
    created = 2
    assert alive(session, node) == list(range(created, created + ttl))


def test_ttl_0_is_rendered_while_working_and_never_reaches_a_snapshot(session, say):
    node = say(session, "only now", ttl=0)
    assert session.select("@w .cb") == [node]
    session.commit()
    assert session.select("@* .cb") == []


def test_without_ttl_a_node_stays(session, say):
    node = say(session, "x")
    for _ in range(20):
        session.commit()
    assert len(alive(session, node)) == 20


def test_expiry_waits_for_the_commit(session, say):
    node = say(session, "x", ttl=1)
    session.commit()
    assert session.select("@w .cb") == [node]
    session.commit()
    assert session.select("@w .cb") == []


def test_expired_core_blocks_leave_an_empty_core(session, say):
    say(session, "x", ttl=0)
    session.commit()
    assert len(session.select("^seq .mt > .mc")) == 1
    assert session.render() == b"[]"


def test_removable_containers_go_with_their_last_child(session, say):
    session.apply(session.plan_group(Placement(id="outer", node_type="cb:group", offset=1)))
    session.apply(session.plan_group(Placement(id="inner", node_type="cb:group", parent="outer")))
    say(session, "x", parent="inner", ttl=1)
    session.commit()
    assert session.select("#outer, #inner") == ["outer", "inner"]
    session.commit()
    assert session.select("#outer, #inner") == []


def test_containers_that_are_not_removable_stay(session, say):
    group = Placement(id="g", node_type="cb:group", offset=1)
    session.apply(session.plan_group(group, removable=False))
    say(session, "x", parent="g", ttl=1)
    session.commit()
    session.commit()
    assert session.select("#g") == ["g"]


def test_a_container_with_a_living_child_stays(session, say):
    session.apply(session.plan_group(Placement(id="g", node_type="cb:group", offset=1)))
    say(session, "x", parent="g", ttl=1)
    other = say(session, "y", parent="g")
    session.commit()
    session.commit()
    assert session.select("#g > .cb") == [other]


def test_an_expired_container_takes_its_children(session, say):
    session.apply(session.plan_group(Placement(id="g", node_type="cb:group", offset=1, ttl=1)))
    say(session, "x", parent="g")
    session.commit()
    session.commit()
    assert session.select("^seq .cb") == []


def test_a_live_reference_defers_expiry_until_it_goes(session, say):
    target = say(session, "target", offset=1, ttl=1)
    referrer = say(session, "referrer", offset=1, ttl=3, references=(target,))
    for _ in range(5):
        session.commit()
    assert alive(session, referrer) == [1, 2, 3]
    assert alive(session, target) == [1, 2, 3]


def test_a_removed_referrer_releases_what_is_deferred(session, say):
    target = say(session, "target", offset=1, ttl=1)
    referrer = say(session, "referrer", offset=1, references=(target,))
    for _ in range(3):
        session.commit()
    session.apply(session.plan_remove(referrer))
    session.commit()
    assert alive(session, target) == [1, 2, 3]


def test_nodes_that_refer_to_each_other_expire_together():
    nodes = [
        {"id": "a", "offset": 1, "ttl": 1, "content": "", "cb:references": ["b"]},
        {"id": "b", "offset": 1, "ttl": 1, "content": "", "cb:references": ["a"]},
    ]
    head = {"nodeType": "^ah", "children": nodes}
    imported = import_session({"root": {"children": [head]}}, "s")
    imported.commit()
    assert imported.select(".cb") == []


def test_a_referenced_descendant_keeps_its_container(session, say):
    session.apply(session.plan_group(Placement(id="g", node_type="cb:group", offset=1, ttl=1)))
    inner = say(session, "x", parent="g")
    say(session, "y", offset=2, references=(inner,))
    session.commit()
    session.commit()
    assert session.select("#g > .cb") == [inner]


def test_each_cycle_gives_exactly_one_snapshot(session, say):
    for number in range(1, 6):
        say(session, str(number))
        assert session.commit() == number
        assert len(session.select("^seq .mt")) == number
        assert [seal.cycle for seal in session.seals] == list(range(1, number + 1))


def test_an_empty_cycle_gives_a_turn_and_a_snapshot_too(session):
    session.commit()
    assert session.select("^seq .mt > .mc") != []


def test_the_active_head_is_sealed_and_a_fresh_one_begins(session, say):
    block = say(session, "x")
    assert session.select("@w ^ah .cb") == [block]
    session.commit()
    assert session.select("@w ^ah .cb") == []
    assert session.select("^ah") == ["^ah"]
    assert session.select("^seq .mt:depth(1) .mc > .cb") == [block]


def test_mutability_follows_the_cycle_not_the_region(session, say):
    """What the cycle made can be changed in any region; what was sealed cannot be in any."""
    fresh = say(session, "x", region="sys")
    session.apply(session.plan_move(fresh, "^ah", -1))
    session.apply(session.plan_move(fresh, "^sys"))
    core = say(session, "core")
    session.apply(session.plan_remove(core))
    sealed = say(session, "sealed")
    session.commit()
    with pytest.raises(SealedError):
        session.plan_remove(sealed)


def test_order_of_the_commit_is_expiry_pruning_sealing(clock):
    """Expired blocks make room first, so pruning finds nothing to do; the new turn is whole."""
    session = Session.new("s", clock=clock, prune=PrunePolicy(max_nodes=2))

    def add(name: str, **where: object) -> None:
        session.append(make_content("dialogue", text=name), Placement(id=name, **where))

    add("keep")
    add("expires", ttl=1)
    session.commit()
    add("new")
    record = session.plan_commit().record
    assert record.data["expired"] == ["expires"]
    assert record.data["pruned"] == []
    session.apply(record)
    assert session.select("^seq .cb") == ["keep", "new"]


def test_pruning_goes_by_priority_then_age_then_id(clock):
    session = Session.new("s", clock=clock, prune=PrunePolicy(max_nodes=1))
    for name, priority in [("b", 1), ("a", 1), ("old", 0), ("young", 0), ("top", 9)]:
        session.append(make_content("dialogue", text=name), Placement(id=name, priority=priority))
    session.commit()
    session.append(make_content("dialogue", text="now"), Placement(id="now"))
    pruned = session.plan_commit().record.data["pruned"]
    assert pruned == ["old", "young", "b", "a", "top"]


def test_equal_priority_and_age_fall_back_to_the_id():
    blocks = [{"id": i, "offset": 1, "content": i} for i in ("c", "a", "b")]
    turn = {"id": "t", "nodeType": "mt", "children": blocks}
    tree = {"root": {"children": [{"nodeType": "^seq", "children": [turn]}]}}
    document = snapshot_document(import_session(tree, "s").view())
    data = open_data("s", TokenBudget(), PrunePolicy(max_nodes=1), document)
    state = open_state(OpRecord(0, 0, "open", data))
    assert plan_seal(state, 1000).data["pruned"] == ["a", "b"]


def test_pruning_spares_recent_turns_pins_and_references(clock):
    session = Session.new("s", clock=clock, prune=PrunePolicy(max_nodes=0, protect_turns=1))

    def add(name: str, **where: object) -> str:
        content = make_content("dialogue", text=name)
        return session.append(content, Placement(id=name, **where)).commit_hash

    for name in ("pinned", "referenced", "plain"):
        add(name)
    session.annotate("pinned", "pinned")
    session.commit()
    add("recent", references=("referenced",))
    session.commit()
    assert session.select("^seq .cb") == ["pinned", "referenced", "plain", "recent"]
    session.commit()
    # The turn before is out of shelter now: the referrer goes, and so the referenced.
    assert session.select("^seq .cb") == ["pinned", "referenced", "recent"]
    session.commit()
    assert session.select("^seq .cb") == ["pinned"]


def test_a_limit_of_0_keeps_nothing_and_no_limit_keeps_all(clock):
    for limit, left in ((0, 0), (None, 3)):
        session = Session.new("s", clock=clock, prune=PrunePolicy(max_nodes=limit))
        for text in "abc":
            session.append(make_content("dialogue", text=text))
        session.commit()
        session.commit()
        assert len(session.select(".cb")) == left


def test_pruning_never_takes_an_edit_and_leaves_what_it_replaced(clock):
    session = Session.new("s", clock=clock, prune=PrunePolicy(max_nodes=3))
    secret = session.append(make_content("dialogue", text="secret"), Placement(id="secret"))
    session.append(make_content("dialogue", text="other"), Placement(id="other", priority=5))
    session.commit()
    session.edit(secret.commit_hash, make_content("dialogue", text="redacted"), Placement(id="e"))
    session.append(make_content("dialogue", text="new"), Placement(id="new"))
    assert session.plan_commit().record.data["pruned"] == ["secret", "e"]
    session.commit()
    assert session.select(".cb") == ["other", "new"]


def test_an_edit_goes_with_the_container_of_its_target(session, say):
    session.apply(session.plan_group(Placement(id="g", node_type="cb:group", offset=1, ttl=2)))
    inner = say(session, "x", parent="g")
    session.commit()
    session.edit(inner, make_content("dialogue", text="y"), Placement(id="e"))
    session.commit()
    assert session.select("#g, #e") == ["g", "e"]
    session.commit()
    assert session.select("#g, #e") == []


def test_pruning_by_tokens(clock):
    class Letters:
        def count_text(self, text: str) -> int:
            return len(text)

        def count_messages(self, messages) -> int:
            return 0

    policy = PrunePolicy(max_tokens=5)
    session = Session.new("s", clock=clock, counter=Letters(), prune=policy)
    for text in ("aaaa", "bbb", "cc"):
        session.append(make_content("dialogue", text=text), Placement(id=text))
    session.commit()
    session.commit()
    assert session.select("^seq .cb") == ["bbb", "cc"]


def test_a_failed_commit_changes_nothing(session, say, monkeypatch):
    say(session, "x")
    before = session.export()
    monkeypatch.setattr(
        "indexer.sessions.operations.plan_departures",
        lambda *a, **k: (_ for _ in ()).throw(RuntimeError("disk on fire")),
    )
    with pytest.raises(RuntimeError):
        session.commit()
    assert session.export() == before
    assert session.cycle == 0


def test_planning_a_commit_changes_nothing(session, say):
    say(session, "x", ttl=0)
    before = session.export(), session.render("@w")
    session.plan_commit()
    assert (session.export(), session.render("@w")) == before


def test_snapshots_are_immutable(session, say):
    seen: dict[int, bytes] = {}
    for number in range(6):
        say(session, f"core {number}", ttl=number % 3 or None)
        note = say(session, "note", offset=1, ttl=2)
        if number == 3:
            session.apply(session.plan_remove(note))
        cycle = session.commit()
        seen[cycle] = session.export_snapshot(f"@c{cycle}")
        for earlier, exported in seen.items():
            assert session.export_snapshot(f"@c{earlier}") == exported


def test_addresses_of_snapshots(session, say):
    assert session.select("@t0 .cb") == []
    first = say(session, "1")
    session.commit()
    second = say(session, "2")
    session.commit()
    assert session.select("@t0 .cb") == session.select(".cb") == [first, second]
    assert session.select("@t-1 .cb") == session.select("@c1 .cb") == [first]
    assert session.select("@t-2 .cb") == session.select("@c0 .cb") == []
    for address in ("@t-3", "@c3", "@t1"):
        with pytest.raises(SnapshotUnknownError):
            session.select(f"{address} .cb")


def test_the_cost_of_a_commit_does_not_grow_with_history(session, say, monkeypatch):
    """Operation counts, not seconds: nodes and versions touched by one more commit."""

    def touched() -> int:
        count = 0

        def counting(original):
            def wrapper(*args, **kwargs):
                nonlocal count
                count += 1
                return original(*args, **kwargs)

            return wrapper

        with monkeypatch.context() as patch:
            patch.setattr(Version, "visible", counting(Version.visible))
            patch.setattr(History, "version", counting(History.version))
            patch.setattr(History, "children", counting(History.children))
            say(session, "x")
            say(session, "pull", region="sys", ttl=1)
            session.commit()
            session.select("^seq .mt:depth(1) .mc > .cb")
            session.select("^seq .mt:last .cb")
        return count

    for _ in range(3):
        touched()
    early = touched()
    for _ in range(300):
        say(session, "x")
        say(session, "pull", region="sys", ttl=1)
        session.commit()
    assert touched() == early


def test_attempts_are_recorded_beside_the_history(session, say):
    say(session, "x")
    thread = session.render("@w")
    call = {"provider": "p", "model": "m", "params": {"temperature": 0}}
    session.apply(session.plan_attempt(Attempt("a1", "running", **call)))
    session.apply(session.plan_attempt(Attempt("a1", "canceled", token_in=5, token_out=0, **call)))
    session.apply(session.plan_attempt(Attempt("a2", "error", error="timeout", **call)))
    assert session.render("@w") == thread
    first = session.state.log.attempts["a1"]
    assert first.keys() >= {
        "attempt_id",
        "cycle_id",
        "status",
        "started_at",
        "ended_at",
        "provider",
        "model",
        "params",
        "token_in",
        "token_out",
    }
    assert first["status"] == "canceled"
    assert first["started_at"] < first["ended_at"]
    assert len(first["params"]["sha256"]) == 64
    assert session.state.log.attempts["a2"]["error"] == "timeout"
    with pytest.raises(AttemptError):
        session.plan_attempt(Attempt("a1", "completed", **call))
    with pytest.raises(AttemptError):
        session.plan_attempt(Attempt("a3", "paused", **call))
    session.commit()
    assert b'"a1"' not in session.export_snapshot()
    assert session.render() == thread


def test_a_negative_ttl_is_refused(session, say):
    with pytest.raises(HeaderError):
        say(session, "x", ttl=-1)
