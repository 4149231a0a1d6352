"""The packaged token encodings: loaded from package data, never from the network."""

from __future__ import annotations

import binascii
import gzip
import hashlib
import re
import threading
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core.few_tokens import FewTokens
from indexer.errors import UncheckedError, UsageError

if TYPE_CHECKING:
    import tiktoken

DEFAULT_ENCODING: Final = "o200k_base"

# tiktoken's regex engine keeps one stack entry per character of a whitespace run and panics
# at a million; half of that leaves room, and real text never comes near it.
RUN_LIMIT: int = 500_000

_RANKS = Path(__file__).parent / "ranks"

# White space as the encodings' patterns see it, without the line breaks. Python's own \s also
# holds the separators U+001C to U+001F, which the patterns take for punctuation.
_BLANK: Final = "\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

_CONTRACTION: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


class UnknownEncodingError(UsageError):
    """An encoding was asked for by a name that is not packaged."""

    code = "unknown_encoding"


class TokenTableError(UncheckedError):
    """A packaged table is missing or damaged, or the tokenizer gave up on a text."""

    code = "token_table"


class EncodingFacts(NamedTuple):
    """What defines an encoding besides its rank table."""

    name: str
    table_sha256: str
    pattern: str
    special_tokens: Mapping[str, int]
    # Whether white space at the very end of a text is one piece, line breaks included.
    trailing_space_is_one_piece: bool


ENCODINGS: Final[Mapping[str, EncodingFacts]] = {
    "cl100k_base": EncodingFacts(
        name="cl100k_base",
        table_sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        pattern="|".join(
            [
                r"'(?i:[sdmt]|ll|ve|re)",
                r"[^\r\n\p{L}\p{N}]?+\p{L}++",
                r"\p{N}{1,3}+",
                r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
                r"\s++$",
                r"\s*[\r\n]",
                r"\s+(?!\S)",
                r"\s",
            ]
        ),
        special_tokens={
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
        trailing_space_is_one_piece=True,
    ),
    "o200k_base": EncodingFacts(
        name="o200k_base",
        table_sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        pattern="|".join(
            [
                rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
                rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            ]
        ),
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
        trailing_space_is_one_piece=False,
    ),
}

_loaded: dict[tuple[str, bool], tiktoken.Encoding] = {}
_few: list[FewTokens] = []
_load_lock = threading.Lock()


def packaged_encoding(name: str) -> str:
    """The name itself when that encoding is packaged, an error that lists the others if not."""
    if name not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise UnknownEncodingError(f"unknown token encoding {name!r}", hint=f"Use one of: {known}.")
    return name


def encoding_for_model(model: str) -> str:
    """The packaged encoding of a model; the default one where the model is unknown."""
    from tiktoken.model import encoding_name_for_model

    try:
        name = encoding_name_for_model(model)
    except KeyError:
        return DEFAULT_ENCODING
    return name if name in ENCODINGS else DEFAULT_ENCODING


def read_ranks(facts: EncodingFacts, folder: Path = _RANKS) -> dict[bytes, int]:
    """The rank table of an encoding, refused when it is not the one tiktoken expects."""
    path = folder / f"{facts.name}.tiktoken.gz"
    hint = "Reinstall the package; its data files are incomplete or damaged."
    try:
        table = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise TokenTableError(f"cannot read the token table {path}: {error}", hint=hint) from error
    if hashlib.sha256(table).hexdigest() != facts.table_sha256:
        raise TokenTableError(f"the token table {path} has the wrong SHA-256", hint=hint)
    fields = table.split()
    # Both tables count their ranks from 0 without a gap.
    return dict(zip(map(binascii.a2b_base64, fields[::2]), range(len(fields) // 2), strict=True))


def load_encoding(name: str, *, whole: bool = False) -> tiktoken.Encoding:
    """The tiktoken encoding of that name; `whole` merges a text as one piece, without splitting."""
    key = (packaged_encoding(name), whole)
    with _load_lock:
        encoding = _loaded.get(key)
        if encoding is None:
            import tiktoken

            facts = ENCODINGS[name]
            few = _few.pop() if _few and name == DEFAULT_ENCODING else None
            ranks = few.ranks if few is not None else read_ranks(facts)
            encoding = _loaded[key] = tiktoken.Encoding(
                name,
                pat_str="(?s:.+)" if whole else facts.pattern,
                mergeable_ranks=ranks,
                special_tokens=dict(facts.special_tokens),
            )
            # The encoder has its own copy; this one is kept for pickling alone, and takes 24 MB.
            ranks.clear()
    return encoding


def count_tokens(name: str, text: str, *, many: bool = False) -> int:
    """Exactly the number of tokens of a text, with special tokens read as ordinary text.

    Where many texts will be counted, the encoder is made for the first.
    """
    if len(text) >= RUN_LIMIT:
        return _count_around_runs(name, text)
    if not many and name == DEFAULT_ENCODING and (name, False) not in _loaded:
        count = _count_few(name, text)
        if count is not None:
            return count
    return _encode(load_encoding(name), text)


def _count_few(name: str, text: str) -> int | None:
    """Count one of the first texts without the encoder; None where it has to be asked."""
    with _load_lock:
        if not _few:
            _few.append(FewTokens(read_ranks(ENCODINGS[name])))
        return _few[0].count(text)


def _count_around_runs(name: str, text: str) -> int:
    """Count a text whose long blank runs must not reach the pattern.

    The pattern makes such a run one piece (all of it at the end of the text, all but its last
    character before a visible one), so cutting there changes no token.
    """
    # The look-behind keeps the search linear: a run that is too short is tried only once.
    long_run = re.compile(f"(?<![{_BLANK}])[{_BLANK}]{{{RUN_LIMIT},}}")
    encoding = load_encoding(name)
    total = start = 0
    for run in long_run.finditer(text):
        if run.end() == len(text):
            if ENCODINGS[name].trailing_space_is_one_piece:
                break
            cut = run.end()
        elif text[run.end()] in "\r\n":
            continue
        else:
            cut = run.end() - 1
        total += _encode(encoding, text[start : run.start()])
        total += _encode(load_encoding(name, whole=True), text[run.start() : cut])
        start = cut
    return total + _encode(encoding, text[start:])


def _encode(encoding: tiktoken.Encoding, text: str) -> int:
    try:
        # Lone surrogates become U+FFFD in there, and pairs are joined.
        return len(encoding.encode_ordinary(text))
    except BaseException as error:
        # A panic in the extension is a BaseException of a class that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise TokenTableError(f"the tokenizer gave up on {len(text)} characters") from None
