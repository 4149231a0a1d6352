"""The options of `use = "llm"` in merkle.toml, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from indexer.core.encodings import DEFAULT_ENCODING
from indexer.core.tokens import TiktokenCounter
from indexer.generators.base import GeneratorOptionsError
from indexer.generators.llm.prompts import Prompt, is_packaged, packaged_prompt, workspace_prompt
from indexer.generators.llm.writer import ModelWriter

OPTIONS: Final = (
    "max_output_tokens",
    "model",
    "prompt",
    "redact",
    "temperature",
    "tokenizer",
    "variant",
)
DEFAULT_OUTPUT: Final = 400
DEFAULT_PROMPT: Final = "summary"

# In this order: gpt-4o begins with gpt-4. Spelled here because asking tiktoken means loading it.
_FAMILIES: Final = {
    "o200k_base": ("gpt-4o", "gpt-4.1", "gpt-5", "chatgpt-4o", "o1", "o3", "o4"),
    "cl100k_base": ("gpt-4", "gpt-3.5"),
}

ReadPrompt = Callable[[str], bytes]
"""The bytes of a file of the workspace."""


def make_writer(
    kind: str, options: Mapping[str, object], window_of: Callable[[str], int], read: ReadPrompt
) -> ModelWriter:
    """The writer that a type declares for its files or folders."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise GeneratorOptionsError(
            f"llm has no option {', '.join(map(repr, unknown))}",
            hint=f"its options are: {', '.join(OPTIONS)}",
        )
    model = _text(options, "model", "")
    if not model:
        raise GeneratorOptionsError(
            "llm: `model` is missing", hint='for example { use = "llm", model = "gpt-4o-mini" }'
        )
    encoding, exact = _encoding(model, _text(options, "tokenizer", ""))
    return ModelWriter(
        kind=kind,
        model=model,
        prompt=_prompt(_text(options, "prompt", DEFAULT_PROMPT), kind, read),
        max_output_tokens=_whole(options, "max_output_tokens", DEFAULT_OUTPUT, 1, 100_000),
        window=window_of(model),
        encoding=encoding,
        exact=exact,
        count=counter(encoding).count_text,
        temperature=_temperature(options),
        redact=_flag(options, "redact", True),
        variant=_text(options, "variant", ""),
    )


@cache
def counter(encoding: str) -> TiktokenCounter:
    """The counter of an encoding, shared by every writer that uses it."""
    return TiktokenCounter(encoding_name=encoding)


def _encoding(model: str, named: str) -> tuple[str, bool]:
    """The encoding to count with, and whether the model is known to use it."""
    if named:
        return TiktokenCounter(encoding_name=named).encoding_name, True
    bare = model.rpartition("/")[2]
    for encoding, families in _FAMILIES.items():
        if bare.startswith(families):
            return encoding, True
    return DEFAULT_ENCODING, False


def _prompt(name: str, kind: str, read: ReadPrompt) -> Prompt:
    if is_packaged(name):
        return packaged_prompt(name, kind)
    return workspace_prompt(name, read(name))


def _text(options: Mapping[str, object], name: str, default: str) -> str:
    value = options.get(name, default)
    if not isinstance(value, str) or len(value) > 200 or not (value.isprintable()):
        raise GeneratorOptionsError(f"llm: {name} = {value!r} is not a short text")
    return value


def _whole(options: Mapping[str, object], name: str, default: int, low: int, high: int) -> int:
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise GeneratorOptionsError(
            f"llm: {name} = {value!r} is not a whole number from {low} to {high}"
        )
    return value


def _flag(options: Mapping[str, object], name: str, default: bool) -> bool:
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise GeneratorOptionsError(f"llm: {name} = {value!r} is neither true nor false")
    return value


def _temperature(options: Mapping[str, object]) -> float | None:
    """A number, or "default" for models that take none."""
    value = options.get("temperature", 0.0)
    if value == "default":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise GeneratorOptionsError(
            f"llm: temperature = {value!r} is not a number from 0 to 2",
            hint='"default" sends none, for models that refuse it',
        )
    return float(value)
