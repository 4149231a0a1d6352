"""What CI systems read from the repository, and the recipes in docs/ci.md, run as written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from indexer.cli.group import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "ci.md").read_text(encoding="utf-8")
COMPARE, START, KEEP, FOLDER, PROVE = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CACHED = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0])
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def shell(tmp_path: Path) -> Any:
    """Run lines of a shell with `merkle` on the search path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "merkle").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m indexer.cli "$@"\n')
    (programs / "merkle").chmod(0o755)

    def run(script: str, folder: Path, **env: str) -> str:
        path = f"{programs}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True,
            timeout=100, env={**os.environ, "PATH": path, **env},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def repository(workspace: Path) -> Path:
    """The small workspace as a git repository."""
    (workspace / ".gitignore").write_text("*.log\nmerkle.pack\nreport.md\n")
    for line in (
        ["init", "-q"], ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first"],
    ):  # fmt: skip
        subprocess.run(["git", "-C", str(workspace), *line], check=True)
    return workspace


def clone_of(repository: Path, name: str) -> Path:
    fresh = repository.parent / name
    subprocess.run(["git", "clone", "-q", str(repository), str(fresh)], check=True)
    return fresh


@pytest.fixture
def lines(merkle: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the same lines in this process, one by one, with what `test` says of a file."""

    def run(script: str, folder: Path) -> str:
        monkeypatch.chdir(folder)
        shown = ""
        for line in script.splitlines():
            condition, _, command = line.rpartition("|| ")
            if condition:
                assert condition == "test ! -e merkle.pack "
                if not Path("merkle.pack").exists():
                    continue
            ran = merkle(*shlex.split(command, comments=True)[1:])
            assert ran.code == 0, ran.err
            shown += ran.out
        return shown

    return run


def test_the_lines_of_the_pack_recipe_run_no_generator_elsewhere(
    workspace: Path, lines: Any
) -> None:
    first, second, third = (workspace.with_name(name) for name in ("one", "two", "three"))
    (workspace / ".gitignore").write_text("*.log\nmerkle.pack\nreport.md\n")
    for each in (first, second, third):
        shutil.copytree(workspace, each)
    assert "7 frames written\n" in lines(START, first)
    lines(KEEP, first)
    shutil.copy(first / "merkle.pack", second)
    assert "7 frames written, 7 of them from earlier results" in lines(START, second)
    shutil.copy(first / "merkle.pack", third)
    (third / "src" / "main.py").write_text("def other() -> None: ...\n")
    assert "7 frames written, 4 of them from earlier results" in lines(START, third)


def test_the_lines_of_the_folder_recipe_run_no_generator_at_the_same_place(
    workspace: Path, lines: Any, tmp_path: Path
) -> None:
    (workspace / ".gitignore").write_text("*.log\nmerkle.pack\nreport.md\n")
    shutil.copytree(workspace, tmp_path / "files")
    assert "7 frames written" in lines(FOLDER, workspace)
    shutil.copytree(workspace / ".merkle", tmp_path / "cache")

    def next_run() -> Path:
        """The same files at the same place, with the folder put back."""
        shutil.rmtree(workspace)
        shutil.copytree(tmp_path / "files", workspace)
        shutil.copytree(tmp_path / "cache", workspace / ".merkle")
        return workspace

    assert "workspace: up to date" in lines(FOLDER, next_run())
    (next_run() / "README.md").write_text("# Tide tables, second edition\n")
    assert "2 frames written" in lines(FOLDER.replace("@-0", "@-1"), workspace)
    assert "README.md" in (workspace / "report.md").read_text()


@pytest.mark.soak
def test_the_pack_recipe_runs_no_generator_in_a_fresh_clone(repository: Path, shell: Any) -> None:
    first, second = clone_of(repository, "one"), clone_of(repository, "two")
    assert "7 frames written\n" in shell(START, first)
    shell(KEEP, first)
    shutil.copy(first / "merkle.pack", second)
    assert "7 frames written, 7 of them from earlier results" in shell(START, second)
    # A run that finds the files changed makes what depends on them, and nothing else.
    third = clone_of(repository, "three")
    shutil.copy(first / "merkle.pack", third)
    (third / "src" / "main.py").write_text("def other() -> None: ...\n")
    assert "7 frames written, 4 of them from earlier results" in shell(START, third)


@pytest.mark.soak
def test_the_folder_recipe_runs_no_generator_in_a_fresh_clone(
    repository: Path, shell: Any, tmp_path: Path
) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    cache = tmp_path / "cache"
    place = clone_of(repository, "place")
    assert "7 frames written" in shell(FOLDER, place, **state)
    shutil.copytree(place / ".merkle", cache)

    def next_run() -> Path:
        """A fresh clone at the same place, with the folder put back."""
        shutil.rmtree(place)
        fresh = clone_of(repository, "place")
        shutil.copytree(cache, fresh / ".merkle")
        return fresh

    assert "workspace: up to date" in shell(FOLDER, next_run(), **state)
    (next_run() / "README.md").write_text("# Tide tables, second edition\n")
    shown = shell(FOLDER.replace("@-0", "@-1"), place, **state)
    assert "2 frames written" in shown
    assert "README.md" in (place / "report.md").read_text()


def test_each_line_of_the_folder_recipe_does_its_part_elsewhere(
    peopled: Path, merkle: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(peopled, tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    lines = [shlex.split(line, comments=True) for line in FOLDER.splitlines()]
    adopted, watched, reported = (merkle(*line[1:]) for line in lines)
    assert (adopted.code, watched.code, reported.code) == (0, 0, 0), watched.err
    assert "Adopted" in adopted.out
    assert "7 frames written" in watched.out
    assert Path("report.md").exists()


@pytest.mark.soak
def test_the_folder_recipe_adopts_what_it_does_not_know(
    repository: Path, shell: Any, tmp_path: Path
) -> None:
    first, second = clone_of(repository, "one"), clone_of(repository, "two")
    shell(FOLDER, first)
    shutil.copytree(first / ".merkle", second / ".merkle")
    shown = shell(FOLDER, second)
    assert "Adopted" in shown
    assert "7 frames written" in shown


@pytest.mark.soak
@pytest.mark.parametrize("base", ["HEAD~1", "HEAD"])
def test_two_commits_are_compared_in_a_fresh_clone(base: str, repository: Path, shell: Any) -> None:
    (repository / "README.md").write_text("# Tide tables, second edition\n")
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", repository, *author, "commit", "-qam", "second"], check=True)
    fresh = clone_of(repository, "fresh")
    name = ["git", "-C", fresh, "rev-parse"]
    old, new = (
        subprocess.run([*name, each], check=True, capture_output=True, text=True).stdout.strip()
        for each in (base, "HEAD")
    )
    shown = shell(COMPARE, fresh, BASE=old, HEAD=new)
    assert ("README.md" in shown) is (base == "HEAD~1")


@pytest.mark.soak
def test_the_proof_recipe(repository: Path, shell: Any) -> None:
    (repository / "config").mkdir()
    (repository / "config" / "stations.json").write_text("{}\n")
    shell("merkle init --hash sha256", repository)
    root = re.findall('"root": "([0-9a-f]+)"', shell("merkle scan --json", repository))[0]
    assert "proved" in shell(PROVE, repository, ROOT=root)


@pytest.mark.soak
def test_the_commands_of_the_page_exist_and_end_well(repository: Path, shell: Any) -> None:
    subprocess.run(["git", "-C", str(repository), "-c", "user.name=t", "-c",
                    "user.email=t@example.org", "commit", "-qm", "second", "--allow-empty"],
                   check=True)  # fmt: skip
    shell("merkle lock && echo more >> README.md && merkle watch --once && merkle lock", repository)
    rows = re.findall(r"^\| .* \| `(.*)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 8
    for line in rows:
        shell(line.replace("\\|", "|"), repository, GITHUB_STEP_SUMMARY=str(repository / "s.log"))


# -- GitHub


def test_the_action_is_whole() -> None:
    assert ACTION["name"]
    assert ACTION["description"]
    assert ACTION["runs"]["using"] == "composite"
    for value in ACTION["inputs"].values():
        assert set(value) == {"description", "default"}
        assert isinstance(value["default"], str)
    steps = ACTION["runs"]["steps"]
    for step in steps:
        assert "uses" not in step, "it needs nobody else's code"
        assert step["shell"] == "bash"
        # An expression in a script would let a value of it run as code.
        assert "${{" not in step["run"]
    used = set(re.findall(r"inputs\.(\w+)", str(steps)))
    assert used == ACTION["inputs"].keys()
    output = ACTION["outputs"]["root"]["value"]
    assert output == "${{ steps.index.outputs.root }}"
    assert [step for step in steps if step.get("id") == "index"]


def test_the_page_uses_the_action_as_it_is() -> None:
    steps = CACHED["jobs"]["index"]["steps"]
    given = next(step for step in steps if "merkle@" in step["uses"])["with"]
    assert given.keys() <= ACTION["inputs"].keys()
    assert given["pack"] == next(step for step in steps if "cache" in step["uses"])["with"]["path"]


def run_action(repository: Path, shell: Any, tmp_path: Path, **inputs: str) -> dict[str, str]:
    """The steps of the action in order, as a runner would, installing left out."""
    values = {name: each["default"] for name, each in ACTION["inputs"].items()} | inputs
    files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for step in ACTION["runs"]["steps"][1:]:
        env = {
            # No match is a failure too.
            name: values[re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", text).group(1)]  # type: ignore[union-attr]
            for name, text in step["env"].items()
        }
        shell(step["run"], repository, **env, **files)
    return dict(line.split("=", 1) for line in Path(files["GITHUB_OUTPUT"]).read_text().split())


@pytest.mark.soak
def test_the_action_runs(repository: Path, shell: Any, tmp_path: Path) -> None:
    shell("merkle lock && rm -r .merkle", repository)
    outputs = run_action(
        repository, shell, tmp_path, pack="merkle.pack", locked="true", report="report.md"
    )
    locked = (repository / "merkle.lock").read_text()
    assert f"root {outputs['root']}\n" in locked
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text().startswith("# merkle report")
    assert (repository / "merkle.pack").exists()
    assert (repository / "report.md").exists()


@pytest.mark.soak
def test_the_action_fails_where_the_lock_is_not_kept(
    repository: Path, shell: Any, tmp_path: Path
) -> None:
    shell("merkle lock && rm -r .merkle && echo more >> src/main.py", repository)
    with pytest.raises(
        AssertionError, match=r"::error file=src/main\.py,title=merkle lock_changed"
    ):
        run_action(repository, shell, tmp_path, locked="true")


# -- pre-commit


def test_the_hooks_are_whole() -> None:
    assert [hook["id"] for hook in HOOKS] == ["merkle-lock", "merkle-validate"]
    for hook in HOOKS:
        assert {"id", "name", "description", "entry", "language"} <= hook.keys()
        assert hook["language"] == "python"
        assert hook["pass_filenames"] is False
        words = re.findall(r"merkle (\w+)", hook["entry"])
        assert words
        assert set(words) <= COMMANDS.keys()


@pytest.mark.soak
def test_the_hooks_run(repository: Path, shell: Any) -> None:
    lock, validate = (hook["entry"] for hook in HOOKS)
    shell(lock, repository)
    shell(validate, repository)
    (repository / "src" / "main.py").write_text("other\n")
    with pytest.raises(AssertionError, match=r"src/main\.py: is not as merkle\.lock has it"):
        shell(validate, repository)
    before = (repository / "merkle.lock").read_bytes()
    shell(lock, repository)
    assert (repository / "merkle.lock").read_bytes() != before
    shell(validate, repository)
