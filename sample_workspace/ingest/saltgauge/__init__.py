"""Ingest for tide and weather stations: sentences in, checked readings out."""

__version__ = "0.7.0"
