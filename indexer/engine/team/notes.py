"""Notes on their way through a team's store: signed, each with its author, checked when they come.

A note is kept there as a line (`engine/durable/note_lines.py`) under a key that follows from its
FrameID, so it is given once, and nothing that was computed can pass for one. The store numbers the
notes it gets; how far they were read, and how far those of here were given, is kept here.

These functions may run on any thread: they read and talk to the store where they are called, and
write on the thread that writes.
"""

from __future__ import annotations

import json
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
    from indexer.engine.workspace import Engine

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
    """Those that look like they hold a secret."""


class Taken(NamedTuple):
    """What came of others' notes."""

    added: int
    unsound: int
    """Those that are not what they say they are."""


def shares_notes(engine: Engine, client: Client) -> bool:
    """Whether notes go through the team's store; refused where there is no key to sign with."""
    if not engine.frames.declared.settings.values[SETTING]:
        return False
    if client.member.team_key is None:
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


def standing_of(engine: Engine, member: Membership) -> NotesStanding:
    """How far notes have been exchanged with a team's store."""
    return ShareQueue(engine.database).notes_standing(store_name(member))


def due_notes(engine: Engine, since: int) -> tuple[list[JsonObject], int]:
    """The notes that count of those stored after a batch, and the last batch that had any."""
    store = engine.frames.store
    only, upto = store.notes_after(since)
    return note_lines(store, only=only), upto


def give_notes(engine: Engine, client: Client, *, everything: bool = False) -> Given:
    """Give the team what it lacks of the notes since the last time, or of all."""
    since = 0 if everything else standing_of(engine, client.member).given
    lines, upto = due_notes(engine, since)
    clean = [line for line in lines if not find_secrets(canonical_json(line).decode())]
    sent = 0
    for start in range(0, len(clean), PUSH):
        lacking = client.lacking([_entry(line) for line in clean[start : start + PUSH]])
        sent += client.put(lacking, notes=True) if lacking else 0
    if upto > since:
        engine.on_writing_thread(lambda: _keep_given(engine, client.member, upto))
    return Given(sent, len(lines) - len(clean))


def _keep_given(engine: Engine, member: Membership, upto: int) -> None:
    now = standing_of(engine, member)
    _keep(engine, member, now._replace(given=max(now.given, upto)))


def _keep(engine: Engine, member: Membership, standing: NotesStanding) -> None:
    now = standing._replace(at_ns=engine.clock.now_ns())
    ShareQueue(engine.database).keep_notes_standing(store_name(member), now)


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


def take_notes(engine: Engine, client: Client, *, everything: bool = False) -> Taken:
    """Store others' notes as theirs: those since the last time, or all that the team has."""
    standing = standing_of(engine, client.member)
    mark = Mark(standing.number, standing.token)
    if everything and not client.news(mark, 1).anew:
        mark = BEGINNING
    taken = [Taken(0, 0)]
    more = True
    while more:
        news = client.news(mark, PORTION)
        if news.mark != mark or news.anew or not standing.at_ns:
            lines = [line for entry in news.entries if (line := as_note(entry)) is not None]
            sound = [line for line in lines if _is_sound(engine, line)]
            engine.on_writing_thread(
                partial(_take_portion, engine, client.member, news, sound, taken)
            )
            taken.append(Taken(0, len(lines) - len(sound)))
            standing = standing_of(engine, client.member)
        mark, more = news.mark, news.more
    return Taken(sum(one.added for one in taken), sum(one.unsound for one in taken))


def _take_portion(
    engine: Engine, member: Membership, news: News, lines: list[JsonObject], taken: list[Taken]
) -> None:
    """Take in some notes, and keep how far that is, on the thread that writes."""
    store, before = engine.frames.store, standing_of(engine, member)
    # Another store has none of ours.
    given = 0 if news.anew else before.given
    was_due = bool(store.notes_after(given)[0])
    taken.append(_take_each(engine, lines))
    if not was_due:
        # What just came from the team need not be given to it.
        given = store.notes_after(given)[1]
    _keep(engine, member, NotesStanding(*news.mark, given))


def _take_each(engine: Engine, lines: list[JsonObject]) -> Taken:
    """Take notes in together, or each by itself where one of them stops the others."""
    try:
        return Taken(take_in(engine, lines)[0], 0)
    except UsageError:
        if len(lines) == 1:
            return Taken(0, 1)
    each = [_take_each(engine, [line]) for line in lines]
    return Taken(sum(one.added for one in each), sum(one.unsound for one in each))


def _is_sound(engine: Engine, line: JsonObject) -> bool:
    """Whether a note is what its id says, by somebody who can be, and holds no secret."""
    try:
        check_line(line, "a note")
        # A copy: the check puts some of it into its usual form.
        record = json.loads(json.dumps(line)) | {"kind": "frame", "created_ns": 0}
        checked(engine.algorithm, record)
    except UNFIT:
        return False
    return not find_secrets(canonical_json(line).decode())
