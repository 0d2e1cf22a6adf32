"""A person stays in charge of a running turn: /stop, the button, /new, /retry, and messages that wait."""

from pathlib import Path

from sqlalchemy import select

from bot.db.engine import open_database
from bot.db.tables import inbox, model_calls
from bot.sim.vllm.server import SimulatedEndpoint, Timing
from tests.support.gateway import ADMIN, GatewayHarness, long_story, open_harness, running_gateway

SLOW = Timing(canvas_seconds=0.25)


async def test_stop_cuts_the_request_frees_the_seat_and_keeps_what_was_shown(tmp_path: Path):
    async with running_gateway(tmp_path, SimulatedEndpoint(timing=SLOW, seats=1)) as house:
        house.ann.send(long_story())
        await house.wait_for_first_block()
        house.ann.send("/stop")
        await house.api.wait_until(house.is_finished)
        await house.endpoint.wait_until(lambda: house.endpoint.running == 0)
        assert house.texts()[0].startswith("word0 word1")
        assert house.texts()[0].endswith("Stopped.")
        assert house.endpoint.requests[0].cancelled
    async with open_database(house.settings.database_url) as database, database.read_transaction() as tx:
        row = (await tx.execute(select(model_calls))).one()
        assert (row.outcome, row.usage_partial) == ("cancelled", True)
        assert row.completion_tokens > 0


async def test_stop_before_the_first_canvas_answers_at_once(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        house.endpoint.hold()
        house.ann.send("hello")
        await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
        house.ann.send("/stop")
        assert await house.wait_for_texts() == ["Stopped."]
        house.endpoint.release()


async def test_the_stop_button_stops_its_own_turn_only(tmp_path: Path):
    async with running_gateway(tmp_path, SimulatedEndpoint(timing=SLOW)) as house:
        house.ann.send(long_story())
        await house.wait_for_first_block()
        message = house.api.chat(ADMIN).bot_messages[0]
        house.ann.tap(message, "⏹ Stop")
        await house.api.wait_until(house.is_finished)
        house.endpoint.release()
        house.ann.send("@@say:next@@")
        assert (await house.wait_for_texts(2))[1] == "next"


async def test_waiting_messages_go_on_after_a_stop_or_are_dropped_by_a_button(tmp_path: Path):
    async with running_gateway(tmp_path, SimulatedEndpoint(timing=SLOW)) as house:
        house.ann.send(long_story())
        await house.wait_for_first_block()
        waiting = house.ann.send("@@say:I waited@@")
        await house.api.wait_until(lambda: _has_reactions(house, waiting.message_id))
        house.ann.send("/stop")
        await house.api.wait_until(lambda: house.texts()[0].endswith("Stopped."))
        house.endpoint.release()
        await house.api.wait_until(lambda: "I waited" in house.texts())
        await house.api.wait_until(lambda: any("answered next" in text for text in house.texts()))


def _has_reactions(gateway: GatewayHarness, message_id: int) -> bool:
    message = gateway.api.chat(ADMIN).find_message(message_id)
    return message is not None and bool(message.reactions)


async def test_new_ends_the_running_turn_and_what_follows_knows_nothing_of_it(tmp_path: Path):
    async with running_gateway(tmp_path, SimulatedEndpoint(timing=SLOW)) as house:
        house.ann.send("the word is swordfish " + long_story())
        await house.wait_for_first_block()
        house.ann.send("/new")
        house.ann.send("@@say:fresh@@")
        await house.api.wait_until(lambda: house.texts()[0].endswith("Stopped."))
        house.endpoint.release()
        await house.api.wait_until(lambda: "fresh" in house.texts())
        assert "swordfish" not in house.endpoint.requests[-1].prompt
        assert house.texts()[0].endswith("Stopped.")


async def test_retry_takes_the_place_of_the_last_turn(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        house.ann.send("@@say:one@@")
        await house.wait_for_texts()
        house.ann.send("/retry")
        assert await house.wait_for_texts(2) == ["one", "one"]
        assert house.endpoint.requests[-1].prompt.count("@@say:one@@") == 1


async def test_retry_asks_before_it_repeats_what_may_not_be_repeated(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        house.ann.send('@@tool:remember {"note": "milk"}@@@@say:noted@@')
        await house.wait_for_texts()
        house.ann.send("/retry")
        question = (await house.wait_for_texts(2))[1]
        assert "remember" in question
        house.ann.tap(house.api.chat(ADMIN).bot_messages[1], "Try again anyway")
        await house.api.wait_until(lambda: house.texts().count("noted") == 2)


async def test_notes_join_new_conversations_as_data(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        house.ann.send('@@tool:remember {"note": "the train leaves at 7:40"}@@@@say:noted@@')
        await house.wait_for_texts()
        house.ann.send("/new")
        await house.wait_for_texts(2)
        house.ann.send("@@say:hi@@")
        await house.wait_for_texts(3)
        assert "7:40" in house.endpoint.requests[-1].prompt


async def test_the_backlog_is_answered_as_one_silent_turn_that_says_so(tmp_path: Path):
    async with open_harness(tmp_path) as house:
        then = house.api.clock.now() - 3 * 3600
        for word in ("one", "@@say:all of it@@"):
            house.ann.send(word, date=then)
        async with house.run():
            texts = await house.wait_for_texts()
    assert texts[0].startswith("(You wrote this 3 hours ago")
    assert texts[0].endswith("all of it")
    assert house.api.chat(ADMIN).bot_messages[0].silent
    assert len(house.endpoint.requests) == 1


async def test_a_stop_in_the_backlog_concerns_only_what_came_before_it(tmp_path: Path):
    async with open_harness(tmp_path) as house:
        house.ann.send("@@say:unwanted@@")
        house.ann.send("/stop")
        house.ann.send("@@say:wanted@@")
        async with house.run():
            await house.api.wait_until(lambda: "wanted" in house.texts())
    assert "unwanted" not in house.texts()


async def test_a_slow_chat_delays_no_other(tmp_path: Path):
    async with running_gateway(tmp_path, access="open") as house:
        bob = house.api.person(8, "Bob")
        house.endpoint.hold()
        house.ann.send(long_story())
        await house.endpoint.wait_until(lambda: house.endpoint.running == 1)
        bob.send("/id")
        assert "8" in (await house.wait_for_texts(1, chat=8))[0]
        house.endpoint.release()


async def test_seats_bound_the_calls_in_flight(tmp_path: Path):
    async with running_gateway(
        tmp_path, SimulatedEndpoint(timing=Timing(canvas_seconds=0.05)), access="open", model_seats=2
    ) as house:
        for number in range(8):
            house.api.person(100 + number).send("@@say:hi@@")
        for number in range(8):
            await house.wait_for_texts(1, chat=100 + number)
        assert house.endpoint.peak_running == 2


async def test_a_crash_loop_ends_with_the_item_set_aside(tmp_path: Path):
    async with open_harness(tmp_path) as house:
        async with house.run():
            house.ann.send("@@say:first@@")
            await house.wait_for_texts()
        async with open_database(house.settings.database_url) as database, database.transaction() as tx:
            row = {"kind": "update", "shape": "text", "lane": "7", "sender": 7, "body": "{}", "attempt": 10}
            await tx.execute(inbox.insert().values(**row, received_at=0.0))
        async with house.run():
            texts = await house.wait_for_texts(3)
    assert any("could not handle" in text for text in texts)
    assert any("set aside" in text for text in texts)
