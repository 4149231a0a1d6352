"""Generators and policies of one's own, by entry point, with the determinism check."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indexer.engine.make import one_pass, workers
from indexer.errors import MerkleError
from tests.support.processes import run
from tests.support.space import Space, python

REPOSITORY = Path(__file__).resolve().parents[2]

MODULE = """
import itertools
import os

ticks = itertools.count()


class Shout:
    name = "shout"
    version = "1"

    def __init__(self, options):
        self.mark = options.get("mark", "!")

    def fingerprint_parts(self):
        return (("mark", self.mark), ("name", self.name), ("version", self.version))

    def generate(self, source):
        text = source.content.decode()
        if "raise" in text:
            raise ValueError("told to")
        if "die" in text:
            os._exit(3)
        if "surrogate" in text:
            return "\\ud800"
        if "number" in text:
            return 7
        return text.upper() + self.mark


class Names:
    name = "names"
    version = "1"

    def __init__(self, options):
        self.options = options

    def fingerprint_parts(self):
        return (("name", self.name), ("options", repr(sorted(self.options.items()))))

    def synthesize(self, children):
        if any(child.name == "raise" for child in children):
            raise KeyError("told to")
        return ",".join(child.shown for child in children)


class Unsteady(Shout):
    name = "unsteady"

    def generate(self, source):
        return f"{next(ticks)}"


class Disorderly(Shout):
    name = "disorderly"

    def generate(self, source):
        return ",".join({f"word{number}" for number in range(40)})


class DisorderlyNames(Names):
    name = "disorderly-names"

    def synthesize(self, children):
        return ",".join({f"word{number}" for number in range(40)})


class UnsteadyNames(Names):
    name = "unsteady-names"

    def synthesize(self, children):
        return f"{next(ticks)}"
"""
ENTRIES = """[indexer.generators]
shout = tuned:Shout
names = tuned:Names
unsteady = tuned:Unsteady
unsteady-names = tuned:UnsteadyNames
disorderly = tuned:Disorderly
disorderly-names = tuned:DisorderlyNames
broken = tuned:Missing
"""
CUSTOM = "[types.loud]\nfile = {file}\nfolder = {folder}\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: None) -> None:
    site = tmp_path / "site"
    info = site / "tuned-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "tuned.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tuned\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(site))


def declare(space: Space, file: str = '"shout"', folder: str = '"names"', more: str = "") -> None:
    space.declare(CUSTOM.format(file=file, folder=folder) + more)


@pytest.mark.usefixtures("installed")
def test_a_custom_generator_and_policy_are_found_by_entry_point(project: Space) -> None:
    declare(project)
    project.settle()
    assert project.frame("README.md", "loud")["content"] == "# PROJECT\n\nWHAT IT IS.\n!"
    assert project.frame("src", "loud")["content"] == "one/,two/"
    assert project.frame("src", "loud")["agent"] == "merkle:names"
    assert project.events() == []
    project.valid()


@pytest.mark.usefixtures("installed")
def test_options_of_a_custom_generator_take_part(project: Space) -> None:
    project.write(".merkleignore", "merkle.toml\n")
    declare(project)
    project.settle()
    declare(project, file='{ use = "shout", mark = "?" }')
    assert set(project.labels("loud").values()) == {"stale"}
    project.events()
    assert project.frame("README.md", "loud")["content"].endswith("?")


@pytest.mark.usefixtures("installed")
def test_a_custom_generator_runs_in_worker_processes(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MANY", 1)
    declare(project)
    project.settle()
    assert project.frame("README.md", "loud")["content"].startswith("# PROJECT")


@pytest.mark.usefixtures("installed")
def test_a_generator_that_is_not_deterministic_is_refused(project: Space) -> None:
    declare(project, file='"unsteady"')
    project.engine.scan()
    document = project.engine.regenerate()
    reasons = {one["path"]: one["reason"] for one in document["failed"]}
    assert set(reasons) == {
        "merkle.toml", "README.md", "src/one/a.py", "src/one/b.py",
        "src/two/c.py",
    }  # fmt: skip
    assert "two different outputs" in reasons["README.md"]
    assert project.engine.get_head("README.md", frame_type="loud")["heads"] == []
    declare(project, file='"unsteady"', more="verify = false\n")
    assert project.engine.regenerate()["failed"] == []


@pytest.mark.usefixtures("installed")
def test_a_policy_that_is_not_deterministic_is_refused(project: Space) -> None:
    declare(project, folder='"unsteady-names"')
    project.engine.scan()
    failed = project.engine.regenerate()["failed"]
    assert {one["path"] for one in failed} == {"", "src", "src/one", "src/two"}
    assert all("two different outputs" in one["reason"] for one in failed)
    project.valid()


@pytest.mark.usefixtures("installed")
def test_custom_code_that_fails_on_one_file_fails_there_only(project: Space) -> None:
    declare(project)
    project.write("src/one/bad.py", "raise\n")
    project.write("src/one/odd.py", "surrogate\n")
    project.write("src/one/number.py", "number\n")
    (project.root / "src/two/raise").mkdir()
    project.engine.scan()
    failed = {one["path"]: one["reason"] for one in project.engine.regenerate()["failed"]}
    assert failed["src/one/bad.py"] == "ValueError: told to"
    assert failed["src/two"] == "KeyError: 'told to'"
    assert set(failed) == {
        "src/one/bad.py", "src/one/odd.py", "src/one/number.py", "src/two",
    }  # fmt: skip
    assert project.freshness("src/one/a.py", "loud") == "fresh"
    assert project.freshness("src/one", "loud") == "stale"
    project.valid()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("chunk", [1, 1000])
def test_custom_code_that_ends_its_process_fails_there_only(
    project: Space, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(workers, "MANY", 1)
    # In small chunks it is met ahead of its turn.
    monkeypatch.setattr(one_pass, "CHUNK", chunk)
    declare(project)
    project.write("src/one/bad.py", "die\n")
    project.engine.scan()
    failed = project.engine.regenerate()["failed"]
    assert [(one["path"], one["type"]) for one in failed] == [("src/one/bad.py", "loud")]
    assert failed[0]["message"] == "the generator ended its process"
    assert project.freshness("src/one/a.py", "loud") == "fresh"
    project.valid()


@pytest.mark.usefixtures("installed")
def test_custom_code_that_is_missing_or_broken_is_named(project: Space) -> None:
    for file in ('"no-such"', '"broken"', '"names"'):
        declare(project, file=file)
        with pytest.raises(MerkleError) as refused:
            project.engine.regenerate()
        assert file.strip('"') in refused.value.message


@pytest.mark.usefixtures("installed")
def test_a_custom_policy_can_be_asked_for(project: Space) -> None:
    made = project.engine.synthesize("src", frame_type="outline", policy="names")
    assert made["frame_id"]
    assert project.frame("src", agent="merkle:names")["content"] == "one/,two/"


def test_verify_runs_built_in_ones_twice_too(project: Space) -> None:
    project.declare('[types.outline]\nfile = "outline"\nfolder = "summarize"\nverify = true\n')
    assert project.engine.frames.types["outline"].file is not None
    project.write("src/one/a.py", python("a", args="z"))
    before = project.frame("src/two/c.py")["frame_id"]
    project.events()
    # Checking moves no id.
    assert project.frame("src/two/c.py")["frame_id"] == before
    assert project.engine.frames.types["outline"].file.verify


@pytest.mark.usefixtures("installed")
def test_the_order_of_a_set_is_found_out_by_another_hash_seed(project: Space) -> None:
    declare(project, file='"disorderly"', folder='"disorderly-names"')
    project.engine.scan()
    failed = {one["path"]: one["reason"] for one in project.engine.regenerate()["failed"]}
    assert set(failed) >= {"README.md", "src", "src/one", "src/one/a.py"}
    assert all("in two processes" in reason for reason in failed.values()), failed
    assert project.engine.get_head("README.md", frame_type="loud")["heads"] == []
    project.valid()


UPDATED = """
import sys
from pathlib import Path
from indexer import Workspace
from indexer.engine.make import workers
from indexer.errors import MerkleError

workers.MANY = 1
with Workspace.open(sys.argv[1]) as workspace:
    workspace.scan()
    workspace.regenerate("src/one/a.py")
    workers.MANY = int(sys.argv[3])
    # An update of the package while this process runs.
    code = Path(sys.argv[2])
    code.write_text(code.read_text().replace('version = "1"', 'version = "2"').replace(
        "return text.upper()", "return 'NEWER ' + text.upper()"))
    try:
        workspace.regenerate("")
        print("done")
    except MerkleError as error:
        print(error.code, "|", error.message, "|", error.hint)
"""


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("many", [1, 1000], ids=["in workers", "here"])
def test_a_worker_with_newer_code_is_an_error(project: Space, tmp_path: Path, many: int) -> None:
    declare(project, more="verify = false\n")
    project.engine.close()
    site = tmp_path / "site"
    code, out, err = run(
        ["-c", UPDATED, project.root, site / "tuned.py", str(many)],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{site}", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert code == 0, err
    project.open()
    heads = project.engine.frames.heads
    bodies = [one.content for kept in heads.slots.values() for _, one in kept.items()]
    assert not [text for text in heads.bodies(bodies).values() if "NEWER" in text]
    if many == 1:
        assert out.startswith("other_code |"), out + err
        assert "start it again" in out
    else:
        assert out == "done\n"
