"""The files of a tree as a question sees them: by the numbers of their facts, and by name."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Protocol

from indexer.core import paths
from indexer.core.changes import tree_changes
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.roles import Role, role_of
from indexer.core.terms import needle_of, words_in
from indexer.core.tree import Entry, Tree
from indexer.engine.code.known import FactsNumbers
from indexer.generators.facts import facts_key

LastKnown = Callable[[str], Iterable[ContentId]]
"""The contents of a file that its frames were last made from."""


class Names:
    """The names of a tree as one text, in which a word is found without reading them all.

    Paths that are known already are given, so as not to hold them twice.
    """

    def __init__(self, tree: Tree, same: Mapping[str, str]) -> None:
        self._paths = [same.get(path, path) for path, _ in tree.walk() if path]
        names = [paths.split(path)[1].lower().replace("_", "") for path in self._paths]
        self._text = "\n".join(names)
        self._starts = array("I", [0, *accumulate(len(name) + 1 for name in names)])
        self._found: dict[tuple[str, int], list[str]] = {}

    def having(self, word: str, most: int) -> list[str]:
        """The paths whose own name has a word; none where too many have it."""
        known = (word, most)
        if known not in self._found:
            found = list(islice(self._search(word), most + 1))
            self._found[known] = found if len(found) <= most else []
        return self._found[known]

    def _search(self, word: str) -> Iterator[str]:
        needle = needle_of(word)
        at = self._text.find(needle)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            path = self._paths[place]
            if word in words_in(paths.split(path)[1]):
                yield path
            at = self._text.find(needle, self._starts[place + 1])


class FilesSeen(Protocol):
    """The files as a question sees them."""

    @property
    def live(self) -> bytearray:
        """1 for the numbers that a file has."""
        ...

    @property
    def count(self) -> int:
        """How many numbers are live."""
        ...

    def numbers(self, paths: Sequence[str]) -> dict[str, int]:
        """The numbers of the facts of some files, without those that have none, in this order."""
        ...

    def roles(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """By number, the role that weighs most among those of its files."""
        ...

    def paths(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The files that have the facts of some numbers."""
        ...

    def is_stale(self, path: str) -> bool:
        """Whether what is known of a file is of a content that it had before."""
        ...

    def named(self, words: Sequence[str], most: int) -> dict[str, list[str]]:
        """By word, the paths in the tree whose own name has it; none where too many have it."""
        ...


class Files:
    """Which files have which facts, and which names have which words.

    Bringing it up to date costs what moved since the last time.
    """

    def __init__(self, last_known: LastKnown) -> None:
        self._last_known = last_known
        self._known: FactsNumbers | None = None
        self._clear()

    def _clear(self) -> None:
        self._tree: Tree | None = None
        self._paths: list[str | tuple[str, ...]] = []
        """By number of facts, the files that have them; of most there is one, held as it is."""
        self.live = bytearray()
        """1 for the numbers that a file has."""
        self._roles = bytearray()
        """By number, the role that weighs most among those of its files."""
        self.count = 0
        """How many numbers are live."""
        self._waiting: dict[str, int | None] = {}
        """Files whose facts are not stored yet; till then those count of what frames tell of."""
        self._names: Names | None = None

    def bring_up_to_date(
        self, tree: Tree, known: FactsNumbers, held: Callable[[], Iterable[str]]
    ) -> None:
        """Follow the paths that came and went, and the facts that were found out.

        `held` gives paths that are in memory anyway.
        """
        if known is not self._known:
            # Read anew: the numbers may be others.
            self._clear()
            self._known = known
        old = self._tree
        if old is None:
            same = {path: path for path in held()}
            for path, entry in tree.walk():
                self._put(same.get(path, path), entry, known)
        elif old is not tree:
            for path, was, now in tree_changes(old, tree):
                if was is not None and was.kind is Kind.FILE:
                    self._drop(path, self._number(path, was))
                if was is None or now is None:
                    self._names = None
                if now is not None:
                    self._put(path, now, known)
        self._tree = tree
        for path in sorted(self._waiting):
            now = tree.get(path)
            self._drop(path, self._waiting[path])
            if now is not None:
                self._put(path, now, known)

    def _put(self, path: str, entry: Entry, known: FactsNumbers) -> None:
        if entry.kind is not Kind.FILE:
            return
        number = known.get(facts_key(path, entry.content_id))
        if number is None:
            before = (known.get(facts_key(path, one)) for one in self._last_known(path))
            number = next((one for one in before if one is not None), None)
            self._waiting[path] = number
        if number is None:
            return
        more = number + 1 - len(self._paths)
        if more > 0:
            self._paths.extend([()] * more)
            self.live.extend(bytes(more))
            self._roles.extend(bytes(more))
        held, role = self._held(number), role_of(path)
        self._paths[number] = (*held, path) if held else path
        # Roles are in the order of what they weigh.
        self._roles[number] = min(self._roles[number], role) if held else role
        self.count += not held
        self.live[number] = 1

    def _drop(self, path: str, number: int | None) -> None:
        self._waiting.pop(path, None)
        if number is not None:
            held = tuple(one for one in self._held(number) if one != path)
            self._paths[number] = held
            self._roles[number] = min(map(role_of, held), default=Role.SOURCE)
            self.count -= not held
            self.live[number] = bool(held)

    def _held(self, number: int) -> tuple[str, ...]:
        held = self._paths[number]
        return (held,) if isinstance(held, str) else held

    def numbers(self, paths: Sequence[str]) -> dict[str, int]:
        """The numbers of the facts of some files, without those that have none, in this order."""
        found: dict[str, int] = {}
        for path in paths:
            entry = self._tree.get(path) if self._tree is not None else None
            if entry is not None and (number := self._number(path, entry)) is not None:
                found[path] = number
        return found

    def _number(self, path: str, entry: Entry) -> int | None:
        """The number that a file was put under; one that was known then is still the same."""
        if path in self._waiting:
            return self._waiting[path]
        if self._known is None or entry.kind is not Kind.FILE:
            return None
        return self._known.get(facts_key(path, entry.content_id))

    def roles(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """By number, the role that weighs most among those of its files."""
        roles = self._roles
        return {number: roles[number] for number in numbers}

    def is_stale(self, path: str) -> bool:
        """Whether what is known of a file is of a content that it had before."""
        return path in self._waiting

    def paths(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The files that have the facts of some numbers."""
        return {one: self._held(one) for one in numbers if one < len(self._paths)}

    def named(self, words: Sequence[str], most: int) -> dict[str, list[str]]:
        """By word, the paths in the tree whose own name has it; none where too many have it."""
        if self._tree is None:
            return {word: [] for word in words}
        if self._names is None:
            held = (path for number in range(len(self._paths)) for path in self._held(number))
            self._names = Names(self._tree, {path: path for path in held})
        return {word: self._names.having(word, most) for word in words}
