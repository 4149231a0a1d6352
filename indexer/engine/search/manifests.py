"""Recorded manifests: stored with the bodies they name, found by id, checked and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from indexer.compose.manifest import (
    ManifestProblem,
    check_shape,
    compare,
    manifest_id,
    manifest_text,
    named_bodies,
    replay_messages,
)
from indexer.core import paths
from indexer.core.frames import BodyHash, body_hash
from indexer.core.ids import is_id_prefix
from indexer.engine.documents import DiffDocument, JsonObject, Report
from indexer.errors import CorruptError, MerkleError, UsageError
from indexer.store.frames import FrameBatch, FrameStore, StoredManifest

PREFIX = "manifest:"


class UnknownManifestError(UsageError):
    """No recorded manifest has that id."""

    code = "unknown_manifest"


def manifest_record(manifest: JsonObject, bodies: Mapping[str, str], created_ns: int) -> JsonObject:
    """A manifest as the journal and a pack keep it: with everything a replay needs."""
    return {
        "kind": "manifest",
        "id": manifest_id(manifest),
        "manifest": manifest,
        "bodies": dict(sorted(bodies.items())),
        "created_ns": created_ns,
    }


def check_manifest(record: JsonObject) -> None:
    """Refuse a manifest whose id, bodies or messages are not what it says."""
    manifest = record["manifest"]
    check_shape(manifest)
    if manifest_id(manifest) != record["id"]:
        raise ManifestProblem("it is not what its id says")
    for sha256, body in record["bodies"].items():
        if body_hash(body).hex() != sha256:
            raise ManifestProblem(f"the body {sha256[:12]} has another content")
    replay_messages(manifest, record["bodies"])
    if type(record["created_ns"]) is not int or abs(record["created_ns"]) >= 1 << 63:
        raise ManifestProblem("it has an impossible time")


def apply_manifest(store: FrameStore, record: JsonObject, batch: FrameBatch) -> None:
    """Put a journalled manifest into a batch, with the bodies it names."""
    manifest = record["manifest"]
    if manifest_id(manifest) != record["id"]:
        raise CorruptError(
            f"the manifest {record['id'][:12]} is not what its id says", hint="run `merkle repair`"
        )
    for sha256, body in record["bodies"].items():
        batch.bodies[BodyHash(bytes.fromhex(sha256))] = body
    key = bytes.fromhex(record["id"])
    if not store.manifests(record["id"]):
        batch.manifests[key] = StoredManifest(
            record["created_ns"], manifest_text(manifest), manifest["root"], manifest["tokens"],
            len(manifest["items"]),
        )  # fmt: skip


def find_manifest(store: FrameStore, text: str) -> tuple[str, JsonObject]:
    """The recorded manifest that an id or a unique beginning of one stands for."""
    prefix = text.removeprefix(PREFIX)
    if not is_id_prefix(prefix):
        raise UnknownManifestError(
            f"{paths.on_screen(text)!r} is no manifest id",
            hint="give 6 or more lower-case hexadecimal digits, as compose --record printed them",
        )
    found = store.manifests(prefix)
    if not found:
        raise UnknownManifestError(
            f"no recorded manifest begins with {prefix}",
            hint="`merkle compose --record` records one;"
            " `merkle sql 'SELECT * FROM manifests'` lists them",
        )
    if len(found) > 1:
        listed = ", ".join(one[:16] for one, _ in found[:5])
        raise UnknownManifestError(f"{prefix} is ambiguous: {listed}", hint="give more digits")
    identity, stored = found[0]
    manifest = json.loads(stored.document)
    if manifest_id(manifest) != identity:
        raise CorruptError(
            f"the manifest {identity[:12]} is not what its id says", hint="run `merkle repair`"
        )
    return identity, manifest


def has_manifest(store: FrameStore, text: str) -> bool:
    """Whether a text names a recorded manifest."""
    prefix = text.removeprefix(PREFIX)
    return is_id_prefix(prefix) and bool(store.manifests(prefix))


def bodies_of(store: FrameStore, manifest: Mapping[str, Any]) -> dict[str, str]:
    """The bodies that a manifest names, as far as they are stored."""
    wanted = [BodyHash(bytes.fromhex(sha256)) for sha256 in named_bodies(manifest)]
    return {content.hex(): body for content, body in store.bodies(wanted).items()}


def named_by_manifests(store: FrameStore) -> set[BodyHash]:
    """Every body that a recorded manifest needs for its replay."""
    return {
        BodyHash(bytes.fromhex(sha256))
        for _, stored in store.manifests()
        for sha256 in named_bodies(json.loads(stored.document))
    }


def manifest_records(
    store: FrameStore, scopes: Sequence[str] = (paths.ROOT,)
) -> Iterator[JsonObject]:
    """Every recorded manifest that shows nothing from outside some scopes, as a pack keeps it."""
    for _, stored in store.manifests():
        manifest = json.loads(stored.document)
        shown = [item["path"] for item in manifest["items"]]
        if paths.ROOT in scopes or all(
            any(paths.is_within(path, scope) for scope in scopes) for path in shown
        ):
            yield manifest_record(manifest, bodies_of(store, manifest), stored.at_ns)


def check_manifests(store: FrameStore, error: Report) -> None:
    """Check that every recorded manifest has its id and can be replayed."""
    for identity, stored in store.manifests():
        try:
            manifest = json.loads(stored.document)
            if manifest_id(manifest) != identity:
                raise ManifestProblem("it is not what its id says")
            replay_messages(manifest, bodies_of(store, manifest))
        except (ManifestProblem, MerkleError, ValueError, KeyError, TypeError) as problem:
            error("manifest", "", f"manifest {identity[:12]}: {problem}")


def compare_manifests(store: FrameStore, old: str, new: str) -> DiffDocument:
    """What one recorded manifest shows and another does not."""
    (old_id, before), (new_id, after) = find_manifest(store, old), find_manifest(store, new)
    found = compare(before, after)
    return {
        "old": old_id,
        "new": new_id,
        "added": found["added"],
        "removed": found["removed"],
        "modified": found["modified"],
        "renamed": [],
        "symbols": [],
        "frames": found["frames"],
        "notes": [],
    }
