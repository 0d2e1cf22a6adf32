"""👀 stands on what waits, and leaves with the answer, also where the process ended in between."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bot.db.queues.incoming_updates import IncomingUpdate
from bot.domain import InboxItem, Lane
from bot.http_server import serve
from bot.sim.telegram.server import FloodLimits
from bot.telegram.client import create_bot
from bot.telegram.reactions import SeenReactions
from tests.support.groups import read_private_envelope
from tests.support.telegram.server import BotApiFault, ScriptedBotApi

LANE = Lane(7)


@pytest.fixture
def api() -> ScriptedBotApi:
    return ScriptedBotApi(limits=FloodLimits.unlimited())


@asynccontextmanager
async def run_reactions(api: ScriptedBotApi) -> AsyncIterator[SeenReactions]:
    async with serve(api.app) as url, create_bot(api.token, url) as bot, asyncio.TaskGroup() as tasks:
        began_at = time.time()
        reactions = SeenReactions(bot, lambda lane: True, lambda lane: began_at)
        running = tasks.create_task(reactions.run())
        yield reactions
        running.cancel()


def send(api: ScriptedBotApi, text: str, forward_from: str | None = None) -> IncomingUpdate:
    sent = api.person(7).send(text, forward_from=forward_from)
    update = read_private_envelope({"update_id": sent.update_id, "message": sent.message}, 1.0)
    assert update is not None
    return update


def build_item(update: IncomingUpdate, received_at: float | None = None) -> InboxItem:
    message = {"message_id": update.message_id, "chat": {"id": 7}}
    received_at = time.time() if received_at is None else received_at
    return InboxItem(1, "update", "text", update.lane, 7, {"message": message}, 1, False, received_at)


def list_reactions(api: ScriptedBotApi) -> list[list[str]]:
    return [message.reactions for message in api.chat(7).messages]


async def test_what_is_answered_or_was_dropped_before_it_loses_its_sign(api: ScriptedBotApi):
    dropped, answered, waiting = (send(api, text) for text in ("one", "two", "three"))
    async with run_reactions(api) as reactions:
        reactions.enqueue([dropped, answered, waiting])
        await api.wait_until(lambda: list_reactions(api) == [["👀"], ["👀"], ["👀"]])
        reactions.remove([build_item(answered)])
        await api.wait_until(lambda: list_reactions(api) == [[], [], ["👀"]])
        reactions.remove([build_item(waiting)])
        await api.wait_until(lambda: list_reactions(api) == [[], [], []])


async def test_of_a_burst_of_forwards_the_first_has_a_sign(api: ScriptedBotApi):
    updates = [send(api, "one", "Anna"), send(api, "two", "Anna"), send(api, "Why?")]
    async with run_reactions(api) as reactions:
        reactions.enqueue(updates)
        await api.wait_until(lambda: list_reactions(api) == [["👀"], [], ["👀"]])


async def test_what_an_earlier_process_marked_is_cleared(api: ScriptedBotApi):
    update = send(api, "one")
    api.chat(7).messages[0].reactions = ["👀"]
    async with run_reactions(api) as reactions:
        reactions.remove([build_item(update, received_at=1.0)])
        await api.wait_until(lambda: list_reactions(api) == [[]])


async def test_what_never_waited_costs_no_call(api: ScriptedBotApi):
    first, second = send(api, "one"), send(api, "two")
    async with run_reactions(api) as reactions:
        reactions.remove([build_item(first)])
        api.inject_fault(BotApiFault.server_error(), "setMessageReaction")
        reactions.enqueue([second])
        await api.wait_until(lambda: api.calls_of("setMessageReaction"))
        reactions.remove([build_item(second)])
        await api.wait_until(lambda: len(api.calls_of("setMessageReaction")) > 1)
    assert api.calls_of("setMessageReaction")[0].params["message_id"] == str(second.message_id)
