"""The busiest minute: many chats, tools and long answers, while reports of a large ledger are made.

Meanwhile an admin has the page open, and asks for `/usage all` again and again.
"""

import asyncio
import contextlib
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal, get_args

from bot.admin.screens import load_screens
from bot.bench.harness.gateway_process import ADMIN_ID, SOURCE_FOLDER, BenchFailed
from bot.bench.harness.statistics import percentile
from bot.sim.vllm.server import ChatRequest, Timing, format_tool_call
from tests.bench.harness.figures import FigureRow, limit_to
from tests.bench.harness.page_viewer import build_page_settings, list_paths, open_page
from tests.bench.harness.stage import AnswerTimes, Stage, open_stage
from tests.bench.harness.workload import ProseBrain, question_number
from tests.bench.load.large_ledger import provide_full_ledger
from tests.support.endpoint.server import ScriptedEndpoint

CHATS = 40
CANVAS_SECONDS = 0.4
PAUSE_SECONDS = 6.0  # in the mean, from an answer to the next message of its chat
SECONDS_PER_QUIET_REPLY = 4.0  # of the busy time, for each kind: 15 of each before a minute
MAX_SLOWDOWN = 2.0
RANKING_OPENING = "Everybody:"
# The first numbers of questions: none is asked twice.
FIRST_BUSY_NUMBER = 900_000
NUMBERS_PER_CHAT = 1000

ReplyKind = Literal["short", "with a tool", "long"]
KINDS: tuple[ReplyKind, ...] = get_args(ReplyKind)

_SHORT_BRAIN = ProseBrain()
_LONG_BRAIN = ProseBrain(answer_tokens=1000)  # four canvases
_CALCULATION = format_tool_call("calculate", {"expression": "17 * 84.5"})


@dataclass(frozen=True, slots=True)
class TimedReply:
    """One reply: of what kind, and the gateway's own time."""

    kind: ReplyKind
    own_seconds: float


async def measure_busy_minute(folder: Path, seconds: float, model_calls: int) -> list[FigureRow]:
    """Own times while one chat writes at a time, then while all do for so many seconds, on a large ledger."""
    database_file = await provide_full_ledger(folder, model_calls)
    endpoint = ScriptedEndpoint(timing=Timing.canvas(CANVAS_SECONDS), seats=CHATS, brain=_answer_by_kind)
    settings = {"MODEL_SEATS": str(CHATS)} | build_page_settings()
    async with open_stage("ours", folder / "full", endpoint, settings=settings) as stage:
        await stage.start()
        quiet_count = len(KINDS) * math.ceil(seconds / SECONDS_PER_QUIET_REPLY)
        await stage.ask(quiet_count, chat_index=0)  # to warm up
        quiet_replies = [
            _time_reply(number, await stage.ask(number, number % CHATS)) for number in range(quiet_count)
        ]
        paths = list_paths(load_screens())
        async with open_page(database_file, settings, paths) as viewer, asyncio.TaskGroup() as tasks:
            ends_at = monotonic() + seconds
            watching = tasks.create_task(viewer.watch())
            reporting = tasks.create_task(_make_reports(database_file, ends_at))
            ranking = tasks.create_task(_ask_for_rankings(stage, ends_at))
            chat_tasks = [tasks.create_task(_write_questions(stage, chat, ends_at)) for chat in range(CHATS)]
            await reporting
            watching.cancel()
        busy_replies = [reply for task in chat_tasks for reply in task.result()]
    screens = sum(map(len, viewer.seconds.values()))
    rankings_label = "answers to /usage all meanwhile"
    return [
        *build_rows(quiet_replies, busy_replies, reporting.result(), screens),
        FigureRow("minute_rankings", rankings_label, "", {"ours": ranking.result()}, digits=0),
    ]


def build_rows(
    quiet_replies: Sequence[TimedReply], busy_replies: Sequence[TimedReply], reports: int, screens: int
) -> list[FigureRow]:
    """The figures; a reply is compared with the quiet ones of its kind."""
    quiet_p95 = {
        kind: percentile([reply.own_seconds for reply in quiet_replies if reply.kind == kind], 0.95)
        for kind in KINDS
    }
    factors = [reply.own_seconds / (quiet_p95[reply.kind] or reply.own_seconds) for reply in busy_replies]
    replies_label = f"busiest minute, {CHATS} chats: replies"
    limit = limit_to(MAX_SLOWDOWN)
    return [
        FigureRow("minute_replies", replies_label, "", {"ours": len(busy_replies)}, digits=0),
        FigureRow("minute_reports", "reports made meanwhile", "", {"ours": reports}, digits=0),
        FigureRow("minute_screens", "screens of the page meanwhile", "", {"ours": screens}, digits=0),
        FigureRow("minute_quiet_p95", "quiet own time, p95", "ms", {"ours": _find_p95(quiet_replies)}),
        FigureRow("minute_p95", "own time in that minute, p95", "ms", {"ours": _find_p95(busy_replies)}),
        FigureRow(
            "minute_factor_p95",
            "of the quiet p95 of its kind, p95",
            "x",
            {"ours": percentile(factors, 0.95)},
            digits=2,
        ),
        FigureRow(
            "minute_factor",
            "of the quiet p95 of its kind, slowest",
            "x",
            {"ours": max(factors, default=None)},
            limit,
            2,
        ),
    ]


def _answer_by_kind(request: ChatRequest) -> str:
    match _find_kind(question_number(request)):
        case "short":
            return _SHORT_BRAIN(request)
        case "long":
            return _LONG_BRAIN(request)
        case "with a tool":
            return _SHORT_BRAIN(request) if request.step else _CALCULATION


def _find_kind(number: int) -> ReplyKind:
    return KINDS[number % len(KINDS)]


async def _write_questions(stage: Stage, chat: int, ends_at: float) -> list[TimedReply]:
    """One person writes, reads the answer and writes again, until that moment."""
    generator = random.Random(chat)
    replies: list[TimedReply] = []
    number = FIRST_BUSY_NUMBER + chat * NUMBERS_PER_CHAT
    await asyncio.sleep(generator.uniform(0, PAUSE_SECONDS))
    while monotonic() < ends_at:
        replies.append(_time_reply(number, await stage.ask(number, chat)))
        number += 1
        await asyncio.sleep(generator.uniform(0.5, 1.5) * PAUSE_SECONDS)
    return replies


def _time_reply(number: int, times: AnswerTimes) -> TimedReply:
    return TimedReply(_find_kind(number), times.own_seconds)


def _find_p95(replies: Sequence[TimedReply]) -> float | None:
    seconds = percentile([reply.own_seconds for reply in replies], 0.95)
    return None if seconds is None else 1000 * seconds


async def _ask_for_rankings(stage: Stage, ends_at: float) -> int:
    """Let the admin ask who took most, read and ask again, until that moment; returns how often."""
    admin = stage.api.person(ADMIN_ID)
    rankings = 0
    while monotonic() < ends_at:
        admin.send("/usage all")
        await stage.wait_for_text(ADMIN_ID, RANKING_OPENING, rankings)
        rankings += 1
        await asyncio.sleep(PAUSE_SECONDS)
    return rankings


async def _make_reports(database_file: Path, ends_at: float) -> int:
    """Run `canvasgram report` again and again until that moment; returns how often."""
    settings = {
        "PYTHONPATH": str(SOURCE_FOLDER),
        "DATABASE_URL": f"sqlite+aiosqlite:///{database_file}",
    }
    reports = 0
    while monotonic() < ends_at:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bot", "report"),
            cwd=database_file.parent,
            env=settings,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, errors = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        if process.returncode:
            raise BenchFailed(f"a report ended with code {process.returncode}: {errors.decode()}")
        reports += 1
    return reports
