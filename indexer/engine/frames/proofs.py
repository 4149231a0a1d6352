"""Which proofs of freshness fall when frames move: those of everything that was made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from indexer.core import paths
from indexer.core.frames import Head, HeadKey
from indexer.regenerate.plan import EVERY_TYPE, Rules

if TYPE_CHECKING:
    from indexer.engine.frames.heads import HeadCache


class OtherTypes(NamedTuple):
    """The declared types beside one, without those that take in frames they do not keep."""

    declared: bool
    """Whether that one is declared itself."""
    readers: Mapping[str, Rules]
    """The types that read its frames of files as their input, directly or through another."""
    bystanders: Mapping[str, Rules]
    """The types that do not read it at all."""


def unproved(
    heads_known: HeadCache,
    moved: Iterable[HeadKey],
    rules: Rules,
    others: OtherTypes,
) -> dict[HeadKey, Head]:
    """The heads whose proof falls when some heads of a type move.

    A file's frame is read by every folder above it and, in types that have this one as their
    input, by the same file's frame. A folder's frame is read by what the same policy makes
    above it, by types that take in every frame and, if its type is declared, by those that
    take in notes, which may be bound to it. The proof of a type that does not read them stays,
    unless its head was made under another configuration, which may have read them and may
    come back.
    """
    files: set[str] = set()
    folders: set[str] = set()
    by_policy = {rules.folder_agent} - {rules.file_agent}
    for path, _, agent in moved:
        (folders if agent in by_policy else files).add(path)
    above_files = {above for path in files for above in paths.ancestors(path)}
    above_all = above_files.union(*(paths.ancestors(path) for path in folders))
    files_and_above, all_of_them = above_files | files, above_all | files
    found: dict[HeadKey, Head] = {}
    for (path, kind, agent), head in heads_known.kept_at(all_of_them):
        if kind == rules.type:
            touched = above_all if agent == rules.folder_agent else above_files
        else:
            takes_in = others.declared or kind == EVERY_TYPE
            touched = all_of_them if takes_in else files_and_above
        if head.verified is None or path not in touched:
            continue
        other = others.bystanders.get(kind) or others.readers.get(kind)
        configs = (other.file_config, other.folder_config) if other else ()
        is_read = kind not in others.bystanders and path in files_and_above
        if is_read or head.config not in configs:
            found[(path, kind, agent)] = head._replace(verified=None)
    return found
