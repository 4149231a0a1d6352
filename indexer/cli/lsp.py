"""`merkle lsp`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from indexer.cli.mcp import MissingExtraError
from indexer.cli.opening import root_of
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import print_text
from indexer.engine.frames.roles import check_agent_id
from indexer.engine.settings import load_settings
from indexer.errors import ExitCode


@merkle_command("lsp")
@click.option(
    "--agent",
    metavar="A",
    callback=plain_text,
    help="In whose name notes are confirmed, replaced and deleted; otherwise yours.",
)
@click.option("--stdio", is_flag=True, help="Use standard input and output, as it always does.")
def command(options: Globals, agent: str | None, stdio: bool) -> int:
    """Serve the workspace to an editor over the Language Server Protocol.

    It answers on standard input and output until the editor leaves, and starts `merkle watch`
    when no service runs: notes and summaries on hover and above the code, stale notes as
    diagnostics, symbols, definitions and references. Without -C the workspace is the one that the
    editor has open. docs/editors.md has the settings for Neovim, VS Code, Helix, Zed and Emacs.

    \b
    Examples:
      merkle lsp
      merkle -C ~/work/project lsp --agent ann
    """
    if find_spec("pygls") is None:
        raise MissingExtraError(
            "`merkle lsp` needs the Python package pygls, which is not installed",
            hint="install it: pip install 'merkle-indexer[lsp]'",
        )
    root = root_of(options)
    settings = load_settings(root, {"mcp.agent": agent})
    if settings.agent is not None:
        check_agent_id(settings.agent)
    if sys.stdin.isatty():
        # It was started by hand, by a person who would see nothing at all.
        print_text("waiting for an editor; docs/editors.md says how to set one up", err=True)
    # Imported late: the protocol's library takes longer to load than everything else.
    from indexer.lsp.run import run_stdio

    run_stdio(None if options.directory is None else root, settings.agent, settings.wait_s)
    return ExitCode.FINE
