"""Every field of every record of a pack, made wrong: taken in harmlessly, or refused whole."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.compose.manifest import manifest_id
from indexer.core.frames import body_hash, frame_id
from indexer.engine.frames.freshness import note_basis
from indexer.errors import UsageError
from indexer.store.pack import read_pack, write_pack
from tests.engine.durable.test_repair_keeps import paid
from tests.support.space import Space

Record = dict[str, Any]
Place = tuple[str | int, ...]

WRONG: tuple[Any, ...] = (None, True, -1, 10**40, 1.5, "../\x00", "FF" * 32, [1], {"a": [[1]]})
GONE = object()


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every place in a document, the first of each list standing for the others."""
    if here:
        yield here
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*here, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*here, 0))


def mutated(record: Record, place: Place, value: Any) -> Record:
    changed = copy.deepcopy(record)
    inner: Any = changed
    for step in place[:-1]:
        inner = inner[step]
    if value is GONE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return changed


def with_its_id(record: Record, space: Space) -> Record | None:
    """The record with the ids that follow from what it holds now, where any do."""
    try:
        if record["kind"] == "manifest":
            return {**record, "id": manifest_id(record["manifest"])}
        if record["kind"] in ("memo", "model"):
            return {**record, "content": body_hash(record["body"]).hex()}
        if record["kind"] == "frame":
            basis = note_basis(space.engine.algorithm, record["path"], record["inputs"])
            content = body_hash(record["body"])
            found = frame_id(basis, record["type"], record["agent"], content)
            return {**record, "frame_id": found.hex()}
    except Exception:
        # It follows from nothing; the plain mutation has shown what happens.
        return None
    return None


@pytest.fixture
def full(project: Space) -> Space:
    """A workspace that has something of every kind of record."""
    project.note("README.md", "a note", meta={"k": "v"})
    project.settle()
    project.engine.compose(["README.md"], record=True, query="note")
    project.engine.records.write([paid(0, "an answer")])
    project.engine.session_new("talk")
    project.engine.session_append("talk", type="dialogue", text="hello", role="user")
    return project


KINDS = ["agent", "frame", "manifest", "memo", "model", "session"]


def test_any_wrong_field_is_harmless_or_refused(full: Space, tmp_path: Path) -> None:
    check_forgeries(full, KINDS, tmp_path, one_in=5)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_any_wrong_value_in_any_field_is_too(full: Space, kind: str, tmp_path: Path) -> None:
    check_forgeries(full, [kind], tmp_path, one_in=1)


def check_forgeries(full: Space, kinds: list[str], tmp_path: Path, one_in: int) -> None:
    whole = tmp_path / "whole.pack"
    full.engine.export_pack(whole)
    head, *records = read_pack(whole)
    # Small: what the others are is the business of the other runs.
    small = {record["kind"]: record for record in records}
    assert set(small) == set(KINDS)
    target = full.clone()
    try:
        target.engine.scan()
        for kind in kinds:
            tried = refused = 0
            for forged in _forgeries(full, small[kind], one_in):
                pack = full.base / "forged.pack"
                others = [small["agent"]] if kind == "frame" else []
                try:
                    write_pack(pack, [head, *others, forged])
                except UsageError:
                    # No pack can hold it: there is nothing to take in.
                    continue
                tried += 1
                refused += _is_refused(target, pack)
            assert tried > 30 // one_in
            assert refused > tried // 2
        # It is whole, it opens again, and it takes in what is right.
        target.reopen()
        assert target.engine.records.redone == 0
        target.engine.import_pack(whole, trust=True)
        target.settle()
        target.valid()
    finally:
        target.close()


def _forgeries(space: Space, record: Record, one_in: int) -> Iterator[Record]:
    """The record with each of its fields wrong, in all ways or in one of so many by turns."""
    for number, place in enumerate(places(record)):
        if place == ("kind",):
            continue
        for value in (*WRONG, GONE)[number % one_in :: one_in]:
            forged = mutated(record, place, value)
            yield with_its_id(forged, space) or forged


def _is_refused(target: Space, pack: Path) -> bool:
    records = target.engine.records.journal
    last, seq = records.last, target.engine.frames.store.next_seq()
    try:
        target.engine.import_pack(pack, trust=True)
    except UsageError:
        unchanged = (records.last, target.engine.frames.store.next_seq()) == (last, seq)
        assert unchanged, pack.read_bytes()
        return True
    return False


def test_a_manifest_with_less_than_no_tokens_changes_nothing(full: Space, tmp_path: Path) -> None:
    full.engine.export_pack(tmp_path / "whole.pack")
    head, *records = read_pack(tmp_path / "whole.pack")
    (record,) = (one for one in records if one["kind"] == "manifest")
    record["manifest"]["tokens"] = -1
    record["id"] = manifest_id(record["manifest"])
    write_pack(tmp_path / "bad.pack", [head, record])
    with pytest.raises(UsageError, match="tokens"):
        full.engine.import_pack(tmp_path / "bad.pack")
    full.reopen()
    full.valid()
