"""What a model is asked: the same request for the same input, cut to the model's window."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol

from indexer.core.secrets import redact
from indexer.generators.base import FileInput, FingerprintParts, GeneratorOptionsError
from indexer.generators.fallback import as_text, binary_outline
from indexer.generators.llm import MODEL
from indexer.generators.llm.cutting import WIDEST, Count, Piece, cut_to, shares
from indexer.generators.llm.prompts import Prompt

FRAMING: Final = 24
"""Tokens that the protocol adds to the texts of a request, with room to spare."""

LEAST_INPUT: Final = 256
"""Tokens that must be left for the material, or the window is too small to be of use."""

_EMPTY_FOLDER: Final = "[folder] empty\n"
_NO_FRAME: Final = "(nothing is known of it)"


class Child(Protocol):
    """One entry of a folder as a request shows it."""

    @property
    def shown(self) -> str:
        """Its name."""
        ...

    @property
    def body(self) -> str | None:
        """What is known of it."""
        ...


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything one call sends, and what was left out of it."""

    model: str
    messages: tuple[Mapping[str, str], ...]
    max_output_tokens: int
    temperature: float | None
    tokens: int
    """Tokens of the input, as counted here."""
    most_tokens: int
    """Tokens of the input at most, however the server counts."""
    cut: Mapping[str, int] = field(default_factory=dict)
    """What did not fit; empty when all of it did."""


class Known(NamedTuple):
    """A body that needs no model: there is nothing to describe."""

    body: str


@dataclass(frozen=True, slots=True)
class ModelWriter:
    """The `llm` generator of files or policy of folders, as a type declares it."""

    kind: str
    """`file` or `folder`."""
    model: str
    prompt: Prompt
    max_output_tokens: int
    window: int
    encoding: str
    """The token encoding that decides where an input is cut."""
    exact: bool
    """Whether that encoding is known to be the model's own."""
    count: Count = field(compare=False, repr=False)
    temperature: float | None = 0.0
    redact: bool = True
    variant: str = ""

    name: ClassVar[str] = MODEL
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        # Without counting: loading the tables would cost every command that reads the types.
        self._enough(self.window - self.max_output_tokens)

    def fingerprint_parts(self) -> FingerprintParts:
        """Everything besides the input that can change the answer.

        Neither the server's address nor the key: the same model by another way is the same model,
        and a gateway that moves must not cost every answer again. `variant` tells apart what an
        address serves differently under one name.
        """
        temperature = "default" if self.temperature is None else repr(float(self.temperature))
        return (
            ("encoding", self.encoding),
            ("kind", self.kind),
            ("max_output_tokens", str(self.max_output_tokens)),
            ("model", self.model),
            ("name", self.name),
            ("prompt.text", self.prompt.text),
            ("prompt.version", self.prompt.version),
            ("redact", str(self.redact).lower()),
            ("temperature", temperature),
            ("variant", self.variant),
            ("version", self.version),
            ("window", str(self.window)),
        )

    def of_file(self, source: FileInput) -> ModelRequest | Known:
        """What to ask about a file, or its body where there is nothing to ask."""
        content = as_text(source.content)
        if content is None:
            return Known(binary_outline(source.content))
        text = content.decode("utf-8", "replace")
        if not text.strip():
            return Known("[file] empty\n")
        heading = f"File: {source.name}\n"
        room = self._room() - self.count(heading)
        # What cannot fit need not be searched for secrets.
        near = text[: room * WIDEST]
        piece = cut_to(redact(near) if self.redact else near, room, self.count)
        cut = {}
        if piece.is_cut or len(near) < len(text):
            cut = {"characters": len(text), "kept_characters": len(piece.text)}
        return self._request(heading, piece.text, cut)

    def of_folder(self, children: Sequence[Child]) -> ModelRequest | Known:
        """What to ask about a folder."""
        if not children:
            return Known(_EMPTY_FOLDER)
        names = [f"## {child.shown}\n" for child in children]
        bodies = [_NO_FRAME if child.body is None else child.body.strip() for child in children]
        if self.redact:
            bodies = [redact(body) for body in bodies]
        heading = f"Entries: {len(children)}\n"
        room = self._room() - self.count(heading)
        # A line break each after name and body.
        lengths = [self.count(name) + 2 for name in names]
        listed = _fitting(lengths, room)
        room -= sum(lengths[:listed])
        given = shares([self.count(body) for body in bodies[:listed]], room)
        pieces = [
            cut_to(body, most, self.count)
            for body, most in zip(bodies[:listed], given, strict=True)
        ]
        text = "".join(f"{name}{piece.text}\n" for name, piece in zip(names, pieces, strict=False))
        return self._request(heading, text, _cut_of_folder(pieces, len(children)))

    def estimate(self, children: int, known: int) -> int:
        """Input tokens of a folder some of whose children have no body yet."""
        guessed = known + children * (self.max_output_tokens + 12)
        return min(self.window - self.max_output_tokens, guessed + self._fixed())

    def _fixed(self) -> int:
        return self.count(self.prompt.text) + 2 * FRAMING + 32

    def _room(self) -> int:
        """Tokens for the material, after prompt, marks, framing and answer."""
        return self._enough(self.window - self.max_output_tokens - self._fixed())

    def _enough(self, room: int) -> int:
        if room < LEAST_INPUT:
            raise GeneratorOptionsError(
                f"llm: a window of {self.window} tokens leaves {max(0, room)} for the input of"
                f" {self.model}; {LEAST_INPUT} are needed",
                hint="lower max_output_tokens, shorten the prompt, or set the model's window"
                " under [llm.windows]",
            )
        return room

    def _request(self, heading: str, material: str, cut: Mapping[str, int]) -> ModelRequest:
        # No text can hold a mark that is made from its own hash.
        mark = hashlib.sha256(material.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        asked = f"{heading}<<<{mark}\n{material}\n{mark}>>>\n"
        messages = (
            {"role": "system", "content": self.prompt.text},
            {"role": "user", "content": asked},
        )
        tokens = self.count(self.prompt.text) + self.count(asked) + FRAMING
        most = tokens
        if not self.exact:
            # No tokenizer that works on bytes makes more tokens than there are bytes.
            most = len(self.prompt.text.encode()) + len(asked.encode()) + 2 * FRAMING
        return ModelRequest(
            self.model, messages, self.max_output_tokens, self.temperature, tokens, most, cut
        )


def _fitting(lengths: Sequence[int], room: int) -> int:
    """How many of the first names fit into half of the room."""
    total = 0
    for number, length in enumerate(lengths):
        total += length
        if total > room // 2:
            return number
    return len(lengths)


def _cut_of_folder(pieces: Sequence[Piece], entries: int) -> dict[str, int]:
    cut: dict[str, int] = {}
    shortened = sum(piece.is_cut for piece in pieces)
    if shortened:
        cut["shortened_entries"] = shortened
    if entries > len(pieces):
        cut["left_out_entries"] = entries - len(pieces)
    return cut
