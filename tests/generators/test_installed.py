"""Versions of installed packages: as `importlib.metadata` gives them, in the usual case sooner."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

import pytest

from indexer.generators.installed import installed_versions

SAID = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n\nVersion: 9 is what the text says\n"


def note(place: Path, folder: str, name: str, number: str, file: str = "METADATA") -> None:
    (place / folder).mkdir(parents=True)
    (place / folder / file).write_text(SAID.format(name, number))


def said(name: str) -> dict[str, str]:
    try:
        return {name: version(name)}
    except PackageNotFoundError:
        return {}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that packages are imported from, before all others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_every_package_here_has_the_version_that_the_library_says() -> None:
    names = [found.metadata["Name"] for found in distributions()]
    assert installed_versions([*names, "no-such-package"]) == {
        name: version(name) for name in names
    }


def test_the_library_is_not_loaded_for_it() -> None:
    program = (
        "import sys; from indexer.generators.treesitter import versions, ABSENT;"
        "assert dict(versions())['tree-sitter'] != ABSENT;"
        "print('importlib.metadata' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize("asked", ["odd-name", "Odd_Name", "odd.name", "odd--name"])
def test_a_name_may_be_spelled_in_several_ways(place: Path, asked: str) -> None:
    note(place, "Odd.Name-1.5.dist-info", "odd-name", "1.5")
    assert installed_versions([asked]) == {asked: "1.5"} == said(asked)


def test_what_comes_first_on_the_path_counts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note(place, "twice-1.0.dist-info", "twice", "1.0")
    note(place / "before", "twice-2.0.dist-info", "twice", "2.0")
    monkeypatch.syspath_prepend(str(place / "before"))
    assert installed_versions(["twice"]) == {"twice": "2.0"} == said("twice")


def test_what_is_unusual_is_asked_of_the_library(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(place, "older-0.1.egg-info", "older", "0.1", "PKG-INFO")
    note(place / "one.egg", "EGG-INFO", "one", "0.2", "PKG-INFO")
    with zipfile.ZipFile(place / "packed.zip", "w") as packed:
        packed.writestr("packed-0.3.dist-info/METADATA", SAID.format("packed", "0.3"))
    for name, where, number in (
        ("older", place, "0.1"), ("one", place / "one.egg", "0.2"),
        ("packed", place / "packed.zip", "0.3"),
    ):  # fmt: skip
        monkeypatch.syspath_prepend(str(where))
        assert installed_versions([name]) == {name: number} == said(name)


def test_of_two_in_one_place_the_library_says_which(place: Path) -> None:
    note(place, "double-1.0.dist-info", "double", "1.0")
    note(place, "double-2.0.dist-info", "double", "2.0")
    assert installed_versions(["double"]) == said("double")
