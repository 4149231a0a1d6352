"""Notes on their way through a team's store: signed, each with its author, checked when they come.

A note is kept there as a line (`engine/durable/note_lines.py`) under a key that follows from its
FrameID, so it is given once, and nothing that was computed can pass for one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core.canonical import canonical_json
from indexer.core.frames import FrameId, body_hash, key_of_note
from indexer.core.secrets import find_secrets
from indexer.engine.documents import JsonObject
from indexer.engine.durable.note_lines import check_line, note_lines, take_in
from indexer.engine.durable.records import UNFIT, checked
from indexer.engine.frames.note_records import REPLACES
from indexer.errors import UsageError
from indexer.shared.base import LAST_GENERATION, Entry
from indexer.shared.client import Client
from indexer.shared.seal import TEAM_KEY

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

SETTING: Final = "shared.notes"
_BEGIN: Final = '{"agent":'
"""What every line begins with, so that few results are looked at more closely."""


class UnsignedNotesError(UsageError):
    """Notes are to be shared, and nothing would vouch for their authors."""

    code = "team_key"


class Given(NamedTuple):
    """What a push did with notes."""

    sent: int
    withheld: int
    """Those that look like they hold a secret."""


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


def give_notes(engine: Engine, client: Client) -> Given:
    """Give the team the notes that count here and that it lacks."""
    lines = note_lines(engine.frames.store)
    clean = [line for line in lines if not find_secrets(canonical_json(line).decode())]
    lacking = client.lacking([_entry(line) for line in clean])
    return Given(client.put(lacking) if lacking else 0, len(lines) - len(clean))


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


def take_notes(engine: Engine, lines: Sequence[JsonObject]) -> tuple[int, int]:
    """Store others' notes as theirs; how many were new, and how many were refused."""
    sound = [line for line in lines if _is_sound(engine, line)]
    added, _ = take_in(engine, sound)
    return added, len(lines) - len(sound)


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
