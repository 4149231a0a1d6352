"""`merkle verify`: it needs no workspace, and imports nothing that does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, TypedDict

import click

from indexer.cli.columns import path, short
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import show
from indexer.core.hashing import workspace_hash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.proofs import HASH, Verdict, check_proof, read_proof
from indexer.errors import ExitCode, UsageError

_PIECE: Final = 1 << 20


class VerifiedDocument(TypedDict):
    """Result of `verify`."""

    ok: bool
    path: str
    kind: str
    content_id: str
    node_id: str
    root: str
    file: str | None
    reason: str | None


@merkle_command("verify", gives=(VerifiedDocument,))
@click.argument("proof", metavar="PROOF", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--root",
    metavar="ID",
    required=True,
    callback=plain_text,
    help="The root to be trusted: all 64 digits, as `merkle scan --json` prints it.",
)
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also compare this file's bytes with what was proved.",
)
def command(options: Globals, proof: str, root: str, file: str | None) -> int:
    """Check a proof that `merkle prove` printed, without a workspace. PROOF - reads stdin.

    Take the root from a source you trust, not from the proof. Exit status 0: the tree with that
    root holds the node (and FILE is it); 1: the proof does not show that; 3: this is no proof.

    \b
    Example:
      merkle verify store.proof.json --root "$ROOT" --file ingest/saltgauge/store.py
    """
    verdict = check_proof(read_proof(_read(proof)), root)
    reason = verdict.reason
    if reason is None and file is not None and _content_id(verdict, file) != verdict.content_id:
        reason = "the file is not what was proved"
    document: VerifiedDocument = {
        "ok": reason is None,
        "path": verdict.path,
        "kind": verdict.kind.label,
        "content_id": verdict.content_id.hex(),
        "node_id": verdict.node_id,
        "root": root,
        "file": os.fspath(file) if file else None,
        "reason": reason,
    }
    show(options, document, _text)
    return ExitCode.FINE if reason is None else ExitCode.FINDINGS


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def _content_id(verdict: Verdict, file: str) -> ContentId:
    algorithm = workspace_hash(HASH)
    if verdict.kind is Kind.DIRECTORY:
        raise UsageError("a folder has no bytes to compare", hint="prove and name a file in it")
    if verdict.kind is Kind.LINK:
        return algorithm.of_link(os.readlink(os.fsencode(file)))
    running = algorithm.running()
    with Path(file).open("rb") as opened:
        while piece := opened.read(_PIECE):
            running.update(piece)
    return ContentId(running.digest())


def _text(document: VerifiedDocument) -> str:
    if not document["ok"]:
        return f"{click.style('not proved', fg='red', bold=True)}: {document['reason']}"
    holds = f"root {short(document['root'])} holds {document['kind']} {path(document['path'])}"
    return f"{click.style('proved', fg='green', bold=True)}: {holds}"
