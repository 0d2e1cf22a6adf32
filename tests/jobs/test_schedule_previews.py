"""What the question before a call of `schedule` says, and which calls a person's own words ask for."""

from datetime import datetime

import pytest

from bot.db.engine import Database
from bot.domain import Lane
from bot.jobs.schedule_tool import ChatSchedules
from bot.jobs.times import rrules
from bot.jobs.user_jobs import JobLimits, JobOwner, UserJobs
from bot.translations.translator import load_translator
from tools.base import ToolError

ANN = 7
ZONE = "Europe/Berlin"
SAID_AT = rrules.to_timestamp(datetime(2026, 11, 23, 14, 0), rrules.load_zone(ZONE))


def open_schedules(database: Database, own_words: str = "") -> ChatSchedules:
    limits = JobLimits(default_zone=ZONE)
    user_jobs = UserJobs(database, limits, clock=lambda: SAID_AT + 600)
    owner = JobOwner(ANN, "Ann", Lane(ANN))
    return ChatSchedules(user_jobs, owner, load_translator("de"), said_at=SAID_AT, own_words=own_words)


async def test_a_question_is_in_words_and_its_time_counts_from_the_message(database: Database):
    schedules = open_schedules(database)
    preview = await schedules.preview({"when": "in 20 minutes", "text": "Kuchen"})
    assert preview.question == "Shall I remind you?"
    assert preview.details == "Kuchen\nMo., 23. Nov. 2026, 14:20 (Europe/Berlin)"
    added = await schedules.add("in 20 minutes", "Kuchen", task=False)
    assert "Mon 23 Nov 2026, 14:20" in added
    task = await schedules.preview({"when": "every day at 8", "text": "news", "task": True})
    assert (task.question, task.details.split("\n")[0]) == ("Shall I do this at that time?", "news")
    unclear = await schedules.preview({"when": "once in a blue moon", "text": "tea"})
    assert unclear.details == "tea\nonce in a blue moon"
    assert (await schedules.preview({"remove": 1})).details == "Kuchen"
    assert (await schedules.preview({"remove": 99})).details == "#99"
    assert (await schedules.preview({})).is_own_wish, "listing changes nothing"


@pytest.mark.parametrize(
    ("own_words", "when", "text", "is_own"),
    [
        ("Remind me in one minute to stretch", "in 1 minute", "stretch", True),
        ("remind me tomorrow at 9 to call Anna", "tomorrow at 9:00", "Call Anna", True),
        ("Erinnere mich morgen um neun an den Zahnarzt", "tomorrow at 9", "Zahnarzt", True),
        ("remind me tomorrow at 9 to call Anna", "tomorrow at 10", "call Anna", False),
        ("remind me tomorrow at 9 to call Anna", "every day at 9", "call Anna", False),
        ("remind me tomorrow at 9 to call Anna", "tomorrow at 9", "call Ann", False),
        ("remind me tomorrow at 9 to call Anna", "tomorrow at 9", "call 555-0100", False),
        ("remind me of it", "tomorrow at 9", "it", False),
        ("", "tomorrow at 9", "call Anna", False),
    ],
)
async def test_what_a_person_asks_for_themselves_in_one_piece_needs_no_question(
    database: Database, own_words: str, when: str, text: str, is_own: bool
):
    schedules = open_schedules(database, own_words)
    assert (await schedules.preview({"when": when, "text": text})).is_own_wish == is_own
    task = await schedules.preview({"when": when, "text": text, "task": True})
    assert not task.is_own_wish, "a task may do more than its words say"


async def test_a_call_for_a_line_that_only_the_model_reads_asks_unless_it_lost_a_number_and_is_refused(
    database: Database,
):
    schedules = open_schedules(database, "/remind chiamare Anna domani alle 17:30 al 555 0100")
    kept = {"when": "tomorrow at 17:30", "text": "chiamare Anna al 555 0100"}
    assert not (await schedules.preview(kept)).is_own_wish
    assert "Tue 24 Nov 2026, 17:30" in await schedules.add(kept["when"], kept["text"], task=False)
    lost = {"when": "tomorrow at 5:30 pm", "text": "chiamare Anna"}
    assert (await schedules.preview(lost)).is_own_wish
    assert (await schedules.preview(lost | {"when": "once in a blue moon"})).is_own_wish
    with pytest.raises(ToolError, match="wrote 17 and 100 and 555"):
        await schedules.add(lost["when"], lost["text"], task=False)
