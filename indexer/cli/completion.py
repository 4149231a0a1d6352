"""`merkle completion`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypedDict

import click
from click.shell_completion import get_completion_class

from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text, show
from indexer.core.paths import on_screen
from indexer.errors import ExitCode, UncheckedError, UsageError
from indexer.store.atomic import write_atomically

SHELLS: Final = ("bash", "zsh", "fish")
INSTALL: Final = "install"
_MARK: Final = "# merkle completion"
_BEFORE: Final = {
    # Where nobody has set up completion, zsh has nothing to register it with.
    "zsh": "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
}


class ScriptDocument(TypedDict):
    """Result of `completion SHELL`."""

    shell: str
    script: str


class CompletionDocument(TypedDict):
    """Result of `completion install`."""

    shell: str
    installed: bool
    files: list[str]
    """The files that are other now than before."""


@merkle_command("completion", gives=(ScriptDocument,))
@click.argument("what", metavar="SHELL|install", type=click.Choice((*SHELLS, INSTALL)))
@click.argument("shell", metavar="[SHELL]", required=False, type=click.Choice(SHELLS))
@click.option("--uninstall", is_flag=True, help="With install: take it out again.")
def command(options: Globals, what: str, shell: str | None, uninstall: bool) -> int:
    """Complete commands, paths and names in the shell: bash, zsh or fish.

    `completion install` sets it up for the shell you use, or for the one named, and says which
    files it wrote; doing it again changes nothing. `completion SHELL` only prints the script.
    Paths are completed by the shell itself; agents, types, sessions and roots where a service
    runs. Nothing is ever started or written for it.

    \b
    Examples:
      merkle completion install
      merkle completion install zsh --uninstall
      merkle completion fish
    """
    if what != INSTALL:
        if shell is not None or uninstall:
            raise click.UsageError("`merkle completion install` takes these.")
        script = _script(what)
        if options.json:
            print_json(ScriptDocument(shell=what, script=script))
        else:
            print_text(script)
        return ExitCode.FINE
    chosen = shell or _own_shell()
    try:
        written = _uninstall(chosen) if uninstall else _install(chosen)
    except OSError as error:
        raise UncheckedError(
            f"cannot write {error.filename}: {error.strerror or error}",
            hint=f"`merkle completion {chosen}` prints the script",
        ) from error
    document: CompletionDocument = {
        "shell": chosen,
        "installed": not uninstall,
        "files": [str(each) for each in written],
    }
    show(options, document, _text)
    return ExitCode.FINE


def _text(document: CompletionDocument) -> str:
    word = "set up" if document["installed"] else "taken out"
    if not document["files"]:
        return f"nothing to do: completion for {document['shell']} is {word} already"
    verb = "wrote" if document["installed"] else "changed"
    lines = [f"{verb} {on_screen(each)}" for each in document["files"]]
    return "\n".join([*lines, "it counts in every shell that is started from now on"])


def _script(shell: str) -> str:
    completion = get_completion_class(shell)
    assert completion is not None
    top = click.get_current_context().find_root().command
    return _BEFORE.get(shell, "") + completion(top, {}, "merkle", "_MERKLE_COMPLETE").source()


def _own_shell() -> str:
    name = os.path.basename(os.environ.get("SHELL", ""))
    if name not in SHELLS:
        raise UsageError(
            "it cannot be told which shell you use", hint=f"name it: {', '.join(SHELLS)}"
        )
    return name


def _places(shell: str) -> tuple[Path, Path | None]:
    """Where the script goes, and the file that has to load it, where the shell does not."""
    home = Path(os.path.expanduser("~"))
    if shell == "fish":
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return settings / "fish" / "completions" / "merkle.fish", None
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    # zsh looks elsewhere for its own where it is told to.
    own = Path(os.environ.get("ZDOTDIR") or home) if shell == "zsh" else home
    return data / "merkle" / f"completion.{shell}", own / f".{shell}rc"


def _line(script: Path) -> str:
    quoted = "'" + str(script).replace("'", "'\\''") + "'"
    return f"[ ! -r {quoted} ] || . {quoted} {_MARK}\n"


def _install(shell: str) -> list[Path]:
    script, loader = _places(shell)
    written = _put(script, _script(shell))
    if loader is not None:
        before = _read(loader) or ""
        if _line(script) not in before:
            gap = "" if not before or before.endswith("\n") else "\n"
            written += _put(loader, before + gap + _line(script))
    return written


def _uninstall(shell: str) -> list[Path]:
    script, loader = _places(shell)
    changed = []
    if loader is not None and (before := _read(loader)) is not None:
        changed += _put(loader, before.replace(_line(script), ""))
    if script.exists():
        script.unlink()
        changed.append(script)
    return changed


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


def _put(file: Path, text: str) -> list[Path]:
    """Write a file unless it is so already; through a link, so that it stays one."""
    if _read(file) == text:
        return []
    target = Path(os.path.realpath(file))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, text.encode("utf-8", "surrogateescape"))
    return [file]
