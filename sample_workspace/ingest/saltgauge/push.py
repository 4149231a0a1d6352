"""Send checked readings to the gateway."""

import json
from collections.abc import Iterable, Sequence
from urllib.request import Request, urlopen

from saltgauge.readings import Reading

TIMEOUT_S = 10


def as_json(readings: Iterable[Reading]) -> bytes:
    """Return readings in the form that the gateway accepts."""
    rows = [
        {
            "station": reading.station,
            "at": reading.at.isoformat(),
            "quantity": reading.quantity.value,
            "value": reading.value,
            "quality": reading.quality.value,
        }
        for reading in readings
    ]
    return json.dumps(rows, separators=(",", ":")).encode("ascii")


def push(gateway: str, readings: Sequence[Reading]) -> None:
    """Post readings to a gateway such as `http://localhost:8090`; raise OSError on failure."""
    request = Request(
        f"{gateway.rstrip('/')}/v1/readings",
        data=as_json(readings),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urlopen(request, timeout=TIMEOUT_S):
        pass
