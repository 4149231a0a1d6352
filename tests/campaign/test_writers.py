"""Eight writers at once, by commands and through services that come and go."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexer.errors import ExitCode
from tests.support.campaign import Tally, sized
from tests.support.engines import Engine
from tests.support.everything import fill
from tests.support.lives import EDITED, LIVE, Said, check, named
from tests.support.processes import REPOSITORY, Forked
from tests.support.service import Service

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

WRITERS = (
    "put-frame", "put-frame", "put-frame", "session append", "session append", "scan", "regenerate",
    "compact",
)  # fmt: skip
SECONDS = sized(15, 300)


@pytest.fixture
def root() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="mkeight"))
    made = base / "w"
    made.mkdir()
    fill(made)
    for path in EDITED:
        (made / path).write_text(named(0))
    # More roots are written than are usually kept, and here every one is looked for.
    (made / "merkle.toml").write_text("[history]\nkeep_count = 1000000\n")
    with Engine.create(made) as engine:
        engine.scan()
        engine.add_agent("ann", "writer")
        engine.session_new("talk")
    yield made
    shutil.rmtree(base, ignore_errors=True)


def test_eight_writers(
    root: Path, tally: Callable[[str], Tally], runtime_dir: Path, tmp_path: Path
) -> None:
    row, said, chance = tally("eight writers, services restarted"), Said(), random.Random(8)
    started = []
    for number, writer in enumerate(WRITERS):
        # Into files: nobody reads a pipe for as long as they run.
        out, err = (tmp_path / f"{number}.{name}" for name in ("out", "err"))
        with out.open("w") as out_file, err.open("w") as err_file:
            process = Forked(
                [sys.executable, "-c", LIVE, str(root), writer, f"w{number}"], cwd=REPOSITORY,
                stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file,
            )  # fmt: skip
        started.append((writer, process, out, err))
    try:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            service = Service(root, runtime_dir, {})
            time.sleep(chance.uniform(1, SECONDS / 8))
            row.runs += 1
            rudely = chance.random() < 0.5
            if service.is_running():
                service.signal(signal.SIGKILL if rudely else signal.SIGTERM)
                service.wait()
                row.told["killed" if rudely else "stopped"] += 1
            elif service.wait() == ExitCode.LOCKED:
                # Eight commands were always there before it.
                row.told["not let in"] += 1
            else:
                row.fail("ended", f"the service, by itself: {service.output()[-1500:]}")
            if "Traceback" in service.output():
                row.fail("tracebacks", service.output()[-1500:])
            time.sleep(chance.uniform(0, 1))
        for writer, process, _, err in started:
            if process.poll() is not None:
                row.fail("ended", f"{writer}: {err.read_text()[-1500:]}")
    finally:
        for _, process, _, _ in started:
            process.kill()
            process.wait()
    for writer, _, out, err in started:
        lines = out.read_text().split("\n")[:-1]
        row.count("acknowledged", said.take(lines))
        row.told["told to wait"] += sum(line.startswith("locked") for line in lines)
        if "Traceback" in err.read_text():
            row.fail("tracebacks", f"{writer}: {err.read_text()[-1500:]}")
    check(root, said, row, "after eight writers")
