"""Who stands still is told by its own pulse, not by its socket, and not while the server stood still."""

from datetime import UTC, datetime

from bot.replicas.pulses import SILENT_SECONDS, PulseWatch

MOMENT = datetime(2026, 11, 23, tzinfo=UTC)
LATER = datetime(2026, 11, 24, tzinfo=UTC)


def test_a_session_is_silent_once_it_has_ended_no_statement_for_long_enough() -> None:
    watch = PulseWatch()
    looks = [watch.list_silent({7: MOMENT, 8: None}, now=100.0 + second) for second in range(14)]
    assert [second for second, silent in enumerate(looks) if silent == [7]] == [12, 13]
    assert watch.list_silent({7: LATER}, now=114.0) == []
    assert watch.list_silent({}, now=115.0) == []


def test_time_in_which_nobody_could_ask_does_not_count() -> None:
    watch = PulseWatch()
    assert watch.list_silent({7: MOMENT}, now=0.0) == []
    assert watch.list_silent({7: MOMENT}, now=10 * SILENT_SECONDS) == []
