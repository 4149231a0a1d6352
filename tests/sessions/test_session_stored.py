"""A state loaded from rows is the state that a replay of the log gives."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings

from indexer.core.clock import ManualClock
from indexer.sessions import PrunePolicy, Session, import_session
from indexer.sessions.apply import open_state
from indexer.sessions.state import State
from indexer.sessions.stored import (
    VersionRow,
    all_rows,
    changed_rows,
    counters_of,
    load_state,
)
from indexer.sessions.stored_records import RecordRow, row_of
from tests.sessions.test_session_properties import PRUNES, SEEDS, Actor
from tests.sessions.test_session_replay import busy_session


def everything(state: State) -> dict[str, Any]:
    """All that a state holds, as far as anything can depend on it, order included."""
    history, live, log = state.history, state.live, state.log
    work = state.work()
    return {
        "versions": {i: [v.to_json() for v in versions] for i, versions in history.ids()},
        "recent": _places(history._recent),
        "archive": _places(history._archive),
        "leaving": sorted((v.id, v.born) for v in history._leaving),
        "regions": history.regions,
        "root": history.root_id,
        "working": history.working,
        "expiring": {cycle: sorted(ids) for cycle, ids in sorted(live.expiring.items()) if ids},
        "deferred": sorted(live.deferred),
        "released": sorted(live.released),
        "referrers": sorted((k, list(v)) for k, v in live.referrers.items()),
        "blocks": list(live.blocks),
        # Of what was touched only removable nodes without children can matter to a commit.
        "touched": sorted(
            i for i in live.touched
            if (node := work.node(i)) is not None and node.removable and not work.children(i)
        ),
        "commits": [(c.commit_hash, c.seq, c.reply_to, c.token_count) for c in log.commits],
        "nodes": (log._node_of, log._commit_of, log.total_tokens),
        "priorities": log.priorities,
        "attempts": log.attempts,
        "blobs": {key: log.blobs[key] for key in log.blobs},
        "seals": state.seals,
        "records": [json.dumps(r.to_json(), sort_keys=True) for r in state.records],
        "opened": (state.name, state.base_cycle, state.imported, state.budget, state.policy),
        "counters": (state.creation_index, state.last_ns),
    }  # fmt: skip


def _places(lists: Any) -> Any:
    return {parent: [(v.id, v.born) for v in versions] for parent, versions in lists.items()}


class Rows:
    """What a store would hold of a session, filled record by record."""

    def __init__(self, session: Session, whole_until: int = 1) -> None:
        records = list(session.records)
        self.state = open_state(records[0])
        self.session = Session(self.state)
        for record in records[1:whole_until]:
            self.session.apply(record)
        self.session.take_delta()
        self.records = [row_of(record) for record in records[:whole_until]]
        self.versions = all_rows(self.state)
        self.blobs = {
            r.content_hash: json.dumps(r.content)
            for r in records
            if getattr(r, "content", None) is not None
        }
        self.pending = records[whole_until:]

    def step(self) -> None:
        record = self.pending.pop(0)
        delta = self.session.apply(record)
        self.records.append(row_of(record))
        self.versions += changed_rows(self.state, delta)

    def load(self) -> State:
        # Through JSON and tuples, as a database gives them back.
        records = [RecordRow(*json.loads(json.dumps(row))) for row in self.records]
        versions = [VersionRow(*json.loads(json.dumps(row))) for row in self.versions]
        known = {row.content_hash for row in records}
        blobs = {k: v for k, v in self.blobs.items() if k in known}
        return load_state(records, versions, blobs, counters_of(self.state))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(SEEDS, PRUNES)
def test_loaded_is_replayed_at_every_step(seed: int, prune: PrunePolicy | None) -> None:
    actor = Actor(seed, prune)
    actor.run(50)
    rows = Rows(actor.session)
    while rows.pending:
        for _ in range(min(3, len(rows.pending))):
            rows.step()
        loaded = rows.load()
        assert everything(loaded) == everything(rows.state)
        # What was loaded plans the rest of the log exactly as it was planned.
        going_on = Session(loaded)
        for record in rows.pending:
            going_on.apply(record, verify=True)
        assert going_on.export() == actor.session.export()


@settings(derandomize=True, max_examples=25, deadline=None)
@given(SEEDS, PRUNES)
def test_rows_of_a_whole_session_say_the_same(seed: int, prune: PrunePolicy | None) -> None:
    actor = Actor(seed, prune)
    actor.run(40)
    middle = 1 + seed % len(actor.session.records)
    rows = Rows(actor.session, middle)
    assert everything(rows.load()) == everything(rows.state)
    while rows.pending:
        rows.step()
    assert everything(rows.load()) == everything(rows.state)


def test_every_kind_of_record_loads() -> None:
    session = busy_session(ManualClock(10**18))
    assert {row_of(record).op for record in session.records} >= {
        "open", "append", "edit", "seal", "annotate", "attempt",
    }  # fmt: skip
    rows = Rows(session)
    while rows.pending:
        rows.step()
        assert everything(rows.load()) == everything(rows.state)


def test_an_imported_tree_loads_with_contents_that_are_no_text() -> None:
    node = {"nodeType": "cb", "id": "odd", "content": {"a": [1, None, 1.5]}}
    late = {"nodeType": "cb", "id": "late", "content": "x", "cycle": 1, "ttl": 1}
    old = {"nodeType": "cb", "id": "ref", "content": "y", "cb:references": ["late"]}
    regions = [{"nodeType": "^sys", "children": [node, late, old]}]
    document = {"cycle": 5, "root": {"children": regions}}
    session = import_session(document, "s", clock=ManualClock(10**18))
    rows = Rows(session, len(session.records))
    assert everything(rows.load()) == everything(rows.state)
    loaded = Session(rows.load(), clock=ManualClock(10**18))
    for one in (session, loaded):
        one.commit()
        one.apply(one.plan_remove("ref"))
        assert one.state.live.released == {"late": None}
    assert everything(loaded.state) == everything(session.state)
    again = Rows(session, len(session.records))
    assert everything(again.load()) == everything(session.state)
    for one in (session, loaded):
        one.commit()
        assert "late" not in one.select("@t0 .cb")
    assert loaded.export() == session.export()


def test_a_loaded_log_parses_nothing_before_it_is_asked() -> None:
    session = busy_session(ManualClock(10**18))
    rows = Rows(session, len(session.records))
    fresh = rows.load()
    made = [v._made for _, versions in fresh.history.ids() for v in versions]
    assert all(callable(each) for each in made)
    assert all(isinstance(text, str) for text in dict.values(fresh.log.blobs))
