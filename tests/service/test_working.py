"""How far a service has come with what it was asked for, told to whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from indexer.core.progress import Meter
from indexer.service.workspace import Workspace

HELD = """
import os, time
from indexer.engine.durable import packs
write = packs.write_pack

def held(file, records):
    def waiting():
        for number, record in enumerate(records):
            yield record
            while number == 3 and not os.path.exists(str(file) + ".go"):
                time.sleep(0.01)
    return write(file, waiting())

packs.write_pack = held
"""


def test_a_client_is_told_how_far_its_export_is(
    sample: Path, services: Callable[..., Any], until: Callable[..., Any], tmp_path: Path
) -> None:
    with Workspace.open(sample) as workspace:
        workspace.scan()
        workspace.regenerate()
    client = services(sample, inject=HELD).client
    pack, meter = tmp_path / "sample.pack", Meter()

    def export() -> None:
        with Workspace.open(sample) as workspace:
            assert workspace.is_remote
            workspace.export(pack, progress=meter)

    asking = threading.Thread(target=export)
    asking.start()
    try:
        until(lambda: meter.read().done == 2, "the client knows how far it is")
        told = meter.read()
        assert (told.doing, told.what) == ("writing computed results", "records")
        assert told.total == 1 + 30 + 1 + 10
        (entry,) = client.get("/v1/working")["working"]
        assert entry["operation"] == "export"
        assert entry["mark"]

        # Whoever waits behind it sees what it waits for.
        behind = Meter()
        locking = threading.Thread(
            target=lambda: Workspace.open(sample).lock(progress=behind), daemon=True
        )
        locking.start()
        until(lambda: behind.read().doing == "writing computed results", "it is told as well")
    finally:
        Path(f"{pack}.go").touch()
        asking.join()
    locking.join()
    assert pack.exists()
    assert (sample / "merkle.lock").exists()
    assert client.get("/v1/working") == {"working": []}
