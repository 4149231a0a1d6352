"""Inclusion proofs: they hold for what is there, and for nothing else."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.core import paths
from indexer.core.hashing import workspace_hash
from indexer.core.kinds import Kind
from indexer.core.proofs import NoProofsError, NotAProofError, check_proof, prove, read_proof
from indexer.core.tree import Entry, Folder, Tree
from indexer.errors import UsageError

SHA = workspace_hash("sha256")

NAMES = st.binary(min_size=1, max_size=4).filter(
    lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
)
LEAVES = st.tuples(st.sampled_from([Kind.FILE, Kind.LINK]), st.binary(max_size=3))
TREES = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3),
    lambda inner: st.dictionaries(NAMES, st.one_of(LEAVES, inner), min_size=1, max_size=4),
    max_leaves=8,
)


def folder(content: dict[bytes, Any], algorithm: Any = SHA) -> Folder:
    entries = {}
    for raw, value in content.items():
        name = paths.bytes_to_text(raw)
        if isinstance(value, dict):
            entries[name] = folder(value, algorithm).as_entry()
        else:
            kind, data = value
            made = algorithm.of_file(data) if kind is Kind.FILE else algorithm.of_link(data)
            entries[name] = Entry(kind, made, len(data))
    return Folder.of(algorithm, entries)


def read(document: dict[str, Any]) -> dict[str, Any]:
    """The document after a journey as JSON."""
    return read_proof(json.dumps(document).encode())


def holds(document: dict[str, Any], root: str) -> bool:
    """Whether it verifies; a refusal is as good as a no."""
    try:
        return check_proof(read(document), root).reason is None
    except NotAProofError:
        return False


@given(TREES)
def test_every_node_of_a_tree_can_be_proved(content: dict[bytes, Any]) -> None:
    tree = Tree(SHA, folder(content))
    for path, entry in tree.walk():
        verdict = check_proof(read(prove(tree, path)), tree.root_id.hex())
        assert verdict.reason is None
        assert (verdict.path, verdict.kind) == (path, entry.kind)
        assert verdict.content_id == entry.content_id
        assert verdict.node_id == tree.node_id(path, entry).hex()


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every value of a document is."""
    found = [place] if place else []
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        found += _places(inner, (*place, key))
    return found


OTHERS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from(["file", "directory", "link", "a/b", "", "sha256", "xxh3_128", "ab" * 32]),
    st.lists(st.none(), max_size=1), st.dictionaries(st.text(max_size=2), st.none(), max_size=1),
)  # fmt: skip


@given(TREES, st.data())
@settings(max_examples=400)
def test_a_proof_with_any_value_changed_does_not_hold(
    content: dict[bytes, Any], data: st.DataObject
) -> None:
    tree = Tree(SHA, folder(content))
    path = data.draw(st.sampled_from([path for path, _ in tree.walk()]))
    good = prove(tree, path)
    bad = copy.deepcopy(good)
    *way, last = data.draw(st.sampled_from(_places(bad)))
    inside: Any = bad
    for key in way:
        inside = inside[key]
    old = inside[last]
    change = data.draw(st.sampled_from(["replace", "remove", "flip", "double"]))
    if change == "replace":
        inside[last] = data.draw(OTHERS)
    elif change == "remove":
        del inside[last]
    elif change == "double" and isinstance(inside, list):
        inside.insert(last, copy.deepcopy(old))
    elif isinstance(old, str) and old:
        at = data.draw(st.integers(0, len(old) - 1))
        inside[last] = old[:at] + data.draw(st.characters()) + old[at + 1 :]
    # As text: to Python True is 1 and 1.0 is 1, to a reader of the proof they are not.
    if json.dumps(bad) != json.dumps(good):
        assert not holds(bad, tree.root_id.hex())


@given(TREES, TREES)
def test_a_proof_does_not_hold_against_another_root(
    one: dict[bytes, Any], other: dict[bytes, Any]
) -> None:
    mine, theirs = Tree(SHA, folder(one)), Tree(SHA, folder(other))
    for path, _ in mine.walk():
        document = prove(mine, path)
        if mine.root_id != theirs.root_id:
            assert not holds(document, theirs.root_id.hex())
            # Nor when it claims to be about that root.
            assert not holds({**document, "root": theirs.root_id.hex()}, theirs.root_id.hex())


def sample() -> tuple[Tree, dict[str, Any]]:
    tree = Tree(SHA, folder({b"a": {b"f": (Kind.FILE, b"x"), b"g": (Kind.FILE, b"y")}}))
    return tree, prove(tree, "a/f")


def test_a_folder_cannot_be_passed_for_the_file_with_its_bytes() -> None:
    """A file may hold exactly the bytes that a folder is hashed from; the kind tells them apart."""
    tree, _ = sample()
    entry = tree.get("a")
    assert entry is not None
    claim = {**prove(tree, "a"), "kind": "file"}
    claim["node_id"] = SHA.node_id(Kind.FILE, b"a", entry.content_id).hex()
    assert not holds(claim, tree.root_id.hex())


def test_the_ids_are_those_that_anyone_can_compute() -> None:
    """By hand, from the definition alone."""
    tree, document = sample()

    def field(raw: bytes) -> bytes:
        return len(raw).to_bytes(8, "big") + raw

    def digest(raw: bytes) -> bytes:
        return hashlib.sha256(raw).digest()

    leaf = bytes.fromhex(document["content_id"])
    assert leaf == digest(b"x")
    pairs = [(b"f", leaf), (b"g", digest(b"y"))]
    count = len(pairs).to_bytes(8, "big")
    records = b"".join(field(name) + field(b"file") + field(made) for name, made in pairs)
    inner = digest(field(b"tree:sha256") + count + records)
    one = (1).to_bytes(8, "big")
    outer = digest(field(b"tree:sha256") + one + field(b"a") + field(b"directory") + field(inner))
    root = digest(field(b"node") + field(b"directory") + field(b"") + field(outer))
    assert root.hex() == tree.root_id.hex() == document["root"]


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"format": 1}',
        b'{"format": 1, "format": 1}', b"9" * 10_000,
    ],
)  # fmt: skip
def test_what_is_no_proof_is_refused(text: bytes) -> None:
    with pytest.raises(NotAProofError):
        read_proof(text)


def test_a_key_that_appears_twice_is_refused() -> None:
    _, document = sample()
    text = json.dumps(document)
    with pytest.raises(NotAProofError, match="twice"):
        read_proof((text[:-1] + ', "kind": "file"}').encode())


@pytest.mark.parametrize("root", ["", "ab", "AB" * 32, "ab" * 33, "xy" * 32, "ab" * 32 + "\n"])
def test_a_root_must_be_whole(root: str) -> None:
    _, document = sample()
    with pytest.raises(UsageError):
        check_proof(document, root)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "\\x00", "\\x2f", "\\x41", "a\nb", "\ud800", chr(0xDC80), 5, None],
)
def test_names_that_no_file_has_are_refused(name: object) -> None:
    _, document = sample()
    document["proof"][0]["siblings"][0]["name"] = name
    with pytest.raises(NotAProofError):
        check_proof(document, document["root"])


def test_xxh3_proves_nothing() -> None:
    algorithm = workspace_hash("xxh3_128")
    tree = Tree(algorithm, folder({b"f": (Kind.FILE, b"x")}, algorithm))
    with pytest.raises(NoProofsError) as caught:
        prove(tree, "f")
    assert "sha256" in caught.value.hint
