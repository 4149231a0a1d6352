"""Generated workspaces are deterministic, exact in number, and parse."""

import ast
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks import trees
from benchmarks.trees import TreeSpec, edit_one, edit_signature, main, make_tree

REPOSITORY = Path(__file__).resolve().parents[2]


def digest(root: Path) -> str:
    """Return a hash of all paths and bytes below a folder."""
    total = hashlib.sha256()
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        content = file.read_bytes()
        total.update(f"{file.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TreeSpec]:
    """A workspace of a thousand files that no test changes."""
    root = tmp_path_factory.mktemp("tree")
    return root, make_tree(root, 1000)


def test_same_seed_same_bytes_in_another_process(
    tree: tuple[Path, TreeSpec], tmp_path: Path
) -> None:
    """Neither the hash seed nor the locale takes part."""
    subprocess.run(
        [sys.executable, "-m", "benchmarks.trees", str(tmp_path / "again"), "--files", "1000"],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONHASHSEED": "7", "LC_ALL": "C"},
        check=True,
        capture_output=True,
    )
    assert digest(tmp_path / "again") == digest(tree[0])


def test_another_seed_is_another_tree(tmp_path: Path) -> None:
    make_tree(tmp_path / "a", 50, seed=1)
    make_tree(tmp_path / "b", 50, seed=2)
    assert digest(tmp_path / "a") != digest(tmp_path / "b")


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("files", [1, 2, 9, 37, 250])
def test_exactly_so_many_files(tmp_path: Path, files: int, flat: bool) -> None:
    spec = make_tree(tmp_path, files, flat=flat)
    found = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file())
    assert found == sorted(spec.files)
    assert len(found) == files
    assert sum((tmp_path / path).stat().st_size for path in found) == spec.total_bytes
    assert not flat or not any(path.is_dir() for path in tmp_path.iterdir())


def test_shape_of_a_thousand_files(tree: tuple[Path, TreeSpec]) -> None:
    root, spec = tree
    depths = [path.count("/") + 1 for path in spec.files]
    sizes = sorted((root / path).stat().st_size for path in spec.files)
    assert 4 <= sum(depths) / len(depths) <= 6
    assert max(depths) <= 10
    assert 8 <= len(spec.files) / spec.folders <= 12
    assert 2000 <= sizes[500] <= 3072
    assert spec.folders == sum(path.is_dir() for path in root.rglob("*"))


def test_every_file_is_unique_and_parses(tree: tuple[Path, TreeSpec]) -> None:
    root, spec = tree
    contents = {path: (root / path).read_bytes() for path in spec.files}
    assert len(set(contents.values())) == len(spec.files)
    for path, content in contents.items():
        if path.endswith(".py"):
            module = ast.parse(content, path)
            names = [n.name for n in module.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            assert ast.get_docstring(module)
            assert len(names) == len(set(names))
        elif path.endswith(".json"):
            json.loads(content)
        elif path.endswith(".toml"):
            tomllib.loads(content.decode("utf-8"))


def test_words_that_edits_look_for_are_nowhere_else() -> None:
    marked = {*trees.PARAMS, *trees.LOCALS}
    assert marked.isdisjoint({*trees.VERBS, *trees.NOUNS, *trees.ADJECTIVES, *trees.AREAS})


def test_every_file_can_be_edited_again_and_again(tmp_path: Path) -> None:
    spec = make_tree(tmp_path, 300)
    for k, path in enumerate(spec.files):
        seen = {(tmp_path / path).read_bytes()}
        for _ in range(2):
            assert edit_one(tmp_path, spec, k) == path
            seen.add((tmp_path / path).read_bytes())
        assert len(seen) == 3


def test_edits_are_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        spec = make_tree(tmp_path / name, 60)
        edit_one(tmp_path / name, spec, 11)
        edit_signature(tmp_path / name, spec, spec.outlined[3])
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


def python_files(spec: TreeSpec) -> list[int]:
    """Return the indexes of Python files that have functions."""
    return [k for k in spec.outlined if spec.files[k].endswith(".py")]


def signatures(file: Path) -> list[str]:
    """Return names and arguments of all functions of a Python file, in order."""
    nodes = [n for n in ast.walk(ast.parse(file.read_bytes())) if isinstance(n, ast.FunctionDef)]
    return [f"{node.name}({ast.unparse(node.args)})" for node in nodes]


def test_a_body_edit_leaves_signatures_and_a_signature_edit_moves_one(tmp_path: Path) -> None:
    spec = make_tree(tmp_path, 300)
    assert python_files(spec)
    for k in python_files(spec):
        file = tmp_path / spec.files[k]
        before = signatures(file)
        edit_one(tmp_path, spec, k)
        assert signatures(file) == before
        for _ in range(2):
            edit_signature(tmp_path, spec, k)
            after = signatures(file)
            assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_signature_edit_of_markdown_moves_the_title_only(tmp_path: Path) -> None:
    spec = make_tree(tmp_path, 200)
    k = next(k for k, path in enumerate(spec.files) if path.endswith(".md"))
    title, *rest = (tmp_path / spec.files[k]).read_text(encoding="utf-8").splitlines()
    edit_signature(tmp_path, spec, k)
    edit_signature(tmp_path, spec, k)
    assert (tmp_path / spec.files[k]).read_text(encoding="utf-8").splitlines() == [
        f"{title} (3)",
        *rest,
    ]


def test_signature_edit_needs_a_signature(tmp_path: Path) -> None:
    spec = make_tree(tmp_path, 200)
    k = next(k for k, path in enumerate(spec.files) if path.endswith(".json"))
    before = digest(tmp_path)
    with pytest.raises(ValueError, match="has no signature"):
        edit_signature(tmp_path, spec, k)
    assert digest(tmp_path) == before


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="ascii")
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path), "--files", "5"])
    assert caught.value.code == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_no_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one file"):
        make_tree(tmp_path, 0)
