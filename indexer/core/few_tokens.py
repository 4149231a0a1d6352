"""Counting the tokens of a few short texts from the rank table alone.

Making tiktoken's encoder takes as long as reading its table, which is more than a single question
takes otherwise. What is counted here is what the encoder would count: it is asked for everything
that is not certain to be split alike, and for all that comes after the first texts.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

MOST_CHARACTERS: Final = 600_000
"""How much of a process's texts is counted this way; above that the encoder pays for itself."""

_LONGEST: Final = 100
"""Bytes of a piece that is merged here; the time for it grows with the square."""

# Characters whose kind no version of Unicode will change, grouped as the pattern tells them apart.
_BOTH: Final = "\xaa\xba"
_UPPER: Final = f"A-Z\xc0-\xd6\xd8-\xde{_BOTH}"
_LOWER: Final = f"a-z\xb5\xdf-\xf6\xf8-\xff{_BOTH}"
_DIGIT: Final = "0-9\xb2\xb3\xb9\xbc-\xbe"
_BLANK: Final = "\t-\r \x85\xa0"
_OTHER: Final = "\u2010-\u2027\u2030-\u205e\u2190-\u21ff\u2500-\u257f"
_CERTAIN: Final = re.compile(f"[\0-\xff{_OTHER}]*")
_WORD: Final = f"{_UPPER}{_LOWER}{_DIGIT}"
_CONTRACTION: Final = "(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"

# The pattern of o200k_base, as encodings.py has it.
_PIECES: Final = re.compile(
    "|".join(
        [
            rf"[^\r\n{_WORD}]?[{_UPPER}]*[{_LOWER}]+{_CONTRACTION}",
            rf"[^\r\n{_WORD}]?[{_UPPER}]+[{_LOWER}]*{_CONTRACTION}",
            rf"[{_DIGIT}]{{1,3}}",
            rf" ?[^{_BLANK}{_WORD}]+[\r\n/]*",
            rf"[{_BLANK}]*[\r\n]+",
            rf"[{_BLANK}]+(?![^{_BLANK}])",
            rf"[{_BLANK}]+",
        ]
    )
)


class FewTokens:
    """Counts by one rank table of o200k_base."""

    def __init__(self, ranks: dict[bytes, int]) -> None:
        self.ranks = ranks
        self._known: dict[str, int] = {}
        self._left = MOST_CHARACTERS

    def count(self, text: str) -> int | None:
        """The tokens of a text; None where the encoder has to be asked."""
        self._left -= len(text)
        if self._left < 0 or _CERTAIN.fullmatch(text) is None:
            return None
        known, total = self._known, 0
        for piece in _PIECES.findall(text):
            count = known.get(piece)
            if count is None:
                spelled = piece.encode()
                if spelled in self.ranks:
                    count = 1
                elif len(spelled) <= _LONGEST:
                    count = self._merged(spelled)
                else:
                    return None
                known[piece] = count
            total += count
        return total

    def _merged(self, piece: bytes) -> int:
        """How many tokens are left when the neighbours of the lowest rank are joined first."""
        parts = [piece[place : place + 1] for place in range(len(piece))]
        rank_of, none = self.ranks.get, len(self.ranks)
        ranks = [rank_of(one + other, none) for one, other in pairwise(parts)]
        while ranks and (lowest := min(ranks)) < none:
            at = ranks.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            if at:
                ranks[at - 1] = rank_of(parts[at - 1] + parts[at], none)
            if at < len(ranks):
                ranks[at] = rank_of(parts[at] + parts[at + 1], none)
        return len(parts)
