"""Which replicas stand still although the server takes them for alive. Pure.

The kernel of a process that is paused or hangs goes on acknowledging, so its session keeps its locks. But a
replica that works asks the server all the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

PULSE_SECONDS = 1.0  # between looks at the pulses of others
SILENT_SECONDS = 12.0  # without a statement; longer than a leader goes on leading without a look
_MAX_COUNTED_SECONDS = 2.0  # between two looks: while the server itself stood still nobody could ask


@dataclass(frozen=True, slots=True)
class _Silence:
    moment: datetime | None
    seconds: float


class PulseWatch:
    """Watches the moments at which other sessions last ended a statement."""

    def __init__(self) -> None:
        self._silences: dict[int, _Silence] = {}
        self._looked_at = 0.0

    def list_silent(self, pulses: Mapping[int, datetime | None], now: float) -> list[int]:
        """The sessions that have been silent for too long; `now` is monotonic, in seconds."""
        passed = min(now - self._looked_at, _MAX_COUNTED_SECONDS)
        self._looked_at = now
        self._silences = {
            session: self._measure(session, moment, passed) for session, moment in pulses.items()
        }
        return [session for session, silence in self._silences.items() if silence.seconds >= SILENT_SECONDS]

    def _measure(self, session: int, moment: datetime | None, passed: float) -> _Silence:
        before = self._silences.get(session)
        if before is None or moment is None or moment != before.moment:
            return _Silence(moment, 0.0)
        return _Silence(moment, before.seconds + passed)
