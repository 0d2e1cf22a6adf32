"""The demo's chat page, alive: says what is simulated, and puts under each answer where its seconds went."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from bot.db.usage.breakdowns import AccountedTurn
from bot.demo.environment import POLL_SECONDS, Demo
from bot.errors import CanvasgramError
from bot.http_server import serve
from bot.sim.demo_model.showcase import SHOWCASE_QUESTIONS
from bot.sim.page.app import ChatPage, PageNotice
from bot.usage.breakdown import build_turn_breakdown, format_breakdown
from bot.usage.intervals import INTERVAL_DESCRIPTIONS, INTERVAL_ORDER, IntervalKind


class PortTaken(CanvasgramError):
    """The port of the chat page cannot be had."""


@contextlib.asynccontextmanager
async def serve_page(demo: Demo, port: int = 0) -> AsyncIterator[str]:
    """The page, served while the block runs; yields its address. Raises PortTaken."""
    page = ChatPage(
        demo.api,
        demo.person,
        _build_notice(demo),
        SHOWCASE_QUESTIONS,
        on_first_open=lambda: demo.person.send("/start"),
    )
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serve(page.app, port=port))
        except OSError as error:
            why = f"Port {port} cannot be had ({error.strerror}). Leave --port out to take a free one."
            raise PortTaken(why) from None
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tellers = [
            tasks.create_task(page.run(), name="page"),
            tasks.create_task(_show_breakdowns(demo, page), name="accounts"),
        ]
        try:
            yield f"{url}{page.path}"
        finally:
            page.close()
            for teller in tellers:
                teller.cancel()


async def _show_breakdowns(demo: Demo, page: ChatPage) -> None:
    """Show the account of each turn as soon as the gateway has written down that its answer arrived."""
    last = 0
    while True:
        for turn in await demo.load_delivered_turns(last):
            last = turn.id
            standing = [part.message_id for part in turn.parts if part.message_id is not None]
            if standing:
                page.show_breakdown(standing[-1], _to_page_breakdown(turn))
        await asyncio.sleep(POLL_SECONDS)


def _to_page_breakdown(turn: AccountedTurn) -> dict[str, object]:
    """A turn's account as the page reads it; a kind is its number in ORDER."""
    counted = build_turn_breakdown(turn)
    return {
        "whole": counted.total_seconds,
        "seconds": [
            {
                "kind": INTERVAL_ORDER.index(kind),
                "name": _interval_label(kind, turn),
                "seconds": seconds,
                "why": INTERVAL_DESCRIPTIONS[kind],
            }
            for kind, seconds in counted.interval_seconds
        ],
        "tokens": format_breakdown(counted),
    }


def _interval_label(kind: IntervalKind, turn: AccountedTurn) -> str:
    names = Counter(tool.name for tool in turn.tools)
    used = ", ".join(name if times == 1 else f"{name} × {times}" for name, times in names.items())
    if kind == "tools":
        return f"tools ({used})"
    return kind


def _build_notice(demo: Demo) -> PageNotice:
    telegram = "Telegram is a simulator with Telegram's limits."
    gateway = "The gateway, its tools and the seconds below each answer are real; its database is temporary."
    if demo.model.simulated is None:
        model = f"The model is {demo.model.description}: what it says, and the tokens below its answers, are its own."
        return PageNotice(
            "Telegram is simulated. The model is real.", (model, telegram, gateway), "canvasgram setup"
        )
    model = (
        f"The model knows the questions below and a few more; it takes {demo.model.description}. The tokens below its answers "
        "are the simulator's."
    )
    real = "A real model on this page: canvasgram demo --model-url http://gpu:8000/v1"
    return PageNotice(
        "Model and Telegram are simulated.", (model, telegram, gateway, real), "canvasgram setup"
    )
