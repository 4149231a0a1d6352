"""The `summarize` policy: what a newcomer would want to know about a folder first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from indexer.synthesis.base import EMPTY, ChildInput, FingerprintParts, Tokens, checked_limit
from indexer.synthesis.gist import NOTHING, Gist, cut, gist_of

DEFAULT_TOKENS = 800
MIN_TOKENS = 32

_TITLE_WIDTH = 200
_LEAD_WIDTH = 600
_GIST_WIDTH = 140
# No line of detail is shorter than this many tokens, so it is not tried with fewer left.
_LEAST_DETAIL = 6
# Room kept for the last line, which says how many children are left out.
_TAIL_TOKENS = 14

_README = ("readme.md", "readme.rst", "readme.txt", "readme", "index.md", "overview.md")
_ENTRIES = frozenset(
    ("__init__", "lib", "mod", "main", "index", "package-info", "doc", "__main__", "mod.rs")
)


@dataclass(frozen=True, slots=True)
class Summarize:
    """Extractive and deterministic: title, first paragraph, then every child in brief."""

    tokens: Tokens
    max_tokens: int = DEFAULT_TOKENS

    name: ClassVar[str] = "summarize"
    version: ClassVar[str] = "2"

    def __post_init__(self) -> None:
        checked_limit(self.name, "max_tokens", self.max_tokens, MIN_TOKENS, 1_000_000)

    def fingerprint_parts(self) -> FingerprintParts:
        """Name, version, limit and tokenizer."""
        return (
            ("name", self.name),
            ("option.max_tokens", str(self.max_tokens)),
            ("tokenizer", self.tokens.tokenizer),
            ("version", self.version),
        )

    def synthesize(self, children: Sequence[ChildInput]) -> str:
        """The folder's frame, never longer than the limit."""
        if not children:
            return EMPTY
        draft = _Draft(children)
        budget = self._introduce(draft) - _TAIL_TOKENS
        budget = self._name(draft, budget)
        self._detail(draft, budget)
        return self._within_limit(draft)

    def _introduce(self, draft: _Draft) -> int:
        """Title and first paragraph, at most half of the limit; gives back what is left."""
        about = draft.about = _about(draft.children, draft.readme)
        draft.title = self._shortened("[folder] " + cut(about.title, _TITLE_WIDTH))
        if about.lead:
            draft.lead = self._shortened("> " + cut(about.lead, _LEAD_WIDTH))
        return self.max_tokens - self.tokens.count(f"{draft.title}\n{draft.lead}\n")

    def _shortened(self, line: str) -> str:
        line = line.rstrip()
        while len(line) > 12 and self.tokens.count(line) > self.max_tokens // 4:
            line = cut(line, len(line) * 2 // 3)
        return line

    def _name(self, draft: _Draft, budget: int) -> int:
        """Name every child; where not all fit, leave a quarter of the budget for what they are."""
        spent: list[int] = []
        total = self.tokens.count("also: \n")
        for at in draft.fair_order():
            # Counting stops with the budget, however many children there are.
            total += self.tokens.count(f"{draft.children[at].shown}, ")
            if total > budget:
                break
            spent.append(total)
            draft.named.append(at)
        if len(draft.named) < len(draft.children):
            while spent and spent[-1] > budget * 3 // 4:
                spent.pop()
                draft.named.pop()
        return budget - (spent[-1] if spent else 0)

    def _detail(self, draft: _Draft, budget: int) -> None:
        """Say what children are, in order of importance, then what is in them."""
        gists: dict[int, Gist] = {}
        for at in draft.by_importance():
            if budget < _LEAST_DETAIL:
                return
            child = draft.children[at]
            if child.body is None or at == draft.readme:
                continue
            gist = gists[at] = gist_of(child.body)
            said = gist.line(_GIST_WIDTH)
            # What the folder's title says already is not said again of the file it came from.
            if said and not (gist.title and gist.title == draft.about.title):
                budget = self._add(draft, at, f"{child.shown} -- {said}", budget)
        for at, gist in gists.items():
            if budget < _LEAST_DETAIL:
                return
            names = ", ".join(gist.names)
            # Without a title the names are what was said already.
            if names and draft.children[at].kind == "file" and gist.title and at in draft.details:
                budget = self._add(draft, at, f"{draft.details[at]} ({names})", budget)

    def _add(self, draft: _Draft, at: int, line: str, budget: int) -> int:
        had = draft.details.get(at)
        # The name was paid for in the list of names; `_within_limit` counts what that leaves over.
        cost = self.tokens.count(f"- {line}\n")
        if had is not None:
            cost -= self.tokens.count(f"- {had}\n")
        if cost > budget:
            return budget
        draft.undo.append((at, had))
        draft.details[at] = line
        return budget - cost

    def _within_limit(self, draft: _Draft) -> str:
        """Sums of parts are estimates; the whole is counted, and cut until it fits."""
        step = 1
        while self.tokens.count(text := draft.text()) > self.max_tokens:
            if not draft.drop(step):
                return self._title_alone(draft)
            step *= 2
        return text

    def _title_alone(self, draft: _Draft) -> str:
        text = draft.title + "\n"
        while text and self.tokens.count(text) > self.max_tokens:
            text = text[: len(text) // 2]
        return text


@dataclass(slots=True, eq=False, repr=False)
class _Draft:
    """The text as planned so far."""

    children: Sequence[ChildInput]
    title: str = ""
    lead: str = ""
    named: list[int] = field(default_factory=list)
    details: dict[int, str] = field(default_factory=dict)
    undo: list[tuple[int, str | None]] = field(default_factory=list)
    readme: int = -1
    about: Gist = NOTHING

    def __post_init__(self) -> None:
        self.readme = _readme(self.children)

    def fair_order(self) -> Iterator[int]:
        """Folders and files in turn, each in the order given, so that neither crowds out."""
        folders = [at for at, child in enumerate(self.children) if child.kind == "directory"]
        others = [at for at, child in enumerate(self.children) if child.kind != "directory"]
        for turn in range(max(len(folders), len(others))):
            yield from folders[turn : turn + 1]
            yield from others[turn : turn + 1]

    def by_importance(self) -> list[int]:
        """Named folders, then files one enters by, then the others, each in the order given."""
        return sorted(self.named, key=lambda at: (_rank(self.children[at]), at))

    def drop(self, steps: int) -> bool:
        """Take back the latest details, then names, then the lead."""
        for _ in range(steps):
            if self.undo:
                at, had = self.undo.pop()
                if had is None:
                    del self.details[at]
                else:
                    self.details[at] = had
            elif self.named:
                self.named.pop()
            elif self.lead:
                self.lead = ""
            else:
                return False
        return True

    def text(self) -> str:
        """The frame as it stands: detailed folders and files, other names, the rest counted."""
        listed = sorted(self.named, key=lambda at: (self.children[at].kind != "directory", at))
        lines = [self.title, self.lead] if self.lead else [self.title]
        lines.extend(f"- {self.details[at]}" for at in listed if at in self.details)
        brief = [self.children[at].shown for at in listed if at not in self.details]
        if brief:
            lines.append("also: " + ", ".join(brief))
        if len(self.named) < len(self.children):
            kept = set(self.named)
            lines.append(_left_out(c for at, c in enumerate(self.children) if at not in kept))
        return "\n".join(lines) + "\n"


def _left_out(children: Iterable[ChildInput]) -> str:
    folders = files = 0
    for child in children:
        if child.kind == "directory":
            folders += 1
        else:
            files += 1
    parts = [f"{n} {noun}" for n, noun in ((folders, "folders"), (files, "files")) if n]
    return f"left out: {', '.join(parts)}"


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _rank(child: ChildInput) -> int:
    if child.kind == "directory":
        return 0
    return 1 if _stem(child.name) in _ENTRIES else 2


def _readme(children: Sequence[ChildInput]) -> int:
    """The document that speaks for the folder, or -1."""
    found = -1
    best = len(_README)
    for at, child in enumerate(children):
        # Only a short name can be one, which spares folding ten thousand others.
        if len(child.name) <= 11 and child.kind == "file" and child.body is not None:
            folded = child.name.lower()
            if folded in _README and _README.index(folded) < best:
                found, best = at, _README.index(folded)
    return found


def _about(children: Sequence[ChildInput], readme: int) -> Gist:
    """What the folder says of itself: its readme, or what its entry file says."""
    body = children[readme].body if readme >= 0 else None
    if body is not None:
        return gist_of(body)
    for child in children:
        if child.kind == "file" and child.body is not None and _stem(child.name) in _ENTRIES:
            gist = gist_of(child.body)
            if gist.title and gist.title != "empty file":
                return gist
    return NOTHING
