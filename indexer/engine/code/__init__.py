"""The code's own structure: symbols, references, source."""
