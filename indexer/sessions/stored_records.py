"""The log as a store keeps it: rows that become records only when somebody reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from indexer.sessions.records import CommitRecord, Record, record_from_json


class RecordRow(NamedTuple):
    """One record: what the log is asked for in fields of its own, the rest as JSON."""

    seq: int
    at_ns: int
    op: str
    """The operation; `append` and `edit` are commits."""
    commit_hash: str | None
    content_hash: str | None
    content_type: str | None
    node_id: str | None
    reply_to: str | None
    token_count: int
    holds: bool
    """Whether this record is the one that carries its content."""
    record: str
    """The record as JSON, its content left out."""


def row_of(record: Record) -> RecordRow:
    """The row of a record; its content goes by its hash."""
    data = record.to_json()
    content = data.pop("content", None) if isinstance(record, CommitRecord) else None
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not isinstance(record, CommitRecord):
        return RecordRow(
            record.seq, record.at_ns, record.op, None, None, None, None, None, 0, False, text
        )
    return RecordRow(
        record.seq, record.at_ns, record.operation, record.commit_hash, record.content_hash,
        record.content_type, record.node_id, record.reply_to, record.token_count,
        content is not None, text,
    )  # fmt: skip


def record_of(row: RecordRow, blobs: Mapping[str, Any]) -> Record:
    """The record of a row, its content put back where it was."""
    data = json.loads(row.record)
    if row.holds and row.content_hash is not None:
        data["content"] = blobs[row.content_hash]
    return record_from_json(data)


def chain_record(row: RecordRow) -> CommitRecord:
    """What the hash chain needs of a commit; where it placed its nodes is left out."""
    assert row.commit_hash is not None
    assert row.content_hash is not None
    assert row.content_type is not None
    assert row.node_id is not None
    return CommitRecord(
        row.seq, row.at_ns, row.commit_hash, None, row.content_hash, row.content_type, row.op, "",
        row.node_id, row.token_count, row.reply_to,
    )  # fmt: skip


class RecordList:
    """The records of a session in order; those from a store are parsed anew at each reading."""

    def __init__(
        self, items: Iterable[Record | RecordRow] = (), blobs: Mapping[str, Any] | None = None
    ) -> None:
        self._items: list[Record | RecordRow] = list(items)
        self._blobs: Mapping[str, Any] = {} if blobs is None else blobs

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Record]:
        return map(self._record, self._items)

    def __getitem__(self, place: int) -> Record:
        return self._record(self._items[place])

    def append(self, record: Record) -> None:
        """Add the next record."""
        self._items.append(record)

    def first(self, count: int | None = None) -> RecordList:
        """The oldest records, or all there are now, whatever is added later."""
        return RecordList(self._items[:count], self._blobs)

    def since(self, seq: int) -> list[Record]:
        """The records from a number on."""
        return [self._record(item) for item in self._items[seq:]]

    def count_until(self, limit_us: int) -> int:
        """How many records are not later than a moment, given in microseconds."""
        low, high = 0, len(self._items)
        while low < high:
            middle = (low + high) // 2
            if self._items[middle].at_ns // 1000 <= limit_us:
                low = middle + 1
            else:
                high = middle
        return low

    def _record(self, item: Record | RecordRow) -> Record:
        return record_of(item, self._blobs) if isinstance(item, RecordRow) else item
