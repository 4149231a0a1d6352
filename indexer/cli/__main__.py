"""`python -m indexer.cli` is `merkle`."""

from __future__ import annotations

from indexer.cli.main import main

if __name__ == "__main__":
    main()
