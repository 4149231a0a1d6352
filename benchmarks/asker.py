"""`python -P asker.py TREE BUDGET`: the seconds that each line, as a question, takes to answer.

It is run by its path, with the program that is measured first on Python's own path.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from indexer import Workspace


def main(tree: str, budget: str) -> None:
    """One line of seconds for each line that is read."""
    with Workspace.open(Path(tree)) as workspace:
        for line in sys.stdin:
            started = time.perf_counter()
            workspace.compose(query=line.rstrip("\n"), budget=int(budget))
            print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
