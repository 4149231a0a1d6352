"""Prompts: files of the package with a version in their first line, or files of the workspace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from indexer.generators.base import GeneratorBrokenError, GeneratorOptionsError

MAX_PROMPT: Final = 64 * 1024
"""Bytes of a prompt; a longer one is a mistake."""

_FOLDER: Final = Path(__file__).parent / "prompts"
_VERSION: Final = "version: "


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told before it sees the material."""

    name: str
    """The name that it is declared by; a path where it is a file of the workspace."""
    version: str
    """The version of a packaged prompt; empty for one of the workspace: its text tells it apart."""
    text: str


def prompt_names() -> tuple[str, ...]:
    """The packaged prompts, each with a form for files and one for folders."""
    return tuple(sorted({path.name.partition(".")[0] for path in _FOLDER.glob("*.md")}))


def is_packaged(name: str) -> bool:
    """Whether a declared prompt is a name; everything else is a path in the workspace."""
    return "/" not in name and "." not in name


@cache
def packaged_prompt(name: str, kind: str) -> Prompt:
    """The prompt that comes with the package under a name, for a `file` or a `folder`."""
    if name not in prompt_names():
        raise GeneratorOptionsError(
            f"llm: there is no prompt {name!r}",
            hint=f"packaged are: {', '.join(prompt_names())}; a path such as"
            " prompts/mine.md names a file of the workspace",
        )
    path = _FOLDER / f"{name}.{kind}.md"
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    if not first.startswith(_VERSION):
        raise GeneratorBrokenError(
            f"the packaged prompt {path.name} has no version", hint="reinstall the package"
        )
    return Prompt(name, first.removeprefix(_VERSION).strip(), text.strip() + "\n")


def workspace_prompt(path: str, content: bytes) -> Prompt:
    """A prompt from the bytes of a file of the workspace."""
    if len(content) > MAX_PROMPT:
        raise GeneratorOptionsError(
            f"llm: the prompt {path!r} has {len(content)} bytes; {MAX_PROMPT} are enough"
        )
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as error:
        raise GeneratorOptionsError(f"llm: the prompt {path!r} is not UTF-8 text") from error
    if not text:
        raise GeneratorOptionsError(f"llm: the prompt {path!r} is empty")
    return Prompt(path, "", text + "\n")
