"""How git is called: nothing that a repository names is run, nothing fetched, nothing written.

Its configuration may have come in an archive. It can name programs to watch files, to filter and
to compare them, and one that is run where an object is missing and promised by another repository.
"""

from __future__ import annotations

import os
from typing import Final

_SETTINGS: Final = (
    "core.fsmonitor=false", "core.untrackedCache=false", "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null", "diff.external=", "submodule.recurse=false",
    "protocol.allow=never",
)  # fmt: skip


def git_command(folder: str | os.PathLike[str], *arguments: str) -> list[str]:
    """The line that asks git something about a folder; it goes with `git_environment`."""
    settings = [part for one in _SETTINGS for part in ("-c", one)]
    options = ["--no-pager", "--no-optional-locks", *settings, "-C", os.fspath(folder)]
    return ["git", *options, *arguments]


def git_environment() -> dict[str, str]:
    """This process's environment, without what points git elsewhere or lets it fetch or ask."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        # Older versions do not know the first; the second counts whatever a repository allows.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
