"""`python -m benchmarks`: measure everything as ratios in one run, print a table, write JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    compared_rows,
    context_rows,
    editor_rows,
    frame_rows,
    localisation,
    question_rows,
    real_rows,
    session_rows,
    shared_rows,
    tree_rows,
)
from benchmarks.measure import REPOSITORY, Row, markdown, table
from benchmarks.trees import make_tree

_SMALL = frozenset(("sessions", "start", "frames", "status"))
"""The groups that have no need of the large tree."""

MILLION = 1_000_000


def measure(
    work: Path, files: int, rounds: int, only: str | None, folder: Path | None
) -> Iterator[Row]:
    """Every row; the large tree is made once, where something is measured on it."""
    wanted = None if only is None else only.split(",")
    if wanted is None or "sessions" in wanted:
        yield from session_rows.session_rows(work, rounds)
    big = work / f"t{files}"
    spec = make_tree(big, files if wanted is None or not _SMALL.issuperset(wanted) else 1)
    groups: dict[str, Callable[[], Iterator[Row]]] = {
        "start": lambda: tree_rows.start_rows(rounds * 3),
        "scan": lambda: tree_rows.scan_rows(big, rounds),
        "service": lambda: tree_rows.service_rows(big, rounds),
        "edit": lambda: tree_rows.edit_rows(big, spec, work, 60),
        "frames": lambda: frame_rows.first_pass_rows(work, max(3, rounds // 2)),
        "status": lambda: frame_rows.status_rows(work, folder),
        "regenerate": lambda: frame_rows.edit_rows(big, spec, work, 40),
        "compose": lambda: context_rows.rows(big, spec, work, rounds, files),
        "shared": lambda: shared_rows.cold_start_rows(
            work, max(3, rounds // 2), min(files, shared_rows.FRAMES)
        ),
    }
    for name, group in groups.items():
        if wanted is None or name in wanted:
            yield from group()


def on_a_tree(work: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Rows on the folder that was named, or on one made for it."""
    tree = options.tree
    if options.only == "million":
        tree = real_rows.small_files(work / "small", MILLION)
    elif tree is None:
        tree = work / "made"
        make_tree(tree, options.files)
    if options.only == "questions":
        return question_rows.rows(tree, work, options.rounds)
    if options.compare:
        return compared_rows.rows(tree, work, options.rounds, options.compare)
    return real_rows.rows(tree, work, options.rounds, drop_caches=options.drop_caches)


def main() -> int:
    """Measure, print, write; the exit status tells whether every limit holds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000, help="size of the large tree")
    parser.add_argument("--rounds", type=int, default=7, help="turns per contender")
    known = "sessions,start,scan,service,edit,frames,status,regenerate,compose,shared"
    parser.add_argument(
        "--only",
        help=f"groups to run: {known}; or, alone: real, questions, million, editor, localisation",
    )
    parser.add_argument(
        "--tree",
        type=Path,
        help="real, questions, status, editor, --compare: a folder to measure on; it is copied",
    )
    parser.add_argument(
        "--drop-caches",
        action="store_true",
        help="real, million: also a first scan with the caches of the whole system dropped",
    )
    parser.add_argument(
        "--compare", metavar="COMMIT", help="run this state and a commit side by side"
    )
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--repository", type=Path, help="localisation: a repository with history")
    parser.add_argument("--questions", type=Path, help="localisation: questions with answers")
    parser.add_argument("--most", type=int, help="localisation: only so many of them")
    parser.add_argument("--details", type=Path, help="localisation: where to write each ranking")
    parser.add_argument("--work", type=Path, help="where to make the trees (default: temporary)")
    parser.add_argument(
        "--out", type=Path, default=REPOSITORY / "benchmarks" / "results" / "latest.json"
    )
    options = parser.parse_args()
    rows: list[Row] = []
    asked = options.only == "localisation"
    if asked and (options.repository is None or options.questions is None):
        parser.error("localisation needs --repository and --questions")
    if options.only in ("real", "questions") and options.tree is None:
        parser.error(f"{options.only} needs --tree")
    if options.drop_caches and not os.access(real_rows.DROP, os.W_OK):
        parser.error(f"--drop-caches needs to write to {real_rows.DROP}: Linux, and root")
    if options.work is not None:
        options.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.work, prefix="merkle-bench-") as work:
        if asked:
            measured = localisation.rows(
                Path(work), options.repository, options.questions, options.most, options.details
            )
        elif options.only == "editor":
            measured = editor_rows.rows(Path(work), options.rounds, options.tree)
        elif options.compare or options.only in ("real", "questions", "million"):
            measured = on_a_tree(Path(work), options)
        else:
            measured = measure(
                Path(work), options.files, options.rounds, options.only, options.tree
            )
        for row in measured:
            rows.append(row)
            print(table([row]).splitlines()[1], file=sys.stderr, flush=True)
    print(markdown(rows) if options.markdown else table(rows))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "python": platform.python_version(),
        "files": options.files,
        "rounds": options.rounds,
        "rows": [row.as_json() for row in rows],
    }
    options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
