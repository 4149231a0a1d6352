"""`merkle` itself: the list of commands, each imported when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.shell_completion import shell_complete

from indexer import __version__
from indexer.cli.failures import run
from indexer.cli.main import COMPLETE_VARIABLE
from indexer.cli.options import Globals, global_options, wants_json
from indexer.cli.output import print_json

if TYPE_CHECKING:
    from indexer.service.ahead import Ahead

GROUPS: Final = {
    "Start, and keep it true": {
        "init": "Make the workspace's own folder, .merkle.",
        "scan": "Bring the index up to date with the disk.",
        "watch": "Keep the index up to date while files change.",
        "stop": "End the service of the workspace.",
        "regenerate": "Make generated frames again where they are stale.",
        "synthesize": "Make the frames of a folder, children first.",
        "invalidate": "Make generated frames run again next time.",
    },
    "Look around": {
        "ls": "List what is in a folder, and what is known about it.",
        "status": "Compare the disk with the index.",
        "get-node": "Show a file or folder with the frames about it.",
        "show": "Show a file, a symbol or some lines as they are on disk now.",
        "diff": "Show what changed: files, symbols, and notes that do not hold any more.",
        "log": "List the recorded roots, newest first.",
        "sql": "Ask the index a question in SQL.",
    },
    "Ask": {
        "search": "List what matches a question best.",
        "compose": "Put together what an agent should read, within a token budget.",
        "replay": "Show again exactly what a recorded composition showed.",
    },
    "Follow the code": {
        "symbols": "List the symbols whose name fits a pattern.",
        "definition": "Tell where a name is defined.",
        "references": "List where SYMBOL is used, and inside of what.",
        "callers": "List what calls SYMBOL.",
        "callees": "List what SYMBOL calls, as far as it is defined in the workspace.",
        "impact": "List what a change of a file or symbol could affect.",
    },
    "Write and read notes": {
        "note": "Write a note about a file, a folder or a symbol, as yourself.",
        "notes": "List the notes there are, those that do not hold first.",
        "put-frame": "Write a frame about a file, a folder or a symbol.",
        "list-frames": "List every frame a node ever had, newest first.",
        "get-frame": "Show one frame, whole.",
        "get-head": "List the newest frames of a node, one per type and agent.",
        "explain": "Tell why a frame is what it is, or why it is stale.",
        "agent": "Register agents, and list them.",
    },
    "Sessions": {
        "session": "Keep conversations as trees with snapshots, selectors and diffs.",
        "compile": "Run the staged compiler on a stream of events.",
    },
    "Share with a team": {
        "shared": "Share computed results with a team.",
        "export": "Write frames, agents and computed results to a file.",
        "import": "Take in a file that export wrote.",
    },
    "Check, in CI and elsewhere": {
        "validate": "Check every invariant of the index.",
        "lock": "Write merkle.lock, the content ids of all folders and files.",
        "prove": "Print the proof that the recorded root holds a file or folder.",
        "verify": "Check a proof that `merkle prove` printed, without a workspace.",
        "report": "Write the state of the workspace as one HTML or Markdown file.",
    },
    "Set up, and put right": {
        "mcp": "Serve the workspace to coding agents over the Model Context Protocol.",
        "lsp": "Serve the workspace to an editor over the Language Server Protocol.",
        "completion": "Complete commands, paths and names in the shell.",
        "config": "Show the settings in force.",
        "doctor": "Look for what could be wrong, and say what to do.",
        "repair": "Rebuild an index that is damaged.",
        "compact": "Forget old roots and old generated frames, and make the index file smaller.",
        "help": "Explain a command, or list them all.",
    },
}
"""Every command with its first help sentence, so that `merkle --help` imports none of them."""

COMMANDS: Final = {name: about for listed in GROUPS.values() for name, about in listed.items()}

_OTHER_NAMES: Final = {
    "tree": "status --tree",
    "dir": "ls",
    "cat": "show",
    "source": "show",
    "grep": "search --kind text",
    "usages": "references",
    "goto": "definition",
    "find": "search",
    "history": "log",
    "index": "scan",
    "update": "scan",
    "serve": "watch",
    "web": "watch --web",
    "check": "validate",
    "why": "explain",
}
"""Names that other tools have for what one of these commands does."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a first encounter, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from the module of the same name."""
        if cmd_name not in COMMANDS:
            return None
        # `import` is a word of the language, so its module has another name.
        module = {"import": "import_"}.get(cmd_name, cmd_name.replace("-", "_"))
        command: click.Command = importlib.import_module(f"indexer.cli.{module}").command
        if COMPLETE_VARIABLE in os.environ:
            _complete_values(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in the help text, in groups by what somebody wants to do."""
        widest = max(map(len, COMMANDS))
        for title, listed in GROUPS.items():
            with formatter.section(title):
                # One width for all groups, so that the sentences stand below one another.
                formatter.write_dl([(name.ljust(widest), about) for name, about in listed.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with the nearest known ones."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"There is no command {name!r}.{_guess(name)}", ctx)
        return super().resolve_command(ctx, args)

    def main(  # type: ignore[override]  # it always leaves: there is no mode that returns
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        ahead: Ahead | None = None,
        **extra: Any,
    ) -> NoReturn:
        """Run a command line and leave with its exit status; `ahead` is what it has begun with."""
        given = sys.argv[1:] if args is None else list(args)
        program = prog_name or "merkle"
        as_json = wants_json(given)
        if instruction := os.environ.get(COMPLETE_VARIABLE):
            sys.exit(shell_complete(self, {}, program, COMPLETE_VARIABLE, instruction))

        # Not by click's own main, which has its own idea of exit statuses.
        def parse_and_call() -> Any:
            options = Globals(line_asks_json=as_json, ahead=ahead)
            try:
                with self.make_context(program, given, obj=options) as context:
                    return self.invoke(context)
            except click.exceptions.Exit as leaving:
                return leaving.exit_code

        status = run(parse_and_call, as_json=as_json)
        _serve_large_workspaces()
        sys.exit(status)


def _complete_values(command: click.Command) -> None:
    """Let a shell complete what values of a command's parameters are known."""
    # Imported late: only a shell that completes needs it.
    from indexer.cli.completing import offered

    for parameter in command.params:
        parameter.shell_complete = offered(parameter)  # type: ignore[assignment]  # for this run
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _complete_values(inner)


def _serve_large_workspaces() -> None:
    """Start a service for every large workspace that this command had to open itself."""
    opening = sys.modules.get("indexer.cli.opening")
    for root, files in () if opening is None else opening.opened_here():
        # Imported late: only where a workspace was opened here.
        from indexer.cli.autostart import start_if_large

        start_if_large(root, files)


def _guess(name: str) -> str:
    # Imported late: only a mistyped line needs it.
    import difflib

    meant = _OTHER_NAMES.get(name)
    near = [meant] if meant else difflib.get_close_matches(name, COMMANDS, n=2)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        if ctx.ensure_object(Globals).line_asks_json:
            print_json({"version": __version__})
        else:
            click.echo(f"merkle {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    params=global_options(),
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and stop.",
)
def cli() -> None:
    """Keep an always-true index of a workspace: a Merkle tree of its files and folders.

    The workspace is the nearest folder at or above the current one with .merkle, merkle.toml
    or .git in it, else the current folder. -C, --json and --quiet may also follow the command.

    \b
    First steps:
      merkle watch --once             index the files here, and what is in them
      merkle ls                       list what was indexed, and what is known about it
      merkle watch                    keep it true from now on
      merkle compose "who does what"  read what answers a question
    """
