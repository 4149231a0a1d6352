"""Notes on their way through a team's store: signed, each with its author, checked when they come.

A note is kept there as a line (`engine/durable/note_lines.py`) under a key that follows from its
FrameID, so it is given once, and nothing that was computed can pass for one. The store numbers the
notes it gets; how far they were read, and how far those of here were given, is kept here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core.canonical import canonical_json
from indexer.core.frames import FrameId, body_hash, key_of_note
from indexer.core.secrets import find_secrets
from indexer.engine.documents import JsonObject
from indexer.engine.durable.note_lines import check_line, note_lines, take_in
from indexer.engine.durable.records import UNFIT, checked
from indexer.engine.frames.note_records import REPLACES
from indexer.engine.team.exchange import PUSH
from indexer.errors import UsageError
from indexer.shared.base import BEGINNING, LAST_GENERATION, NOTE_BEGINS, Entry, Mark
from indexer.shared.client import Client, Membership, News
from indexer.shared.masking import masked
from indexer.shared.seal import TEAM_KEY, Seal
from indexer.store.share_queue import NotesStanding, ShareQueue

if TYPE_CHECKING:
    from indexer.core.hashing import WorkspaceHash
    from indexer.engine.durable.journal import Records
    from indexer.engine.make.events import Tell
    from indexer.engine.settings import Settings
    from indexer.engine.workspace import Engine
    from indexer.store.frames import FrameStore

SETTING: Final = "shared.notes"
PORTION: Final = 100
"""Notes taken in at once; between two portions the writing thread does all else."""

_BEGIN: Final = NOTE_BEGINS.decode()


class UnsignedNotesError(UsageError):
    """Notes are to be shared, and nothing would vouch for their authors."""

    code = "team_key"


class Given(NamedTuple):
    """What became of the notes that were due."""

    sent: int
    withheld: int
    """Notes that were not sent because they look like they hold a secret."""


class Taken(NamedTuple):
    """What came of others' notes."""

    added: int
    unsound: int
    """Notes that are not what they say they are."""


def shares_notes(settings: Settings, member: Membership) -> bool:
    """Whether notes go through the team's store; refused where there is no key to sign with."""
    if not settings.values[SETTING]:
        return False
    if member.team_key is None:
        raise UnsignedNotesError(
            "notes are shared only signed, and there is no team key",
            hint=f"set {TEAM_KEY} to the team's key, or notes under [shared] to false",
        )
    return True


def store_name(member: Membership) -> str:
    """A store as it is called here: another address, namespace or key is another store."""
    # A few digits tell keys apart, and tell nothing about them.
    key = (Seal(member.namespace, member.team_key).of_record(b"notes") or "")[:8]
    return sha256(json.dumps([masked(member.url), member.namespace, key]).encode()).hexdigest()


def due_notes(store: FrameStore, since: int) -> tuple[list[JsonObject], int]:
    """The notes that count of those stored after a batch, and the last batch that had any."""
    only, upto = store.notes_after(since)
    return note_lines(store, only=only), upto


def _behind(client: Client, mark: Mark, given: set[Entry]) -> Mark | None:
    """The place in the log behind what was just given; None where something else came, too.

    A mark from before it would not tell that the store was set back to before it.
    """
    if not given or mark == BEGINNING:
        return mark
    news = client.news(mark, len(given))
    return news.mark if set(news.entries) == given and not news.anew else None


def _are_due(store: FrameStore, given: int, came: list[Entry]) -> bool:
    """Whether a store has yet to be given notes of here, besides those that just came from it."""
    held = {entry.key: entry.generation for entry in came}
    if len(store.notes_after(given)[0]) > len(held):
        return True
    due = map(_entry, due_notes(store, given)[0])
    return any(held.get(entry.key, -1) < entry.generation for entry in due)


def _entry(line: JsonObject) -> Entry:
    """A note that takes more others back than before is a later generation of itself."""
    body = canonical_json(line).decode()
    generation = min(len(line.get(REPLACES, ())), LAST_GENERATION)
    frame_id = FrameId(bytes.fromhex(line["frame_id"]))
    return Entry(key_of_note(frame_id), generation, body_hash(body), body)


def as_note(entry: Entry) -> JsonObject | None:
    """The line in an entry that is a note's; None where it is a computed result."""
    if not entry.body.startswith(_BEGIN):
        return None
    try:
        line = json.loads(entry.body)
        named = key_of_note(FrameId(bytes.fromhex(line["frame_id"])))
    except UNFIT:
        return None
    return line if named == entry.key else None


def _is_sound(algorithm: WorkspaceHash, line: JsonObject) -> bool:
    """Whether a note is what its id says, by somebody who can be, and holds no secret."""
    try:
        check_line(line, "a note")
        # A copy: the check puts some of it into its usual form.
        record = json.loads(json.dumps(line)) | {"kind": "frame", "created_ns": 0}
        checked(algorithm, record)
    except UNFIT:
        return False
    return not find_secrets(canonical_json(line).decode())


@dataclass(frozen=True, slots=True)
class NoteExchange:
    """The notes of here and of a team, over one connection to its store.

    It may be used on any thread: it reads and talks to the store there, and writes on the thread
    that writes. What is open may be opened again while it lives, so that is asked for each time.
    """

    client: Client
    _records: Callable[[], Records]
    _on_writing_thread: Callable[[Callable[[], None]], None]
    _tell: Tell

    @property
    def _queue(self) -> ShareQueue:
        return ShareQueue(self._records().frames.store.database)

    @property
    def standing(self) -> NotesStanding:
        """How far notes have been exchanged."""
        return self._queue.notes_standing(store_name(self.client.member))

    def _keep(self, standing: NotesStanding) -> None:
        now = standing._replace(at_ns=self._records().frames.clock.now_ns())
        self._queue.keep_notes_standing(store_name(self.client.member), now)

    def give(self, *, everything: bool = False) -> Given:
        """Give the team what it lacks of the notes since the last time, or of all."""
        standing = self.standing
        # A log that was empty when it was read has no mark: another store in its place looks alike.
        since = 0 if everything or not standing.number else standing.given
        lines, upto = due_notes(self._records().frames.store, since)
        clean = [line for line in lines if not find_secrets(canonical_json(line).decode())]
        sent, new = 0, set[Entry]()
        for start in range(0, len(clean), PUSH):
            lacking = self.client.lacking([_entry(line) for line in clean[start : start + PUSH]])
            sent += self.client.put(lacking, notes=True) if lacking else 0
            new.update(lacking)
        before = Mark(standing.number, standing.token)
        if upto > standing.given and (mark := _behind(self.client, before, new)) is not None:
            self._on_writing_thread(lambda: self._keep_given(before, mark, upto))
        return Given(sent, len(lines) - len(clean))

    def _keep_given(self, before: Mark, mark: Mark, upto: int) -> None:
        """Keep how far notes were given, unless the log was read on or anew meanwhile."""
        now = self.standing
        if (now.number, now.token) == before:
            self._keep(NotesStanding(*mark, max(now.given, upto)))

    def take(self, *, everything: bool = False) -> Taken:
        """Store others' notes as theirs: those since the last time, or all that the team has."""
        standing, algorithm = self.standing, self._records().frames.algorithm
        mark = Mark(standing.number, standing.token)
        if everything and not self.client.news(mark, 1).anew:
            mark = BEGINNING
        taken = [Taken(0, 0)]
        more = True
        while more:
            news = self.client.news(mark, PORTION)
            if news.mark != mark or news.anew or not standing.at_ns:
                lines = [line for entry in news.entries if (line := as_note(entry)) is not None]
                sound = [line for line in lines if _is_sound(algorithm, line)]
                self._on_writing_thread(partial(self._take_portion, news, sound, taken))
                taken.append(Taken(0, len(lines) - len(sound)))
                standing = self.standing
            mark, more = news.mark, news.more
        return Taken(sum(one.added for one in taken), sum(one.unsound for one in taken))

    def _take_portion(self, news: News, lines: list[JsonObject], taken: list[Taken]) -> None:
        """Take in some notes, and keep how far that is, on the thread that writes."""
        store, before = self._records().frames.store, self.standing
        # Another store has none of ours, and a mark is what tells that it is the same one.
        given = 0 if news.anew or not before.number else before.given
        was_due = _are_due(store, given, news.entries)
        taken.append(self._take_each(lines))
        if not was_due:
            # What just came from the team need not be given to it.
            given = store.notes_after(given)[1]
        self._keep(NotesStanding(*news.mark, given))

    def _take_each(self, lines: list[JsonObject]) -> Taken:
        """Take notes in together, or each by itself where one of them stops the others."""
        try:
            return Taken(take_in(self._records(), self._tell, lines)[0], 0)
        except UsageError:
            if len(lines) == 1:
                return Taken(0, 1)
        each = [self._take_each([line]) for line in lines]
        return Taken(sum(one.added for one in each), sum(one.unsound for one in each))

    def add_refused(self, count: int) -> None:
        """Add to the number of rows that were ever refused here."""
        self._on_writing_thread(lambda: self._queue.add_refused(count))


def note_exchange(engine: Engine, client: Client) -> NoteExchange:
    """The notes of an open workspace and of a team."""
    write, tell = engine.on_writing_thread, engine.publish_frames
    return NoteExchange(client, lambda: engine.records, write, tell)
