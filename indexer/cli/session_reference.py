"""The JSON keys of the session commands, for the reference."""

from __future__ import annotations

from typing import Final

_COMMITTED: Final = (
    "id", "commit", "content_hash", "tokens", "total_tokens", "cycle", "warnings",
)  # fmt: skip
SESSION_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "session new": ("name", "cycle", "budget", "prune"),
    "session append": _COMMITTED,
    "session edit": (*_COMMITTED, "target"),
    "session annotate": ("id", "commit", "priority"),
    "session commit": (
        "cycle", "turn", "expired", "cascaded", "pruned", "deferred", "kept_empty",
    ),
    "session move": ("id", "parent", "offset", "renamed"),
    "session remove": ("removed",),
    "session group": ("id", "parent", "cycle"),
    "session attempt": ("attempt",),
    "session pull": (
        "items", "tokens", "total_tokens", "cycle", "manifest_id", "omitted", "warnings",
    ),
    "session select": ("ids",),
    "session diff": ("added", "removed", "changed", "moves"),
    "session render": (),
    "session compile": ("messages", "token_count", "commit_count", "token_source", "hashes"),
    "session export": ("cycle", "records", "records_sha256", "root", "spec_version"),
    "session import": ("name", "origin", "cycle", "records", "commits", "tokens", "warnings"),
    "session list": ("sessions",),
    "session show": (
        "name", "origin", "cycle", "records", "commits", "tokens", "budget", "prune", "head",
        "cycles", "attempts", "tree",
    ),
}  # fmt: skip
SESSION_NOTES: Final[dict[str, str]] = {
    "session commit": " Each but the first two is a list of ids: what went and why, and what"
    " could not go.",
    "session move": " `renamed` has the new id of every node that became another one.",
    "session pull": " Each of `items`: `id`, `tokens`, `frame_id`, `path`, `type`, `agent`,"
    " `freshness`, `because`.",
    "session select": " For a range of snapshots: `query`, `snapshots`, `diffs`, `mode` and, where"
    " there is something to say, `limits`, `warnings`, `errors`.",
    "session diff": " Each of `changed`: `id`, `fields`. Each of `moves`: `removed`, `added`.",
    "session render": " a list, each with `id`, `role`, `kind`, `content`; the same bytes with"
    " `--json` and without.",
    "session compile": " With `--stage` also `stage`.",
    "session export": " The same bytes with `--json` and without. A snapshot has no `records` and"
    " no `records_sha256`; with `--format` it is what that provider takes.",
    "session list": " Each of `sessions`: `name`, `cycle`, `records`, `commits`, `tokens`,"
    " `opened_at`, `updated_at`.",
    "session show": " Each of `cycles`, the newest 20: `cycle`, `at`, `turn`.",
}
