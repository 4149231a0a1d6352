"""Everything durable: the DuckDB file, the owner's lock, and the layout of `.merkle/`."""
