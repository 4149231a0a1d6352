"""The nouns of the service: what a station measured, when, and how far it is to be trusted."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum


class Quantity(StrEnum):
    """What a sensor measures; the value is the code used on the wire."""

    LEVEL = "LV"
    PRESSURE = "PR"
    WIND = "WD"


class Quality(StrEnum):
    """How far a reading is to be trusted."""

    GOOD = "good"
    SPIKE = "spike"
    AFTER_GAP = "after-gap"


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured value; levels in metres, pressure in hPa, wind in m/s."""

    station: str
    at: datetime
    quantity: Quantity
    value: float
    quality: Quality = Quality.GOOD

    def marked(self, quality: Quality) -> "Reading":
        """Return the same reading with another quality."""
        return replace(self, quality=quality)

    @property
    def usable(self) -> bool:
        """Tell whether predictions may be compared with this reading."""
        return self.quality is not Quality.SPIKE
