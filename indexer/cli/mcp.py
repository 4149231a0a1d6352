"""`merkle mcp`, with `install` and `uninstall`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

import click

from indexer.cli.opening import open_workspace, root_of
from indexer.cli.options import GlobalGroup, Globals, merkle_command, plain_text
from indexer.cli.output import print_text, show
from indexer.core.paths import on_screen
from indexer.engine.frames.roles import check_agent_id
from indexer.engine.settings import load_settings
from indexer.errors import ExitCode, UncheckedError
from indexer.mcp.clients import CLIENTS
from indexer.mcp.install import Place, find_place, install, snippet, uninstall
from indexer.service.served import wake_service

TOKEN_VARIABLE = "MERKLE_MCP_TOKEN"


class MissingExtraError(UncheckedError):
    """A part that is installed on request is not there."""

    code = "missing_extra"


@click.group("mcp", cls=GlobalGroup, invoke_without_command=True)
@click.option(
    "--agent",
    metavar="A",
    callback=plain_text,
    help="In whose name frames are written; registered with `merkle agent add`.",
)
@click.option(
    "--http",
    "port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Serve streamable HTTP on 127.0.0.1 instead of standard input and output; 0: any port.",
)
@click.make_pass_decorator(Globals, ensure=True)
@click.pass_context
def command(context: click.Context, options: Globals, agent: str | None, port: int | None) -> int:
    """Serve the workspace to coding agents over the Model Context Protocol.

    It answers on standard input and output until the client leaves, and starts `merkle watch`
    when no service runs. Without an agent it only reads. Clients over HTTP have to send a bearer
    token: the one in MERKLE_MCP_TOKEN, else a new one, which is printed with the address.

    \b
    Examples:
      merkle mcp install claude-code
      merkle agent add helper --role writer
      merkle mcp --agent helper --http 8765
    """
    if context.invoked_subcommand is None:
        _serve(options, agent, port)
    return ExitCode.FINE


def _serve(options: Globals, agent: str | None, port: int | None) -> None:
    _refuse_without_extra()
    root = root_of(options)
    settings = load_settings(root, {"mcp.agent": agent})
    if settings.agent is not None:
        check_agent_id(settings.agent)
    # First of all, so that it starts while the rest is being imported.
    wake_service(root)
    # Imported late: the protocol's library takes longer to load than everything else.
    from indexer.mcp.calls import Calls
    from indexer.mcp.run import run_http, run_stdio

    calls = Calls(root, settings.agent, settings.wait_s)
    if port is None:
        if sys.stdin.isatty():
            # It was started by hand, by a person who would see nothing at all.
            print_text("waiting for a client; `merkle mcp install CLIENT` sets one up", err=True)
        run_stdio(calls)
        return
    token = os.environ.get(TOKEN_VARIABLE) or None
    run_http(calls, port, token=token, tell=lambda text: print_text(text, err=True))


def _refuse_without_extra() -> None:
    if find_spec("mcp") is None:
        raise MissingExtraError(
            "`merkle mcp` needs the Python package mcp, which is not installed",
            hint="install it: pip install 'merkle-indexer[mcp]'",
        )


_SCOPES = sorted({name for client in CLIENTS.values() for name in client.scopes})
_client = click.argument("client", metavar="CLIENT", type=click.Choice(list(CLIENTS)))
_scope = click.option(
    "--scope",
    type=click.Choice(_SCOPES),
    help="Which of the client's files: the project's own, which others get too, or yours.",
)
_name = click.option(
    "--name", metavar="NAME", default="merkle", show_default=True, help="What the server is called."
)


class UninstalledDocument(TypedDict):
    """Result of `mcp uninstall`."""

    client: str
    scope: str
    file: str
    name: str
    changed: bool


class InstalledDocument(UninstalledDocument):
    """Result of `mcp install`."""

    snippet: str
    agent_made: bool
    """Whether the agent was registered with this."""
    missing: list[str]
    """What is still to be done before the client can use it."""


@merkle_command("install", gives=(InstalledDocument,))
@_client
@_scope
@_name
@click.option(
    "--agent", metavar="A", callback=plain_text, help="In whose name the client is to write."
)
@click.option("--print", "only_print", is_flag=True, help="Only print what would be written.")
def install_(
    options: Globals,
    client: str,
    scope: str | None,
    name: str,
    agent: str | None,
    only_print: bool,
) -> int:
    """Enter the server into a client's configuration.

    CLIENT is claude-code, claude-desktop, cursor, vscode, codex, gemini, windsurf or zed.
    Everything else in the file stays as it is; a file with comments is not touched, and what
    to put into it is printed instead. An agent that is not registered is, as a writer. What is
    still missing, such as a command that the client will not find, is said first.

    \b
    Examples:
      merkle mcp install claude-code --agent helper
      merkle mcp install codex --scope user --print
    """
    place = find_place(client, scope, root_of(options), name)
    if agent is not None:
        check_agent_id(agent)
    entry = place.client.entry(place.scope, place.root, agent)
    made = False if only_print or agent is None else _register(options, agent)
    changed = False if only_print else install(place, entry)
    document: InstalledDocument = {
        **_document(place, changed),
        "snippet": snippet(place, entry),
        "agent_made": made,
        "missing": list(_missing(entry["command"])),
    }
    if not options.json:
        for each in document["missing"]:
            print_text(click.style("missing:", fg="yellow") + f" {on_screen(each)}", err=True)
    show(options, document, lambda told: _installed(told, only_print))
    return ExitCode.FINE


def _register(options: Globals, agent: str) -> bool:
    """Make an agent of that name where there is none; False where there is."""
    with open_workspace(options) as workspace:
        workspace.init()
        if any(one["id"] == agent for one in workspace.agent_list()["agents"]):
            return False
        workspace.agent_add(agent, "writer")
    return True


def _missing(command: str) -> Iterator[str]:
    """What a client would find missing when it starts the server."""
    if find_spec("mcp") is None:
        yield "the Python package mcp: pip install 'merkle-indexer[mcp]'"
    if os.path.isabs(command):
        if not os.access(command, os.X_OK):
            yield f"{command} cannot be run"
        return
    # An environment that is active here is not where a client is started.
    own = os.environ.get("VIRTUAL_ENV")
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    lasting = [one for one in places if not own or not Path(one).is_relative_to(own)]
    if shutil.which(command, path=os.pathsep.join(lasting)) is None:
        found = shutil.which(command)
        only = f"; {found} counts only while its environment is active" if found else ""
        yield (
            f"`{command}` on the search path that clients get{only}:"
            " pipx install 'merkle-indexer[mcp]'"
        )


@merkle_command("uninstall", gives=(UninstalledDocument,))
@_client
@_scope
@_name
def uninstall_(options: Globals, client: str, scope: str | None, name: str) -> int:
    """Take the server out of a client's configuration again.

    \b
    Example:
      merkle mcp uninstall claude-code
    """
    place = find_place(client, scope, root_of(options), name)
    show(options, _document(place, uninstall(place)), _uninstalled)
    return ExitCode.FINE


def _document(place: Place, changed: bool) -> UninstalledDocument:
    return {
        "client": place.client.title,
        "scope": place.scope_name,
        "file": str(place.file),
        "name": place.name,
        "changed": changed,
    }


def _installed(told: InstalledDocument, only_print: bool) -> str:
    where = on_screen(told["file"])
    if only_print:
        # The snippet is made here, of an agent's id and paths that JSON has escaped.
        return f"# {told['client']}, {where}\n{told['snippet'].rstrip()}"
    if not told["changed"]:
        return f"{told['client']} already has it: {where}"
    return f"{told['client']} has it now: {where}\nrestart it, or reload its servers"


def _uninstalled(told: UninstalledDocument) -> str:
    where = on_screen(told["file"])
    if not told["changed"]:
        return f"{told['client']} does not have it: {where}"
    return f"{told['client']} does not have it any more: {where}"


command.add_command(install_)
command.add_command(uninstall_)
