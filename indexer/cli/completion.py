"""`merkle completion`."""

from __future__ import annotations

from typing import Final, TypedDict

import click
from click.shell_completion import get_completion_class

from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.errors import ExitCode, UsageError

SHELLS: Final = ("bash", "zsh", "fish")


class ScriptDocument(TypedDict):
    """Result of `completion`."""

    shell: str
    script: str


@merkle_command("completion", gives=(ScriptDocument,))
@click.argument("shell", type=click.Choice(SHELLS))
def command(options: Globals, shell: str) -> int:
    """Print a shell completion script for bash, zsh or fish.

    \b
    Examples:
      merkle completion bash > ~/.local/share/bash-completion/completions/merkle
      merkle completion zsh > ~/.zfunc/_merkle
      merkle completion fish > ~/.config/fish/completions/merkle.fish
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise UsageError(f"no completion for {shell}")
    top = click.get_current_context().find_root().command
    script = completion(top, {}, "merkle", "_MERKLE_COMPLETE").source()
    if options.json:
        print_json(ScriptDocument(shell=shell, script=script))
    else:
        print_text(script)
    return ExitCode.FINE
