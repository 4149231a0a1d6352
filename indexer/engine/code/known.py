"""Which contents have their facts, in memory once that is needed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.code import CodeSymbol, FactsKey
from indexer.core.hash_numbers import HashNumbers
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.generators.facts import facts_key, facts_print
from indexer.store import code as stored
from indexer.store.code import CodeStore

_FEW: Final = 32
"""Contents that are looked for without reading which others there are, time and again."""
_SHOWN: Final = 512
"""Those that are looked for so once, for what is shown: as many as a composition loads at once."""
_MANY_TOUCHED: Final = 256
"""Paths that changed since all had their facts, from which on that is noted anew."""
_NONE: Final = 2**32 - 1
"""Stands for a number where the facts that were made last would be made another way today."""


def is_of_today(language: str, made_by: int) -> bool:
    """Whether facts would be made the same way now."""
    return made_by == facts_print(language)


def _is_of_today(facts: stored.KnownFacts) -> bool:
    return is_of_today(facts.language, facts.print)


def _rules_of_facts(limit: int) -> str:
    """All that decides which facts files have: how they are made, and up to which size."""
    return f"{facts_print(None):x} {limit}"


class FileOf(NamedTuple):
    """A file that has some content."""

    key: FactsKey
    path: str
    entry: Entry


class FactsNumbers:
    """The numbers of facts by content and ending; one thread adds, others may read meanwhile."""

    def __init__(self) -> None:
        self._numbers = HashNumbers()
        self._endings: dict[str, bytes] = {}
        """By ending, the bytes that stand for it behind a content's id."""

    def __contains__(self, key: FactsKey) -> bool:
        return self.get(key) is not None

    def get(self, key: FactsKey) -> int | None:
        """The number of some facts."""
        ending = self._endings.get(key[1])
        number = None if ending is None else self._numbers.get(key[0] + ending)
        return None if number == _NONE else number

    def update(self, numbers: Iterable[tuple[FactsKey, int]]) -> None:
        """Give facts their numbers."""
        endings = self._endings
        self._numbers.update(
            (content_id + endings.setdefault(ending, len(endings).to_bytes(4, "big")), number)
            for (content_id, ending), number in numbers
        )

    def every(self) -> list[int]:
        """All numbers."""
        return [number for number in self._numbers.numbers if number != _NONE]


class KnownFacts:
    """The numbers of facts by content and ending; only the writing thread adds to it."""

    def __init__(self, store: CodeStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._numbers: FactsNumbers | None = None
        self._next: int | None = None
        self.complete_below: dict[str, ContentId] = {}
        """Folders, by path, and the content id at which no file below them lacked its facts."""
        self._is_begun = False
        """Whether `complete_below` has what an earlier process found."""
        self._is_noted = False
        """Whether a process that comes after this one will know as much, or nearly."""

    @property
    def numbers(self) -> FactsNumbers:
        """All facts that are stored and would be made the same way today."""
        known = self._numbers
        if known is None:
            with self._lock:
                known = self._numbers
                if known is None:
                    known = FactsNumbers()
                    known.update(
                        ((one.content_id, one.ending), one.number if _is_of_today(one) else _NONE)
                        for one in self.store.known()
                    )
                    self._numbers = known
        return known

    def symbols(self, key: FactsKey) -> tuple[CodeSymbol, ...] | None:
        """The symbols of one content; None where its facts are not stored."""
        number = self.numbers_of((key,)).get(key)
        return None if number is None else self.store.symbols([number])[number]

    def numbers_of(self, keys: Collection[FactsKey], few: int = _SHOWN) -> dict[FactsKey, int]:
        """The numbers of some facts, of those that are stored."""
        if self._numbers is None and len(keys) <= few:
            newest = {(one.content_id, one.ending): one for one in self.store.known_among(keys)}
            return {
                key: newest[key].number
                for key in keys
                if key in newest and _is_of_today(newest[key])
            }
        known = self.numbers
        return {key: number for key in keys if (number := known.get(key)) is not None}

    def lacking(self, keys: Collection[FactsKey]) -> set[FactsKey]:
        """Which of some facts are not stored."""
        return set(keys) - self.numbers_of(keys, _FEW).keys()

    def missing(self, tree: Tree, limit: int, within: str = paths.ROOT) -> Iterator[FileOf]:
        """The files whose facts are missing, without entering folders where none were.

        Files above the limit have none.
        """
        self._begin(tree, limit)
        complete = self.complete_below
        entry = tree.get(within)
        stack: list[tuple[str, Entry, int | None]] = [(within, entry, None)] if entry else []
        found = 0
        while stack:
            path, entry, before = stack.pop()
            if entry.folder is None:
                if entry.kind is not Kind.FILE or entry.size > limit:
                    continue
                key = facts_key(path, entry.content_id)
                if key not in self.numbers:
                    found += 1
                    yield FileOf(key, path, entry)
            elif before is not None:
                if found == before:
                    complete[path] = entry.content_id
            elif complete.get(path) != entry.content_id:
                stack.append((path, entry, found))
                stack.extend(
                    (paths.join(path, name), child, None)
                    for name, child in reversed(list(entry.folder.entries.items()))
                )

    def _begin(self, tree: Tree, limit: int) -> None:
        """Take over what an earlier process found complete, but for what changed since."""
        if self._is_begun:
            return
        since = self.store.complete_at(_rules_of_facts(limit), tree.root.content_id)
        if since is None:
            return
        self._is_begun = True
        touched = set(self.store.touched_since(since))
        self._is_noted = len(touched) < _MANY_TOUCHED
        entries = {path: tree.get(path) for path in touched}
        files = {
            path: facts_key(path, entry.content_id)
            for path, entry in entries.items()
            if entry is not None and entry.kind is Kind.FILE and entry.size <= limit
        }
        lacking = self.lacking(set(files.values()))
        open_below = {
            above
            for path, key in files.items()
            if key in lacking
            for above in paths.ancestors(path)
        }
        stack = [paths.ROOT]
        while stack:
            path = stack.pop()
            entry = tree.get(path)
            assert entry is not None
            if path not in open_below:
                self.complete_below[path] = entry.content_id
            if path in touched and entry.folder is not None:
                stack += (
                    paths.join(path, name)
                    for name, child in entry.folder.entries.items()
                    if child.folder is not None
                )

    def note_complete(self, tree: Tree, limit: int) -> None:
        """Let other processes know that no file lacks its facts, where that saves them a look."""
        if not self._is_noted and self.complete_below.get(paths.ROOT) == tree.root.content_id:
            self.store.note_complete(_rules_of_facts(limit), tree.root.content_id)
            self._is_begun = self._is_noted = True

    def number(self, keys: Iterable[FactsKey]) -> dict[FactsKey, int]:
        """Numbers for facts that are about to be stored."""
        if self._next is None:
            self._next = self.store.next_number()
        return {key: number for number, key in enumerate(keys, self._next)}

    def take_in(self, numbers: Mapping[FactsKey, int]) -> None:
        """Note that facts are stored now."""
        if not numbers:
            return
        # Whoever loads meanwhile may have looked before they were stored.
        with self._lock:
            self._next = max(numbers.values()) + 1
            if self._numbers is not None:
                # What was known keeps its number: two that are made at once are the same.
                known = self._numbers
                known.update(one for one in numbers.items() if one[0] not in known)

    def forget(self) -> None:
        """Drop what is in memory, so that the next use reads the store again."""
        with self._lock:
            self._numbers = self._next = None
            self.complete_below.clear()
            self._is_begun = self._is_noted = False
