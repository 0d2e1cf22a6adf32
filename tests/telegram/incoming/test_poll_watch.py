"""A clock that differs from Telegram's is told to admins; messages that waited there say nothing of it."""

import pytest

from bot.telegram.incoming.envelope import list_message_ages
from bot.telegram.incoming.poll_watch import FRESH_AFTER_SECONDS, PollWatch
from bot.translations.translator import ENGLISH, Translatable

HOUR = 3600.0


class RecordedAlarm:
    """Keeps what admins read."""

    def __init__(self) -> None:
        self.alerts: list[str] = []

    async def alert_admins(self, text: Translatable) -> None:
        self.alerts.append(text(ENGLISH))


async def list_alerts(waited_seconds: float, ages: list[list[float]]) -> list[str]:
    """What admins read after polls with messages of these ages."""
    alarm = RecordedAlarm()
    watch = PollWatch(alarm)
    for ages_of_poll in ages:
        await watch.note_messages(waited_seconds, ages_of_poll)
    return alarm.alerts


@pytest.mark.parametrize(("age", "word"), [(HOUR, "ahead"), (31.0, "ahead"), (-31.0, "behind")])
async def test_a_wrong_clock_is_told_once(age: float, word: str):
    [alert] = await list_alerts(FRESH_AFTER_SECONDS, [[age]] * 10)
    assert f"{word} " in alert


@pytest.mark.parametrize(
    ("waited_seconds", "ages"),
    [
        pytest.param(FRESH_AFTER_SECONDS, [[HOUR], [HOUR]], id="too few"),
        pytest.param(FRESH_AFTER_SECONDS, [[HOUR], [1.0], [HOUR], [HOUR]], id="one was fresh"),
        pytest.param(FRESH_AFTER_SECONDS, [[HOUR, 0.5]] * 5, id="others in the batch are fresh"),
        pytest.param(0.1, [[HOUR]] * 5, id="they waited at Telegram"),
        pytest.param(FRESH_AFTER_SECONDS, [[]] * 5, id="no messages"),
        pytest.param(FRESH_AFTER_SECONDS, [[29.0], [-29.0], [29.0]], id="a little"),
    ],
)
async def test_what_says_nothing_of_the_clock_is_not_told(waited_seconds: float, ages: list[list[float]]):
    assert await list_alerts(waited_seconds, ages) == []


def test_only_messages_have_an_age():
    updates = [
        {"message": {"date": 90}},
        {"edited_message": {"date": 10}},
        {"callback_query": {}},
        "no update",
    ]
    assert list_message_ages(updates, 100.0) == [10.0]
