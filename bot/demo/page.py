"""The demo's chat page, alive: says what is simulated, and puts under each answer where its seconds went."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from bot.db.usage.breakdowns import TurnRow
from bot.demo.environment import LOOK_SECONDS, Demo
from bot.errors import CanvasgramError
from bot.http_server import serve
from bot.sim.demo_model.showcase import SHOWCASE
from bot.sim.page.app import ChatPage, Notice
from bot.usage.breakdown import account, in_words
from bot.usage.intervals import EXPLAINED, ORDER, Kind


class PortTaken(CanvasgramError):
    """The port of the chat page cannot be had."""


@contextlib.asynccontextmanager
async def page_of(demo: Demo, port: int = 0) -> AsyncIterator[str]:
    """The page, served while the block runs; yields its address. Raises PortTaken."""
    page = ChatPage(demo.api, demo.person, _notice(demo), SHOWCASE, opened=lambda: demo.person.send("/start"))
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serve(page.app, port=port))
        except OSError as error:
            why = f"Port {port} cannot be had ({error.strerror}). Leave --port out to take a free one."
            raise PortTaken(why) from None
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tellers = [
            tasks.create_task(page.run(), name="page"),
            tasks.create_task(_tell_accounts(demo, page), name="accounts"),
        ]
        try:
            yield f"{url}{page.path}"
        finally:
            page.close()
            for teller in tellers:
                teller.cancel()


async def _tell_accounts(demo: Demo, page: ChatPage) -> None:
    """Show the account of each turn as soon as the gateway has written down that its answer arrived."""
    last = 0
    while True:
        for turn in await demo.delivered(last):
            last = turn.id
            standing = [part.message_id for part in turn.parts if part.message_id is not None]
            if standing:
                page.account(standing[-1], _shown(turn))
        await asyncio.sleep(LOOK_SECONDS)


def _shown(turn: TurnRow) -> dict[str, object]:
    """A turn's account as the page reads it; a kind is its number in ORDER."""
    counted = account(turn)
    return {
        "whole": counted.whole,
        "seconds": [
            {
                "kind": ORDER.index(kind),
                "name": _named(kind, turn),
                "seconds": seconds,
                "why": EXPLAINED[kind],
            }
            for kind, seconds in counted.seconds
        ],
        "tokens": in_words(counted),
    }


def _named(kind: Kind, turn: TurnRow) -> str:
    names = Counter(tool.name for tool in turn.tools)
    used = ", ".join(name if times == 1 else f"{name} × {times}" for name, times in names.items())
    if kind == "tools":
        return f"tools ({used})"
    return kind


def _notice(demo: Demo) -> Notice:
    telegram = "Telegram is a simulator with Telegram's limits."
    gateway = "The gateway, its tools and the seconds below each answer are real; its database is temporary."
    if demo.model.simulated is None:
        model = (
            f"The model is {demo.model.line}: what it says, and the tokens below its answers, are its own."
        )
        return Notice(
            "Telegram is simulated. The model is real.", (model, telegram, gateway), "canvasgram setup"
        )
    model = (
        f"The model knows the questions below and a few more; it takes {demo.model.line}. The tokens below its answers "
        "are the simulator's."
    )
    real = "A real model on this page: canvasgram demo --model-url http://gpu:8000/v1"
    return Notice("Model and Telegram are simulated.", (model, telegram, gateway, real), "canvasgram setup")
