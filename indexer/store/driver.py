"""DuckDB as its extension module has it: connections, statements and errors.

The package around it is loaded with relations, expressions and data frames that nothing here asks
for, and that takes four times as long as all the rest of it.
"""

from __future__ import annotations

try:
    import _duckdb as duckdb
except ImportError:
    # A release that has it elsewhere.
    import duckdb  # type: ignore[no-redef]

__all__ = ["duckdb"]
