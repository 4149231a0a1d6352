"""Prompts that are files of the workspace: read without following links, watched for changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.generators.base import GeneratorOptionsError
from indexer.scan.reading import open_folder

if TYPE_CHECKING:
    from indexer.engine.frames.types import FrameType


def read_prompt(root: Path, path: str) -> bytes:
    """The bytes of a prompt, or a clear error."""
    content = _content(root, path)
    if content is None:
        raise GeneratorOptionsError(
            f"llm: there is no prompt {paths.on_screen(path)} in the workspace",
            hint="a prompt is a packaged name such as summary, or the path of a text file",
        )
    return content


def own_prompts(types: Iterable[FrameType]) -> tuple[str, ...]:
    """The prompts of the workspace that these types use."""
    names = {writer.prompt.name for declared in types for writer in declared.writers}
    if not names:
        return ()
    # Imported late: most workspaces declare no model.
    from indexer.generators.llm.prompts import is_packaged

    return tuple(sorted(name for name in names if not is_packaged(name)))


def prompt_contents(root: Path, names: Iterable[str]) -> tuple[bytes | None, ...]:
    """What the prompts say now, None for one that is gone."""
    return tuple(_content(root, name) for name in names)


def _content(root: Path, path: str) -> bytes | None:
    from indexer.generators.llm.prompts import MAX_PROMPT

    parent, name = paths.split(paths.parse(path))
    try:
        folder = open_folder(root, parent)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(paths.text_to_os(name), flags, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        # One byte more than allowed is enough to refuse it.
        return file.read(MAX_PROMPT + 1)
