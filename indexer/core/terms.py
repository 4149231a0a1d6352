"""The terms of a text: words and identifiers, whole and in parts, as a search compares them."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Final

import xxhash

MAX_CHARACTERS: Final = 1 << 16
"""How much of a text is indexed: what a reader would be shown of it is far shorter."""

MAX_COUNT: Final = 255
"""A term that occurs more often than this says no more about a text."""

_IDENTIFIER: Final = re.compile(r"\w+")
_ONLY_IDENTIFIERS: Final = "".join(c if _IDENTIFIER.match(c) else " " for c in map(chr, range(128)))
_PART: Final = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_VOWEL: Final = re.compile(r"[aeiouy]")
_LONGEST: Final = 64
_REMEMBERED: Final = 20_000

# Words that a question has and that tell nothing of what it is about.
STOP_WORDS: Final = frozenset(
    {
        *("a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "but"),
        *("by", "can", "could", "did", "do", "does", "each", "every", "for", "from", "had"),
        *("has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no"),
        *("not", "of", "on", "one", "or", "our", "out", "over", "should", "so", "some", "than"),
        *("that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "under"),
        *("up", "us", "use", "used", "using", "was", "we", "were", "what", "when", "where"),
        *("which", "who", "why", "will", "with", "would", "you", "your", "def", "self"),
    }
)

_terms_of: dict[str, tuple[int, ...]] = {}


@lru_cache(maxsize=1 << 12)
def stem(word: str) -> str:
    """A word without the endings of number and tense, so that `parsing` finds `parse`."""
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        left = word[: -len(ending)]
        if word.endswith(ending) and len(left) >= 3 and _VOWEL.search(left):
            doubled = len(left) > 3 and left[-1] == left[-2] and left[-1] not in "lsz"
            word = left[:-1] if doubled else left
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


@lru_cache(maxsize=1 << 12)
def words_of(identifier: str) -> tuple[str, ...]:
    """The stems of an identifier's parts, and the whole of it where it has several."""
    parts = _PART.findall(identifier)
    words = [part.lower() for part in parts if 1 < len(part) <= _LONGEST]
    kept = [stem(word) for word in words if word not in STOP_WORDS]
    if len(parts) > 1:
        whole = identifier.strip("_").lower().replace("_", "")
        if 1 < len(whole) <= _LONGEST:
            kept.append(stem(whole))
    return tuple(dict.fromkeys(kept))


@lru_cache(maxsize=1 << 12)
def term_of(word: str) -> int:
    """The number that stands for a word; two words share one about once in four billion."""
    return xxhash.xxh3_64_intdigest(word.encode("utf-8", "surrogatepass")) & 0xFFFFFFFF


def _identifiers(text: str) -> list[str]:
    """The identifiers of the indexed part of a text, in order."""
    indexed = text[:MAX_CHARACTERS]
    if indexed.isascii():
        # Twice as fast as the expression, and most texts are.
        return indexed.translate(_ONLY_IDENTIFIERS).split()
    return _IDENTIFIER.findall(indexed)


def words_in(text: str) -> tuple[str, ...]:
    """Every word of a short text once, in the order of first appearance."""
    return tuple(dict.fromkeys(word for one in _identifiers(text) for word in words_of(one)))


def count_terms(text: str) -> dict[int, int]:
    """How often each term occurs in the indexed part of a text."""
    counts: dict[int, int] = {}
    known = _terms_of
    for identifier, count in Counter(_identifiers(text)).items():
        terms = known.get(identifier)
        if terms is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            terms = known[identifier] = tuple(map(term_of, words_of(identifier)))
        for term in terms:
            counts[term] = counts.get(term, 0) + count
    return counts
