"""Predict the astronomical tide as a sum of harmonic constituents."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)

# Degrees per hour; these follow from the motion of sun and moon and are the same everywhere.
SPEEDS: Mapping[str, float] = MappingProxyType(
    {"M2": 28.9841042, "S2": 30.0, "N2": 28.4397295, "K1": 15.0410686, "O1": 13.9430356}
)


@dataclass(frozen=True, slots=True)
class Constituent:
    """One cosine of the tide at a station: its name, height in metres and lag in degrees."""

    name: str
    amplitude: float
    phase: float

    def height(self, hours: float) -> float:
        """Return what this constituent adds to the mean level after so many hours."""
        return self.amplitude * math.cos(math.radians(SPEEDS[self.name] * hours - self.phase))


@dataclass(frozen=True, slots=True)
class TideModel:
    """All constituents of one station and its mean level above chart datum."""

    mean_level: float
    constituents: tuple[Constituent, ...]

    def predict(self, at: datetime) -> float:
        """Return the predicted level in metres above chart datum."""
        hours = (at - EPOCH).total_seconds() / 3600
        return self.mean_level + sum(part.height(hours) for part in self.constituents)

    def highest_possible(self) -> float:
        """Return the level that is reached when every constituent peaks at once."""
        return self.mean_level + sum(part.amplitude for part in self.constituents)


MODELS: Mapping[str, TideModel] = MappingProxyType(
    {
        "HRB1": TideModel(
            4.95,
            (
                Constituent("M2", 3.05, 318.0),
                Constituent("S2", 0.98, 2.0),
                Constituent("N2", 0.59, 294.0),
                Constituent("K1", 0.12, 188.0),
                Constituent("O1", 0.11, 41.0),
            ),
        ),
        "OUT2": TideModel(
            5.05,
            (Constituent("M2", 2.98, 315.5), Constituent("S2", 0.95, 359.0)),
        ),
        "EST3": TideModel(
            3.4,
            (Constituent("M2", 2.41, 331.0), Constituent("S2", 0.72, 17.0)),
        ),
    }
)
