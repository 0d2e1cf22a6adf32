"""What a stop or a kill leaves of the outbox, and how the next start goes on with it."""

import pytest

from bot.db.queues import outbox
from bot.db.queues.outbox import UNSURE
from bot.domain import Lane, Part
from bot.sim.telegram.server import Fault
from bot.telegram.delivery import sender as sender_room
from tests.support.delivery_harness import ANN, PostOffice


async def test_what_was_left_is_delivered_at_the_start(office: PostOffice):
    office.api.person(8, "Ben").send("hello")
    await office.store((Part("one"),), item=1)
    await office.store((Part("two"),), item=2, lane=Lane(8))
    async with office.sender() as sender:
        await office.api.until(lambda: office.seen(7) and office.seen(8))
        await sender.rested()
    assert (office.seen(7), office.seen(8)) == (["one"], ["two"])


@pytest.mark.parametrize("state", ["new", "sending", "open", "done", "unknown", "failed"])
async def test_a_restart_goes_on_from_every_state(office: PostOffice, state: str):
    (row,) = await office.store((Part("hello"),))
    async with office.database.transaction() as tx:
        sent = None
        if state in ("sending", "open", "done"):
            await outbox.take(tx, ANN)
        if state in ("open", "done"):
            sent = office.api.person(7).send("stands for a message").message_id
            shown = Part("hello") if state == "done" else Part("hel")
            await outbox.stands(tx, row, message_id=sent, body=shown, now=1.0)
        if state == "unknown":
            await outbox.unknown(tx, row, "lost", now=1.0)
        if state == "failed":
            await outbox.failed(tx, row, "refused", body=Part("hello"), now=1.0)
    async with office.sender() as sender:
        await sender.rested()
    wanted = {
        "new": (["hello"], ["sendMessage"]),
        "sending": ([UNSURE], ["sendMessage"]),
        "open": (["hello"], ["editMessageText", "sendMessage"]),  # it was no message of the bot's own
        "done": ([], []),
        "unknown": ([UNSURE], ["sendMessage"]),
        "failed": ([], []),
    }
    assert (office.seen(), office.calls()) == wanted[state]


async def test_killed_in_the_middle_of_a_send_it_says_so_after_the_restart(office: PostOffice):
    office.api.inject(Fault.hang(after_effect=True), "sendMessage")
    async with office.sender(kill=True) as sender:
        await office.say(sender, "the answer")
        await office.api.until(lambda: office.seen())
    assert await office.states() == ["sending"]
    async with office.sender() as sender:
        await sender.rested()
    assert office.seen() == ["the answer", UNSURE]


async def test_stopping_waits_for_the_call_on_its_way_and_leaves_the_rest(office: PostOffice):
    office.api.inject(Fault.slow(0.3, after_effect=True), "sendMessage")
    async with office.sender() as sender:
        await office.store(tuple(Part(f"part {n}") for n in range(6)))
        sender.wake(ANN)
        await office.api.until(lambda: office.calls())
    states = await office.states()
    assert states[0] == "done"
    assert "sending" not in states
    assert "new" in states


async def test_stopping_gives_up_a_call_that_is_never_answered(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sender_room, "_GRACE", 0.2)
    office.api.inject(Fault.hang(after_effect=True), "sendMessage")
    async with office.sender() as sender:
        await office.say(sender, "hello")
        await office.api.until(lambda: office.seen())
    assert await office.states() == ["sending"]


async def test_what_comes_after_the_stop_waits_for_the_next_start(office: PostOffice):
    async with office.sender() as sender:
        sender.stop()
        await office.say(sender, "hello")
        office.channel(sender, 2).show("A whole block.\n\n")
    assert office.calls() == []
    async with office.sender() as sender:
        await sender.rested()
    assert office.seen() == ["hello"]
