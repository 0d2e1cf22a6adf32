"""A user stays in control of a running turn: /stop, the button, /new, /retry, and messages that wait."""

from pathlib import Path

from sqlalchemy import select

from bot.db.engine import open_database
from bot.db.queues.outbox import UNSURE_TEXT
from bot.db.tables import inbox, model_calls
from bot.sim.vllm.server import Timing
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.gateway import ADMIN, GatewayHarness, long_story, open_harness, running_gateway
from tests.support.telegram.server import BotApiFault

SLOW = Timing(canvas_seconds=0.25)


async def test_stop_cuts_the_request_frees_the_seat_and_keeps_what_was_shown(tmp_path: Path):
    async with running_gateway(tmp_path, ScriptedEndpoint(timing=SLOW, seats=1)) as gateway:
        gateway.ann.send(long_story())
        await gateway.wait_for_first_block()
        gateway.ann.send("/stop")
        await gateway.api.wait_until(gateway.is_finished)
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 0)
        assert gateway.texts()[0].startswith("word0 word1")
        assert gateway.texts()[0].endswith("Stopped.")
        assert gateway.endpoint.requests[0].cancelled
    async with open_database(gateway.settings.database_url) as database, database.read_transaction() as tx:
        row = (await tx.execute(select(model_calls))).one()
        assert (row.outcome, row.usage_partial) == ("cancelled", True)
        assert row.completion_tokens > 0


async def test_stop_before_the_first_canvas_answers_at_once(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.endpoint.hold()
        gateway.ann.send("hello")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        gateway.ann.send("/stop")
        assert await gateway.wait_for_texts() == ["Stopped."]
        gateway.endpoint.release()


async def test_the_stop_button_stops_its_own_turn_only(tmp_path: Path):
    async with running_gateway(tmp_path, ScriptedEndpoint(timing=SLOW)) as gateway:
        gateway.ann.send(long_story())
        await gateway.wait_for_first_block()
        message = gateway.api.chat(ADMIN).bot_messages[0]
        gateway.ann.tap(message, "⏹ Stop")
        await gateway.api.wait_until(gateway.is_finished)
        gateway.endpoint.release()
        gateway.ann.send("@@say:next@@")
        assert (await gateway.wait_for_texts(2))[1] == "next"


async def test_a_half_shown_answer_is_completed_when_its_button_is_tapped(tmp_path: Path):
    """Its first send arrived, but Telegram's reply did not: the tap says which message it is."""
    words = " ".join(f"word{number}" for number in range(400))
    async with running_gateway(tmp_path, ScriptedEndpoint(timing=SLOW)) as gateway:
        gateway.api.inject_fault(BotApiFault.accept_then_drop(), "sendMessage")
        gateway.ann.send(f"@@say:{words}@@")
        await gateway.wait_for_first_block()
        half_shown = gateway.api.chat(ADMIN).bot_messages[0]
        gateway.endpoint.release()
        await gateway.api.wait_until(lambda: UNSURE_TEXT in gateway.texts()[1:])
        assert words.startswith(half_shown.text)
        gateway.ann.tap(half_shown, "⏹ Stop")
        await gateway.api.wait_until(lambda: gateway.texts() == [words])
        await gateway.api.wait_until(gateway.is_finished)


async def test_waiting_messages_go_on_after_a_stop_or_are_dropped_by_a_button(tmp_path: Path):
    async with running_gateway(tmp_path, ScriptedEndpoint(timing=SLOW)) as gateway:
        gateway.ann.send(long_story())
        await gateway.wait_for_first_block()
        waiting = gateway.ann.send("@@say:I waited@@")
        await gateway.api.wait_until(lambda: _has_reactions(gateway, waiting.message_id))
        gateway.ann.send("/stop")
        await gateway.api.wait_until(lambda: gateway.texts()[0].endswith("Stopped."))
        gateway.endpoint.release()
        await gateway.api.wait_until(lambda: "I waited" in gateway.texts())
        await gateway.api.wait_until(lambda: any("answer it next" in text for text in gateway.texts()))
        await gateway.api.wait_until(lambda: not _has_reactions(gateway, waiting.message_id))


def _has_reactions(gateway: GatewayHarness, message_id: int) -> bool:
    message = gateway.api.chat(ADMIN).find_message(message_id)
    return message is not None and bool(message.reactions)


async def test_new_ends_the_running_turn_and_what_follows_knows_nothing_of_it(tmp_path: Path):
    async with running_gateway(tmp_path, ScriptedEndpoint(timing=SLOW)) as gateway:
        gateway.ann.send("the word is swordfish " + long_story())
        await gateway.wait_for_first_block()
        gateway.ann.send("/new")
        gateway.ann.send("@@say:fresh@@")
        await gateway.api.wait_until(lambda: gateway.texts()[0].endswith("Stopped."))
        gateway.endpoint.release()
        await gateway.api.wait_until(lambda: "fresh" in gateway.texts())
        assert "swordfish" not in gateway.endpoint.requests[-1].prompt
        assert gateway.texts()[0].endswith("Stopped.")


async def test_retry_takes_the_place_of_the_last_turn(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("@@say:one@@")
        await gateway.wait_for_texts()
        gateway.ann.send("/retry")
        assert await gateway.wait_for_texts(2) == ["one", "one"]
        assert gateway.endpoint.requests[-1].prompt.count("@@say:one@@") == 1


async def test_retry_asks_before_it_repeats_what_may_not_be_repeated(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send('@@tool:remember {"note": "milk"}@@@@say:noted@@')
        await gateway.wait_for_texts()
        gateway.ann.send("/retry")
        question = (await gateway.wait_for_texts(2))[1]
        assert "remember" in question
        gateway.ann.tap(gateway.api.chat(ADMIN).bot_messages[1], "Try again anyway")
        await gateway.api.wait_until(lambda: gateway.texts().count("noted") == 2)


async def test_notes_join_new_conversations_as_data(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send('@@tool:remember {"note": "the train leaves at 7:40"}@@@@say:noted@@')
        await gateway.wait_for_texts()
        gateway.ann.send("/new")
        await gateway.wait_for_texts(2)
        gateway.ann.send("@@say:hi@@")
        await gateway.wait_for_texts(3)
        assert "7:40" in gateway.endpoint.requests[-1].prompt


async def test_the_backlog_is_answered_as_one_silent_turn_that_says_so(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        then = gateway.api.clock.now() - 3 * 3600
        for word in ("one", "@@say:all of it@@"):
            gateway.ann.send(word, date=then)
        async with gateway.run():
            texts = await gateway.wait_for_texts()
    assert texts[0].startswith("(You wrote this 3 hours ago")
    assert texts[0].endswith("all of it")
    assert gateway.api.chat(ADMIN).bot_messages[0].silent
    assert len(gateway.endpoint.requests) == 1


async def test_a_stop_in_the_backlog_concerns_only_what_came_before_it(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        gateway.ann.send("@@say:unwanted@@")
        gateway.ann.send("/stop")
        gateway.ann.send("@@say:wanted@@")
        async with gateway.run():
            await gateway.api.wait_until(lambda: "wanted" in gateway.texts())
    assert "unwanted" not in gateway.texts()


async def test_a_slow_chat_delays_no_other(tmp_path: Path):
    async with running_gateway(tmp_path, access="open") as gateway:
        bob = gateway.api.person(8, "Bob")
        gateway.endpoint.hold()
        gateway.ann.send(long_story())
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        bob.send("/id")
        assert "8" in (await gateway.wait_for_texts(1, chat=8))[0]
        gateway.endpoint.release()


async def test_seats_bound_the_calls_in_flight(tmp_path: Path):
    async with running_gateway(tmp_path, access="open", model_seats=2) as gateway:
        gateway.endpoint.hold()
        for number in range(8):
            gateway.api.person(100 + number).send("@@say:hi@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 2)
        gateway.endpoint.release()
        for number in range(8):
            await gateway.wait_for_texts(1, chat=100 + number)
        assert gateway.endpoint.peak_running == 2


async def test_a_crash_loop_ends_with_the_item_set_aside(tmp_path: Path):
    async with open_harness(tmp_path) as gateway:
        async with gateway.run():
            gateway.ann.send("@@say:first@@")
            await gateway.wait_for_texts()
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            row = {"kind": "update", "shape": "text", "lane": "7", "sender": 7, "body": "{}", "attempt": 10}
            await tx.execute(inbox.insert().values(**row, received_at=0.0))
        async with gateway.run():
            texts = await gateway.wait_for_texts(3)
    assert any("Something went wrong" in text for text in texts)
    assert any("couldn't process" in text for text in texts)
