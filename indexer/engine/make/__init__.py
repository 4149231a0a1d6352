"""Making frames: what is stale is planned, made or taken from the memo, and stored."""
