"""Pages of a gateway whose model server writes no canvases: they count tokens, and name no canvas."""

import re
import time

from bot.db.engine import Database
from bot.db.people import limits
from bot.db.usage import counter_readings
from bot.db.usage.counter_readings import CounterReading
from tests.support.admin_page import ANN, build_running_gateway, open_admin_page
from tests.support.random_month import fill_month

COUNTERS = {"prompt_tokens": 9, "generated_tokens": 9, "requests": 1, "steps": None, "committed": None}

# But for names that programs know: a setting, and the field of a change as it is stored.
NAMED = re.compile(r".*canvas(?!gram|_bot|es_a_day|es a day).*", re.IGNORECASE)


def extract_shown(html: str) -> str:
    """What a person can read of a page: texts and titles."""
    titles = re.findall(r'(?:title|placeholder|aria-label)="([^"]*)"', html)
    return "\n".join(
        [re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", html, flags=re.DOTALL), *titles]
    )


async def test_pages_count_tokens(database: Database, database_url: str):
    month = await fill_month(database, 5)
    async with database.transaction() as tx:
        reading = CounterReading(
            "http://gpu:8000/v1", time.time(), None, {"http://gpu:8000/v1": COUNTERS}, 0, "first"
        )
        await counter_readings.store(tx, reading)
    gateway = build_running_gateway(database)
    async with open_admin_page(database, database_url, gateway=gateway) as page:
        answer = await page.post("/admin/people/limit", {"holder": str(ANN), "value": "51200"})
        assert answer.status_code == 303
        async with database.read_transaction() as tx:
            own, _ = await limits.find_rules(tx, ANN)
        assert own is not None
        assert own.canvases == 200
        paths = (
            *("now", "usage?period=30d", "usage/table?period=30d", "turns?period=30d", "people?period=30d"),
            *("now/live", "seats", "tools", "audit?period=30d", "audit/readings?period=30d"),
            *("audit/changes?period=30d", "audit/settings"),
            f"turn/{month.turns[0]['id']}",
        )
        for path in paths:
            shown = extract_shown(await page.get_text(f"/admin/{path}"))
            found = re.findall(NAMED, shown)
            assert not found, (path, found)
        people = extract_shown(await page.get_text("/admin/people?period=30d"))
        assert "51,200" in people
        assert "Tokens a day" in people
        assert "Tokens written by day" in extract_shown(await page.get_text("/admin/usage?period=30d"))
