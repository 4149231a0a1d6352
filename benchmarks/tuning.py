"""`python -m benchmarks.tuning`: what other weights of the ranking would reach.

The questions of a set are halved: by one half weights are chosen, by the other they are checked.
What gains on one half alone fits these questions and no others. Every weight is tried alone, beside
what it is now; the length normalisation of files is part of their postings, so each of its values
takes an index of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.localisation import Figures, Repository, judge_order, write_tree
from indexer.compose import relevance
from indexer.compose.relevance import make_question
from indexer.core import postings
from indexer.core.postings import Norm
from indexer.engine.long_work import run_to_end
from indexer.engine.make import workers
from indexer.engine.make.commands import regenerate
from indexer.engine.search import ranking
from indexer.engine.search.source import SourceText
from indexer.engine.tree.scan import scan
from indexer.engine.workspace import Engine
from indexer.generators import file_terms

_MODULES: Final = (relevance, ranking, postings, file_terms, workers)
SHOWN: Final = ("recall@1", "recall@5", "recall@10", "reciprocal rank")
NOW: Final = "as it is"

TRIED: Final[Mapping[str, Sequence[Any]]] = {
    "OWN_NAME": (10, 20), "FOLDER_NAME": (3, 8), "HIGHER_NAME": (0, 2), "ALONE": (2, 4),
    "UNIT_ALONE": (5, 9), "BEST_UNIT": (20, 30), "SECOND_UNIT": (0, 5),
    "REFERENCES": (0, 5, 20, 40), "DEFINES": (15, 25),
    "NAME": (3, 5), "AROUND": (0, 2),
    "OF_UNIT": (Norm(64, 38, 60), Norm(90, 38, 60), Norm(77, 26, 60), Norm(77, 48, 60)),
    "OF_FILE": (
        Norm(38, 26, 1200), Norm(64, 26, 1200), Norm(51, 13, 1200), Norm(51, 38, 1200),
    ),
}  # fmt: skip


@contextmanager
def changed(values: Mapping[str, Any]) -> Iterator[None]:
    """Other values of some weights, wherever they were imported."""
    before = [
        (module, name, getattr(module, name))
        for name in values
        for module in _MODULES
        if hasattr(module, name)
    ]
    for module, name, _ in before:
        setattr(module, name, values[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def ask(engine: Engine, question: str) -> list[str]:
    """The files that a question finds, the best first."""
    tree = engine.tree
    texts = SourceText(engine.root, engine.algorithm, tree)
    with engine.corpora.of(tree, searched=True) as corpus:
        return [hit.path for hit in corpus.rank(make_question(question), None, texts.of).files]


def replayed(
    work: Path,
    opened: Repository,
    asked: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Mapping[str, Any]],
) -> dict[str, tuple[Figures, Figures]]:
    """What each setting reaches on the two halves, all of them on the same trees."""
    found = {name: (Figures(), Figures()) for name in settings}
    work.mkdir()
    tree: dict[str, str] = {}
    with Engine.create(work) as engine:
        for place, one in enumerate(asked):
            after = opened.tree(one["parent"])
            write_tree(work, tree, after, opened)
            tree = after
            scan(engine)
            run_to_end(regenerate(engine))
            for name, values in settings.items():
                with changed(values):
                    order = ask(engine, one["question"])
                judge_order(found[name][place % 2], one["files"], order)
            print(f"{place + 1} of {len(asked)}", file=sys.stderr, flush=True)
    return found


def in_time(repository: Path, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Questions by when their trees were made, so that little differs from one to the next."""
    told = subprocess.run(
        ["git", "-C", str(repository), "show", "-s", "--format=%H %ct",
         *dict.fromkeys(one["parent"] for one in asked)],
        capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    when = dict(line.split() for line in told.splitlines())
    return sorted(asked, key=lambda one: (int(when[one["parent"]]), one["commit"]))


def main() -> int:
    """Try, print both halves of each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--only", help=f"weights to try: {','.join(TRIED)}; `-` for none")
    parser.add_argument("--work", type=Path, help="where to make the trees (default: temporary)")
    options = parser.parse_args()
    wanted = list(TRIED) if options.only is None else options.only.split(",")
    asked = in_time(options.repository, json.loads(options.questions.read_text(encoding="utf-8")))
    settings = {
        f"{name} {tuple(value) if isinstance(value, Norm) else value}": {name: value}
        for name in wanted
        for value in TRIED.get(name, ())
    }
    stored = {name: values for name, values in settings.items() if "OF_FILE" in values}
    others = {name: values for name, values in settings.items() if name not in stored}
    opened = Repository(options.repository)
    print(f"{'':24}{'to tune by':36}to check by\n{'':24}{(' '.join(SHOWN) + '   ') * 2}")
    with tempfile.TemporaryDirectory(dir=options.work, prefix="merkle-tuning-") as work:
        found = replayed(Path(work) / "now", opened, asked, {NOW: {}, **others})
        for place, (name, values) in enumerate(stored.items()):
            # Files are read in this process, where the values are changed.
            with changed({**values, "MANY": 1 << 30}):
                found |= replayed(Path(work) / str(place), opened, asked, {name: {}})
    opened.close()
    for name, halves in found.items():
        print(f"{name:24}" + "   ".join(_told(half) for half in halves), flush=True)
    return 0


def _told(half: Figures) -> str:
    return "".join(f"{half.mean(name):>{len(name)}.3f} " for name in SHOWN)


if __name__ == "__main__":
    sys.exit(main())
