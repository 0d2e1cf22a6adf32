"""Whatever fails, and however often: each answer is seen once, in order, or reported as unknown."""

import asyncio
import random

import pytest

from bot.db.engine import Database
from bot.http_server import serve
from bot.sim.telegram.server import FloodLimits
from bot.telegram.delivery import lane_calls
from tests.support.delivery_harness import GENEROUS_LIMITS, DeliveryHarness
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

TURNS = 6
FAULTS = (
    BotApiFault.drop(),
    BotApiFault.accept_then_drop(),
    BotApiFault.server_error(),
    BotApiFault.server_error(takes_effect=True),
    BotApiFault.server_error(500, html=False),
    BotApiFault.slow(0.05),
    BotApiFault.slow(0.05, after_effect=True),
)
METHODS = ("sendMessage", "editMessageText", "deleteMessage", "sendMessageDraft")


async def run_turns(harness: DeliveryHarness, dice: random.Random) -> None:
    """Some turns, each shown in its own way and time, with a restart in between now and then."""
    item = 1
    while item <= TURNS:
        async with harness.run_sender(kill=dice.random() < 0.3) as sender:
            for _ in range(dice.randint(1, 3)):
                if item <= TURNS:
                    await run_turn(harness, sender, item, dice)
                    item += 1
            await asyncio.sleep(dice.random() * 0.05)


async def run_turn(harness: DeliveryHarness, sender, item: int, dice: random.Random) -> None:
    channel = harness.open_channel(sender, item)
    channel.begin()
    text = ""
    for block in range(dice.randint(0, 4)):
        if dice.random() < 0.3:
            channel.show_status(dice.choice(["Please wait.", None]))
            await asyncio.sleep(dice.random() * 0.03)
        text += f"Block {block} of answer {item}. {'And so on. ' * dice.choice([1, 1, 300])}\n\n"
        channel.show(text)
        await asyncio.sleep(dice.random() * 0.03)
    await harness.finish_turn(channel, text + f"End of answer {item}.", item)


@pytest.mark.parametrize("seed", range(6))
async def test_in_a_storm_of_failures(
    seed: int, database: Database, patience: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lane_calls, "_FIRST_BACKOFF_SECONDS", 0.01)
    dice = random.Random(seed)
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    api.person(7).send("hello")
    async with serve(api.app) as url:
        harness = DeliveryHarness(api, url, database, GENEROUS_LIMITS)
        injections = [
            api.inject_fault(dice.choice(FAULTS), dice.choice(METHODS), skip=dice.randint(0, 6))
            for _ in range(12)
        ]
        await run_turns(harness, dice)
        for injection in injections:
            injection.lift()
        async with harness.run_sender() as sender:
            await sender.wait_until_idle()
    await check_outcome(harness)


async def check_outcome(harness: DeliveryHarness) -> None:
    seen = "\n".join(harness.list_texts())
    rows = await harness.load_rows()
    answers = [row for row in rows if row.item and row.body is not None]
    assert {row.state for row in rows} <= {"done", "unknown"}
    for row in answers:
        notices = [notice for notice in rows if notice.about == row.id]
        assert len(notices) == (row.state == "unknown")
    endings = [
        max((row for row in answers if row.item == item), key=lambda row: row.part)
        for item in range(1, TURNS + 1)
    ]
    for row in endings:
        copies = seen.count(f"End of answer {row.item}.")
        assert copies == 1 if row.state == "done" else copies <= 1
    places = [seen.index(f"End of answer {row.item}.") for row in endings if row.state == "done"]
    assert places == sorted(places)
    message_ids = {row.message_id for row in answers if row.state == "done"}
    assert not any(
        message.buttons for message in harness.api.chat(7).bot_messages if message.message_id in message_ids
    )
