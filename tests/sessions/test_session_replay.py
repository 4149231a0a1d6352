"""Replaying a log: the same bytes in any process, and no belief in a log that was tampered with."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from indexer.core.clock import ManualClock
from indexer.errors import MerkleError
from indexer.sessions import (
    Attempt,
    Placement,
    PrunePolicy,
    Session,
    TokenBudget,
    import_session,
    make_content,
    record_from_json,
)
from indexer.sessions.documents import DocumentError, log_checksum
from indexer.sessions.records import LogCorruptError
from indexer.sessions.session import StalePlanError

SCRIPT = """
import hashlib, json, sys
from indexer.sessions import import_session
session = import_session(sys.stdin.buffer.read(), "elsewhere")
out = {"export": hashlib.sha256(session.export()).hexdigest(), "head": session.head}
for cycle in range(session.cycle + 1):
    address = f"@c{cycle}"
    both = session.export_snapshot(address) + session.render(address)
    out[address] = hashlib.sha256(both).hexdigest()
out["work"] = hashlib.sha256(session.export_snapshot("@w")).hexdigest()
out["compiled"] = session.compile().to_json()
out["ids"] = session.select("@* *")
out["range"] = session.select("@t-9..@t0 *")
print(json.dumps(out, sort_keys=True))
"""


def busy_session(clock: ManualClock) -> Session:
    """A session that has seen every kind of record."""
    policy = PrunePolicy(max_nodes=12, protect_turns=2)
    session = Session.new("busy", clock=clock, budget=TokenBudget(10_000), prune=policy)
    law = session.append(make_content("instruction", text="law \u00e9"))
    session.append(make_content("instruction", text="second law"))
    call = {"provider": "p", "model": "m", "params": {"t": 1}}
    for number in range(9):
        clock.advance(1.5)
        block = session.append(make_content("dialogue", text=f"turn {number}"))
        note = session.append(
            make_content("tool_io", payload={"n": number}, name="t"),
            Placement(offset=1, ttl=number % 4, attributes={"data_frame": f"f{number}"}),
        )
        session.apply(session.plan_group(Placement(node_type="cb:group", offset=2)))
        (group,) = session.select("@w ^ah > .cb:group")
        session.append(make_content("reasoning", text="hm"), Placement(parent=group, ttl=2))
        session.apply(session.plan_attempt(Attempt(f"a{number}", "completed", **call)))
        if number == 3:
            session.edit(law.commit_hash, make_content("instruction", text="new law"))
            session.annotate(block.commit_hash, "pinned")
            session.apply(session.plan_remove(note.node_id))
        if number == 5:
            spare = session.append(make_content("dialogue", text="spare"), Placement(offset=3))
            session.commit()
            session.apply(session.plan_move(spare.node_id, "^sys"))
        session.commit()
    session.append(make_content("dialogue", text="unsealed"))
    return session


@pytest.fixture
def busy(clock: ManualClock) -> Session:
    return busy_session(clock)


def test_a_replay_gives_identical_snapshots_hashes_and_bytes(busy):
    log = json.loads(json.dumps([record.to_json() for record in busy.records]))
    again = Session.replay(log)
    assert again.export() == busy.export()
    assert again.head == busy.head
    for cycle in range(busy.cycle + 1):
        assert again.export_snapshot(f"@c{cycle}") == busy.export_snapshot(f"@c{cycle}")
        assert again.render(f"@c{cycle}") == busy.render(f"@c{cycle}")
    assert again.render("@w") == busy.render("@w")


def test_the_same_acts_at_the_same_times_give_the_same_log(busy):
    assert busy_session(ManualClock(1_700_000_000_000_000_000)).export() == busy.export()


def test_a_replayed_session_goes_on_like_the_first(busy, clock):
    again = Session.replay(busy.records, clock=clock)
    for session in (busy, again):
        session.append(make_content("dialogue", text="next"))
        session.commit()
    assert again.export() == busy.export()


@pytest.mark.parametrize(("seed", "zone"), [("0", "UTC"), ("4711", "Pacific/Kiritimati")])
def test_replay_elsewhere_in_another_process_hash_seed_and_zone(busy, seed, zone):
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=busy.export(),
        capture_output=True,
        env=environment,
        check=True,
        timeout=60,
    )
    told = json.loads(done.stdout)
    assert told["export"] == hashlib.sha256(busy.export()).hexdigest()
    assert told["head"] == busy.head
    for cycle in range(busy.cycle + 1):
        address = f"@c{cycle}"
        both = busy.export_snapshot(address) + busy.render(address)
        assert told[address] == hashlib.sha256(both).hexdigest()
    assert told["compiled"] == busy.compile().to_json()
    assert told["ids"] == busy.select("@* *")
    assert told["range"] == busy.select("@t-9..@t0 *")


def test_records_are_json_and_come_back_equal(busy):
    for record in busy.records:
        assert record_from_json(json.loads(json.dumps(record.to_json()))) == record


def test_unsealed_work_survives_a_replay(busy):
    again = Session.replay(busy.records)
    assert again.select("@w ^ah .cb") == busy.select("@w ^ah .cb") != []


def test_what_is_stored_per_record_rebuilds_every_snapshot(clock):
    """The versions that deltas report are all a store needs: a snapshot is a range of them."""
    session = busy_session(clock)
    rows: dict[tuple[str, int], dict] = {}
    again = Session.replay(session.records[:1])
    pending = [again.take_delta()]
    pending += [again.apply(record, verify=True) for record in session.records[1:]]
    for delta in pending:
        for key in delta.deletes:
            rows.pop(key, None)
        for key, version in delta.upserts.items():
            rows[key] = version.to_json()
    for cycle in range(session.cycle + 2):
        shown = {
            row["id"]
            for row in rows.values()
            if row["born"] <= cycle and (row["gone"] is None or cycle < row["gone"])
        }
        address = "@w" if cycle > session.cycle else f"@c{cycle}"
        assert shown == set(session.select(f"{address} *"))


def tampered(log: list[dict], change) -> list[dict]:
    copy = json.loads(json.dumps(log))
    change(copy)
    return copy


def first(log: list[dict], **wanted) -> dict:
    return next(r for r in log if all(r.get(k) == v for k, v in wanted.items()))


def set_in(record: dict, key: str, value: object) -> None:
    record[key] = value


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.pop(0),
        lambda log: log.pop(5),
        lambda log: log.insert(4, log[3]),
        lambda log: log.reverse(),
        lambda log: set_in(log[0], "format", "other/1"),
        lambda log: set_in(log[1], "kind", "poem"),
        lambda log: set_in(log[1], "at_ns", 0),
        lambda log: set_in(first(log, kind="commit")["content"], "text", "forged"),
        lambda log: set_in(first(log, kind="commit"), "timestamp_iso", "2020-01-01T00:00:00Z"),
        lambda log: set_in(first(log, kind="commit"), "commit_hash", "0" * 64),
        lambda log: set_in(first(log, kind="commit"), "parent_hash", "0" * 64),
        lambda log: first(log, kind="commit").pop("content"),
        lambda log: set_in(first(log, kind="commit")["placed"][0], "parent", "^seq"),
        lambda log: set_in(first(log, kind="commit")["placed"][0]["node"], "cycle", 9),
        lambda log: set_in(first(log, kind="commit")["placed"][0]["node"], "id", "other"),
        lambda log: set_in(first(log, operation="edit"), "reply_to", "0" * 64),
        lambda log: set_in(first(log, op="seal"), "cycle", 9),
        lambda log: first(log, op="seal", cycle=2)["expired"].append("x"),
        lambda log: set_in(first(log, op="seal", cycle=3), "expired", []),
        lambda log: set_in(first(log, op="annotate"), "target", "0" * 64),
        lambda log: set_in(first(log, op="annotate"), "priority", "loud"),
        lambda log: set_in(first(log, op="remove"), "id", "^sys"),
        lambda log: set_in(first(log, op="move"), "parent", "nowhere"),
        lambda log: set_in(first(log, op="attempt"), "status", "odd"),
        lambda log: set_in(first(log, op="group"), "parent", "nowhere"),
        lambda log: set_in(first(log, op="group"), "op", "explode"),
        lambda log: first(log, op="seal").pop("turn"),
    ],
)
def test_a_tampered_log_is_refused(busy, change):
    log = tampered([record.to_json() for record in busy.records], change)
    with pytest.raises(LogCorruptError) as caught:
        Session.replay(log)
    assert caught.value.code == "E_LOG_CORRUPT"


def test_a_plan_is_good_for_one_state_only(session):
    plans = [session.plan_append(make_content("dialogue", text=text)) for text in "ab"]
    session.apply(plans[0])
    before = session.export()
    with pytest.raises(StalePlanError):
        session.apply(plans[1])
    assert session.export() == before


def test_an_import_under_another_name_keeps_ids(busy):
    assert import_session(busy.export(), "renamed").select("@* *") == busy.select("@* *")


JUNK = [None, 0, -1, 1.5, "", "x", "^ah", [], {}, True, [1], {"a": 1}, 10**30, [None]]


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The path of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return [path, *(p for key, inner in items for p in places(inner, (*path, key)))]


def damaged_exports(busy: Session, count: int) -> Iterator[dict]:
    """Exports with one value changed into another, anywhere."""
    whole = json.loads(busy.export())
    paths = places(whole)[1:]
    for seed in range(count):
        random = Random(seed)
        damaged = json.loads(json.dumps(whole))
        *above, last = random.choice(paths)
        inner = damaged
        for key in above:
            inner = inner[key]
        inner[last] = random.choice(JUNK)
        if json.dumps(damaged) != json.dumps(whole):
            yield damaged


@pytest.mark.parametrize("count", [200, pytest.param(1500, marks=pytest.mark.soak)])
def test_no_change_of_an_export_goes_unnoticed(busy, count):
    """Headers of nodes are not in the hash chain; the checksum of the log covers them too."""
    for damaged in damaged_exports(busy, count):
        with pytest.raises(MerkleError):
            import_session(damaged, "s")


def test_an_export_without_its_checksum_is_refused(busy):
    damaged = json.loads(busy.export())
    del damaged["records_sha256"]
    with pytest.raises(DocumentError, match="records_sha256"):
        import_session(damaged, "s")


def test_forged_exports_are_refused_by_name_or_still_make_sense(busy):
    """Whatever is put into a log, nothing but the product's own errors comes out."""
    for damaged in damaged_exports(busy, 150):
        with suppress(MerkleError, TypeError):
            damaged["records_sha256"] = log_checksum(damaged["records"])
        with suppress(MerkleError):
            session = import_session(damaged, "s")
            session.commit()
            session.compile()
            session.select("*")


def test_a_session_from_before_times_were_kept_replays_to_the_same_bytes():
    """Edits of its system blocks stand right after what they edit, with times in between."""
    kept = Path(__file__).parent / "recorded" / "system_edits.json"
    told = json.loads(kept.read_text(encoding="utf-8"))
    session = import_session(told["export"], "again")
    assert session.export().decode() == told["export"]
    at = [f"@c{cycle}" for cycle in range(session.cycle + 1)] + ["@w"]
    assert [session.render(address).decode() for address in at] == told["rendered"]
    first = session.select("^sys > .cb")[:2]
    assert first[0] == "a"
    assert session.view().node(first[1]).references == ("a",)
    # What is written from now on comes later.
    edit = session.edit("a", make_content("instruction", text="again")).node_id
    assert session.select("@w ^sys > .cb")[-1] == edit
    assert Session.replay(session.records).export() == session.export()
