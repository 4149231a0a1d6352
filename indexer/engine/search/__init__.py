"""Answering questions: the corpus of live frames, compositions, and recorded manifests."""
