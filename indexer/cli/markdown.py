"""Markdown that shows names and never obeys them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """A code span that no run of backticks inside can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest or (text.startswith(" ") and text.endswith(" ")) else ""
    return f"{fence}{space}{text}{space}{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table of cells that are Markdown already; numbers of columns in `right` are flush right."""
    columns = set(right)
    rule = ["---:" if place in columns else "---" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def cell(text: str) -> str:
    """A code span for a table, where a bar would end the cell even inside code."""
    return code(text).replace("|", "\\|")
