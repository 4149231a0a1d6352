"""Look-up by name, custom generators by entry point, and the determinism check."""

from __future__ import annotations

import importlib.metadata
import itertools
from dataclasses import dataclass, field

import pytest

from indexer.core.twice import NonDeterministicError
from indexer.errors import MerkleError
from indexer.generators import (
    FileInput,
    Generator,
    custom_policy,
    generator_names,
    make_generator,
    verified,
)
from indexer.generators.base import (
    GeneratorBrokenError,
    UnknownGeneratorError,
)


@dataclass
class Shout:
    options: dict[str, object] = field(default_factory=dict)
    name: str = "shout"
    version: str = "1"

    def fingerprint_parts(self) -> tuple[tuple[str, str], ...]:
        return (("name", self.name), ("version", self.version))

    def generate(self, source: FileInput) -> str:
        return source.content.decode().upper()


class Counting(Shout):
    numbers = itertools.count()

    def generate(self, source: FileInput) -> str:
        return f"same\nbut {next(self.numbers)}"


class FolderShout(Shout):
    def synthesize(self, children: object) -> str:
        return "folder"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "shout": [f"{__name__}:Shout"],
        "folder-shout": [f"{__name__}:FolderShout"],
        "gone": ["no_such_module_anywhere:Thing"],
        "twice": ["one:A", "two:B"],
    }
    loaded = {f"{__name__}:Shout": Shout, f"{__name__}:FolderShout": FolderShout}

    class Point:
        def __init__(self, value: str) -> None:
            self.value = value

        def load(self) -> object:
            if self.value not in loaded:
                raise ImportError(f"no {self.value}")
            return loaded[self.value]

    def entry_points(*, group: str, name: str) -> list[Point]:
        assert group == "indexer.generators"
        return [Point(value) for value in points.get(name, [])]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


def test_outline_is_built_in() -> None:
    assert generator_names() == ("outline",)
    made = make_generator("outline")
    assert isinstance(made, Generator)
    assert made.name == "outline"


def test_custom_generator_by_entry_point(installed: None) -> None:
    made = make_generator("shout", {"a": 1})
    assert made.generate(FileInput("x", b"abc")) == "ABC"


def test_custom_policy_by_the_same_entry_point_group(installed: None) -> None:
    assert custom_policy("folder-shout").synthesize([]) == "folder"
    with pytest.raises(GeneratorBrokenError, match="lacks synthesize"):
        custom_policy("shout")


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("nothing", UnknownGeneratorError, "no file generator 'nothing'"),
        ("gone", GeneratorBrokenError, "cannot be imported"),
        ("twice", GeneratorBrokenError, "more than one"),
    ],
)
def test_look_up_errors_say_what_to_do(
    installed: None, name: str, error: type[MerkleError], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        make_generator(name)
    assert caught.value.hint


def test_unknown_name_without_any_fake() -> None:
    with pytest.raises(UnknownGeneratorError):
        make_generator("no-such-generator-is-installed")


def test_verified_passes_deterministic_output_through() -> None:
    checked = verified(Shout())
    assert checked.generate(FileInput("x", b"abc")) == "ABC"
    assert (checked.name, checked.version) == ("shout", "1")
    assert checked.fingerprint_parts() == Shout().fingerprint_parts()
    assert verified(checked) is checked


def test_verified_refuses_two_outputs() -> None:
    with pytest.raises(NonDeterministicError, match=r"'shout'.*'x\.py'.*line 2"):
        verified(Counting()).generate(FileInput("x.py", b""))


def test_fingerprint_covers_options_and_versions() -> None:
    plain = make_generator("outline").fingerprint_parts()
    assert list(plain) == sorted(plain)
    keys = dict(plain)
    assert keys["name"] == "outline"
    assert {"installed.tree-sitter", "installed.tree-sitter-python", "version"} <= set(keys)
    for option in ("max_symbols", "max_line", "head_lines"):
        assert make_generator("outline", {option: 77}).fingerprint_parts() != plain
