"""What is true now, as tables of one connection: the files with their facts, live frames.

The logs hold all that ever was. A question without a service asks what of it is the present, and
the database tells that in a tenth of the time that loading everything would take.
"""

from __future__ import annotations

import contextlib
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from indexer.core.changes import Change
from indexer.core.frames import BodyHash, FrameId
from indexer.core.ids import ContentId
from indexer.store.database import Database, Row, quoted

_NOW: Final = """
    CREATE TEMP TABLE now AS SELECT * FROM (
        SELECT path, arg_max(kind, seq) AS kind, arg_max(content_id, seq) AS content_id
        FROM node_log GROUP BY path) WHERE kind <> 0
"""
_FACTS: Final = """
    CREATE TEMP TABLE facts AS SELECT content_id, ending, number FROM (
        SELECT content_id, ending, max(number) AS number, arg_max(language, number) AS language,
               arg_max(print, number) AS print
        FROM code_facts GROUP BY content_id, ending)
    WHERE (language, print) IN (SELECT (unnest(?::VARCHAR[]), unnest(?::UBIGINT[])))
"""
# As `ending_of` in generators/languages.py has it.
_FILES: Final = """
    CREATE TEMP TABLE files AS SELECT n.path, n.content_id, n.ending, f.number FROM (
        SELECT path, content_id,
               CASE WHEN regexp_matches(folded, '.\\.[^.]*$') AND folded NOT IN ({names})
                    THEN '*' || regexp_extract(folded, '\\.[^.]*$') ELSE folded END AS ending
        FROM (SELECT *, CASE WHEN strlen(name) = length(name) THEN lower(name) ELSE name END
                        AS folded
              FROM (SELECT path, content_id, regexp_extract(path, '[^/]*$') AS name
                    FROM now WHERE kind = 1))) n
    LEFT JOIN facts f ON f.content_id = n.content_id AND f.ending = n.ending
"""
_COUNTING: Final = """
    CREATE TEMP TABLE counting AS
        SELECT arg_max(frame_id, seq) AS frame_id FROM head_log GROUP BY path, type, agent
        UNION ALL
        SELECT frame_id FROM (SELECT * FROM note_log QUALIFY row_number() OVER
            (PARTITION BY frame_id ORDER BY seq DESC, rowid DESC) = 1) WHERE live
"""
_LIVE: Final = """
    SELECT f.rowid, f.frame_id FROM frame_log f
    WHERE f.path IN (SELECT path FROM now) AND f.frame_id IN (SELECT frame_id FROM counting)
    ORDER BY f.seq, f.path, f.type, f.agent, f.frame_id
"""
_FRAME: Final = "rowid, seq, path, type, agent, frame_id, content"


class PresentFrame(NamedTuple):
    """A live frame, and its place in the log."""

    place: int
    seq: int
    path: str
    type: str
    agent: str
    frame_id: FrameId
    content: BodyHash


class File(NamedTuple):
    """A file whose facts are not stored."""

    path: str
    content_id: ContentId
    ending: str


class Present:
    """The present of an index, where the tree on disk may have moved on from what is recorded."""

    def __init__(
        self,
        database: Database,
        moved: Sequence[Change],
        whole_names: Iterable[str],
        is_of_today: Callable[[str, int], bool],
    ) -> None:
        self._opened = contextlib.ExitStack()
        with contextlib.ExitStack() as opening:
            self._cursor = opening.enter_context(database.roomy())
            self._tell_now(moved)
            self._tell_files(whole_names, is_of_today)
            self._cursor.execute(_COUNTING)
            self._opened = opening.pop_all()
        self._places: array[int] | None = None
        self._live_places: frozenset[int] = frozenset()
        self._ids = b""

    def close(self) -> None:
        """Let go of the connection and its tables."""
        self._opened.close()

    def _rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        return self._cursor.execute(statement, list(parameters)).fetchall()

    def _tell_now(self, moved: Sequence[Change]) -> None:
        self._cursor.execute(_NOW)
        if moved:
            went = [change.path for change in moved]
            self._rows("DELETE FROM now WHERE path IN (SELECT unnest(?::VARCHAR[]))", [went])
            came = [(one.path, one.new) for one in moved]
            self._rows(
                "INSERT INTO now SELECT unnest(?::VARCHAR[]), unnest(?::UTINYINT[]),"
                " unnest(?::BLOB[])",
                [
                    [path for path, entry in came if entry],
                    [int(entry.kind) for _, entry in came if entry],
                    [entry.content_id for _, entry in came if entry],
                ],
            )

    def _tell_files(
        self, whole_names: Iterable[str], is_of_today: Callable[[str, int], bool]
    ) -> None:
        made = self._rows("SELECT DISTINCT language, print FROM code_facts")
        today = [
            (language, made_by) for language, made_by in made if is_of_today(language, made_by)
        ]
        self._rows(_FACTS, [[one[0] for one in today], [one[1] for one in today]])
        self._rows(_FILES.format(names=", ".join(map(quoted, sorted(whole_names)))))

    # -- files

    def waiting(self) -> list[File]:
        """The files whose facts are not stored, or were made another way than today."""
        rows = self._rows("SELECT path, content_id, ending FROM files WHERE number IS NULL")
        return [File(*row) for row in rows]

    def numbers_of_contents(
        self, wanted: Sequence[tuple[ContentId, str]]
    ) -> dict[tuple[ContentId, str], int]:
        """The numbers of facts by content and ending."""
        contents = list({content_id for content_id, _ in wanted})
        rows = self._rows(
            "SELECT content_id, ending, number FROM facts"
            " WHERE content_id IN (SELECT unnest(?::BLOB[]))",
            [contents],
        )
        return {(content_id, ending): number for content_id, ending, number in rows}

    def give_numbers(self, numbers: Sequence[tuple[str, int]]) -> None:
        """Let the facts of earlier contents count for some files that have none of their own."""
        self._rows(
            "UPDATE files SET number = given.number FROM (SELECT unnest(?::VARCHAR[]) AS path,"
            " unnest(?::UINTEGER[]) AS number) given WHERE files.path = given.path",
            [[path for path, _ in numbers], [number for _, number in numbers]],
        )

    def numbers(self) -> list[int]:
        """The numbers of all facts that a file has."""
        rows = self._rows("SELECT DISTINCT number FROM files WHERE number IS NOT NULL")
        return [number for (number,) in rows]

    def files_numbered(self, numbers: Iterable[int]) -> list[tuple[int, str]]:
        """The files that have the facts of some numbers."""
        rows = self._rows(
            "SELECT number, path FROM files WHERE number IN (SELECT unnest(?::UINTEGER[]))"
            " ORDER BY path",
            [list(numbers)],
        )
        return [(number, path) for number, path in rows]

    def numbers_at(self, paths: Iterable[str]) -> dict[str, int]:
        """The numbers of the facts of some files, without those that have none."""
        rows = self._rows(
            "SELECT path, number FROM files"
            " WHERE path IN (SELECT unnest(?::VARCHAR[])) AND number IS NOT NULL",
            [list(paths)],
        )
        return dict(rows)

    def named(self, needles: Sequence[str]) -> Iterator[str]:
        """The paths whose own name may have one of some words in it, however it is spelled."""
        # What lower case is of other letters than these, the library and Python may not agree on.
        self._cursor.execute(
            "SELECT path FROM (SELECT path, regexp_extract(path, '[^/]*$') AS name FROM now)"
            " WHERE path <> '' AND (strlen(name) <> length(name)"
            "  OR regexp_matches(replace(lower(name), '_', ''), ?))",
            ["|".join(map(re.escape, needles))],
        )
        while rows := self._cursor.fetchmany(2048):
            yield from (path for (path,) in rows)

    # -- frames

    def frame_ids(self) -> bytes:
        """The FrameIDs of all live frames, one after the other, as they were stored."""
        self._load()
        return self._ids

    def has_all_frames(self) -> bool:
        """Whether every live frame is there: of a damaged index some may be missing."""
        lost = self._rows(
            "SELECT 1 FROM counting WHERE frame_id NOT IN (SELECT frame_id FROM frame_log) LIMIT 1"
        )
        return not lost

    def count(self) -> int:
        """How many frames are live."""
        return len(self._load())

    def _load(self) -> array[int]:
        if self._places is None:
            rows = self._rows(_LIVE)
            self._places = array("Q", [row[0] for row in rows])
            self._live_places = frozenset(self._places)
            self._ids = b"".join([row[1] for row in rows])
        return self._places

    def frames(self, first: int, count: int) -> list[PresentFrame]:
        """Some of the live frames, in the order in which they were stored."""
        places = self._load()[first : first + count]
        found = {row[0]: PresentFrame(*row) for row in self._frames(places)}
        return [found[place] for place in places]

    def _frames(self, places: Iterable[int]) -> list[Row]:
        # Written out: then the scan passes by the parts of the table that have none of them.
        listed = ", ".join(map(str, places))
        return self._rows(f"SELECT {_FRAME} FROM frame_log WHERE rowid IN ({listed})")

    def frames_at(self, paths: Iterable[str]) -> list[PresentFrame]:
        """The live frames at some paths, in order of path, type, agent and id."""
        rows = self._rows(
            f"SELECT {_FRAME} FROM frame_log WHERE path IN (SELECT unnest(?::VARCHAR[]))"
            " ORDER BY path, type, agent, frame_id",
            [list(paths)],
        )
        return self._live(rows)

    def frames_with(
        self, bodies: Iterable[int], not_by: Iterable[str]
    ) -> list[tuple[int, PresentFrame]]:
        """The live frames that have the bodies of some numbers, but for those of some agents."""
        listed = ", ".join(map(str, sorted(bodies)))
        if not listed:
            return []
        contents = self._rows(f"SELECT sha256, number FROM bodies WHERE number IN ({listed})")
        number_of: dict[BodyHash, int] = dict(contents)
        rows = self._rows(
            f"SELECT {_FRAME} FROM frame_log WHERE content IN (SELECT unnest(?::BLOB[]))"
            " AND agent NOT IN (SELECT unnest(?::VARCHAR[])) ORDER BY rowid",
            [list(number_of), sorted(not_by)],
        )
        return [(number_of[frame.content], frame) for frame in self._live(rows)]

    def _live(self, rows: Sequence[Row]) -> list[PresentFrame]:
        self._load()
        return [PresentFrame(*row) for row in rows if row[0] in self._live_places]
