"""What every test shares: deterministic hypothesis, a runtime directory of its own, a workspace."""

from __future__ import annotations

import atexit
import compileall
import contextlib
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import indexer
from tests.support.campaign import table
from tests.support.short import HAS_MEMORY, MEMORY, SHORT

if TYPE_CHECKING:
    from tests.support.space import Held

# Deterministic and without a deadline: a run on a busy machine is the same run.
_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=_CHECKS
)
settings.register_profile(
    "soak", parent=settings.get_profile("ci"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# What pytest makes of the tests is half of what collecting them takes: it is kept, as the compiled
# package is, also where the environment would have nothing kept.
sys.dont_write_bytecode = False

# Temporary folders are in memory, where a sync costs nothing: this is about what is written, not
# about how fast a disk is.
if HAS_MEMORY:
    tempfile.tempdir = str(MEMORY)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: tests of services wait for them now and then."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_configure(config: pytest.Config) -> None:
    """A state folder for the whole run: indexes are noted there, and fixtures outlive tests."""
    if not hasattr(config, "workerinput"):
        # A shell that starts this in the background, or nohup, has them ignored, and every process
        # that a test starts and interrupts would take that over.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        folder = tempfile.mkdtemp(prefix="merkle-state-")
        # Workers and every process that a test starts take it over.
        os.environ["XDG_STATE_HOME"] = folder
        # What pytest makes of its plugins is kept, too: workers load those before this module.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        # In a fresh clone every process that a test starts would compile the package anew.
        compileall.compile_dir(indexer.__path__[0], quiet=2)


def _import_from_where_no_other_begins(config: pytest.Config) -> None:
    """In a fresh clone every worker would rewrite every test; so each finds most of them done."""
    if not hasattr(config, "workerinput"):
        return
    names = [
        ".".join(file.with_suffix("").relative_to(config.rootpath).parts)
        for place in map(Path, config.args)
        for file in sorted(place.absolute().rglob("test_*.py"))
        if file.is_relative_to(config.rootpath)
    ]
    number, count = config.workerinput["workerid"][2:], config.workerinput["workercount"]
    begin = len(names) * int(number) // count
    for name in names[begin:] + names[:begin]:
        # What cannot be imported is told when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collecting makes a million objects that stay: looking for garbage in them finds none.

    It was a third of what collecting took, and every later search went through them again.
    """
    gc.disable()
    try:
        _import_from_where_no_other_begins(session.config)
        return (yield)
    finally:
        gc.freeze()
        # Tests leave little in circles: looking for it every 700 objects took a thirtieth of all.
        gc.set_threshold(10_000)
        gc.enable()


# What is frozen would count as leaked when the process ends.
atexit.register(gc.unfreeze)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests get more time than others, where they do not say how much themselves."""
    for item in items:
        if item.get_closest_marker("soak") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(autouse=True)
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private runtime directory with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="mk", dir=SHORT))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    # A process that waits for commands would be started with every service of every test.
    monkeypatch.setenv("MERKLE_SERVICE_READY", "no")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def user_folder(runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own settings, empty: nothing of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(runtime_dir / "config"))
    return runtime_dir / "config" / "merkle"


@pytest.fixture
def trusted(user_folder: Path) -> None:
    """A user who trusts every workspace, for tests of what a trusted merkle.toml does."""
    user_folder.mkdir(parents=True)
    (user_folder / "trusted").write_text("/*\n")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty folder to be a workspace."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of the fault campaign, where any of it ran; parts of one fault are one row."""
    ended = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
    ]
    found = [value for one in ended for name, value in one.user_properties if name == "campaign"]
    if found:
        terminalreporter.section("fault campaign")
        terminalreporter.write_line(table(found))


# Of the whole run: a worker that takes cases over comes back to a module more than once.
@pytest.fixture(scope="session")
def held() -> Iterator[Held]:
    """Workspaces that tests share which only read them."""
    # Imported late: the process that only hands out tests needs no engine.
    from tests.support.space import held_spaces

    with held_spaces() as spaces:
        yield spaces
