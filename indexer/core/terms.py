"""The terms of a text: words and identifiers, whole and in parts, as a search compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import xxhash

from indexer.core.patterns import pattern

MAX_CHARACTERS: Final = 1 << 16
"""How much of a text is indexed: what a reader would be shown of it is far shorter."""

_IDENTIFIER: Final = pattern(r"\w+")
# Bytes of UTF-8 that cannot be in an identifier become blanks.
_NO_BLANKS: Final = bytes(
    c if c > 127 or _IDENTIFIER.match(chr(c)) else ord(" ") for c in range(256)
)
_PARTS: Final = r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+"
_PART: Final = pattern(_PARTS)
_PART_OR_END: Final = pattern(_PARTS + r"|\n")
_ASCII_PART_OR_END: Final = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|\n")
_VOWEL: Final = pattern(r"[aeiouy]")
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


class _PartTerms(dict[str, int | None]):
    """The terms of words in lower case, None where one tells nothing; found out when asked for."""

    def __missing__(self, word: str) -> int | None:
        if len(self) >= _REMEMBERED:
            self.clear()
        told = 1 < len(word) <= _LONGEST and word not in STOP_WORDS
        found = self[word] = term_of(stem(word)) if told else None
        return found


_part_terms: Final = _PartTerms()
_known: Final[dict[bytes, tuple[int, ...]]] = {}


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


@lru_cache(maxsize=1 << 14)
def words_of(identifier: str) -> tuple[str, ...]:
    """The stems of an identifier's parts, and the whole of it where it has several."""
    parts = [part.lower() for part in _PART.findall(identifier)]
    words = [part for part in parts if 1 < len(part) <= _LONGEST]
    kept = [stem(word) for word in words if word not in STOP_WORDS]
    # However it is spelled.
    if len(parts) > 1 and len(whole := "".join(parts)) <= _LONGEST:
        kept.append(stem(whole))
    return tuple(dict.fromkeys(kept))


def needle_of(word: str) -> str:
    """What every name has in it that has a word, in lower case and without underscores."""
    # A stem is the beginning of its word, but for a last `y` that may have been `ies`.
    return word[:-1] if word.endswith("y") else word


def term_of(word: str) -> int:
    """The number that stands for a word; two words share one about once in four billion."""
    return xxhash.xxh3_64_intdigest(word.encode("utf-8", "surrogatepass")) & 0xFFFFFFFF


def _learned(unknown: list[bytes]) -> Iterator[tuple[int, ...]]:
    """The terms of identifiers: those of `words_of`, for very many at once, and remembered."""
    joined = b"\n".join(unknown)
    if joined.count(b"\n") >= len(unknown):
        # A declared name may be any text.
        joined = b"\n".join(one.replace(b"\n", b" ") for one in unknown)
    lines = joined.decode("utf-8", "replace")
    parting = _ASCII_PART_OR_END if lines.isascii() else _PART_OR_END
    parted = " ".join(parting.findall(lines)).lower().split("\n")
    term_of_part = _part_terms.__getitem__
    for identifier, line in zip(unknown, parted, strict=True):
        parts = line.split()
        if len(parts) == 1:
            term = _part_terms[parts[0]]
            terms: tuple[int, ...] = () if term is None else (term,)
        else:
            found = dict.fromkeys(map(term_of_part, parts))
            if parts and len(whole := "".join(parts)) <= _LONGEST:
                found[term_of(stem(whole))] = None
            found.pop(None, None)
            terms = tuple(found)  # type: ignore[arg-type]  # None is gone
        _known[identifier] = terms
        yield terms


def identifiers(text: str) -> list[str]:
    """The identifiers of the first characters of a text, in order."""
    return _IDENTIFIER.findall(text[:MAX_CHARACTERS])


def words_in(text: str) -> tuple[str, ...]:
    """Every word of a short text once, in the order of first appearance."""
    return tuple(dict.fromkeys(word for one in identifiers(text) for word in words_of(one)))


def count_identifiers(text: bytes) -> Counter[bytes]:
    """How often each identifier occurs in a text of UTF-8, in the order of first appearance."""
    # Twice as fast as the expression, which only what is not ASCII needs.
    counted = Counter(text.translate(_NO_BLANKS).split())
    if text.isascii():
        return counted
    found: Counter[bytes] = Counter()
    for token, count in counted.items():
        if token.isascii():
            found[token] += count
        else:
            for identifier in _IDENTIFIER.findall(token.decode("utf-8", "replace")):
                found[identifier.encode()] += count
    return found


def count_terms(text: str) -> dict[int, int]:
    """How often each term occurs in the indexed part of a text."""
    indexed = text[:MAX_CHARACTERS].encode("utf-8", "surrogatepass")
    return terms_of(count_identifiers(indexed))


def terms_of(counted: Mapping[bytes, int]) -> dict[int, int]:
    """How often each term occurs in identifiers that occur so often."""
    if len(_known) >= _REMEMBERED:
        _known.clear()
    # Looked up once: this runs for every identifier of every file.
    known = list(map(_known.get, counted))
    learned = _learned([one for one, terms in zip(counted, known, strict=True) if terms is None])
    counts: dict[int, int] = {}
    for terms, count in zip(known, counted.values(), strict=True):
        for term in next(learned) if terms is None else terms:
            if term in counts:
                counts[term] += count
            else:
                counts[term] = count
    return counts
