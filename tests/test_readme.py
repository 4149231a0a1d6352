"""The commands, outputs and links of the README and of the pages in docs/, as written."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from indexer import Workspace
from indexer.cli.group import cli
from tests.support import pages
from tests.support.model_server import ModelServer

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
FIRST_RUN, TESTS = re.findall(r"```sh\n(python3 -m venv .*)\n```", README)
WRITTEN = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

IN_A_COPY = """
cp -r sample_workspace workspace && cd workspace
git init -q && git add . && git commit -qm "Where we begin"
"""
INDEXED = f"{IN_A_COPY}\nmerkle --quiet watch --once\n"
BEFORE = {
    "README.md": "",
    "ci.md": IN_A_COPY + 'BASE="$(git rev-parse HEAD)" HEAD="$(git rev-parse HEAD)"\n',
}
"""What somebody who reads a page has done before; most begin in an indexed copy of the sample."""


def test_ci_calls_exactly_the_test_command() -> None:
    assert TESTS in (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def copy_of_what_git_keeps(target: Path, *under: str) -> Path:
    listing = ["git", "-C", REPOSITORY, "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*listing, "--exclude-standard", "--", *under], capture_output=True, check=True
    ).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        source = REPOSITORY / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def run_page(page: Path, folder: Path) -> list[pages.Ran]:
    """Run all commands of a page beside a copy of the sample, as a user with their own home."""
    here = copy_of_what_git_keeps(folder / "merkle", "sample_workspace")
    (here / ".venv").symlink_to(sys.prefix)
    environment = environment_of(folder)
    text = page.read_text(encoding="utf-8")
    server = ModelServer()
    # Where the pages name a server of the reader's, these stand for it.
    environment["MERKLE_LLM_BASE_URL"] = server.url
    environment["MERKLE_SHARED_URL"] = f"sqlite://{folder}/team.db" if "shared" in text else ""
    try:
        return pages.run(pages.steps(text), here, environment, BEFORE.get(page.name, INDEXED))
    finally:
        server.stop()


def environment_of(folder: Path) -> dict[str, str]:
    """That of a user whose home is in a folder, and who has this very `merkle`."""
    home, runtime = folder / "home", folder / "run"
    home.mkdir()
    runtime.mkdir(mode=0o700)
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    return {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONWARNINGS": "error",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "100",
    }


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Not in tmp_path: the paths of sockets end at 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="page", dir="/tmp") as folder:
        yield Path(folder)


RUN = [
    page
    for page in WRITTEN
    if page.name != "cli.md" and pages.steps(page.read_text(encoding="utf-8"))
]
"""The reference is no page to follow: its examples are those of the help texts, each for itself."""


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_every_command_runs_as_written_and_prints_what_is_shown(
    page: Path, short_folder: Path
) -> None:
    ran = run_page(page, short_folder)
    assert ran
    assert [one.problem() for one in ran if one.problem()] == []


SNIPPETS = [
    (page, number, body)
    for page in WRITTEN
    for number, (_, body) in enumerate(
        one for one in pages.fences(page.read_text(encoding="utf-8")) if one[0] == "python"
    )
]


@pytest.mark.parametrize(
    ("page", "number", "body"), SNIPPETS, ids=[f"{page.name}-{n}" for page, n, _ in SNIPPETS]
)
def test_every_piece_of_python_runs_as_written(
    page: Path, number: int, body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with the sample, which is indexed and knows the agent that a page speaks of."""
    root = tmp_path / "sample_workspace"
    copied = copy_of_what_git_keeps(tmp_path / "copy", "sample_workspace")
    (copied / "sample_workspace").rename(root)
    monkeypatch.chdir(root if '"."' in body else tmp_path)
    with Workspace.open(root) as workspace:
        workspace.scan()
        workspace.agent_add("helper", "writer")
    if "/v1/events" in body:
        # It follows a service, and is run beside one by tests/service/test_example_client.py.
        compile(body, f"{page.name}-{number}", "exec")
        return
    exec(compile(body, f"{page.name}-{number}", "exec"), {"__name__": "__main__"})


@pytest.fixture
def fresh_copy(tmp_path: Path) -> Path:
    return copy_of_what_git_keeps(tmp_path / "merkle")


def _run(command: str, folder: Path, **environment: str) -> str:
    finished = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_first_run_and_tests_work_in_a_fresh_copy(fresh_copy: Path) -> None:
    shown = _run(FIRST_RUN, fresh_copy)
    assert "saltgauge" in shown
    assert "fresh" in shown
    # The whole suite is running already: here it is enough that the command runs some of it.
    chosen = "tests/core/test_hashing.py tests/core/test_paths.py"
    assert "passed" in _run(TESTS, fresh_copy, PYTEST_ADDOPTS=chosen)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        name, _, anchor = unquote(target).partition("#")
        if name.startswith(("http://", "https://")):
            continue
        found = page.parent / name if name else page
        assert found.exists(), target
        if anchor:
            assert anchor in _anchors(found), target


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def _anchors(page: Path) -> set[str]:
    """The places that a link can name, as every common renderer makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", tmp_path / "site"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    made = [*(tmp_path / "site").rglob("*.html")]
    assert {page.stem for page in WRITTEN[1:]} <= {page.stem for page in made}
    for page in made:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]*src="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*href="([^"]+)"', text)
        assert not [one for one in loaded if re.match(r"(?:\w+:)?//", one)], page.name
    for sheet in (tmp_path / "site").rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"""(?:@import|url\()\s*['"]?(?:\w+:)?//""", text), sheet.name


@pytest.mark.soak
def test_the_pictures_are_those_that_the_script_draws(tmp_path: Path) -> None:
    script = REPOSITORY / "docs" / "pictures" / "make.py"
    specification = importlib.util.spec_from_file_location("pictures", script)
    assert specification is not None
    assert specification.loader is not None
    pictures = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(pictures)
    made = pictures.make(tmp_path)
    assert len(made) == 3
    for picture in made:
        assert picture.read_text() == (script.parent / picture.name).read_text(), "just pictures"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_every_command_and_option_that_is_named_exists(page: Path) -> None:
    spans = re.findall(r"`merkle ([^`]+)`", _prose(page).replace("\n", " "))
    for _, body in pages.fences(page.read_text(encoding="utf-8")):
        spans += re.findall(r"^(?:\$ )?merkle ([^#\n]+)", body, re.MULTILINE)
    for span in spans:
        words = re.split(r"[|>&;]", span)[0].split()
        command: click.Command = cli
        context = click.Context(cli)
        while words and isinstance(command, click.Group):
            if words[0].startswith("-") and command is not cli:
                break
            if words[0].startswith("-"):
                words = words[2:] if words[0] == "-C" else words[1:]
                continue
            found = command.get_command(context, words[0])
            if found is None and command.name == "notes":
                # `notes PATH` is `notes list PATH`.
                found, words = command.get_command(context, "list"), ["list", *words]
            # COMMAND, NAME and their like stand for any.
            assert found is not None or words[0].isupper(), f"merkle {span}"
            if found is None:
                break
            command, words = found, words[1:]
        known = {name for one in (command, cli) for each in one.params for name in each.opts}
        given = {word.partition("=")[0].rstrip(".,") for word in words if word.startswith("--")}
        assert given - {"--help", "--"} <= known, f"merkle {span}"


def test_no_page_names_files_that_the_sample_does_not_have() -> None:
    """Whoever tries an example in the sample finds what it names, or makes it first."""
    sample = REPOSITORY / "sample_workspace"
    for page in WRITTEN:
        for _, body in pages.fences(page.read_text(encoding="utf-8")):
            for name in re.findall(r"merkle [\w -]*?([\w./-]+\.(?:py|go|ts|md))\b", body):
                made = name in ("review.md", "why.md", "report.md", "ingest/saltgauge/tides.py")
                assert made or (sample / name).exists() or [*sample.rglob(name)], (page.name, name)
