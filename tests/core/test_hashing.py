"""Ids, byte by byte: what takes part in each, and what does not."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import xxhash

from indexer.core.hashing import HASHES, workspace_hash
from indexer.core.ids import ContentId, is_id_prefix
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Folder, Tree
from indexer.errors import UsageError
from indexer.scan.assemble import assemble
from indexer.scan.previous import NothingBefore
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Walker

XXH3 = HASHES["xxh3_128"]
SHA256 = HASHES["sha256"]


def u64(number: int) -> bytes:
    return struct.pack(">Q", number)


def plain_hash(name: str, data: bytes) -> bytes:
    """The bare hash, by other entry points than the product uses."""
    if name == "sha256":
        return bytes.fromhex(hashlib.new("sha256", data).hexdigest())
    return bytes.fromhex(xxhash.xxh3_128(data).hexdigest())


def scanned(root: Path, name: str = "xxh3_128") -> Tree:
    """The tree of a folder, from nothing."""
    algorithm = workspace_hash(name)
    observed = Walker(root, algorithm, Scopes(root), NothingBefore(), seen_ns=1 << 62).walk()
    folder = assemble(Tree.empty(algorithm), observed)
    assert folder is not None
    return Tree(algorithm, folder)


def small_workspace(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "src").mkdir()
    (root / "src" / "main.py").write_bytes(b"print('tide')\n")
    (root / "src" / "link").symlink_to("main.py")
    (root / "README.md").write_bytes(b"# Tide\n")
    (root / "empty").mkdir()
    return root


# -- golden values, spelled out


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_file_is_the_bare_hash_of_its_bytes(name: str) -> None:
    assert HASHES[name].of_file(b"abc") == plain_hash(name, b"abc")


def test_known_answers() -> None:
    """Values published with the algorithms themselves."""
    assert XXH3.of_file(b"").hex() == "99aa06d3014798d86001c324468d497f"
    assert (
        SHA256.of_file(b"abc").hex()
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_link_is_the_hash_of_its_target(name: str) -> None:
    spelled = u64(4) + b"link" + u64(7) + b"../to\xff!"
    assert HASHES[name].of_link(b"../to\xff!") == plain_hash(name, spelled)


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_folder_is_the_hash_of_its_children(name: str) -> None:
    algorithm = HASHES[name]
    size = len(algorithm.of_file(b""))
    of_a, of_b = algorithm.of_file(b"A"), algorithm.of_link(b"t")
    inner = plain_hash(name, u64(len(f"tree:{name}")) + f"tree:{name}".encode() + u64(0))
    spelled = (
        u64(len(f"tree:{name}")) + f"tree:{name}".encode() + u64(3)
        + u64(1) + b"a" + u64(4) + b"file" + u64(size) + of_a
        + u64(2) + b"\xffb" + u64(4) + b"link" + u64(size) + of_b
    )  # fmt: skip
    # In byte order `d` stands between them.
    spelled = spelled.replace(
        u64(2) + b"\xffb",
        u64(1) + b"d" + u64(9) + b"directory" + u64(size) + inner + u64(2) + b"\xffb",
    )
    folder = Folder.of(
        algorithm,
        {
            "\\xffb": Entry(Kind.LINK, of_b, 1),
            "d": Folder.of(algorithm, {}).as_entry(),
            "a": Entry(Kind.FILE, of_a, 1),
        },
    )
    assert folder.content_id == plain_hash(name, spelled)


@pytest.mark.parametrize("name", sorted(HASHES))
@pytest.mark.parametrize(
    ("kind", "label"), [(Kind.FILE, b"file"), (Kind.DIRECTORY, b"directory"), (Kind.LINK, b"link")]
)
def test_a_node_is_the_hash_of_kind_place_and_content(name: str, kind: Kind, label: bytes) -> None:
    algorithm = HASHES[name]
    content = algorithm.of_file(b"x")
    spelled = (
        u64(4) + b"node" + u64(len(label)) + label + u64(5) + b"a/\xfe\nb"
        + u64(len(content)) + content
    )  # fmt: skip
    assert algorithm.node_id(kind, b"a/\xfe\nb", content) == plain_hash(name, spelled)


@pytest.mark.parametrize("length", [0, 255, 4096, 4097, 70_000])
def test_lengths_are_counted_beyond_the_table(length: int) -> None:
    path, content = b"p" * length, XXH3.of_file(b"")
    spelled = u64(4) + b"node" + u64(4) + b"file" + u64(length) + path + u64(16) + content
    assert XXH3.node_id(Kind.FILE, path, content) == plain_hash("xxh3_128", spelled)


# -- what takes part


def one_child(name: str = "a", kind: Kind = Kind.FILE, content: bytes = b"x") -> ContentId:
    entry = Entry(kind, XXH3.of_file(content), 1)
    if kind is Kind.DIRECTORY:
        entry = Entry(kind, XXH3.of_file(content), 1, b"", Folder.of(XXH3, {}))
    return Folder.of(XXH3, {name: entry}).content_id


def test_a_childs_name_takes_part_in_the_folder() -> None:
    assert one_child(name="a") != one_child(name="b")


@pytest.mark.parametrize("kind", [Kind.DIRECTORY, Kind.LINK])
def test_a_childs_kind_takes_part_in_the_folder(kind: Kind) -> None:
    assert one_child() != one_child(kind=kind)


def test_a_childs_content_takes_part_in_the_folder() -> None:
    assert one_child(content=b"x") != one_child(content=b"y")


def test_the_number_of_children_takes_part_in_the_folder() -> None:
    two = Folder.of(XXH3, {n: Entry(Kind.FILE, XXH3.of_file(b"x"), 1) for n in "ab"})
    assert two.content_id != one_child()
    assert Folder.of(XXH3, {}).content_id != one_child()


def test_the_hash_name_takes_part_in_the_folder() -> None:
    """Two hashes that gave equal digests would still give different folder ids."""
    assert XXH3.tree_tag == u64(13) + b"tree:xxh3_128"
    assert SHA256.tree_tag == u64(11) + b"tree:sha256"


def test_the_path_takes_part_in_the_node() -> None:
    content = XXH3.of_file(b"x")
    assert XXH3.node_id(Kind.FILE, b"a", content) != XXH3.node_id(Kind.FILE, b"b", content)


def test_the_kind_takes_part_in_the_node() -> None:
    content = XXH3.of_file(b"x")
    assert XXH3.node_id(Kind.FILE, b"a", content) != XXH3.node_id(Kind.LINK, b"a", content)


def test_the_content_takes_part_in_the_node() -> None:
    x, y = XXH3.of_file(b"x"), XXH3.of_file(b"y")
    assert XXH3.node_id(Kind.FILE, b"a", x) != XXH3.node_id(Kind.FILE, b"a", y)


def test_fields_do_not_run_into_each_other() -> None:
    """A name that spells out the rest of a record is still one name."""
    content = XXH3.of_file(b"x")
    forged = b"a" + u64(4) + b"file" + u64(16) + content + u64(1) + b"b"
    honest = [XXH3.encode_child(name, Kind.FILE, content) for name in (b"a", b"b")]
    one = XXH3.encode_child(forged, Kind.FILE, content)
    assert XXH3.of_folder(honest, 2) != XXH3.of_folder([one], 1)


def test_a_link_and_a_file_that_holds_its_target_differ() -> None:
    assert XXH3.of_link(b"to") != XXH3.of_file(b"to")


# -- what does not take part


def test_time_does_not_take_part(tmp_path: Path) -> None:
    root = small_workspace(tmp_path / "w")
    before = scanned(root).root_id
    for path in [*root.rglob("*"), root]:
        os.utime(path, ns=(10**9, 10**9), follow_symlinks=False)
    assert scanned(root).root_id == before


def test_mode_does_not_take_part(tmp_path: Path) -> None:
    root = small_workspace(tmp_path / "w")
    before = scanned(root).root_id
    (root / "README.md").chmod(0o700)
    (root / "src").chmod(0o711)
    assert scanned(root).root_id == before


def test_place_on_disk_does_not_take_part(tmp_path: Path) -> None:
    near = small_workspace(tmp_path / "near")
    far = small_workspace(tmp_path / "a place" / "far away")
    assert scanned(near).root_id == scanned(far).root_id


def test_scan_order_does_not_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = small_workspace(tmp_path / "w")
    for number in range(20):
        (root / "src" / f"f{number}").write_bytes(b"%d" % number)
    expected = scanned(root).root_id
    real = os.scandir

    class Backwards:
        def __init__(self, entries: list[os.DirEntry[str]]) -> None:
            self._entries = entries

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self._entries

        def __exit__(self, *_: object) -> None:
            pass

    def backwards(target: int) -> Backwards:
        with real(target) as listing:
            return Backwards(sorted(listing, key=lambda entry: entry.name, reverse=True))

    monkeypatch.setattr(os, "scandir", backwards)
    assert scanned(root).root_id == expected


def test_hash_seed_does_not_take_part(tmp_path: Path) -> None:
    root = small_workspace(tmp_path / "w")
    program = (
        "import sys; from indexer.engine.workspace import Engine; from pathlib import Path\n"
        "from indexer.engine.tree.scan import scan\n"
        "with Engine.create(Path(sys.argv[1])) as engine: print(scan(engine)['root'])"
    )
    found = set()
    for seed in ("0", "1", "4711"):
        run = subprocess.run(
            [sys.executable, "-c", program, str(root)], capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=Path(__file__).parents[2], check=True,
        )  # fmt: skip
        found.add(run.stdout)
        shutil.rmtree(root / ".merkle")
    assert found == {scanned(root).root_id.hex() + "\n"}


# -- the outside world agrees


@pytest.mark.skipif(shutil.which("xxhsum") is None, reason="xxhsum (package xxhash) is missing")
def test_xxhsum_prints_the_content_id(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    sizes = (0, 1, 3, 16, 17, 128, 129, 240, 241, 1024, 256 * 1024, 256 * 1024 + 1, 700_001)
    for size in sizes:
        content = bytes((i * i + size) % 251 for i in range(min(size, 4096)))
        (root / f"file{size}").write_bytes((content * (size // 4096 + 1))[:size])
    tree = scanned(root)
    names = sorted(tree.root.entries)
    printed = subprocess.run(
        ["xxhsum", "-H2", *names], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    told = {line.split()[1]: line.split()[0] for line in printed.splitlines()}
    assert told == {name: tree.root.entries[name].content_id.hex() for name in names}
    assert len(told) == len(sizes)


def test_sha256_is_what_others_call_sha256(tmp_path: Path) -> None:
    root = small_workspace(tmp_path / "w")
    entry = scanned(root, "sha256").get("README.md")
    assert entry is not None
    assert entry.content_id.hex() == hashlib.sha256(b"# Tide\n").hexdigest()


def test_an_unknown_hash_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="md5") as caught:
        workspace_hash("md5")
    assert "xxh3_128" in caught.value.hint
    assert "sha256" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("abcdef", True), ("0123456789", True), ("abcde", False), ("ABCDEF", False),
     ("abcdeg", False), ("", False), ("abcdef\n", False), ("\u0661" * 6, False)],
)  # fmt: skip
def test_what_may_stand_for_an_id(text: str, is_one: bool) -> None:
    assert is_id_prefix(text) is is_one
