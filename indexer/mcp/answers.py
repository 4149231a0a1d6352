"""Answers within a number of tokens: a document, then the texts it is about, fenced as data.

Tools answer in text alone, without `structuredContent` and output schemas. Clients do different
things with a structured part: some hand on only that and drop the text, some only the text, some
both, and an error beside a strict schema is rejected by others. With text alone every client shows
the same, nothing is paid for twice, and every refusal can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from indexer.core.json_text import json_text
from indexer.core.paths import on_screen

Document = dict[str, Any]
Count = Callable[[Sequence[str]], Sequence[int]]
"""How many tokens each of some texts has."""

ID_DIGITS: Final = 12
_FULL_ID: Final = re.compile("[0-9a-f]{32,64}")
IDS: Final = frozenset(
    ["node_id", "frame_id", "manifest_id", "content_id", "root", "old", "new", "replaced"]
)
"""The names under which what looks like an id is one; elsewhere it may be the name of a file."""

MOST: Final = 500
"""Entries of all lists together that are looked at; no budget has room for more."""

_TRIES: Final = 8
_LONGEST_TOKEN: Final = 16
"""A text with more characters than this for each token of the budget is not worth counting."""
_FENCE: Final = 12
"""Tokens of a fence and of what is said above it."""
_LINE: Final = 40
"""Tokens of the line that tells what was left out."""
_BACKTICKS: Final = re.compile("`{3,}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One element of a list of the document, with the text that belongs to it."""

    name: str
    """The name of the list."""
    value: Any
    text: str | None = None
    about: str = ""
    """What is said above the text."""
    whole: bool = True
    """Whether a text that does not fit is left out; otherwise its beginning is shown."""


@dataclass(slots=True)
class Answer:
    """What a tool has to say, first things first."""

    head: Document
    entries: list[Entry] = field(default_factory=list)
    newest_last: bool = False
    """Whether the last entries matter most; they stay in their order."""
    totals: dict[str, int] = field(default_factory=dict)
    """For a list that was cut, how many entries all of it has."""
    more: str = "ask for less, or give a larger budget"

    def add(self, name: str, values: Sequence[Any], most: int = MOST) -> None:
        """Add a list of the document, cut after `most` entries."""
        self.entries += [Entry(name, value) for value in values[:most]]
        if len(values) > most:
            self.totals[name] = len(values)

    def with_short_ids(self, names: Collection[str]) -> Answer:
        """The same answer with the first digits of each id alone."""
        entries = [
            replace(
                entry,
                value=short_ids(entry.value, names, entry.name),
                about=_FULL_ID.sub(lambda found: found.group()[:ID_DIGITS], entry.about),
            )
            for entry in self.entries
        ]
        return replace(self, head=short_ids(self.head, names), entries=entries)


def listed(document: Mapping[str, Any], **named: Any) -> Answer:
    """An answer from a document: its lists can be cut anywhere, everything else stays whole."""
    answer = Answer(dict(named))
    for name, value in document.items():
        if isinstance(value, list) and value:
            answer.add(name, value)
        else:
            answer.head.setdefault(name, value)
    return answer


def short_ids(value: Any, names: Collection[str], name: str = "") -> Any:
    """The same value with the first digits of each id alone, by which it can be found."""
    if isinstance(value, dict):
        return {key: short_ids(each, names, key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [short_ids(each, names, name) for each in value]
    if name in names and isinstance(value, str) and _FULL_ID.fullmatch(value):
        return value[:ID_DIGITS]
    return value


def fenced(text: str, about: str) -> str:
    """A text as data: nothing in it can end the fence or hide what is read."""
    shown = "\n".join(map(on_screen, text.replace("\r\n", "\n").removesuffix("\n").split("\n")))
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(shown))])
    return "\n".join([*([about] if about else []), fence, shown, fence])


def blocks_within(answer: Answer, budget: int, count: Count) -> list[str]:
    """The blocks of an answer, which together have no more tokens than that.

    What does not fit is left out, and one line says how much that is.
    """
    every = dict.fromkeys(range(len(answer.entries)))
    blocks = _Kept(answer, answer.head, every).blocks()
    # No token is shorter than a byte, so what has no more bytes than that needs no counting.
    if _size(blocks) <= budget:
        return blocks
    affordable = budget * _LONGEST_TOKEN
    if _size(blocks) <= affordable and sum(count(blocks)) <= budget:
        return blocks
    costs = _Costs(answer, affordable, count)
    room = budget
    for _ in range(_TRIES):
        blocks = _chosen(answer, costs, room).blocks()
        tokens = sum(count(blocks))
        if tokens <= budget:
            return blocks
        room -= max(tokens - budget, room // 50, 4)
    told = {"freshness": answer.head["freshness"], "left_out": f"all of it; {answer.more}"}
    return [json_text(told)]


def _size(blocks: Iterable[str]) -> int:
    return sum(len(block.encode()) for block in blocks)


@dataclass(slots=True)
class _Kept:
    """What of an answer is shown: keys of the head, entries, and how much of their texts."""

    answer: Answer
    keys: Collection[str]
    places: dict[int, int | None]
    """For the place of each entry that is shown, how many characters of its text; None for all."""

    def blocks(self) -> list[str]:
        """The document, then the texts."""
        answer = self.answer
        document: Document = {}
        texts: list[str] = []
        document.update((name, answer.head[name]) for name in self.keys)
        absent: dict[str, int] = {}
        for place, entry in enumerate(answer.entries):
            if place not in self.places:
                absent[entry.name] = absent.get(entry.name, 0) + 1
                continue
            if entry.value is not None:
                document.setdefault(entry.name, []).append(entry.value)
            if entry.text is not None:
                self._show(entry, self.places[place], texts, absent)
        for name, total in answer.totals.items():
            present = sum(1 for entry in answer.entries if entry.name == name)
            absent[name] = absent.get(name, 0) + total - present
        told = [f"{number:,} of {name}" for name, number in absent.items() if number]
        told += [name for name in answer.head if name not in document]
        if told:
            document["left_out"] = f"{', '.join(told)}; {answer.more}"
        return [json_text(document), *texts]

    def _show(
        self, entry: Entry, length: int | None, texts: list[str], absent: dict[str, int]
    ) -> None:
        text = entry.text or ""
        if length is None:
            texts.append(fenced(text, entry.about))
            return
        if length == 0:
            absent["texts"] = absent.get("texts", 0) + 1
            return
        shown = text[:length]
        if "\n" in shown:
            shown = shown[: shown.rindex("\n")]
        left = f"the first {len(shown):,} of {len(text):,} characters"
        texts.append(fenced(shown, f"{entry.about}, {left}" if entry.about else left))


class _Costs:
    """What each part of an answer costs by itself."""

    def __init__(self, answer: Answer, affordable: int, count: Count) -> None:
        parts = [json_text({name: value}) for name, value in answer.head.items()]
        parts += [json_text([entry.value]) for entry in answer.entries]
        texts = [entry.text or "" for entry in answer.entries]
        # What is much too long is not sent to be counted.
        self.shown = [len(text) if len(text) <= affordable else affordable for text in texts]
        parts += [text[:length] for text, length in zip(texts, self.shown, strict=True)]
        known = count([part if len(part) <= affordable else "" for part in parts])
        costs = [
            number if len(part) <= affordable else affordable
            for number, part in zip(known, parts, strict=True)
        ]
        heads, entries = len(answer.head), len(answer.entries)
        self.head = dict(zip(answer.head, costs, strict=False))
        self.entries = costs[heads : heads + entries]
        self.texts = costs[heads + entries :]


def _chosen(answer: Answer, costs: _Costs, room: int) -> _Kept:
    """As much as there is room for, first things first; what is too large lets others pass."""
    room -= _LINE
    keys = []
    for name, cost in costs.head.items():
        if cost <= room:
            keys.append(name)
            room -= cost
    places: dict[int, int | None] = {}
    order = range(len(answer.entries))
    for place in reversed(order) if answer.newest_last else order:
        entry = answer.entries[place]
        if costs.entries[place] > room:
            continue
        room -= costs.entries[place]
        places[place] = None
        if entry.text is None:
            continue
        cost, length = costs.texts[place] + _FENCE, costs.shown[place]
        if cost > room or length < len(entry.text):
            places[place] = 0
            if entry.whole or room < 4 * _FENCE:
                continue
            places[place] = max(1, min(length, length * (room - _FENCE) // cost))
            cost = min(room, cost)
        room -= cost
    return _Kept(answer, keys, places)
