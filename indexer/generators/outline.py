"""The `outline` generator: what a file offers, independent of how it does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import ClassVar

from indexer.generators.base import FileInput, FingerprintParts, GeneratorOptionsError
from indexer.generators.bulk import bulk_outline
from indexer.generators.config import config_outline
from indexer.generators.documents import document_outline
from indexer.generators.fallback import binary_outline, head_outline
from indexer.generators.lines import cut, shown
from indexer.generators.parsed import PARSED, ParsedFile, parse
from indexer.generators.treesitter import versions
from indexer.generators.walk import Symbol, Walk

MAX_IMPORTS = 40

_CONFIG = frozenset(("json", "yaml", "toml", "ini"))
_LIMITS = {"max_symbols": (1, 10_000), "max_line": (40, 2_000), "head_lines": (1, 200)}


@dataclass(frozen=True, slots=True)
class OutlineGenerator:
    """Symbols with signatures and first sentences; headings, keys or the head of other files."""

    max_symbols: int = 400
    max_line: int = 240
    head_lines: int = 20

    name: ClassVar[str] = "outline"
    version: ClassVar[str] = "4"

    def __post_init__(self) -> None:
        for option, (low, high) in _LIMITS.items():
            value = getattr(self, option)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise GeneratorOptionsError(
                    f"outline: {option} = {value!r} is not a whole number from {low} to {high}"
                )

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> OutlineGenerator:
        """The generator configured by its TOML table."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise GeneratorOptionsError(
                f"outline has no option {', '.join(map(repr, unknown))}",
                hint=f"its options are: {', '.join(known)}",
            )
        return cls(**options)  # type: ignore[arg-type]  # __post_init__ checks them

    def fingerprint_parts(self) -> FingerprintParts:
        """Name, version, options and the versions of tree-sitter and its grammars."""
        own = [("name", self.name), ("version", self.version)]
        options = [(f"option.{option}", str(getattr(self, option))) for option in _LIMITS]
        installed = [(f"installed.{wheel}", version) for wheel, version in versions()]
        return tuple(sorted(chain(own, options, installed)))

    def generate(self, source: FileInput) -> str:
        """The outline of one file."""
        return self.outline(parse(source))

    def outline(self, file: ParsedFile) -> str:
        """The outline of a file that is parsed already."""
        language, text = file.language, file.text
        if text is None:
            return binary_outline(file.content)
        if not text.strip():
            return f"[{language}] empty file\n"
        bulk = bulk_outline(file.name, language, text, self.max_line)
        if bulk is not None:
            return bulk
        if file.walk is not None:
            return self._symbols(language, text, file.walk)
        if file.document is not None:
            return document_outline(
                language, file.document, width=self.max_line, limit=self.max_symbols
            )
        if language in _CONFIG:
            return config_outline(language, text, width=self.max_line, limit=self.max_symbols)
        return head_outline(language, text, width=self.max_line, lines=self.head_lines)

    def _symbols(self, language: str, text: bytes, walk: Walk) -> str:
        listed = [symbol for symbol in walk.symbols if not symbol.is_hidden]
        if language == "python" and not (listed or walk.doc or walk.imports):
            # A script of plain statements has no symbols; its beginning says what it does.
            return head_outline(language, text, width=self.max_line, lines=self.head_lines)
        lines = [f"[{language}] ".encode() + walk.doc]
        if walk.imports:
            lines.append(_imports(walk.imports))
        symbols, left_out = _most_telling(listed, self.max_symbols)
        lines.extend(self._line(symbol, walk) for symbol in symbols)
        out = [cut(line.rstrip(), self.max_line) for line in shown(b"\n".join(lines)).split("\n")]
        if left_out + walk.left_out:
            out.append(f"… {left_out + walk.left_out} more symbols")
        if len(walk.source) < len(text):
            out.append(f"(partial: only the first {PARSED} bytes are outlined)")
        if walk.partial:
            out.append("(partial: the source has syntax errors)")
        return "\n".join(out) + "\n"

    def _line(self, symbol: Symbol, walk: Walk) -> bytes:
        signature = walk.signature(symbol)
        if symbol.doc:
            signature += b" -- " + symbol.doc
        # Cut roughly by bytes here, exactly by characters once decoded.
        return b"  " * symbol.depth + signature[: 4 * self.max_line]


def _imports(names: set[bytes]) -> bytes:
    listed = sorted(b"".join(name.split()) for name in names)
    if len(listed) > MAX_IMPORTS:
        left = len(listed) - MAX_IMPORTS
        listed[MAX_IMPORTS:] = [f"… {left} more".encode()]
    return b"imports: " + b", ".join(listed)


def _most_telling(symbols: list[Symbol], limit: int) -> tuple[list[Symbol], int]:
    """Within the limit, outer symbols before inner ones, in order of the source."""
    if len(symbols) <= limit:
        return symbols, 0
    ranked = sorted(range(len(symbols)), key=lambda at: (symbols[at].depth, at))
    return [symbols[at] for at in sorted(ranked[:limit])], len(symbols) - limit
