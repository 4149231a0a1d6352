"""The terms of a text: words and identifiers, whole and in parts, as a search compares them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
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
_REMEMBERED: Final = 100_000

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
_part_terms: dict[str, int | None] = {}


def stem(word: str) -> str:
    """A word without the endings of number and tense, so that `parsing` finds `parse`."""
    # Only these letters end what is taken away.
    if len(word) < 4 or word[-1] not in "sgde" or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if not word.endswith(ending):
            continue
        left = word[: -len(ending)]
        if len(left) >= 3 and _VOWEL.search(left):
            doubled = len(left) > 3 and left[-1] == left[-2] and left[-1] not in "lsz"
            word = left[:-1] if doubled else left
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


@lru_cache(maxsize=1 << 15)
def words_of(identifier: str) -> tuple[str, ...]:
    """The stems of an identifier's parts, and the whole of it where it has several."""
    parts = _PART.findall(identifier)
    words = [part.lower() for part in parts if 1 < len(part) <= _LONGEST]
    kept = [stem(word) for word in words if word not in STOP_WORDS]
    if len(parts) > 1 and (whole := _whole(identifier)):
        kept.append(whole)
    return tuple(dict.fromkeys(kept))


def _whole(identifier: str) -> str | None:
    """What stands for an identifier of several parts, however it is spelled."""
    whole = identifier.strip("_").lower().replace("_", "")
    return stem(whole) if 1 < len(whole) <= _LONGEST else None


def term_of(word: str) -> int:
    """The number that stands for a word; two words share one about once in four billion."""
    return xxhash.xxh3_64_intdigest(word.encode("utf-8", "surrogatepass")) & 0xFFFFFFFF


def _terms_for(identifier: str) -> tuple[int, ...]:
    """The terms of an identifier's words; the same as of `words_of`, for very many of them."""
    if identifier.islower() and identifier.isascii() and identifier.isalpha():
        # Most are plain words.
        part = _part_term(identifier)
        return () if part is None else (part,)
    parts = _PART.findall(identifier)
    found = [term for part in parts if (term := _part_term(part.lower())) is not None]
    if len(parts) > 1 and (whole := _whole(identifier)):
        found.append(term_of(whole))
    return tuple(dict.fromkeys(found))


def _part_term(word: str) -> int | None:
    """The term of a word in lower case; None where it tells nothing."""
    try:
        return _part_terms[word]
    except KeyError:
        pass
    told = 1 < len(word) <= _LONGEST and word not in STOP_WORDS
    if len(_part_terms) >= _REMEMBERED:
        _part_terms.clear()
    found = _part_terms[word] = term_of(stem(word)) if told else None
    return found


def identifiers(text: str, most: int = MAX_CHARACTERS) -> list[str]:
    """The identifiers of the first characters of a text, in order."""
    indexed = text[:most]
    if indexed.isascii():
        # Twice as fast as the expression, and most texts are.
        return indexed.translate(_ONLY_IDENTIFIERS).split()
    return _IDENTIFIER.findall(indexed)


def words_in(text: str) -> tuple[str, ...]:
    """Every word of a short text once, in the order of first appearance."""
    return tuple(dict.fromkeys(word for one in identifiers(text) for word in words_of(one)))


def count_terms(text: str) -> dict[int, int]:
    """How often each term occurs in the indexed part of a text."""
    return terms_of(Counter(identifiers(text)))


def terms_of(counted: Mapping[str, int]) -> dict[int, int]:
    """How often each term occurs in identifiers that occur so often."""
    counts: dict[int, int] = {}
    known = _terms_of
    if len(known) >= _REMEMBERED:
        known.clear()
    for identifier in [one for one in counted if one not in known]:
        known[identifier] = _terms_for(identifier)
    for identifier, count in counted.items():
        for term in known[identifier]:
            if term in counts:
                counts[term] += count
            else:
                counts[term] = count
    return counts
