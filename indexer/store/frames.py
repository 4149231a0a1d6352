"""Frames in the database: bodies once each, frames and heads as logs, the memo."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from indexer.core.code import CodeFacts, FactsKey
from indexer.core.frames import (
    GENERATED_AGENT_PREFIX,
    REPEATING_AGENTS,
    Action,
    BasisHash,
    BodyHash,
    Frame,
    FrameId,
    Head,
    HeadKey,
    MemoKey,
)
from indexer.core.hash_numbers import HashNumbers
from indexer.core.ids import NodeId
from indexer.errors import CorruptError
from indexer.store.bodies import true_bodies
from indexer.store.code import write_facts
from indexer.store.database import Database, Row, among, append_rows, put_meta
from indexer.store.postings import FILES, Indexed, PostingRow, posting_rows
from indexer.store.sessions import SessionRows

Made = dict[tuple[str, str], FrameId]
"""Frames by type and agent."""


class Agent(NamedTuple):
    """Who may do what."""

    id: str
    role: str
    capabilities: tuple[str, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class FrameBatch:
    """New frames with all that belongs to them, stored whole or not at all."""

    frames: list[Frame] = field(default_factory=list)
    bodies: dict[BodyHash, str] = field(default_factory=dict)
    heads: dict[HeadKey, Head] = field(default_factory=dict)
    """The new heads that generators keep."""
    notes: list[NoteState] = field(default_factory=list)
    """What becomes of notes, in order."""
    memo: dict[MemoKey, tuple[int, BodyHash | None]] = field(default_factory=dict)
    inputs: dict[bytes, InputList] = field(default_factory=dict)
    models: dict[tuple[MemoKey, int], ModelResult] = field(default_factory=dict)
    """What models wrote, by key and generation: each result was paid for."""
    agents: list[Agent] = field(default_factory=list)
    due: list[tuple[MemoKey, int]] = field(default_factory=list)
    """Keys with generations that the team is to be given."""
    unvouched: list[tuple[MemoKey, int]] = field(default_factory=list)
    """Keys with generations whose results are nobody's word but a pack's."""
    manifests: dict[bytes, StoredManifest] = field(default_factory=dict)
    indexed: Indexed = field(default_factory=lambda: Indexed({}, {}, []))
    """The bodies' numbers, and their postings where they are few; made as the batch is stored."""
    code: dict[FactsKey, CodeFacts] = field(default_factory=dict)
    """Facts about code that the same work brought to light."""
    code_numbers: dict[FactsKey, int] = field(default_factory=dict)
    """Their numbers, given as the batch is stored."""
    session_records: list[Mapping[str, Any]] = field(default_factory=list)
    """Journalled records of sessions that this batch applies, as the journal has them."""
    sessions: SessionRows | None = None
    journal_number: int | None = None
    """The journal record that this batch applies."""

    def __bool__(self) -> bool:
        return bool(
            self.frames
            or self.heads
            or self.notes
            or self.memo
            or self.agents
            or self.sessions
            or self.code
        )

    def repeats(self) -> set[BodyHash]:
        """The new bodies that hold no words of their own: a question finds what they repeat."""
        written = {one.content for one in self.frames if one.agent not in REPEATING_AGENTS}
        made = {one.content for one in self.frames if one.agent in REPEATING_AGENTS}
        return {content for content in self.bodies if content in made and content not in written}


class NoteState(NamedTuple):
    """What is true of a note since a batch."""

    key: HeadKey
    head: Head
    """The note as its readers see it; it is never proved but judged by what it is bound to."""
    live: bool = True
    """Whether it takes part in views, search and composition, or is history only."""
    superseded_by: FrameId | None = None
    """The note that said it takes its place."""


class ModelResult(NamedTuple):
    """A memo entry that a model wrote, with what it took as JSON."""

    generation: int
    content: BodyHash
    meta: str


class InputList(NamedTuple):
    """The inputs of a frame: whole, or as what differs from another list."""

    base: bytes | None
    document: str


class StoredManifest(NamedTuple):
    """A recorded manifest: when it was recorded, its one spelling, and what a list shows of it."""

    at_ns: int
    document: str
    root: str
    tokens: int
    items: int


class StoredFrame(NamedTuple):
    """A frame with its place in the store."""

    seq: int
    frame: Frame


_FRAME_COLUMNS: Final = (
    "seq, frame_id, path, type, agent, basis, content, node_id, inputs, meta, created_ns"
)

_ACTIONS: Final = {action.value: action for action in Action}
"""Looking an action up is cheaper than making it from its word."""
_HEADS: Final = (
    "SELECT path, type, agent, frame_id, basis, content, verified, config, action FROM head_log"
    " {where} QUALIFY row_number() OVER (PARTITION BY path, type, agent ORDER BY seq DESC) = 1"
)


_NOTES: Final = (
    "SELECT f.path, f.type, f.agent, f.frame_id, f.basis, f.content, NULL, NULL, n.action,"
    " n.live, n.superseded_by"
    " FROM (SELECT *, rowid AS place FROM note_log{among} QUALIFY row_number() OVER"
    "  (PARTITION BY frame_id ORDER BY seq DESC, rowid DESC) = 1) n"
    " JOIN frame_log f ON f.frame_id = n.frame_id WHERE {where}"
    " ORDER BY (n.seq, n.place) {order}"
)


class FrameStore:
    """Reads and writes frames of one workspace."""

    def __init__(self, database: Database, *, salvaging: bool = False) -> None:
        self._database = self.database = database
        self._salvaging = salvaging
        """Whether a body that is not what its hash says is left out rather than told."""

    # -- reading

    def next_seq(self) -> int:
        """The number the next stored batch gets."""
        rows = self._database.rows(
            "SELECT greatest(coalesce((SELECT max(seq) FROM head_log), 0),"
            " coalesce((SELECT max(seq) FROM note_log), 0),"
            " coalesce((SELECT max(seq) FROM agent_log), 0),"
            " coalesce((SELECT max(seq) FROM manifest_log), 0))"
        )
        return int(rows[0][0]) + 1

    def each_head(self) -> Iterator[tuple[HeadKey, Head]]:
        """Every head that a generator keeps; what many have alike is one object in memory."""
        same: dict[bytes | None, bytes | None] = {}
        words: dict[str, str] = {}
        for row in self._database.stream(_HEADS.format(where="")):
            path, kind, agent, frame, basis, content, verified, config, action = row
            shared = same.setdefault(config, config)
            head = Head(frame, basis, content, verified, shared, _ACTIONS[action])
            yield (path, words.setdefault(kind, kind), words.setdefault(agent, agent)), head

    def live_notes(self, path: str | None = None) -> list[NoteState]:
        """The notes that count, of one path or all, the one that was written last at the end."""
        if path is None:
            return self._notes([], where="n.live")
        # The newest row of each is found here: with few rows, DuckDB takes longer to plan that.
        rows = self._database.rows(
            "SELECT f.path, f.type, f.agent, f.frame_id, f.basis, f.content, NULL, NULL, n.action,"
            " n.live, n.superseded_by, n.seq, n.rowid FROM note_log n"
            " JOIN frame_log f ON f.frame_id = n.frame_id WHERE f.path = ?",
            [path],
        )
        rows.sort(key=lambda row: row[-2:])
        newest = sorted({row[3]: row for row in rows}.values(), key=lambda row: row[-2:])
        states = (_note(row[:-2]) for row in newest)
        return [state for state in states if state.live]

    def _notes(
        self, given: list[Any], *, among: str = "", where: str = "true", order: str = ""
    ) -> list[NoteState]:
        question = _NOTES.format(among=among and f" WHERE {among}", where=where, order=order)
        return [_note(row) for row in self._database.rows(question, given)]

    def note_states(self, wanted: Iterable[FrameId]) -> dict[FrameId, NoteState]:
        """What is true of some notes."""
        hashes = list(dict.fromkeys(wanted))
        if not hashes:
            return {}
        # Before the newest row of each is looked for: that would be done for all of them.
        chosen, given = among("BLOB", hashes)
        states = self._notes(given, among=f"frame_id {chosen}")
        return {state.head.frame_id: state for state in states}

    def all_note_states(self) -> dict[FrameId, NoteState]:
        """What is true of every note."""
        return {state.head.frame_id: state for state in self._notes([])}

    def superseded_by(self, wanted: Iterable[FrameId]) -> list[NoteState]:
        """The notes whose place some others took, oldest first."""
        hashes = list(dict.fromkeys(wanted))
        if not hashes:
            return []
        return self._notes([hashes], where="n.superseded_by IN (SELECT unnest(?::BLOB[]))")

    def notes_after(self, seq: int) -> tuple[list[FrameId], int]:
        """The notes of which something was stored after a batch, and the last such batch."""
        rows = self._database.rows(
            "SELECT frame_id, superseded_by, seq FROM note_log WHERE seq > ?", [seq]
        )
        found = dict.fromkeys(one for row in rows for one in row[:2] if one is not None)
        return list(map(FrameId, found)), max((row[2] for row in rows), default=seq)

    def lost_notes(self) -> list[FrameId]:
        """Notes that are known of and not stored."""
        rows = self._database.rows(
            "SELECT DISTINCT frame_id FROM note_log"
            " WHERE frame_id NOT IN (SELECT frame_id FROM frame_log) ORDER BY frame_id"
        )
        return [FrameId(row[0]) for row in rows]

    def head(self, path: str, frame_type: str, agent: str) -> Head | None:
        """One head, by its path, type and agent; of notes, the newest that counts."""
        if not agent.startswith(GENERATED_AGENT_PREFIX):
            where = "n.live AND f.path = ? AND f.type = ? AND f.agent = ?"
            found = self._notes([path, frame_type, agent], where=where, order="DESC LIMIT 1")
            return found[0].head if found else None
        where = "WHERE path = ? AND type = ? AND agent = ?"
        rows = self._database.rows(_HEADS.format(where=where), [path, frame_type, agent])
        return _head(rows[0])[1] if rows else None

    def heads_among(self, places: Sequence[str], types: Sequence[str]) -> dict[HeadKey, Head]:
        """The heads of some types that generators keep at some paths."""
        (at, given), (of, more) = among("VARCHAR", places), among("VARCHAR", types)
        question = _HEADS.format(where=f"WHERE path {at} AND type {of}")
        return dict(map(_head, self._database.rows(question, [*given, *more])))

    def heads_at(self, places: Sequence[str]) -> dict[HeadKey, Head]:
        """The heads that generators keep at some paths."""
        # The newest row is found here: with few rows, DuckDB takes longer to plan that.
        chosen, given = among("VARCHAR", places)
        rows = self._database.rows(
            "SELECT path, type, agent, frame_id, basis, content, verified, config, action, seq"
            f" FROM head_log WHERE path {chosen}",
            given,
        )
        rows.sort(key=lambda row: row[-1])
        return dict(_head(row[:-1]) for row in rows)

    def has_type(self, frame_type: str) -> bool:
        """Whether there is any head of a type."""
        return bool(
            self._database.rows("SELECT 1 FROM head_log WHERE type = ? LIMIT 1", [frame_type])
            or self._notes([frame_type], where="n.live AND f.type = ?", order="LIMIT 1")
        )

    def memo_of(self, key: MemoKey) -> tuple[int, BodyHash | None]:
        """The newest generation of one key."""
        rows = self._database.rows(
            "SELECT generation, content FROM memo WHERE key = ?"
            " ORDER BY generation DESC, content IS NOT NULL DESC LIMIT 1",
            [key],
        )
        return (rows[0][0], rows[0][1]) if rows else (0, None)

    def memo(self) -> dict[MemoKey, tuple[int, BodyHash | None]]:
        """The newest generation of every key."""
        rows = self._database.rows(
            "SELECT key, generation, content FROM memo"
            " QUALIFY row_number() OVER (PARTITION BY key ORDER BY generation DESC,"
            " content IS NOT NULL DESC) = 1"
        )
        return {MemoKey(key): (generation, content) for key, generation, content in rows}

    def models(self) -> dict[MemoKey, ModelResult]:
        """The newest result of every key that a model wrote."""
        rows = self._database.rows(
            "SELECT key, generation, content, meta FROM model_results"
            " QUALIFY row_number() OVER (PARTITION BY key ORDER BY generation DESC, rowid) = 1"
        )
        return {MemoKey(key): ModelResult(*result) for key, *result in rows}

    def unvouched(self) -> set[tuple[MemoKey, int]]:
        """Keys with generations whose results must not be passed on: a pack brought them."""
        rows = self._database.rows("SELECT key, generation FROM unvouched")
        return {(MemoKey(key), generation) for key, generation in rows}

    def paid(self) -> list[tuple[MemoKey, ModelResult]]:
        """Every result that a model wrote, older generations of a key included."""
        rows = self._database.rows(
            "SELECT DISTINCT key, generation, content, meta FROM model_results ORDER BY ALL"
        )
        return [(MemoKey(key), ModelResult(*result)) for key, *result in rows]

    def model_contents(self) -> set[BodyHash]:
        """The hashes of everything that a model wrote."""
        rows = self._database.rows("SELECT DISTINCT content FROM model_results")
        return {BodyHash(row[0]) for row in rows}

    def made_at(self, wanted: Iterable[FrameId]) -> dict[FrameId, int]:
        """The numbers of the batches with which some frames were first stored."""
        hashes = list(dict.fromkeys(wanted))
        if not hashes:
            return {}
        chosen, given = among("BLOB", hashes)
        rows = self._database.rows(
            f"SELECT frame_id, min(seq) FROM frame_log WHERE frame_id {chosen} GROUP BY frame_id",
            given,
        )
        return {FrameId(frame_id): int(seq) for frame_id, seq in rows}

    def known_bodies(self) -> HashNumbers:
        """The numbers of all stored bodies that still have their content."""
        return self._numbers("SELECT sha256, number FROM bodies WHERE content IS NOT NULL")

    def live_bodies(self, wanted: Iterable[BodyHash]) -> list[tuple[int, int | None, str]]:
        """Number, length and content of some bodies."""
        rows = self._database.rows(
            "SELECT number, length, content FROM bodies"
            " WHERE sha256 IN (SELECT unnest(?::BLOB[])) AND content IS NOT NULL ORDER BY number",
            [list(wanted)],
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def next_body_number(self) -> int:
        """The number the next body gets; that of a dropped one is not given again."""
        return int(self._database.rows("SELECT coalesce(max(number) + 1, 0) FROM bodies")[0][0])

    def manifests(self, prefix: str = "") -> list[tuple[str, StoredManifest]]:
        """Recorded manifests whose id begins with some digits, oldest first."""
        rows = self._database.rows(
            "SELECT lower(hex(id)), at_ns, document, root, tokens, items FROM manifest_log"
            " WHERE starts_with(lower(hex(id)), ?) ORDER BY seq, id",
            [prefix],
        )
        return [(row[0], StoredManifest(*row[1:])) for row in rows]

    def bodies(self, wanted: Iterable[BodyHash]) -> dict[BodyHash, str]:
        """The contents of some bodies; what was compacted away is missing."""
        hashes = list(dict.fromkeys(wanted))
        if not hashes:
            return {}
        chosen, given = among("BLOB", hashes)
        rows = self._database.rows(
            f"SELECT sha256, content FROM bodies WHERE sha256 {chosen} AND content IS NOT NULL",
            given,
        )
        return true_bodies(rows, salvaging=self._salvaging)

    def body_lengths(self, wanted: Iterable[BodyHash]) -> dict[BodyHash, int]:
        """How many characters some bodies have; what was compacted away is missing."""
        hashes = list(dict.fromkeys(wanted))
        if not hashes:
            return {}
        rows = self._database.rows(
            "SELECT sha256, length(content) FROM bodies"
            " WHERE sha256 IN (SELECT unnest(?::BLOB[])) AND content IS NOT NULL",
            [hashes],
        )
        return {BodyHash(sha256): length for sha256, length in rows}

    def bodies_numbered(self, numbers: Iterable[int]) -> dict[BodyHash, str]:
        """The contents of some bodies by their numbers, without going through the others."""
        wanted = ",".join(str(int(number)) for number in set(numbers))
        if not wanted:
            return {}
        # Written out: with a parameter the index would not be used.
        rows = self._database.rows(
            f"SELECT sha256, content FROM bodies WHERE number IN ({wanted}) AND content IS NOT NULL"
        )
        return true_bodies(rows, salvaging=self._salvaging)

    def wrong_bodies(self) -> list[BodyHash]:
        """The bodies whose content is not what their hash says."""
        rows = self._database.rows(
            "SELECT sha256 FROM bodies"
            " WHERE content IS NOT NULL AND sha256 <> unhex(sha256(content)) ORDER BY sha256"
        )
        return [BodyHash(row[0]) for row in rows]

    def body_rows(self) -> set[BodyHash]:
        """The hashes of all bodies, compacted ones included."""
        return {BodyHash(row[0]) for row in self._database.rows("SELECT sha256 FROM bodies")}

    def frame(self, frame_id: FrameId) -> StoredFrame | None:
        """One frame by its id."""
        rows = self._database.rows(
            f"SELECT {_FRAME_COLUMNS} FROM frame_log WHERE frame_id = ? ORDER BY seq LIMIT 1",
            [frame_id],
        )
        return _stored(rows[0]) if rows else None

    def frame_ids(self, prefix: str) -> list[FrameId]:
        """The frames whose id begins with some digits, in order, a few at most."""
        rows = self._database.rows(
            "SELECT DISTINCT frame_id FROM frame_log WHERE starts_with(lower(hex(frame_id)), ?)"
            " ORDER BY frame_id LIMIT 5",
            [prefix],
        )
        return [FrameId(row[0]) for row in rows]

    def frame_seqs(self) -> HashNumbers:
        """The batch that each stored frame came with."""
        return self._numbers("SELECT frame_id, seq FROM frame_log")

    def _numbers(self, question: str) -> HashNumbers:
        found = HashNumbers()
        found.update((key, number) for key, number in self._database.stream(question))
        return found

    def frames_between(self, since_ns: int | None, until_ns: int | None) -> set[FrameId]:
        """The frames made in a span of time, its end not included."""
        rows = self._database.rows(
            "SELECT frame_id FROM frame_log WHERE created_ns >= ? AND created_ns < ?",
            [
                since_ns if since_ns is not None else -(2**63),
                2**63 - 1 if until_ns is None else until_ns,
            ],
        )
        return {FrameId(row[0]) for row in rows}

    def inputs_among(self, wanted: Collection[bytes]) -> set[bytes]:
        """The lists of inputs, out of some, that are stored."""
        rows = self._database.rows(
            "SELECT hash FROM input_lists WHERE hash IN (SELECT unnest(?::BLOB[]))", [list(wanted)]
        )
        return {row[0] for row in rows}

    def has_frame(self, frame_id: FrameId) -> bool:
        """Whether a frame is stored."""
        return self._has("frame_log WHERE frame_id = ?", frame_id)

    def has_body(self, content: BodyHash) -> bool:
        """Whether a body is stored with its content."""
        # By the short hash alone: to compare both, the library would read both of every body.
        # An index on it would save less than a millisecond of CPU, and cost every load half as much
        # again and the file 40 bytes a body.
        rows = self._database.rows(
            "SELECT number FROM body_hashes WHERE short = $1"
            " UNION ALL SELECT number FROM bodies WHERE short = $1",
            [_short(content)],
        )
        numbers = ",".join(str(number) for (number,) in rows)
        # Written out: with a parameter the index would not be used.
        return bool(numbers) and self._has(
            f"bodies WHERE number IN ({numbers}) AND content IS NOT NULL AND sha256 = ?", content
        )

    def _has(self, where: str, identity: bytes) -> bool:
        return bool(self._database.rows(f"SELECT 1 FROM {where} LIMIT 1", [identity]))

    def input_hashes(self) -> set[bytes]:
        """The hashes of all stored lists of inputs."""
        return {row[0] for row in self._database.rows("SELECT hash FROM input_lists")}

    def history(
        self, path: str, frame_type: str | None = None, limit: int | None = None
    ) -> list[StoredFrame]:
        """The frames of a path, newest first: all, or so many."""
        clause = " AND type = ?" if frame_type is not None else ""
        parameters: list[object] = [path] if frame_type is None else [path, frame_type]
        rows = self._database.rows(
            f"SELECT {_FRAME_COLUMNS} FROM frame_log WHERE path = ?{clause}"
            " ORDER BY seq DESC, rowid DESC LIMIT ?",
            [*parameters, limit],
        )
        return [_stored(row) for row in rows]

    def frames(self, wanted: Iterable[FrameId]) -> dict[FrameId, StoredFrame]:
        """Several frames by id."""
        hashes = list(dict.fromkeys(wanted))
        if not hashes:
            return {}
        chosen, given = among("BLOB", hashes)
        rows = self._database.rows(
            f"SELECT {_FRAME_COLUMNS} FROM frame_log WHERE frame_id {chosen}", given
        )
        rows.sort(key=lambda row: row[0], reverse=True)
        return {FrameId(row[1]): _stored(row) for row in rows}

    def all_frames(self) -> Iterator[StoredFrame]:
        """Every frame, oldest first."""
        ordered = f"SELECT {_FRAME_COLUMNS} FROM frame_log ORDER BY seq, rowid"
        return map(_stored, self._database.stream(ordered))

    def head_before(self, key: HeadKey, head: FrameId) -> StoredFrame | None:
        """The frame that a head pointed to before the present one."""
        rows = self._database.rows(
            "SELECT frame_id FROM head_log WHERE path = ? AND type = ? AND agent = ?"
            " AND frame_id <> ? ORDER BY seq DESC LIMIT 1",
            [*key, head],
        )
        return self.frame(FrameId(rows[0][0])) if rows else None

    def made_for(self, nodes: Sequence[NodeId], agent_prefix: str) -> dict[NodeId, Made]:
        """The frames of each node's content that were heads last, by agents of a prefix."""
        found: dict[NodeId, Made] = {}
        if not nodes:
            return found
        for node_id, kind, agent, frame_id in self._database.rows(
            "SELECT f.node_id, h.type, h.agent, arg_max(h.frame_id, h.seq)"
            " FROM frame_log f JOIN head_log h ON h.frame_id = f.frame_id"
            " WHERE f.node_id IN (SELECT unnest(?::BLOB[])) AND starts_with(f.agent, ?)"
            " GROUP BY ALL",
            [list(nodes), agent_prefix],
        ):
            found.setdefault(NodeId(node_id), {})[kind, agent] = FrameId(frame_id)
        return found

    def inputs(self, wanted: bytes) -> Any:
        """A stored list of inputs, put together from its base where it has one."""
        differences = []
        current: bytes | None = wanted
        seen: set[bytes] = set()
        while current is not None:
            if current in seen:
                raise CorruptError(
                    f"the list of inputs {wanted.hex()[:12]} is based on itself",
                    hint="run `merkle repair`",
                )
            seen.add(current)
            rows = self._database.rows(
                "SELECT base, list FROM input_lists WHERE hash = ? LIMIT 1", [current]
            )
            if not rows:
                return None
            current, text = rows[0]
            differences.append(json.loads(text))
        whole = differences.pop()
        for difference in reversed(differences):
            whole = apply_difference(whole, difference)
        return whole

    def note_inputs(self, wanted: Iterable[FrameId]) -> dict[FrameId, dict[str, Any]]:
        """What some notes are bound to; their lists are always stored whole."""
        hashes = list(dict.fromkeys(wanted))
        if not hashes:
            return {}
        chosen, given = among("BLOB", hashes)
        rows = self._database.rows(
            "SELECT DISTINCT f.frame_id, i.list FROM frame_log f JOIN input_lists i"
            f" ON f.inputs = i.hash WHERE f.frame_id {chosen} AND i.base IS NULL",
            given,
        )
        return {FrameId(frame_id): json.loads(text) for frame_id, text in rows}

    def agents(self) -> dict[str, Agent]:
        """Registered agents by id."""
        rows = self._database.rows("SELECT id, role, capabilities, seq, rowid FROM agent_log")
        # In order of ids, and of one id the newest row last, which is the one that stays.
        rows.sort(key=lambda row: (row[0], *row[3:]))
        return {id_: Agent(id_, role, tuple(able or ())) for id_, role, able, *_ in rows}

    def journal_number(self) -> int:
        """The number of the last journal record applied."""
        rows = self._database.rows("SELECT value FROM meta WHERE key = 'journal'")
        return int(rows[0][0]) if rows else 0

    # -- writing

    def record(
        self, batch: FrameBatch, seq: int, before_commit: Callable[[], object] | None = None
    ) -> None:
        """Store a batch in one transaction; bodies and frames must not be stored already.

        What must be done once the database has taken every row, and before it is bound by them,
        is done `before_commit`; when that fails, nothing is stored.
        """
        with self._database.transaction() as connection:
            numbers, lengths, postings = batch.indexed
            append_rows(
                connection,
                "bodies",
                [
                    (content, text, numbers[content], lengths.get(content), _short(content))
                    for content, text in batch.bodies.items()
                ],
            )
            append_rows(connection, "postings", [*postings, *_file_postings(batch)])
            append_rows(
                connection,
                "manifest_log",
                [(seq, key, *manifest) for key, manifest in batch.manifests.items()],
            )
            append_rows(connection, "frame_log", [_frame_row(seq, f) for f in batch.frames])
            append_rows(
                connection,
                "head_log",
                [(seq, *key, *head) for key, head in batch.heads.items()],
            )
            append_rows(
                connection,
                "note_log",
                [
                    (seq, note.head.frame_id, note.head.action, note.live, note.superseded_by)
                    for note in batch.notes
                ],
            )
            append_rows(connection, "memo", [(key, *value) for key, value in batch.memo.items()])
            append_rows(
                connection,
                "model_results",
                [(key, *result) for (key, _), result in batch.models.items()],
            )
            append_rows(
                connection,
                "input_lists",
                [(key, value.base, value.document) for key, value in batch.inputs.items()],
            )
            append_rows(
                connection,
                "agent_log",
                [(seq, agent.id, agent.role, list(agent.capabilities)) for agent in batch.agents],
            )
            write_facts(connection, batch.code, batch.code_numbers)
            append_rows(connection, "share_due", batch.due)
            append_rows(connection, "unvouched", batch.unvouched)
            if batch.sessions is not None:
                batch.sessions.write(connection)
            if batch.journal_number is not None:
                put_meta(connection, "journal", str(batch.journal_number))
            if before_commit is not None:
                before_commit()


def _file_postings(batch: FrameBatch) -> list[PostingRow]:
    return posting_rows(
        FILES,
        (
            (batch.code_numbers[key], facts.terms)
            for key, facts in batch.code.items()
            if facts.terms is not None
        ),
    )


def _short(content: BodyHash) -> int:
    return int.from_bytes(content[:4], "big")


def _stored(row: Row) -> StoredFrame:
    seq, frame_id, path, kind, agent, basis, content, node_id, inputs, meta, created_ns = row
    frame = Frame(
        FrameId(frame_id), path, kind, agent, BasisHash(basis), BodyHash(content),
        NodeId(node_id), inputs, meta, created_ns,
    )  # fmt: skip
    return StoredFrame(seq, frame)


def _head(row: Row) -> tuple[HeadKey, Head]:
    path, kind, agent, frame, basis, content, verified, config, action = row
    return (path, kind, agent), Head(frame, basis, content, verified, config, Action(action))


def _note(row: Row) -> NoteState:
    *head, live, superseded_by = row
    return NoteState(*_head(tuple(head)), live, superseded_by)


def _frame_row(seq: int, frame: Frame) -> Row:
    return (
        seq, frame.frame_id, frame.path, frame.type, frame.agent, frame.basis, frame.content,
        frame.node_id, frame.inputs, frame.meta, frame.created_ns,
    )  # fmt: skip


def difference(base: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """What turns one children mapping into another; None marks what went."""
    changed = {key: value for key, value in whole.items() if base.get(key) != value}
    changed.update((key, None) for key in base if key not in whole)
    return changed


def apply_difference(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping after a difference."""
    merged = {**base, **change}
    return {key: value for key, value in merged.items() if value is not None}
