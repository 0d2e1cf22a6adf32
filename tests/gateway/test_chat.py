"""What a user can do in the chat except ask: join, stop, retry, drop; the whole gateway over loopback."""

import re
import time
from pathlib import Path

from bot.db.engine import open_database
from bot.db.people import people
from tests.support.gateway import open_harness, running_gateway

BOB = 8


async def test_the_first_admin_comes_in_by_a_link_and_taps_an_example(tmp_path: Path):
    async with open_harness(tmp_path, admin_ids="") as gateway:
        async with open_database(gateway.settings.database_url) as database, database.transaction() as tx:
            code = await people.insert_first_admin_invite(tx, now=time.time())
        async with gateway.run():
            gateway.ann.send(f"/start {code}")
            (greeting,) = await gateway.wait_for_texts()
            assert "You're an admin here" in greeting
            message = gateway.api.chat(gateway.ann.id).bot_messages[0]
            assert len(message.buttons) == 3
            tap = gateway.ann.tap(message, message.buttons[0]["text"])
            await gateway.api.wait_until(lambda: tap.answer)
            answers = await gateway.wait_for_texts(3)
            assert answers[1] == f"You asked: {message.buttons[0]['text']}"
            await gateway.api.wait_until(
                lambda: any(command["command"] == "invite" for command in gateway.api.commands)
            )


async def test_a_stranger_is_let_in_by_the_code_they_were_shown(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        bob = gateway.api.person(BOB, "Bob")
        gateway.ann.send("/id")  # or it would be chance whether Bob's request can be sent to her
        await gateway.wait_for_texts()
        bob.send("let me in")
        (text,) = await gateway.wait_for_texts(chat=BOB)
        code = re.search(r"\b[A-Z]{8}\b", text)
        assert code is not None
        assert code[0] in (await gateway.wait_for_texts(2))[1]
        gateway.ann.send(f"/people add {code[0]}")
        assert (await gateway.wait_for_texts(3))[2] == "Bob now has access."
        await gateway.wait_for_texts(2, chat=BOB)
        bob.send("@@say:Welcome@@")
        assert (await gateway.wait_for_texts(3, chat=BOB))[-1] == "Welcome"


async def test_stop_frees_the_seat_and_what_waits_goes_on(tmp_path: Path):
    async with running_gateway(tmp_path, model_seats=1) as gateway:
        gateway.ann.send("@@slow:100000@@@@say:never@@")
        await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        gateway.ann.send("@@say:next@@")
        gateway.ann.send("/stop")
        assert sorted(await gateway.wait_for_texts(3)) == [
            "One more message of yours is waiting; I'll answer it next.",
            "Stopped.",
            "next",
        ]


async def test_what_waits_can_be_dropped_with_one_button(tmp_path: Path):
    async with running_gateway(tmp_path, model_seats=1) as gateway:
        for _ in range(2):
            gateway.ann.send("@@slow:100000@@@@say:never@@")
            await gateway.endpoint.wait_until(lambda: gateway.endpoint.running == 1)
        gateway.ann.send("/stop")
        await gateway.endpoint.wait_until(lambda: len(gateway.endpoint.requests) == 2)
        await gateway.wait_for_texts(2)
        message = next(
            message for message in gateway.api.chat(gateway.ann.id).bot_messages if message.buttons
        )
        tap = gateway.ann.tap(message, "Skip it")
        await gateway.api.wait_until(lambda: tap.answer)
        # The offer is edited while the second turn tells of its end: either may come first.
        await gateway.api.wait_until(lambda: sorted(gateway.texts()) == ["Skipped.", "Stopped.", "Stopped."])


async def test_retry_answers_again(tmp_path: Path):
    async with running_gateway(tmp_path) as gateway:
        gateway.ann.send("@@say:first@@")
        await gateway.wait_for_texts()
        gateway.ann.send("/retry")
        assert await gateway.wait_for_texts(2) == ["first", "first"]
        assert len(gateway.endpoint.requests[-1].body["messages"]) == 2
        gateway.ann.send("/usage")
        usage = (await gateway.wait_for_texts(3))[-1]
        assert re.fullmatch(
            r"Answer: .*, 1 canvas est\.\nTokens: .*\nToday: .*\n"  # which may have begun meanwhile
            r"30 d: .*, 2 .*\nCanvas: .*",
            usage,
        )
