"""People are warned once near their daily quota, then every message is refused; /retry answers it later."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from bot.db.engine import open_database
from bot.db.tables import model_calls, turns
from tests.support import attachment_files
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import GatewayHarness, long_story, open_harness, running_gateway
from tests.support.group_chat import GROUP, open_group

BOB = 8


CALL = '@@tool:calculate {"expression": "6*7"}@@'  # a step, and so a canvas, more


def find_midday_zone() -> str:
    """A zone where it is about noon: no day ends there while a test runs."""
    hours_ahead = 12 - datetime.now(UTC).hour
    return f"Etc/GMT{-hours_ahead:+d}"  # its sign is the opposite one


async def send_and_read(gateway: GatewayHarness, text: str, count: int) -> str:
    """Send a text as Bob; return the bot's newest message once there are `count`, all final."""
    gateway.api.person(BOB, "Bob").send(text)
    await gateway.wait_for_texts(count, chat=BOB)
    await gateway.api.wait_until(lambda: gateway.is_finished(BOB))
    return gateway.texts(BOB)[-1]


async def test_a_refused_message_is_answered_by_a_line_and_by_a_retry_when_there_are_new_ones(tmp_path: Path):
    async with running_gateway(
        tmp_path, access="open", time_zone=find_midday_zone(), canvases_a_day="1"
    ) as gateway:
        await send_and_read(gateway, f"{CALL}@@say:It is 42.@@", 2)  # a turn that has begun is ended
        assert gateway.texts(BOB)[0] == "It is 42."
        refused = await send_and_read(gateway, "@@say:Two.@@", 3)
        assert refused.startswith("You've used up today's allowance.")
        assert "at 00:00 (in " in refused
        assert "/retry" in refused
        assert len(gateway.endpoint.requests) == 2
        gateway.ann.send(f"/limits {BOB} 5")
        await gateway.wait_for_texts()
        assert await send_and_read(gateway, "/retry", 4) == "Two."
        assert "Two." in gateway.endpoint.requests[-1].prompt
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        rows = (await tx.execute(select(turns.c.ending, turns.c.state).order_by(turns.c.id))).all()
    assert [tuple(row) for row in rows] == [
        ("answered", "ended"),
        ("limit", "replaced"),
        ("answered", "ended"),
    ]


async def test_what_came_with_a_refused_message_is_fetched_by_the_retry_alone(tmp_path: Path):
    async with running_gateway(
        tmp_path, access="open", time_zone=find_midday_zone(), canvases_a_day="1"
    ) as gateway:
        await send_and_read(gateway, "@@say:One.@@", 2)
        gateway.api.person(BOB).send_photo("@@say:I see.@@", content=attachment_files.make_image(40, 30))
        await gateway.wait_for_texts(3, chat=BOB)
        assert not gateway.api.calls_of("getFile")
        gateway.ann.send("/limits all none")
        await gateway.wait_for_texts()
        assert await send_and_read(gateway, "/retry", 4) == "I see."
        assert "image_url" in str(gateway.endpoint.requests[-1].body["messages"])


async def test_one_notice_at_four_fifths_a_day_also_across_a_restart(tmp_path: Path):
    async with open_harness(
        tmp_path, access="open", time_zone=find_midday_zone(), canvases_a_day="5"
    ) as gateway:
        async with gateway.run():
            await send_and_read(gateway, "@@say:One.@@", 1)
            assert gateway.texts(BOB) == ["One."]
            gateway.api.person(BOB).send(f"{CALL}{CALL}@@say:Two.@@")
            await gateway.wait_for_texts(3, chat=BOB)
            assert gateway.texts(BOB)[-1].startswith("You've used about 80% of today's allowance.")
        async with gateway.run():
            assert await send_and_read(gateway, "@@say:Last.@@", 4) == "Last."
            assert (await send_and_read(gateway, "@@say:Never.@@", 5)).startswith(
                "You've used up today's allowance."
            )
            gateway.ann.send("@@say:Admins have no limit.@@")
            assert await gateway.wait_for_texts() == ["Admins have no limit."]
        assert sum("You've used about" in text for text in gateway.texts(BOB)) == 1


async def test_a_new_day_brings_new_ones(tmp_path: Path):
    async with open_harness(
        tmp_path, access="open", time_zone=find_midday_zone(), canvases_a_day="1"
    ) as gateway:
        async with gateway.run():
            await send_and_read(gateway, "@@say:One.@@", 2)
            await send_and_read(gateway, "@@say:Two.@@", 3)
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            yesterday = {"created_at": model_calls.c.created_at - 86_400}
            await tx.execute(update(model_calls).values(yesterday))
        async with gateway.run():
            assert await send_and_read(gateway, "@@say:Three.@@", 4) == "Three."


async def test_with_plenty_left_nobody_looks_at_each_turn_and_the_limit_holds_all_the_same(tmp_path: Path):
    small: dict[str, Any] = {
        "canvases_a_day": "5",
        "turn_steps": 1,
        "model_max_tokens": 256,
    }  # at most three a turn
    async with running_gateway(tmp_path, access="open", time_zone=find_midday_zone(), **small) as gateway:
        for number in range(1, 4):
            await send_and_read(gateway, f"@@say:{number}@@", number)
        assert (await send_and_read(gateway, "@@say:4@@", 5)).startswith(
            "You've used about 80% of today's allowance."
        )
        await send_and_read(gateway, "@@say:5@@", 6)
        assert (await send_and_read(gateway, "@@say:6@@", 7)).startswith("You've used up today's allowance.")


async def test_a_limit_that_is_lowered_holds_for_the_next_message_and_all_of_it_is_used(tmp_path: Path):
    async with running_gateway(
        tmp_path, access="open", time_zone=find_midday_zone(), canvases_a_day="500"
    ) as gateway:
        for number in range(1, 4):
            await send_and_read(gateway, f"@@say:{number}@@", number)
        gateway.ann.send(f"/limits {BOB} 1")
        await gateway.wait_for_texts()
        assert (await send_and_read(gateway, "@@say:4@@", 4)).startswith("You've used up today's allowance.")
        text = await send_and_read(gateway, "/usage", 5)
        assert "About 100% of today's allowance used" in text


async def test_of_calls_without_a_count_each_counts_as_one_canvas_of_the_allowance(tmp_path: Path):
    """A server that sends no usage may send many blocks a canvas: they refuse nobody."""
    endpoint = ScriptedEndpoint()
    endpoint.inject_fault("no_usage", times=None)
    async with running_gateway(
        tmp_path, endpoint, access="open", time_zone=find_midday_zone(), canvases_a_day="10"
    ) as gateway:
        await send_and_read(gateway, long_story(), 2)
        answers = gateway.texts(BOB)
        for number in range(1, 4):
            await send_and_read(gateway, "@@say:Yes.@@", len(answers) + number)
        bob = gateway.api.person(BOB)
        bob.send("/limits")
        text = (await gateway.wait_for_texts(len(answers) + 4, chat=BOB))[-1]
        percent = 10 * len(gateway.endpoint.requests)
        assert text.startswith(f"You've used about {percent}% of today's allowance.")
        bob.send("/usage")
        text = (await gateway.wait_for_texts(len(answers) + 5, chat=BOB))[-1]
        assert f"About {percent}% of today's allowance used" in text


async def test_a_group_has_an_allowance_for_what_all_of_its_people_take(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", time_zone=find_midday_zone()) as gateway:
        team = open_group(gateway.api, gateway.ann, is_forum=True)
        topic = team.ann.create_topic("Plans", thread=team.group)
        await team.wait_for_texts(1)
        gateway.ann.send("/groups Team limit 1")
        await gateway.wait_for_texts()
        team.ann.send("/ask@canvasgram_sim_bot @@say:One.@@", thread=topic)
        [answer, warning] = await team.wait_for_texts(2, topic)
        assert answer == "One."
        assert warning.startswith("This group has used about 100% of today's allowance.")
        team.ben.send("/ask@canvasgram_sim_bot @@say:Two.@@", thread=team.group)
        assert (await team.wait_for_texts(2))[-1].startswith("This group has used up today's allowance.")
        team.ben.send("@@say:Three.@@")
        await gateway.wait_for_texts(chat=team.ben.id)
        assert gateway.texts(team.ben.id)[0] == "Three."
        gateway.ann.send("/usage all")
        await gateway.api.wait_until(lambda: any("Team (" in text for text in gateway.texts()))
        assert f"Team ({GROUP}:" in gateway.texts()[-1]
