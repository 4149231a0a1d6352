"""`merkle watch`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

import click

from indexer.cli.durations import positive_duration
from indexer.cli.models import watcher_limits
from indexer.cli.opening import open_workspace, refuse_accidental_root, root_of
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text, show
from indexer.cli.progress import StatusLine, is_terminal
from indexer.cli.regenerate import regenerated_text, verdict
from indexer.cli.scan import show_scan
from indexer.cli.signals import ends_politely
from indexer.cli.units import AUTO, LAUNCHD, SYSTEMD, unit_name, unit_text, usual_manager
from indexer.engine.settings import load_settings
from indexer.errors import ExitCode
from indexer.service.client import connect
from indexer.store.layout import Layout, initialise
from indexer.store.lock import holder, locked_by

if TYPE_CHECKING:
    from indexer.service.ahead import Ahead
    from indexer.web.application import WebPage


READY: Final = (sys.executable, "-P", "-m", "indexer.cli.ready")
"""The command of the process that a service keeps ready; with -P it imports nothing from the
folder that it is started in."""


class OnceDocument(TypedDict):
    """What `--once` adds to what a scan found: the frames that were made."""

    generated: int
    reused: int
    failed: list[dict[str, Any]]


@merkle_command("watch", gives=("scan", OnceDocument))
@click.option("--once", is_flag=True, help="Do one full pass and stop.")
@click.option(
    "--background", is_flag=True, help="Start it on its own and return; `merkle stop` ends it."
)
@click.option(
    "--idle-exit",
    metavar="TIME",
    callback=positive_duration,
    help="Stop when nobody has asked anything for TIME (30s, 10m, 2h).",
)
@click.option(
    "--web",
    metavar="[PORT]",
    is_flag=False,
    flag_value=0,
    type=click.IntRange(0, 65535),
    help="Also serve a web page on this machine, at PORT or at one that is free.",
)
@click.option(
    "--open",
    "opens",
    is_flag=True,
    help="Open the page in a browser, too; with --web or a free port.",
)
@click.option(
    "--print-unit",
    "manager",
    metavar="[systemd|launchd]",
    is_flag=False,
    flag_value=AUTO,
    type=click.Choice([SYSTEMD, LAUNCHD, AUTO]),
    help="Print a file that makes this a service of the user's, for this system unless named.",
)
def command(
    options: Globals,
    once: bool,
    background: bool,
    idle_exit: float | None,
    web: int | None,
    opens: bool,
    manager: str | None,
) -> int:
    """Keep the index up to date while files change.

    Runs in the foreground until Ctrl-C or SIGTERM. Meanwhile it owns the index, and every
    other command asks it. In a terminal each batch of changes has a line: the files, and how many
    frames were made for them or known from earlier results. With --once it does one full pass and
    ends, as CI wants it: a scan, then the declared frames that are stale. Exit status 1: some of
    them could not be made.

    With --web it prints the address of a page that shows the workspace as it changes. The
    address holds a token that is made anew at every start; `merkle status` shows it again.

    \b
    Examples:
      merkle watch --idle-exit 10m
      merkle watch --background
      merkle watch --open
      merkle watch --print-unit systemd
    """
    if opens and web is None:
        web = 0
    if once and web is not None:
        raise click.UsageError("--web needs a service: leave out --once.")
    if manager is not None:
        if once or web is not None:
            raise click.UsageError("--print-unit goes with neither --once nor --web.")
        return _print_unit(options, usual_manager() if manager == AUTO else manager, idle_exit)
    refuse_accidental_root(options)
    if background:
        if once:
            raise click.UsageError("--background goes with a service: leave out --once.")
        return _in_background(options, idle_exit, web, opens)
    return _once(options) if once else _serve(options, idle_exit, web, opens)


def _print_unit(options: Globals, manager: str, idle_exit: float | None) -> int:
    root = root_of(options)
    text = unit_text(root, manager, idle_exit)
    if options.json:
        print_json({"manager": manager, "name": unit_name(root, manager), "unit": text})
    else:
        click.echo(text.encode(), nl=False)
    return ExitCode.FINE


class BackgroundDocument(TypedDict):
    """Result of `watch --background`."""

    workspace: str
    pid: int
    web: str | None


def _in_background(options: Globals, idle_exit: float | None, web: int | None, opens: bool) -> int:
    # Imported late: only this starts another process.
    from indexer.service.served import start_service

    root = root_of(options)
    initialise(root)
    if connect(root) is not None:
        raise locked_by(holder(Layout(root).lock))
    given = [] if idle_exit is None else ["--idle-exit", f"{idle_exit}s"]
    given += [] if web is None else ["--web", str(web)]
    client = start_service(root, time.monotonic() + load_settings(root).wait_s, given)
    service = client.get("/v1/status", {"wait": "false"})["service"]
    document: BackgroundDocument = {
        "workspace": str(root), "pid": service["pid"], "web": service["web"],
    }  # fmt: skip
    show(options, document, _background_text)
    if opens and document["web"]:
        _open(document["web"])
    return ExitCode.FINE


def _background_text(document: BackgroundDocument) -> str:
    lines = [f"watching in the background, process {document['pid']}; `merkle stop` ends it"]
    return "\n".join([*lines, document["web"]] if document["web"] else lines)


def _once(options: Globals) -> int:
    with ends_politely(), open_workspace(options) as workspace:
        workspace.goes_on_with = "regenerate"
        scanned = workspace.scan()
        with workspace.as_scanned():
            # As the watcher itself: models only as far as it may ask them unasked.
            made: Mapping[str, Any] = workspace.regenerate(**watcher_limits(workspace.root))
    if options.json:
        counts = {"generated": made["regenerated"], "reused": made["reused"]}
        team = {"shared": made["shared"]} if "shared" in made else {}
        print_json({**scanned, **counts, "failed": made["failed"], **team})
    else:
        show_scan(options, scanned)
        print_text(regenerated_text("", made, quiet=options.quiet), err=options.quiet)
    return verdict(made)


def _serve(options: Globals, idle_exit: float | None, web: int | None, opens: bool) -> int:
    # Imported late: `--once` needs neither the observer nor the server.
    from indexer.service.ahead import Ahead

    root = root_of(options)
    with contextlib.ExitStack() as stack:
        # Begun before the rest is loaded, which takes as long.
        ahead = options.ahead or Ahead.begin(root)
        if ahead is not None:
            assert ahead.owned.root == root
            stack.callback(ahead.close)
        return _serve_with(options, root, idle_exit, web, opens, ahead)


def _serve_with(
    options: Globals,
    root: Path,
    idle_exit: float | None,
    web: int | None,
    opens: bool,
    ahead: Ahead | None,
) -> int:
    # Imported late: while the first look is under way.
    from indexer.service.run import run_service
    from indexer.store.memory import keep_one_heap
    from indexer.watch.debounce import Timing

    keep_one_heap()
    page = None if web is None else _page(web)
    settings = load_settings(root, {"watch.idle_exit": idle_exit})
    line = None if options.quiet else StatusLine(live=is_terminal())
    try:
        run_service(
            root,
            idle_exit=settings.idle_exit_s,
            on_status=line,
            timing=Timing(
                quiet=settings.debounce_ms / 1000,
                settle=settings.settle_ms / 1000,
                longest_settle=settings.settle_max_ms / 1000,
            ),
            rescan_every=settings.rescan_s,
            wait=settings.wait_s,
            page=page,
            on_batch=line.above if line is not None and is_terminal() else None,
            on_page=lambda url: _tell_page(options, root, url, opens),
            ready=READY if settings.ready else None,
            ahead=ahead,
        )
    finally:
        if page is not None:
            page.close()
        if line is not None:
            line.close()
    if line is not None and is_terminal():
        print_text("Goodbye. Changes from now on are seen by the next `merkle` command.", err=True)
    if options.json and page is None:
        print_json({"workspace": str(root), "stopped": True})
    return ExitCode.FINE


def _page(port: int) -> WebPage:
    # Imported late: templates and markdown are for those who want the page.
    from indexer.web.application import WebPage

    return WebPage(port)


def _open(url: str) -> None:
    # Imported late: only for those who want it.
    import webbrowser

    if not webbrowser.open(url):
        print_text("no browser could be started; open the address yourself", err=True)


def _tell_page(options: Globals, root: Path, url: str, opens: bool) -> None:
    """The address, as soon as it is good; a script reads it from the one document there is."""
    if options.json:
        print_json({"workspace": str(root), "pid": os.getpid(), "web": url})
    elif not options.quiet:
        print_text(url)
    sys.stdout.flush()
    if opens:
        _open(url)
