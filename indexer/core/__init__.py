"""Nouns, ids, hashing and path text: values without any edge to the machine."""
