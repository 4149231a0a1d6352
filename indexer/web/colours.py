"""What the colours of the map mean: freshness, age, notes, language, or who wrote notes."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.tree import Entry, Folder, Tree
from indexer.engine.frames.coverage import Known
from indexer.engine.frames.heads import HeadCache
from indexer.generators.languages import language_of

MOST: Final = 7
"""Languages and authors with a colour of their own; the others share one."""

_DAY: Final = 86400
_AGES: Final[tuple[tuple[str, str, float], ...]] = (
    ("day", "in the last day", _DAY),
    ("week", "in the last week", 7 * _DAY),
    ("month", "in the last month", 30 * _DAY),
    ("year", "in the last year", 365 * _DAY),
    ("older", "before that", math.inf),
)
_OTHER: Final = "other"


class Meaning(NamedTuple):
    """One colour: what it is called, what it says, and how it is drawn."""

    key: str
    label: str
    about: str
    style: str
    """The class of the style sheet."""
    pattern: str | None = None


Shares = Mapping[str, int]
"""For each key, how many of the nodes at and below a node have it."""


class Colouring(NamedTuple):
    """A way to colour the map."""

    name: str
    meanings: tuple[Meaning, ...]
    """In the order in which they are drawn and listed."""
    shares: Callable[[Known], Shares]


FRESHNESS: Final = (
    Meaning("stale", "stale", "something it was made from moved", "stale", "stale"),
    Meaning("unknown", "unknown", "cannot be proved now", "unknown", "unknown"),
    Meaning("fresh", "fresh", "all frames match the content", "fresh"),
    Meaning("unmanaged", "unmanaged", "kept by no declared type", "unmanaged", "unmanaged"),
    Meaning("none", "no frame", "nothing is known about it", "none"),
)
"""The states of a node, those first that need somebody."""

BY: Final = {
    "freshness": "freshness",
    "age": "age",
    "notes": "notes",
    "language": "language",
    "author": "who wrote",
}
"""The ways there are, with the words of the page."""


class Colours:
    """Counts what a colouring needs, and keeps of folders what has not changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, _FolderCounts]] = {}
        self._notes: tuple[object, dict[str, list[str]]] | None = None

    def of(self, name: str, tree: Tree, heads: HeadCache) -> Colouring:
        """The colouring of a name, for a tree and its notes as they are now."""
        if name == "age":
            # Ages count from the end of the day, so that what was counted holds until then.
            today = int(time.time()) // _DAY * _DAY + _DAY
            counts = self._counts(name, today, lambda _, entry: _age(entry, today))
            return _of_ages(counts, tree)
        if name == "language":
            return _of_languages(self._counts(name, None, _language), tree)
        if name in ("notes", "author"):
            return _of_notes(name, self._note_writers(tree, heads))
        return Colouring("freshness", FRESHNESS, lambda node: node.counts)

    def _counts(
        self, name: str, moment: object, key_of: Callable[[str, Entry], str]
    ) -> _FolderCounts:
        kept = self._kept.get(name)
        if kept is None or kept[0] != moment:
            kept = self._kept[name] = (moment, _FolderCounts(key_of))
        return kept[1]

    def _note_writers(self, tree: Tree, heads: HeadCache) -> dict[str, list[str]]:
        """Who wrote the notes that count at each path, the newest last."""
        moment = (id(heads), heads.versions.now, tree.root_id)
        if self._notes is None or self._notes[0] != moment:
            written = {
                path: [agent for (_, agent), _ in notes]
                for path, notes in sorted(heads.notes.items())
                if tree.get(path) is not None
            }
            self._notes = (moment, written)
        return self._notes[1]


class _FolderCounts:
    """For each key, how many of the files below a folder have it.

    A folder is a value that never changes, so its counts are kept with it: a change costs its
    path to the root.
    """

    def __init__(self, key_of: Callable[[str, Entry], str]) -> None:
        self._key_of = key_of
        self._known: dict[int, tuple[Folder, Counter[str]]] = {}

    def below(self, folder: Folder) -> Counter[str]:
        """The counts of everything in a folder."""
        if len(self._known) > 2 * folder.totals.directories + 100_000:
            self._known.clear()
        return self._count(folder)

    def at(self, tree: Tree, path: str) -> Counter[str]:
        """The counts of a node of either kind."""
        entry = tree.get(path)
        if entry is None:
            return Counter()
        if entry.folder is not None:
            return self.below(entry.folder)
        return Counter((self._key_of(paths.split(path)[1], entry),))

    def _count(self, folder: Folder) -> Counter[str]:
        known = self._known.get(id(folder))
        if known is None:
            found: Counter[str] = Counter()
            for name, entry in folder.entries.items():
                if entry.folder is None:
                    found[self._key_of(name, entry)] += 1
                else:
                    found += self._count(entry.folder)
            # The folder is kept too, so that no other object can get its `id`.
            known = self._known[id(folder)] = (folder, found)
        return known[1]


def _age(entry: Entry, today: int) -> str:
    changed = filestat.modified_of(entry.stat) // 1_000_000_000
    if not changed:
        return "day"
    return next(key for key, _, limit in _AGES if today - changed <= limit)


def _of_ages(counts: _FolderCounts, tree: Tree) -> Colouring:
    meanings = tuple(
        Meaning(key, words, f"changed {words}", f"age{number}")
        for number, (key, words, _) in enumerate(_AGES)
    )
    return Colouring("age", meanings, lambda node: counts.at(tree, node.path))


def _language(name: str, entry: Entry) -> str:
    found = language_of(name, b"")
    return _OTHER if found == "text" else found


def _of_languages(counts: _FolderCounts, tree: Tree) -> Colouring:
    total = counts.below(tree.root)
    listed = _most(total, _OTHER)
    meanings = [
        Meaning(key, key, f"written in {key}", f"cat{number}") for number, key in enumerate(listed)
    ]
    meanings.append(Meaning(_OTHER, _OTHER, "anything else", "none"))
    return Colouring(
        "language", tuple(meanings), lambda node: _folded(counts.at(tree, node.path), listed)
    )


def _of_notes(name: str, writers: Mapping[str, list[str]]) -> Colouring:
    """By how many notes a node has, or by who wrote the newest of them."""
    if name == "notes":
        key_at = {path: "one" if len(who) == 1 else "several" for path, who in writers.items()}
        meanings = [
            Meaning("several", "several notes", "several notes are bound to it", "age0"),
            Meaning("one", "one note", "one note is bound to it", "age2"),
        ]
    else:
        total = Counter(who[-1] for who in writers.values())
        listed = _most(total, "")
        key_at = {p: who[-1] if who[-1] in listed else _OTHER for p, who in writers.items()}
        meanings = [
            Meaning(key, key, f"{key} wrote the newest note", f"cat{number}")
            for number, key in enumerate(listed)
        ]
        if len(total) > len(listed):
            meanings.append(Meaning(_OTHER, "others", "somebody else wrote it", "unmanaged"))
    below: dict[str, Counter[str]] = {}
    for path, key in key_at.items():
        for where in (path, *paths.ancestors(path)):
            below.setdefault(where, Counter())[key] += 1
    meanings.append(Meaning("none", "no note", "nobody wrote about it", "none"))

    def shares(node: Known) -> Shares:
        found = Counter(below.get(node.path, ()))
        found["none"] = node.nodes - found.total()
        return found

    return Colouring(name, tuple(meanings), shares)


def _most(total: Counter[str], apart: str) -> list[str]:
    """The keys that are found most often, by name where they are equal."""
    ranked = sorted((-count, key) for key, count in total.items() if key != apart)
    return [key for _, key in ranked[:MOST]]


def _folded(found: Counter[str], listed: list[str]) -> Shares:
    shares = {key: found[key] for key in listed if found[key]}
    rest = found.total() - sum(shares.values())
    return {**shares, _OTHER: rest} if rest else shares
