"""The demo's chat page: says what is simulated, what the gateway does, and where the seconds went."""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from bot.canvases import OutputUnit
from bot.db.usage.turn_steps import TurnSteps
from bot.demo.environment import POLL_SECONDS, Demo
from bot.demo.turn_progress import build_progress, describe_gateway, name_tools
from bot.domain import Lane
from bot.errors import CanvasgramError
from bot.http_server import serve
from bot.sim.demo_model.showcase import GROUP_QUESTIONS, RECEIPT_QUESTION, SHOWCASE_QUESTIONS
from bot.sim.page.app import ChatPage, PageNotice
from bot.sim.page.view import ChatView, ViewLabels
from bot.sim.vllm.speech import CHIME
from bot.usage.breakdown import TurnBreakdown, build_turn_breakdown, format_breakdown
from bot.usage.figures import format_share
from bot.usage.intervals import INTERVAL_DESCRIPTIONS, INTERVAL_LABELS, IntervalKind
from bot.usage.palette import TIME_KINDS, TimeKind, render_css

GROUP_ID = -1001000000001
GROUP_TITLE = "Weekend"
VOICE_EXAMPLE = "Ask by a voice message"
_RECEIPT = Path(__file__).with_name("receipt.pdf")  # a page without text, as a scanner makes it
_PLAIN_WORDS: Mapping[TimeKind, str] = {
    "wait": "waiting",
    "canvas": "writing",
    "more": "writing",
    "delivery": "delivery",
    "own": "the gateway",
    "fault": "down",
}
_PLAIN_TOOL_WORDS = {"search_web": "search", "fetch_page": "reading"}


class PortTaken(CanvasgramError):
    """The port of the chat page is not available."""


@contextlib.asynccontextmanager
async def serve_page(demo: Demo, port: int = 0) -> AsyncIterator[str]:
    """Serve the page while the block runs; yields its address. Raises PortTaken."""
    page = ChatPage(demo.api, _build_notice(demo), _build_views(demo), demo.gateway.kill, render_css())
    async with contextlib.AsyncExitStack() as stack:
        try:
            url = await stack.enter_async_context(serve(page.app, port=port))
        except OSError as error:
            reason = f"Port {port} cannot be had ({error.strerror}). Leave --port out to take a free one."
            raise PortTaken(reason) from None
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        page_tasks = [
            tasks.create_task(page.run(), name="page"),
            tasks.create_task(_show_breakdowns(demo, page), name="breakdowns"),
            tasks.create_task(_show_progress(demo, page), name="progress"),
        ]
        try:
            yield f"{url}{page.path}"
        finally:
            page.close()
            for task in page_tasks:
                task.cancel()


def _build_views(demo: Demo) -> list[ChatView]:
    """The private chat of each person, and the group of both as each of them sees it."""
    people = (demo.person, demo.other_person)
    group = demo.api.add_group(GROUP_ID, GROUP_TITLE, owner=demo.person, members=(demo.other_person,))
    names = ", ".join(person.user["first_name"] for person in people)
    group_labels = ViewLabels("Group", GROUP_TITLE, f"{names} and Canvasgram")
    group_questions = tuple(question.format(bot=f"@{demo.api.username}") for question in GROUP_QUESTIONS)
    views = [
        ChatView(
            demo.api,
            person,
            person.private_thread,
            ViewLabels("Private", "Canvasgram", "bot"),
            SHOWCASE_QUESTIONS,
            on_first_open=partial(person.send, "/start"),
            files=_load_files(has_voice=demo.model.simulated is not None),
        )
        for person in people
    ]
    views += [ChatView(demo.api, person, group, group_labels, group_questions) for person in people]
    if demo.web is not None:
        views = [replace(view, find_shown_address=demo.web.find_shown_address) for view in views]
    return views


def _load_files(*, has_voice: bool) -> dict[str, tuple[str, bytes]]:
    """The files that can be sent by a tap; a voice message where it is understood."""
    files = {RECEIPT_QUESTION: (_RECEIPT.name, _RECEIPT.read_bytes())}
    return files | {VOICE_EXAMPLE: ("voice.ogg", CHIME)} if has_voice else files


async def _show_breakdowns(demo: Demo, page: ChatPage) -> None:
    """Show the breakdown of each turn as soon as the gateway has stored it."""
    last_turn = 0
    while True:
        for turn in await demo.load_delivered_turns(last_turn):
            last_turn = turn.id
            message_ids = [part.message_id for part in turn.parts if part.message_id is not None]
            if message_ids:
                breakdown = _to_page_breakdown(turn, await demo.find_output_unit())
                page.show_breakdown(Lane.parse(turn.chat).chat, message_ids[-1], breakdown)
        await asyncio.sleep(POLL_SECONDS)


async def _show_progress(demo: Demo, page: ChatPage) -> None:
    """Show the newest turn as the gateway reports it, and what became of the gateway."""
    gateway = demo.gateway
    turn: TurnSteps | None = None
    shown_report = None
    while True:
        report = gateway.report
        if report is not None and (report is not shown_report or turn is None or not turn.account):
            turn = await demo.load_turn(report["item"])
            unit = await demo.find_output_unit()
            shown_report = report
            progress = build_progress(report, turn, gateway.outages, time.time(), unit)
            page.show("turn", progress, report["chat"])
        page.show("gateway", {"text": describe_gateway(gateway.pid, gateway.outages, turn)})
        await asyncio.sleep(POLL_SECONDS)


def _to_page_breakdown(turn: TurnSteps, unit: OutputUnit) -> dict[str, object]:
    """A turn's breakdown as the page reads it; a kind is its colour in the palette."""
    breakdown = build_turn_breakdown(turn)
    return {
        "summary": _summarize(breakdown, turn, unit),
        "whole": breakdown.total_seconds,
        "seconds": [
            {
                "kind": TIME_KINDS[kind],
                "name": _label_interval(kind, turn),
                "seconds": seconds,
                "why": INTERVAL_DESCRIPTIONS[kind],
            }
            for kind, seconds in breakdown.interval_seconds
        ],
        "tokens": format_breakdown(breakdown, unit),
    }


def _summarize(breakdown: TurnBreakdown, turn: TurnSteps, unit: OutputUnit) -> str:
    """The whole, what most of it went into, and the canvases if there are any, in words for everybody."""
    tool_words = dict.fromkeys(_PLAIN_TOOL_WORDS.get(tool.name, tool.name) for tool in turn.tools)
    words: dict[TimeKind, str] = {**_PLAIN_WORDS, "tool": " and ".join(tool_words)}
    seconds: defaultdict[str, float] = defaultdict(float)
    for kind, value in breakdown.interval_seconds:
        seconds[words[TIME_KINDS[kind]]] += value
    word, most = max(seconds.items(), key=itemgetter(1))
    parts = [
        f"{breakdown.total_seconds:.1f} s",
        f"{format_share(most, breakdown.total_seconds, decimals=0)} {word}",
    ]
    if unit.has_canvases and breakdown.canvases:
        noun = "canvas" if breakdown.canvases == 1 else "canvases"
        bound = "" if breakdown.output.is_complete else "≥ "
        parts.append(f"{bound}{breakdown.canvases} {noun}")
    return " · ".join(parts)


def _label_interval(kind: IntervalKind, turn: TurnSteps) -> str:
    tools = name_tools(turn.tools)
    if kind == "tools" and tools:
        return f"tools ({tools})"
    return INTERVAL_LABELS[kind]


def _build_notice(demo: Demo) -> PageNotice:
    telegram = "Telegram is a simulator with Telegram's limits."
    gateway = "The gateway, its tools and the seconds below each answer are real; its database is temporary."
    if demo.model.simulated is None:
        model = (
            f"The model is {demo.model.description}: "
            "what it says, and the tokens below its answers, are its own."
        )
        return PageNotice(
            "Telegram is simulated. The model is real.", (model, telegram, gateway), "canvasgram setup"
        )
    model = (
        f"The model knows the questions below and a few more; it takes {demo.model.description}. "
        "The web that it searches has four pages, simulated as well. "
        "The tokens below its answers are the simulator's."
    )
    real_model = "A real model on this page: canvasgram demo --model-url http://gpu:8000/v1"
    return PageNotice(
        "Model and Telegram are simulated.", (model, telegram, gateway, real_model), "canvasgram setup"
    )
