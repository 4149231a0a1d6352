"""The examples of the help texts, which docs/cli.md shows, run as written in the sample.

The lines of one command are run in order, in a copy of the sample that is indexed and has what the
examples read. An id in an example stands for one that is there.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.copies import copy_workspace
from tests.support.pages import Step
from tests.test_readme import REPOSITORY, copy_of_what_git_keeps, environment_of

CLI = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")
_SECTION = re.compile(r"^## (merkle [^\n]*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
EXAMPLES = {
    name: [step.command for step in pages.steps(text)] for name, text in _SECTION.findall(CLI)
}

SERVES = re.compile(
    r"merkle (?:-C \S+ )?(?:watch (?!--background|--print-unit)|mcp --|lsp)", re.ASCII
)
"""Commands that serve until they are told to end; they are told so after a moment."""

A_MOMENT = 8

ELSEWHERE = {
    "merkle regenerate --type summary --max-cost 2.50": "a model writes: docs/models.md is run",
}
"""Examples that need more than the sample, with where they are run."""

PREPARED = """
git init -q && git add . && git commit -qm "Where we begin"
merkle --quiet init --hash sha256
merkle --quiet watch --once
merkle --quiet agent add alice --role writer
merkle --quiet agent add helper --role writer
merkle --quiet note ingest/saltgauge/store.py "Start here."
echo "Read, and found sound." > review.md
echo "Because the key says so." > why.md
echo '{"node": "README.md", "content": "Sound."}' > reviews.jsonl
echo '[{"role": "user", "content": "Hello"}]' > chat.json
echo '[{"kind": "user", "turn": 1, "payload": {"text": "Hello"}}]' > events.json
echo '{"selection": {"max_turns": 5}}' > policy.json
merkle compose --query gauge --record --format messages > context.json
merkle compose gateway --query gauge --record --format messages > /dev/null
merkle --quiet export team.pack && cp team.pack merkle.pack
"""
REVIEW = """
merkle --quiet session new review
for turn in 1 2 3 4; do
  merkle --quiet session append review --type dialogue --role user --text "Turn $turn"
  merkle --quiet session commit review
done
merkle --quiet session append review --type instruction --text "Answer briefly." --id law
merkle --quiet session append review --type dialogue --role user --text "And now?" --id note-1
merkle --quiet session attempt review a1 --status running --provider local --model small
merkle session export review > review.json
merkle --quiet watch --once
"""
BEFORE = {
    "merkle notes import": "merkle --quiet notes export merkle.notes",
    "merkle session merge": """
merkle --quiet session commit review
merkle --quiet session fork review another-try
merkle --quiet session append another-try --type dialogue --role user --text "Or so?"
merkle --quiet session commit another-try
""",
    # What was composed before the other files came is not what the id stands for.
    "merkle replay": "merkle compose --query gauge --record --format messages > ../context\n"
    "mv ../context context.json",
    "merkle session restore": "merkle --quiet session delete review",
    "merkle verify": 'ROOT="$(merkle log -n 1 --json | grep -o "[0-9a-f]\\{64\\}" | head -n 1)"\n'
    "merkle prove ingest/saltgauge/store.py > ../proof && mv ../proof store.proof.json",
}
"""What else has been done before the examples of a command."""


_TOLD = r"""
merkle notes --json
merkle compose --query gauge --record --json
merkle compose gateway --query gauge --record --json
merkle session select review "@t0 .mt:last .cb" --json
"""
"""Commands that tell the ids which stand for those of the examples."""


@dataclass(frozen=True)
class Prepared:
    """The sample as the examples begin with it, its user's environment, and ids in it."""

    root: Path
    environment: dict[str, str]
    note: str
    manifests: tuple[str, str]
    block: str

    def with_ids(self, line: str) -> str:
        """A line with ids that are there."""
        first = self.note if re.match(r"merkle (?:note|get-frame) ", line) else self.manifests[0]
        ids = {"3f9a01c2": first, "77b0e4d1": self.manifests[1], "3f9a21": self.block}
        return re.sub("|".join(ids), lambda found: ids[found[0]], line)


@pytest.fixture(scope="module")
def prepared() -> Iterator[Prepared]:
    with tempfile.TemporaryDirectory(prefix="example", dir="/tmp") as name:
        folder = Path(name)
        copied = copy_of_what_git_keeps(folder / "merkle", "sample_workspace")
        root = (copied / "sample_workspace").rename(folder / "prepared")
        environment = environment_of(folder) | {
            "MERKLE_SHARED_URL": f"sqlite://{folder}/team.db",
            "GITHUB_STEP_SUMMARY": f"{folder}/summary.md",
            "BROWSER": "true",
            "SHELL": "/bin/bash",
        }
        _run(PREPARED + REVIEW, root, environment)
        told = [json.loads(_run(line, root, environment)) for line in _TOLD.split("\n") if line]
        yield Prepared(
            root,
            environment,
            told[0]["notes"][0]["frame_id"],
            (told[1]["manifest_id"], told[2]["manifest_id"]),
            told[3]["ids"][0],
        )


def _run(script: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("examples")
@pytest.mark.parametrize("name", [name for name, lines in EXAMPLES.items() if lines])
def test_every_example_runs_as_written(
    name: str, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = prepared.environment
    monkeypatch.setenv("XDG_STATE_HOME", environment["XDG_STATE_HOME"])
    with tempfile.TemporaryDirectory(prefix="one", dir=prepared.root.parent) as folder:
        root = copy_workspace(prepared.root, Path(folder) / "saltgauge")
        # Also where one example names a folder of its reader's.
        project = Path(environment["HOME"]) / "work" / "project"
        project.parent.mkdir(exist_ok=True)
        project.unlink(missing_ok=True)
        project.symlink_to(root)
        listed = []
        for line in EXAMPLES[name]:
            if line in ELSEWHERE:
                continue
            shown = prepared.with_ids(line)
            if SERVES.match(line):
                shown = f"timeout {A_MOMENT} {shown} || test $? = 124"
            elif "--background" in line:
                shown += " && merkle stop"
            listed.append(Step(shown, None))
        before = BEFORE.get(name, "")
        if "merkle session new review" in "\n".join(EXAMPLES[name][:1]):
            before = "merkle --quiet session rename review another"
        try:
            ran = pages.run(listed, root, environment, before)
        finally:
            subprocess.run(["merkle", "stop"], cwd=root, env=environment, capture_output=True)
    assert [one.problem() for one in ran if one.problem()] == []
