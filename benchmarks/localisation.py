"""Rows about finding code: real commits' subjects asked of the trees they were made on.

A question is the subject of a commit, the answer the files and symbols it changed, the tree that of
its parent. The trees are written one after the other into one workspace, a service follows, and is
asked. Two baselines answer on the same trees: BM25 over whole files, and over outlines.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.context_rows import service
from benchmarks.measure import Row
from benchmarks.reference_truth import copy_of_this_repository
from indexer.core.roles import Role, role_of
from indexer.core.terms import count_terms, term_of, words_in
from indexer.core.tokens import TiktokenCounter
from indexer.generators.base import FileInput
from indexer.generators.outline import OutlineGenerator
from indexer.service.workspace import Workspace

BUDGETS: Final = (4_000, 8_000, 16_000)
RANKED: Final = 60_000
"""Tokens of the request whose order counts as the ranking."""

LARGEST: Final = 1 << 20
K1: Final = 1.2
B: Final = 0.75
HEADING: Final = 20
"""Tokens that a baseline pays for naming a file."""

DRAWN: Final = 40
SEED: Final = 15
IDENTIFIERS: Final = 7 / 8
"""Names of symbols that are asked for alone, and the share that has to find its own file first."""

# What the open set of Django has to reach.
LIMITS: Final = {
    "recall@1": 0.56, "recall@10": 0.88, "reciprocal rank": 0.77, "files in 8000": 0.87,
    "symbols in 8000": 0.50,
}  # fmt: skip


@dataclass(slots=True)
class Figures:
    """What one way of ranking reached, a list of shares per figure."""

    shares: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, share: float) -> None:
        """Take in one question's share."""
        self.shares.setdefault(name, []).append(share)

    def mean(self, name: str) -> float:
        """The mean over the questions."""
        found = self.shares.get(name, [])
        return statistics.fmean(found) if found else 0.0


class Shown(NamedTuple):
    """What an answer shows of a file: all of it, or some lines."""

    path: str
    lines: tuple[int, int] | None
    whole: bool = False


class Repository:
    """A bare repository's trees and blobs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = subprocess.Popen(
            ["git", "-C", str(path), "cat-file", "--batch"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def tree(self, commit: str) -> dict[str, str]:
        """Blob ids of a commit's files by path, links and very large files left out."""
        listed = subprocess.run(
            ["git", "-C", str(self._path), "ls-tree", "-rlz", commit],
            capture_output=True, check=True,
        ).stdout  # fmt: skip
        found = {}
        for line in listed.decode("utf-8", "surrogateescape").split("\0"):
            if line:
                about, path = line.split("\t", 1)
                mode, kind, blob, size = about.split()
                if kind == "blob" and mode.startswith("100") and int(size) <= LARGEST:
                    found[path] = blob
        return found

    def blob(self, name: str) -> bytes:
        """A blob's bytes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name.encode() + b"\n")
        self._process.stdin.flush()
        size = int(self._process.stdout.readline().split()[2])
        content = self._process.stdout.read(size)
        self._process.stdout.read(1)
        return content

    def close(self) -> None:
        """End the process that reads blobs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def write_tree(
    root: Path, before: Mapping[str, str], after: Mapping[str, str], repository: Repository
) -> None:
    """Make a workspace one tree where it was another; only what differs is written."""
    for path in before.keys() - after.keys():
        (root / path).unlink()
    for path, blob in after.items():
        if before.get(path) != blob:
            target = root / path
            if target.is_dir():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(repository.blob(blob))


class Bm25:
    """Plain BM25 over texts by path; what is made of a blob is kept for the next tree."""

    def __init__(self, text_of: Callable[[str, str], str]) -> None:
        self._text_of = text_of
        self._known: dict[tuple[str, str], tuple[dict[int, int], int, int]] = {}
        self._counter = TiktokenCounter()

    def _of(self, path: str, blob: str) -> tuple[dict[int, int], int, int]:
        key = (os.path.basename(path), blob)
        if key not in self._known:
            text = self._text_of(path, blob)
            counts = count_terms(text)
            self._known[key] = counts, sum(counts.values()), len(text)
        return self._known[key]

    def ranked(self, tree: Mapping[str, str], question: str) -> list[str]:
        """The files that have a word of a question, the best first."""
        made = {path: self._of(path, blob) for path, blob in tree.items()}
        usual = statistics.fmean(length for _, length, _ in made.values()) or 1.0
        terms = [term_of(word) for word in words_in(question)]
        frequency = Counter(
            term for counts, _, _ in made.values() for term in terms if term in counts
        )
        scores = {}
        for path, (counts, length, _) in made.items():
            norm = K1 * (1 - B + B * length / usual)
            score = sum(
                math.log(1 + (len(made) - frequency[term] + 0.5) / (frequency[term] + 0.5))
                * counts[term] * (K1 + 1) / (counts[term] + norm)
                for term in terms if term in counts
            )  # fmt: skip
            if score:
                scores[path] = score
        return sorted(scores, key=lambda path: (-scores[path], path))

    def within(self, tree: Mapping[str, str], ranked: Sequence[str], budget: int) -> list[str]:
        """The files whose texts fit a budget, taken in order."""
        shown, left = [], budget
        for path in ranked[:200]:
            # Nothing has so many characters to a token.
            if self._of(path, tree[path])[2] > left * 16:
                continue
            tokens = self._counter.count_text(self._text_of(path, tree[path])) + HEADING
            if tokens <= left:
                shown.append(path)
                left -= tokens
        return shown


def rows(
    work: Path, repository: Path, questions: Path, most: int | None, details: Path | None = None
) -> Iterator[Row]:
    """All figures, each beside that of BM25 over whole files."""
    asked = json.loads(questions.read_text(encoding="utf-8"))[:most]
    opened = Repository(repository)
    root = work / "localisation"
    root.mkdir()
    outline = OutlineGenerator()
    texts = Bm25(lambda _, blob: opened.blob(blob).decode("utf-8", "replace"))
    outlines = Bm25(
        lambda path, blob: outline.generate(FileInput(os.path.basename(path), opened.blob(blob)))
    )
    figures = {"merkle": Figures(), "BM25 over files": Figures(), "BM25 over outlines": Figures()}
    seconds: list[float] = []
    told: list[dict[str, Any]] = []
    try:
        tree = opened.tree(asked[0]["parent"])
        write_tree(root, {}, tree, opened)
        with service(root), Workspace.open(root) as workspace:
            for one in asked:
                after = opened.tree(one["parent"])
                write_tree(root, tree, after, opened)
                tree = after
                workspace.regenerate()
                ranges = _ranges(workspace, one["symbols"])
                answers = _ask(workspace, one["question"], seconds)
                ranked = _files(answers[RANKED], tree)
                told.append({"question": one["question"], "ranked": ranked[:20]})
                _judge(figures["merkle"], one, ranges, ranked, answers)
                for name, baseline, whole in (
                    ("BM25 over files", texts, True), ("BM25 over outlines", outlines, False),
                ):  # fmt: skip
                    order = baseline.ranked(tree, one["question"])
                    shown = {
                        budget: [
                            Shown(path, None, whole)
                            for path in baseline.within(tree, order, budget)
                        ]
                        for budget in BUDGETS
                    }
                    _judge(figures[name], one, ranges, order, shown)
            first = {"the repository": identifiers_first(workspace)}
    finally:
        opened.close()
    if details is not None:
        details.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    yield from _rows(figures, seconds)
    own = work / "own"
    copy_of_this_repository(own)
    with Workspace.open(own) as workspace:
        workspace.scan()
        workspace.regenerate()
        first["merkle itself"] = identifiers_first(workspace)
    for name, share in first.items():
        yield Row(
            f"localisation: identifiers of {name}", share, "", "all first", 1.0, IDENTIFIERS, True
        )


def identifiers_first(workspace: Workspace) -> float:
    """Of some symbols' names, drawn by seed, the share that finds its own file first."""
    found = workspace.sql(
        "SELECT name, list(DISTINCT path) AS paths FROM symbols"
        " WHERE kind IN ('class', 'function', 'method') AND length(name) > 3"
        " AND NOT starts_with(name, '__') GROUP BY name ORDER BY name",
        limit=1_000_000,
    )["rows"]
    rows = [(name, paths) for name, paths in found if all(map(is_source, paths))]
    drawn = random.Random(SEED).sample(rows, DRAWN)
    hits = [
        (workspace.compose(query=name, budget=4_000)["items"] or [{"path": ""}])[0]["path"] in paths
        for name, paths in drawn
    ]
    return statistics.fmean(hits)


def is_source(path: str) -> bool:
    """Whether a file is code, and neither a test nor a document."""
    return role_of(path) is Role.SOURCE


def _rows(figures: Mapping[str, Figures], seconds: list[float]) -> Iterator[Row]:
    ours, files = figures["merkle"], figures["BM25 over files"]
    for name in ours.shares:
        # Above the baseline at each, and above its own limit.
        base, value = files.mean(name), ours.mean(name)
        limit = max(LIMITS.get(name, 0.0) / base if base else 0.0, 1.0 if name in LIMITS else 0.0)
        yield Row(f"localisation: {name}", value, "", "BM25 over files", base, limit or None, True)
    for name in ours.shares:
        base = figures["BM25 over outlines"].mean(name)
        yield Row(f"localisation: {name}", ours.mean(name), "", "BM25 over outlines", base, None)
    ordered = sorted(seconds)
    for share in (50, 95):
        value = 1000 * ordered[min(len(ordered) - 1, len(ordered) * share // 100)]
        yield Row(f"localisation: compose p{share}", value, "ms", "1 ms", 1.0, None)


def _ask(workspace: Workspace, question: str, seconds: list[float]) -> dict[int, list[Shown]]:
    answers = {}
    for budget in (*BUDGETS, RANKED):
        began = time.perf_counter()
        found = workspace.compose(query=question, budget=budget)
        if budget == 8_000:
            seconds.append(time.perf_counter() - began)
        answers[budget] = [
            Shown(item["path"], tuple(item["lines"]) if item["type"] == "source" else None)
            for item in found["items"]
        ]
    return answers


def _files(shown: Sequence[Shown], tree: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(one.path for one in shown if one.path in tree))


def _ranges(
    workspace: Workspace, symbols: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Where the changed symbols stand in the tree that is asked."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for path, names in symbols.items():
        quoted = path.replace("'", "''")
        answer = workspace.sql(
            f"SELECT symbol, line, end_line FROM symbols WHERE path = '{quoted}'", limit=10_000
        )
        for name, line, end in answer["rows"]:
            if name in names:
                found.setdefault((path, name), []).append((line, end))
    return found


def judge_order(figures: Figures, wanted: Sequence[str], ranked: Sequence[str]) -> None:
    """Take in where the wanted files stand among those that were found."""
    places = [ranked.index(path) + 1 if path in ranked else None for path in wanted]
    for most in (1, 5, 10):
        hits = sum(place is not None and place <= most for place in places)
        figures.add(f"recall@{most}", hits / len(wanted))
    figures.add("reciprocal rank", max((1 / place for place in places if place), default=0.0))


def _judge(
    figures: Figures,
    one: Mapping[str, Any],
    ranges: Mapping[tuple[str, str], Sequence[tuple[int, int]]],
    ranked: Sequence[str],
    answers: Mapping[int, Sequence[Shown]],
) -> None:
    wanted = one["files"]
    judge_order(figures, wanted, ranked)
    for budget in BUDGETS:
        shown = {item.path for item in answers[budget]}
        figures.add(f"files in {budget}", sum(path in shown for path in wanted) / len(wanted))
    named = [(path, name) for path, names in one["symbols"].items() for name in names if name]
    if named:
        hits = sum(_is_shown(answers[8_000], key, ranges.get(key, ())) for key in named)
        figures.add("symbols in 8000", hits / len(named))
        figures.add("any symbol in 8000", float(hits > 0))


def _is_shown(
    shown: Sequence[Shown], key: tuple[str, str], ranges: Sequence[tuple[int, int]]
) -> bool:
    """Whether the whole body of a symbol is among what is shown."""
    return any(
        item.path == key[0]
        and (item.whole or (item.lines and item.lines[0] <= first and last <= item.lines[1]))
        for item in shown
        for first, last in ranges
    )
