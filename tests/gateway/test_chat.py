"""What a person can do in the chat beside asking: come in, stop, try again, drop; the whole house over
loopback.
"""

import re
from pathlib import Path

from bot.db.engine import open_database
from bot.db.people import people
from tests.support.gateway import open_harness, running_gateway

BOB = 8


async def test_the_first_admin_comes_in_by_a_link_and_taps_an_example(tmp_path: Path):
    async with open_harness(tmp_path, admin_ids="") as house:
        async with open_database(house.settings.database_url) as database:
            code = await people.create_invite(database, role="admin", minutes=15)
        async with house.run():
            house.ann.send(f"/start {code}")
            (greeting,) = await house.wait_for_texts()
            assert "You are an admin here" in greeting
            shown = house.api.chat(house.ann.id).bot_messages[0]
            assert len(shown.buttons) == 3
            tap = house.ann.tap(shown, shown.buttons[0]["text"])
            await house.api.wait_until(lambda: tap.answer)
            answers = await house.wait_for_texts(3)
            assert answers[1] == f"You ask: {shown.buttons[0]['text']}"
            assert any(one["command"] == "invite" for one in house.api.commands)


async def test_a_stranger_is_let_in_by_the_code_they_were_shown(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        bob = house.api.person(BOB, "Bob")
        bob.send("let me in")
        (told,) = await house.wait_for_texts(chat=BOB)
        code = re.search(r"\b[A-Z]{8}\b", told)
        assert code is not None
        house.ann.send(f"/people add {code[0]}")
        assert await house.wait_for_texts() == ["Bob is in."]
        await house.wait_for_texts(2, chat=BOB)
        bob.send("@@say:Welcome@@")
        assert (await house.wait_for_texts(3, chat=BOB))[-1] == "Welcome"


async def test_stop_frees_the_seat_and_what_waits_goes_on(tmp_path: Path):
    async with running_gateway(tmp_path, model_seats=1) as house:
        house.ann.send("@@slow:100000@@@@say:never@@")
        await house.api.wait_until(lambda: house.endpoint.requests)
        house.ann.send("@@say:next@@")
        house.ann.send("/stop")
        assert sorted(await house.wait_for_texts(3)) == [
            "One message of yours is answered next.",
            "Stopped.",
            "next",
        ]


async def test_what_waits_can_be_dropped_with_one_button(tmp_path: Path):
    async with running_gateway(tmp_path, model_seats=1) as house:
        for _ in range(2):
            house.ann.send("@@slow:100000@@@@say:never@@")
            await house.api.wait_until(lambda: len(house.endpoint.requests) == 1)
        house.ann.send("/stop")
        await house.api.wait_until(lambda: len(house.endpoint.requests) == 2)
        await house.wait_for_texts(2)
        shown = next(one for one in house.api.chat(house.ann.id).bot_messages if one.buttons)
        tap = house.ann.tap(shown, "Drop it")
        await house.api.wait_until(lambda: tap.answer)
        assert sorted(await house.wait_for_texts(3)) == ["Dropped.", "Stopped.", "Stopped."]


async def test_retry_answers_again(tmp_path: Path):
    async with running_gateway(tmp_path) as house:
        house.ann.send("@@say:first@@")
        await house.wait_for_texts()
        house.ann.send("/retry")
        assert await house.wait_for_texts(2) == ["first", "first"]
        assert len(house.endpoint.requests[-1].body["messages"]) == 2
        house.ann.send("/usage")
        usage = (await house.wait_for_texts(3))[-1]
        assert re.fullmatch(
            r"Last: 1 canvas est\., .*\nTokens: .*\nToday: 2 canvases est\., .*\n30 d: 2 .*", usage
        )
