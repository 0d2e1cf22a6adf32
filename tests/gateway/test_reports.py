"""The ledger is read while the gateway works on it: in the chat by /usage, beside it by report and turn."""

import json
from pathlib import Path
from typing import Any

from bot.usage.report_command import Wish, report, step_by_step
from tests.support.gateway import ADMIN, World, open_house


async def told(house: World, **words: Any) -> Any:
    answer = await report(house.settings.database_url, Wish(form="json", **words), now=0.0)
    return json.loads(answer)


async def test_a_report_beside_the_gateway_tells_what_the_chat_tells(tmp_path: Path):
    async with open_house(tmp_path) as house:
        house.ann.send("@@think:hm@@@@say:one@@")
        await house.answered()
        house.ann.send("/usage")
        usage = (await house.answered(2))[-1].splitlines()
        found = await told(house, user=ADMIN)
        assert (found["all"]["turns"], found["all"]["calls"]) == (1, 1)
        assert usage[0].startswith(f"Last: {found['all']['canvases_estimated']} canvas est., ")
        assert usage[2].startswith("Today: 1 canvas est., ")
        assert usage[3].startswith("30 d: 1 canvas est., ")
        turn = await step_by_step(house.settings.database_url, "1", texts=False, json=False, now=0.0)
        assert turn.startswith(f"Turn 1 in chat {ADMIN}, of user {ADMIN}: answered")
        assert "call 1: ok, finish reason stop" in turn
        assert "say:one" not in turn


async def test_the_details_and_the_ledger_agree_on_where_the_seconds_went(tmp_path: Path):
    async with open_house(tmp_path) as house:
        house.ann.send("@@say:one@@")
        await house.answered()
    found = await told(house)
    assert found["all"]["turns_without_account"] == 0
    kinds = [name for name in found["all"] if name.endswith("_seconds") and name.count("_p") == 0]
    intervals = [found["all"][name] for name in kinds if name not in SUMS]
    assert abs(sum(intervals) - found["all"]["whole_seconds"]) < 0.001


SUMS = {"whole_seconds", "thinking_turns_seconds", "seat_seconds", "seat_wait_seconds", "tool_seconds"}


async def test_the_chart_arrives_as_a_photo(tmp_path: Path):
    async with open_house(tmp_path) as house:
        house.ann.send("@@say:one@@")
        await house.answered()
        house.ann.send("/usage chart")
        await house.api.until(lambda: any("photo" in one.raw for one in house.api.chat(ADMIN).from_bot), 50.0)
        photo = next(one for one in house.api.chat(ADMIN).from_bot if "photo" in one.raw)
        assert photo.raw["caption"] == "You, the last 30 days (UTC)"
        body = house.api._world.files[photo.raw["photo"][0]["file_id"]]
        assert body.startswith(b"\x89PNG")
