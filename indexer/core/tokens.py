"""Counting tokens: exact counts by tiktoken, remembered by content hash."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from indexer.core.encodings import count_tokens, encoding_for_model, packaged_encoding

DEFAULT_TOKENIZER = "o200k_base"
MESSAGE_OVERHEAD = 3
NAME_OVERHEAD = 1
REPLY_OVERHEAD = 3

# An apostrophe may join two words, and what is not ASCII may be a letter.
_BETWEEN_WORDS: Final = bytes(
    byte if byte > 127 or chr(byte).isalpha() or byte == ord("'") else ord(" ")
    for byte in range(256)
)


@runtime_checkable
class TokenCounter(Protocol):
    """Anything that can say how many tokens a text or a list of messages costs."""

    def count_text(self, text: str) -> int:
        """Tokens of a text."""
        ...

    def count_messages(self, messages: Sequence[Mapping[str, object]]) -> int:
        """Tokens of chat messages, their framing included."""
        ...


class CountCache:
    """Counts by the SHA-256 of the text's UTF-8 bytes; the least recently used go first."""

    def __init__(self, max_entries: int = 16_384) -> None:
        self._max_entries = max_entries
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._counts)

    def get(self, sha256: bytes) -> int | None:
        """The count stored for a content hash."""
        with self._lock:
            count = self._counts.get(sha256)
            if count is not None:
                self._counts.move_to_end(sha256)
            return count

    def put(self, sha256: bytes, count: int) -> None:
        """Store a count, pushing out the least recently used one when full."""
        with self._lock:
            self._counts[sha256] = count
            self._counts.move_to_end(sha256)
            while len(self._counts) > self._max_entries:
                self._counts.popitem(last=False)


def text_sha256(text: str) -> bytes:
    """The key of a text in a `CountCache`."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class TiktokenCounter:
    """Exact counts offline; nothing is loaded before the first text that has no known count."""

    def __init__(
        self,
        model: str = "gpt-4o",
        encoding_name: str | None = None,
        *,
        cache: CountCache | None = None,
    ) -> None:
        if encoding_name is not None:
            self._encoding_name = packaged_encoding(encoding_name)
        else:
            self._encoding_name = encoding_for_model(model)
        # Not `cache or …`: an empty cache is falsy and still the caller's own.
        self._cache = CountCache() if cache is None else cache
        self.many = False
        """Whether very many texts will be counted, as by a service."""

    @property
    def encoding_name(self) -> str:
        """The encoding that does the counting."""
        return self._encoding_name

    def count_text(self, text: str) -> int:
        """Tokens of a text; special tokens in it count as ordinary text."""
        if not text:
            return 0
        key = text_sha256(text)
        count = self._cache.get(key)
        if count is None:
            count = count_tokens(self._encoding_name, text, many=self.many)
            self._cache.put(key, count)
        return count

    def fewest(self, text: str) -> int:
        """What a text has at least, in a tenth of the time: no token has letters of two words."""
        return len(text.encode("utf-8", "surrogatepass").translate(_BETWEEN_WORDS).split())

    def count_messages(self, messages: Sequence[Mapping[str, object]]) -> int:
        """Tokens of chat messages: 3 each, 1 more for a name, and 3 that open the reply."""
        if not messages:
            return 0
        total = REPLY_OVERHEAD
        for message in messages:
            total += MESSAGE_OVERHEAD
            for key, value in message.items():
                if isinstance(value, str):
                    total += self.count_text(value)
                if key == "name":
                    total += NAME_OVERHEAD
        return total


class NullTokenCounter:
    """Counts nothing: every text costs 0 tokens."""

    @property
    def encoding_name(self) -> str:
        """The name under which a manifest records this counter."""
        return "null"

    def count_text(self, text: str) -> int:
        """Always 0."""
        return 0

    def count_messages(self, messages: Sequence[Mapping[str, object]]) -> int:
        """Always 0."""
        return 0
