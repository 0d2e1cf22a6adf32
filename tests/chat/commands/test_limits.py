"""/limits shows people their quota and lets admins set those of others; any input gets one clear line."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.chat.commands.limits import HOW_TO
from bot.chat.quota import QuotaUsage
from bot.db.engine import Database
from bot.db.people import limits
from bot.db.people.limits import QuotaRule
from bot.translations.translator import ENGLISH
from tests.support.update_harness import ADMIN, ANNA, UpdateHarness


@pytest.fixture
async def harness(database: Database) -> UpdateHarness:
    harness = UpdateHarness(database)
    await harness.let_in(ANNA)
    await harness.let_in(ADMIN, "admin")
    return harness


async def send_command(harness: UpdateHarness, text: str, person: int = ADMIN) -> str:
    (sent,) = await harness.send_text(text, person=person)
    return sent.text


async def load_rules(harness: UpdateHarness) -> list[QuotaRule]:
    async with harness.database.read_transaction() as tx:
        return await limits.list_rules(tx)


async def test_a_member_without_a_limit_and_with_one(harness: UpdateHarness):
    assert await send_command(harness, "/limits", ANNA) == "You don't have a daily limit."
    await send_command(harness, f"/limits {ANNA} 1")
    assert (await send_command(harness, "/limits", ANNA)).startswith(
        "You've used about 0% of today's allowance. It renews at "
    )


async def test_only_admins_set_limits(harness: UpdateHarness):
    assert await send_command(harness, "/limits all 100", ANNA) == "Admins set limits. /limits shows yours."
    assert await load_rules(harness) == []


async def test_a_limit_is_set_for_one_or_all_lifted_and_taken_back(harness: UpdateHarness):
    assert await send_command(harness, "/limits all 100") == "Every member: 100 canvases a day."
    assert await send_command(harness, f"/limits {ANNA} none") == f"Anna · {ANNA}: no limit."
    assert await send_command(harness, f"/limits {ANNA} 300") == f"Anna · {ANNA}: 300 canvases a day."
    assert await load_rules(harness) == [QuotaRule(0, 100), QuotaRule(ANNA, 300)]
    assert await send_command(harness, "/limits anna 300") == f"Anna · {ANNA}: 300 canvases a day."
    assert await send_command(harness, f"/limits {ANNA} default") == f"Anna · {ANNA}: 100 canvases a day."
    assert await send_command(harness, "/limits all default") == "Every member: no limit."
    assert await load_rules(harness) == []


async def test_an_admin_sees_what_is_set_and_has_no_limit_but_one_of_their_own(harness: UpdateHarness):
    await send_command(harness, "/limits all 100")
    await send_command(harness, "/limits 99 5")
    lines = (await send_command(harness, "/limits")).splitlines()
    assert lines[0] == "You've used 0 canvases today (estimated); you don't have a limit."
    assert lines[2:4] == ["Every member: 100 canvases a day", "Person · 99: 5 canvases a day"]
    await send_command(harness, f"/limits {ADMIN} 7")
    assert (await send_command(harness, "/limits")).startswith(
        "You've used 0 of today's 7 canvases (estimated)."
    )
    assert await send_command(harness, f"/limits {ADMIN} default") == f"Ada · {ADMIN}: no limit."


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(args=st.text(min_size=1, max_size=40).filter(lambda text: text.strip() and "\x00" not in text))
async def test_whatever_else_an_admin_types_is_answered_with_how_to(harness: UpdateHarness, args: str):
    args = args.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    answer = await send_command(harness, f"/limits x{args}")
    assert answer == HOW_TO.replace("`", "") or answer.startswith("Nobody with access is called x")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (59.0, "in 1 min"),
        (3600.0, "in 1 hr"),
        (3660.0, "in 1 hr 1 min"),
        (86_399.0, "in 24 hrs"),
        (0.0, "in 1 min"),
    ],
)
def test_the_time_until_there_are_new_canvases_is_shown_in_words(seconds: float, text: str):
    resets_at = datetime(2026, 11, 23, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    assert QuotaUsage(0, 1, resets_at, seconds).format_reset(ENGLISH) == f"It renews at 01:00 ({text})."
