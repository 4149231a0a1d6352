"""`python -m benchmarks.reference_truth`: `references` against what jedi finds.

Functions and methods are drawn by seed, half from this repository and half from the standard
library. What jedi gives for one is not the whole truth either: what it cannot infer, it leaves
out. So what it lacks counts against us, too.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import REPOSITORY
from indexer import Workspace

_LIBRARY = (
    *("argparse.py", "ast.py", "asyncio", "calendar.py", "cmd.py", "codecs.py", "collections"),
    *("concurrent", "configparser.py", "contextlib.py", "copy.py", "csv.py", "dataclasses.py"),
    *("difflib.py", "dis.py", "email", "fractions.py", "ftplib.py", "functools.py", "gzip.py"),
    *("heapq.py", "html", "http", "imaplib.py", "importlib", "inspect.py", "ipaddress.py", "json"),
    *("logging", "mailbox.py", "mimetypes.py", "multiprocessing", "pathlib.py", "pdb.py"),
    *("pickle.py", "plistlib.py", "pprint.py", "queue.py", "random.py", "sched.py", "selectors.py"),
    *("shelve.py", "shutil.py", "smtplib.py", "socketserver.py", "statistics.py", "string.py"),
    *("subprocess.py", "tarfile.py", "tempfile.py", "textwrap.py", "threading.py", "timeit.py"),
    *("tokenize.py", "traceback.py", "typing.py", "unittest", "urllib", "uuid.py", "warnings.py"),
    *("wsgiref", "xml", "xmlrpc", "zipfile.py"),
)


class Count(NamedTuple):
    """Uses that both find, that only we find, and that only jedi finds."""

    both: int
    ours: int
    theirs: int

    def __str__(self) -> str:
        precision = self.both / max(1, self.both + self.ours)
        recall = self.both / max(1, self.both + self.theirs)
        return f"precision {precision:.3f}  recall {recall:.3f}  ({', '.join(map(str, self))})"


Place = tuple[str, int]


def main() -> int:
    """Draw, ask both, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--verbose", action="store_true", help="print what differs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="merkle-truth-") as work:
        for name, root in (
            ("repository", copy_of_this_repository(Path(work) / "repository")),
            ("library", _library(work)),
        ):
            counts = compare(root, options.functions // 2, options.seed, options.verbose)
            for sure, count in counts.items():
                print(f"{name:11} at least {sure:7} {count}", flush=True)
    return 0


def copy_of_this_repository(root: Path) -> Path:
    """The package and its benchmarks, without what Python wrote beside them."""
    for part in ("indexer", "benchmarks"):
        shutil.copytree(
            REPOSITORY / part, root / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    return root


def _library(work: str) -> Path:
    source, root = Path(sysconfig.get_paths()["stdlib"]), Path(work) / "library"
    root.mkdir()
    for name in _LIBRARY:
        place = source / name
        if place.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "test", "tests")
            shutil.copytree(place, root / name, ignore=ignored)
        elif place.exists():
            shutil.copy(place, root / name)
    return root


def compare(root: Path, functions: int, seed: int, verbose: bool = False) -> dict[str, Count]:
    """What of the uses of some functions both find, by how sure ours are at least."""
    sums: dict[str, Counter[str]] = {sure: Counter() for sure in ("import", "unique", "name")}
    with Workspace.open(root) as workspace:
        workspace.scan()
        workspace.regenerate()
        answered = 0
        for one in drawn(workspace, 2 * functions, seed):
            if answered == functions:
                break
            truth = by_jedi(root, one)
            if truth is None:
                print(f"jedi fails on {one['path']}::{one['symbol']}", file=sys.stderr)
                continue
            answered += 1
            target = f"{one['path']}::{one['symbol']}"
            for sure, total in sums.items():
                found = workspace.references(target, sure=sure, limit=100_000)["edges"]
                ours = {(edge["path"], edge["line"]) for edge in found} - {_definition(root, one)}
                total.update(
                    both=len(ours & truth), ours=len(ours - truth), theirs=len(truth - ours)
                )
                if verbose and sure == "unique" and ours != truth:
                    print(target, "only ours", sorted(ours - truth)[:5], file=sys.stderr)
                    print(target, "only jedi's", sorted(truth - ours)[:5], file=sys.stderr)
    return {sure: Count(*(total[key] for key in Count._fields)) for sure, total in sums.items()}


def drawn(workspace: Workspace, count: int, seed: int) -> list[dict[str, Any]]:
    """So many functions and methods, drawn by seed; names that Python calls itself are not."""
    rows = workspace.sql(
        "SELECT path, symbol, name, line FROM symbols WHERE kind IN ('function', 'method')"
        " AND ends_with(path, '.py') AND NOT starts_with(name, '__') ORDER BY path, line",
        limit=1_000_000,
    )
    listed = [dict(zip(rows["columns"], row, strict=True)) for row in rows["rows"]]
    return random.Random(seed).sample(listed, count)


def _definition(root: Path, one: dict[str, Any]) -> Place:
    """Where the name itself stands, below its decorators."""
    lines = (root / one["path"]).read_text("utf-8", "replace").split("\n")
    for at in range(one["line"], len(lines) + 1):
        if f"def {one['name']}" in lines[at - 1]:
            return one["path"], at
    return one["path"], one["line"]


def by_jedi(root: Path, one: dict[str, Any]) -> set[Place] | None:
    """The lines in which jedi finds the function used; None where it fails by a fault of its own.

    One is that it knows no attributes of what `NewType` makes.
    """
    # Imported late: only development has it.
    import jedi  # type: ignore[import-untyped]
    import parso.cache
    from jedi.inference import references  # type: ignore[import-untyped]

    # It gives up after a few files otherwise.
    references._PARSED_FILE_LIMIT = references._OPENED_FILE_LIMIT = 100_000
    # And forgets files that it still needs, where it takes long.
    parso.cache._CACHED_SIZE_TRIGGER = 100_000
    # Its own copy of what is asked about comes before any that is installed.
    known = [str(root), sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"]]
    project = jedi.Project(root, sys_path=known, smart_sys_path=False)
    path, line = _definition(root, one)
    text = (root / path).read_text("utf-8", "replace")
    column = text.split("\n")[line - 1].index(f"def {one['name']}") + 4
    script = jedi.Script(text, path=root / path, project=project)
    found = set()
    try:
        names = script.get_references(line, column, include_builtins=False)
    except (AttributeError, RecursionError):
        return None
    for name in names:
        if name.module_path is not None and Path(name.module_path).is_relative_to(root):
            found.add((str(Path(name.module_path).relative_to(root)), name.line))
    return found - {(path, line)}


if __name__ == "__main__":
    raise SystemExit(main())
