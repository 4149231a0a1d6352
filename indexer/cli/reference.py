"""Writes docs/cli.md from the commands themselves: `python -m indexer.cli.reference`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from indexer.cli.group import COMMANDS, cli
from indexer.cli.options import global_options
from indexer.engine.documents import keys_of
from indexer.engine.models.settings import LLM_SETTINGS
from indexer.engine.settings import RESERVED, SETTINGS
from indexer.service.operations import OPERATIONS

TARGET: Final = Path(__file__).parents[2] / "docs" / "cli.md"
_BATCH: Final = " With NODE `-`: `results`, each as above with `node`, or with `node` and `error`."
_CONTEXT: Final = (
    " Each of `items`, first things first: `frame_id`, `path`, `type`, `agent`, `content_sha256`,"
    " `freshness`, `because`, `tokens`, `message` (its place in `messages`), of an outline"
    " `symbol_lines` (per line of it, where that symbol begins, or 0). `omitted`: `counts`"
    " by reason, and `first`, up to 50 of {`frame_id`, `path`, `reason`}."
)
_SYMBOLS: Final = (
    " Each of `symbols`: `path`, `symbol`, `kind`, `signature`, `doc`, `line`, `end_line`."
    " `missing` counts the files whose facts are not made yet."
)
_EDGES: Final = (
    " Each of `edges`: `path`, `line`, `symbol` (what the use stands in), `target`"
    " (`PATH::SYMBOL`), `sure`."
)
_JSON_NOTES: Final = {
    "show": " `lines` is the first and the last that `content` has; `masked` counts secrets that"
    " are not shown, `others` has the lines of further symbols of that name.",
    "symbols": _SYMBOLS,
    "definition": _SYMBOLS,
    "references": _SYMBOLS + _EDGES,
    "callers": _SYMBOLS + _EDGES,
    "callees": _SYMBOLS + _EDGES,
    "impact": _EDGES + " Besides `distance` and `test`.",
    "init": " `adopted` is null, or what `--adopt` did: `records`, `refused`, `quarantined`,"
    " `root`.",
    "status": " With `--tree` also `tree`. With `--why-ignored`: `path`, `ignored`, `rule`.",
    "watch": " That is with `--once`; otherwise `workspace` and `stopped`, at the end; with"
    " `--web` instead, at the start, `workspace`, `pid` and `web`, the page's address. With"
    " `--print-unit`: `manager`, `name`, `unit`.",
    "get-node": " Each of `frames`: `frame_id`, `type`, `agent`, `freshness`, `because`, `tokens`,"
    " `content`, `created_at`, `node_id`, `action`, `meta`; for a fresh outline of a file also"
    " `lined`, the same with the line of each symbol." + _BATCH,
    "list-frames": " Each of `frames`: `frame_id`, `type`, `agent`, `freshness`, `because`, `head`,"
    " `seq`, `created_at`, `node_id`, `content_sha256`, `has_body`, `meta`." + _BATCH,
    "get-head": " Each of `heads`: `path`, `type`, `agent`, `frame_id`, `basis`, `freshness`,"
    " `because`." + _BATCH,
    "compose": _CONTEXT,
    "replay": _CONTEXT + " `freshness_as_of` is `recorded`: the labels are those of then.",
    "compile": " `stages`: `RAW`, `SPEC`, `HEADER`, `FROZEN`. `hashes`: `z1`, `z2`, `z3`, SHA-256"
    " of the first three.",
    "ls": " Each of `entries`: `path`, `name`, `kind`, `size`, `nodes`, `freshness`, `counts` (of"
    " the nodes at and below it by freshness, `none` for those without a frame), `notes`.",
    "completion": " With `install`: `shell`, `installed`, `files` (those that were changed).",
    "diff": " `old` is `git:` and a commit's id where it is git's last commit. Each of `symbols`"
    " (of files whose symbols are known on both sides; `compact` forgets those of contents that are"
    " gone): `path`, `change` (added, removed, modified), `symbol`, `kind`, `signature`, `line`."
    " Each of `frames`: `path`, `type`, `agent`, `change`, `old`, `new`; for manifests also"
    " `old_freshness`, `new_freshness`, `old_tokens`, `new_tokens`. For roots they are the frames"
    " that generators made for the nodes that differ, whenever that was; `change` is `missing`"
    " where none was made for what a node holds in `new`. Notes are not among them.",
    "explain": " Each of `chain`: `path`, `action`, `input`, `old`, `new`. `model` is null, or what"
    " is known of the model's part: `model`, `prompt`, `tokens_in`, `tokens_out`, and `cut` or"
    " `output_cut` where something did not fit." + _BATCH,
    "prove": " Each of `proof`, from the node's folder to the root: `folder` and `siblings`, in"
    " byte order of their names, each `name`, `kind`, `content_id`.",
    "regenerate": " Each of `failed`: `path`, `type`, `message`, `reason`; for a folder that waits"
    " for what is below it also `stale` (the first children), `stale_count` and `hint`, and so with"
    " `--plan`. `stopped` is null, or"
    " why models were not asked any more: `max_calls`, `max_cost`, `refused`, `unreachable`,"
    " `configuration`; `waiting` counts the frames that are left. With `--plan` there are no"
    " `events`; each of `plan`: `path`, `type`, `action`, `from` (`here` or `team`, where the"
    " result is known; null where it has to be made), `because`, `tokens` (0 where no model is"
    " asked), and for frames that a model writes `tokens_out`, `cost`, `calls`, `model`,"
    " `estimated`; `totals`: `calls`, `reused` (known here), `team` (known only there),"
    " `team_problem` (null, or why the team could not be asked), `tokens`, `tokens_out`, `cost`"
    " (null where a price is missing), `unpriced`. In a team also `shared`: `fetched`, `computed`,"
    " `pushed`, `refused`, `problem`." + _BATCH,
    "synthesize": " `failed`, `stopped` and what follows as for `regenerate`." + _BATCH,
    "invalidate": _BATCH,
    "session commit": " Each but the first two is a list of ids: what went and why, and what"
    " could not go.",
    "session move": " `renamed` has the new id of every node that became another one.",
    "session pull": " Each of `items`: `id`, `tokens`, `frame_id`, `path`, `type`, `agent`,"
    " `symbol`, `freshness`, `because`.",
    "session select": " For a range of snapshots: `query`, `snapshots`, `diffs`, `mode` and, where"
    " there is something to say, `limits`, `warnings`, `errors`.",
    "session diff": " Each of `changed`: `id`, `fields`. Each of `moves`: `removed`, `added`.",
    "session render": " a list, each with `id`, `role`, `kind`, `content`; the same bytes with"
    " `--json` and without.",
    "session compile": " With `--format` the messages are that provider's, with `form` and, where"
    " it has one, `system`; `sha256` is that of the bytes to send. Each of `context`: `id`, `path`,"
    " `type`, `action` (kept, labelled, replaced), `freshness`, `because`, `replaced_by`. With"
    " `--stage` also `stage`, and `blocks`, which block each of its ids is.",
    "session tree": " Each of `nodes`: `id`, `type`, `node_type`, `role`, `kind`, `turn`,"
    " `content_sha256`, `tokens`, `chars`, `pinned`, `edited`, `tool`, `preview`,"
    " `preview_truncated`, `stage_id`, `payload_sha256`, `selected`, `dropped`, `collapsed`,"
    " `freshness`. With `--stages` `compiler` is as `merkle compile` gives it.",
    "session export": " The same bytes with `--json` and without. A snapshot has no `records` and"
    " no `records_sha256`; with `--format` it is what that provider takes.",
    "session log": " Each of `records`, newest first: `seq`, `at`, `author`, `op`; a commit has"
    " `id`, `commit`, `type`, `reply_to`, `message`, `tokens` and the beginning of its `text`;"
    " others what they did, such as `target`, `priority` and `reason`.",
    "session merge": " Each of `conflicts`: `kind` (edited, set, annotated, renamed,"
    " reference_gone, left_out), `id`, `message`.",
    "session list": " Each of `sessions`: `name`, `cycle`, `records`, `commits`, `tokens`,"
    " `opened_at`, `updated_at`.",
    "session show": " Each of `cycles`, the newest 20: `cycle`, `at`, `turn`.",
    "doctor": " With `--quarantine` also `quarantined`.",
}
_EXIT_CODES: Final = (
    (0, "fine"),
    (1, "stale, or findings"),
    (2, "wrong use"),
    (3, "could not be done or checked"),
    (4, "corrupt"),
    (5, "no workspace"),
    (6, "locked by another process"),
    (129, "the terminal went away"),
    (130, "interrupted"),
    (141, "the reader of the output went away"),
    (143, "terminated"),
)
_INTRODUCTION: Final = """\
# Command line

`just docs` writes this page from the commands; `merkle COMMAND --help` prints the same.

The workspace is the nearest folder at or above the current one that holds `.merkle`,
`merkle.toml` or `.git`, else the current folder. These options may stand before or after the
name of any command:
"""
_JSON: Final = """\
With `--json` a command prints exactly one JSON document on stdout. An error is then
`{"error": {"code", "message", "hint"}}`, also on stdout; without it, it is text on stderr.
Paths are relative to the workspace; a backslash, a control character or a byte that is not UTF-8
appears as `\\xNN`. Colours are left out when `NO_COLOR` is set or the output is not a terminal.
`MERKLE_DEBUG=1` shows the traceback of an unexpected failure.

Where NODE may be `-`, names are read from standard input: one a line, or each ended by a NUL
character as soon as there is one. A name that cannot be used is reported and does not stop the
others; the exit status is the gravest of all.
"""


def reference() -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION,
        _table(("option", "meaning"), map(_option, global_options())),
        "| `--version` | Print the version and stop. |\n",
        _JSON,
        "## Exit status\n",
        _table(("status", "meaning"), ((str(code), text) for code, text in _EXIT_CODES)) + "\n",
        "## Settings\n",
        _settings(),
    ]
    parts += [_command(*each) for each in every_command()]
    return "\n".join(parts)


def every_command() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Each command with its whole name, and after a group's own those in it."""
    top = click.Context(cli, info_name="merkle")
    for name in COMMANDS:
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(command, top, name)
        yield name, command, context
        if isinstance(command, click.Group):
            for part, inner in command.commands.items():
                yield f"{name} {part}", inner, click.Context(inner, context, part)


def _command(name: str, command: click.Command, context: click.Context) -> str:
    own = [option for option in command.params if isinstance(option, click.Option)]
    own = own[: len(own) - len(global_options())]
    usage = " ".join(["merkle", name, *command.collect_usage_pieces(context)])
    parts = [f"## merkle {name}\n", f"```\n{usage}\n```\n", *_prose(command.help or "")]
    if own:
        parts.append(_table(("option", "meaning"), map(_option, own)) + "\n")
    keys = json_keys(name, command)
    if keys is not None:
        told = f" {', '.join(f'`{key}`' for key in keys)}." if keys else ""
        parts.append(f"JSON:{told}{_JSON_NOTES.get(name, '')}\n")
    return "\n".join(parts)


def json_keys(name: str, command: click.Command) -> tuple[str, ...] | None:
    """The keys of a command's document, as it declares them or as its operation does."""
    gives = getattr(command, "gives", None)
    if gives is None:
        own = name.replace(" ", "-")
        gives = (own,) if own in OPERATIONS else None
    return None if gives is None else tuple(key for one in gives for key in _keys(one))


def _keys(one: Any) -> tuple[str, ...]:
    return keys_of(OPERATIONS[one].signature.documents[0] if isinstance(one, str) else one)


def _prose(text: str) -> Iterator[str]:
    """Help text as Markdown: paragraphs, and the examples as code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            title, _, examples = paragraph.removeprefix("\b\n").partition("\n")
            yield f"{title}\n\n```sh\n{textwrap.dedent(examples).rstrip()}\n```\n"
        else:
            yield paragraph.rstrip() + "\n"


def _option(option: click.Parameter) -> tuple[str, str]:
    assert isinstance(option, click.Option)
    names = ", ".join(option.opts)
    if isinstance(option.type, click.Choice):
        names += " " + (option.metavar or " \\| ".join(map(str, option.type.choices)))
    elif not option.is_flag:
        names += f" {option.metavar}"
    default = f" Default: {option.default}." if option.show_default else ""
    return f"`{names}`", f"{option.help or ''}{default}"


def _settings() -> str:
    rows = [
        (
            f"`{setting.key}`",
            f"`{setting.variable}`",
            setting.unit,
            "none" if setting.default is None else str(setting.default),
            "the user" if setting.only_user else "a repository",
            setting.about,
        )
        for setting in (*SETTINGS, *LLM_SETTINGS)
    ]
    sections = ", ".join(f"`[{name}]`" for name in sorted(RESERVED))
    return (
        "A flag goes before the environment, that before the user's own `config.toml` (in\n"
        "`~/.config/merkle` or `$XDG_CONFIG_HOME/merkle`, with the same sections), that before\n"
        "`merkle.toml`, that before the default. What sends, spends or signs in the user's name\n"
        "is not a repository's to set: where only the user may set something, `merkle.toml` is\n"
        "ignored, and `merkle config --origin` and `merkle doctor` say so, until `merkle config\n"
        "--trust` lets the `merkle.toml` of that workspace set everything.\n"
        "The same goes for `[llm.prices]`, for prompts that are files of the workspace, and for\n"
        "generators and policies that are not built in.\n"
        "Sizes may be written as `8MiB`, times as `500ms`, `30s`, `10m` or `2h`; a bare number is\n"
        "in the unit given here. A key that nothing reads is an error.\n\n"
        + _table(("key", "variable", "unit", "default", "set by", "meaning"), iter(rows))
        + f"\n\nBesides these there are the sections {sections}: which frames are kept, and by whom"
        " they are written\n([files](files.md), [models](models.md)).\n"
    )


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Write the page into the repository."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(reference(), encoding="utf-8")
    click.echo(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
