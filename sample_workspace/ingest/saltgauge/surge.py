"""Compare what was measured with what was predicted."""

from dataclasses import dataclass
from enum import IntEnum

from saltgauge.harmonics import TideModel
from saltgauge.readings import Quantity, Reading

STANDARD_PRESSURE_HPA = 1013.25
METRES_PER_HPA = 0.00995


class Alarm(IntEnum):
    """How loudly to speak; higher is worse."""

    NONE = 0
    WATCH = 1
    WARNING = 2
    SEVERE = 3


THRESHOLDS_M = ((1.0, Alarm.SEVERE), (0.6, Alarm.WARNING), (0.3, Alarm.WATCH))


@dataclass(frozen=True, slots=True)
class Surge:
    """The part of a level that the moon and the sun do not explain."""

    measured: float
    predicted: float

    @property
    def residual(self) -> float:
        """Return measured minus predicted, in metres."""
        return self.measured - self.predicted

    @property
    def alarm(self) -> Alarm:
        """Return the alarm that belongs to the residual."""
        return next((alarm for limit, alarm in THRESHOLDS_M if self.residual >= limit), Alarm.NONE)


def surge_of(level: Reading, model: TideModel) -> Surge:
    """Return the surge at the moment of a level reading."""
    if level.quantity is not Quantity.LEVEL:
        raise ValueError(f"{level.station}: a surge needs a level, not {level.quantity.name}")
    return Surge(level.value, model.predict(level.at))


def inverse_barometer(pressure_hpa: float) -> float:
    """Return how much the sea rises because the air above it weighs less, in metres."""
    return (STANDARD_PRESSURE_HPA - pressure_hpa) * METRES_PER_HPA
