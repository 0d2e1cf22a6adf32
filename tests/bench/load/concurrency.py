"""Many chats at once on few seats, and how soon the first words of a long answer are seen."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.bench.harness.statistics import median
from bot.sim.vllm.server import Brain, ChatRequest, Timing
from tests.bench.harness.figures import BotName, FigureRow, FigureValue, count_overlap, limit_to, order_rounds
from tests.bench.harness.stage import AnswerTimes, Stage, open_stages
from tests.bench.harness.workload import ProseBrain, question_number
from tests.support.endpoint.server import ScriptedEndpoint

CHATS = 12
SEATS = 4
QUICK_CANVAS_SECONDS = 0.16
SLOW_CANVAS_SECONDS = 1.6
LEAST_WALL_SECONDS = 7 * QUICK_CANVAS_SECONDS  # 28 canvases on 4 seats
MAX_WALL_FACTOR = 1.05
MAX_FIRST_WORDS_SECONDS = 1.75
REST_SECONDS = 1.0  # before a round: every rate budget of a bot is full again
FIRST_WARM_UP_NUMBER = 10**6  # questions from here on are answered in one canvas

# A third of the answers takes three canvases, the others two: 28 canvases.
_TWO_CANVAS_BRAIN = ProseBrain(answer_tokens=400)
_THREE_CANVAS_BRAIN = ProseBrain(answer_tokens=650)


@dataclass(frozen=True, slots=True)
class ConcurrencyResult:
    """One round of chats that all write at once.

    Seconds from the first update leaving Telegram to the last whole answer, and the most model calls at once.
    """

    wall_seconds: float
    peak_calls: int


async def measure_concurrency(bot_names: tuple[BotName, ...], folder: Path, trials: int) -> list[FigureRow]:
    """Twelve chats write at the same moment, `trials` times: the median wall time, the most model calls."""
    results: dict[BotName, list[ConcurrencyResult]] = {name: [] for name in bot_names}
    make_endpoint = partial(_build_endpoint, QUICK_CANVAS_SECONDS, _answer_short_or_long)
    async with open_stages(bot_names, folder, make_endpoint) as stages:
        for stage in stages.values():
            await _ask_together(stage, range(FIRST_WARM_UP_NUMBER, FIRST_WARM_UP_NUMBER + CHATS))
        for round_number, order in enumerate(order_rounds(bot_names, trials)):
            await asyncio.sleep(REST_SECONDS)
            for name in order:
                numbers = range(round_number * CHATS, (round_number + 1) * CHATS)
                results[name].append(await _ask_together(stages[name], numbers))
    walls: dict[BotName, FigureValue] = {}
    factors: dict[BotName, FigureValue] = {}
    for name, bot_results in results.items():
        wall_seconds = median([result.wall_seconds for result in bot_results]) or 0.0
        walls[name] = wall_seconds
        factors[name] = wall_seconds / LEAST_WALL_SECONDS
    calls: dict[BotName, FigureValue] = {
        name: max(result.peak_calls for result in bot_results) for name, bot_results in results.items()
    }
    return [
        FigureRow("crowd_wall", "12 chats at once, 4 seats: all answered", "s", walls, digits=2),
        FigureRow("crowd_factor", "of the least possible", "x", factors, limit_to(MAX_WALL_FACTOR), digits=2),
        FigureRow("crowd_calls", "most model calls at once", "", calls, limit_to(SEATS), digits=0),
    ]


async def measure_first_words(bot_names: tuple[BotName, ...], folder: Path, trials: int) -> list[FigureRow]:
    """An answer of three canvases of 1.6 s right after the start, and then `trials` times.

    All bots run at the same time, since they mostly wait.
    """
    make_endpoint = partial(_build_endpoint, SLOW_CANVAS_SECONDS, _THREE_CANVAS_BRAIN)
    async with open_stages(bot_names, folder, make_endpoint) as stages:
        async with asyncio.TaskGroup() as tasks:
            running = {
                name: tasks.create_task(_ask_long_answers(stage, trials + 1))
                for name, stage in stages.items()
            }
        times_by_bot = {name: task.result() for name, task in running.items()}
    seconds: dict[BotName, FigureValue] = {
        name: median([answer_times.first_words_seconds for answer_times in bot_times[1:]])
        for name, bot_times in times_by_bot.items()
    }
    seconds_after_start: dict[BotName, FigureValue] = {
        name: bot_times[0].first_words_seconds for name, bot_times in times_by_bot.items()
    }
    return [
        FigureRow(
            "first_words",
            "three canvases of 1.6 s: first words",
            "s",
            seconds,
            limit_to(MAX_FIRST_WORDS_SECONDS),
            2,
        ),
        FigureRow(
            "first_words_after_start", "the same, right after the start", "s", seconds_after_start, digits=2
        ),
    ]


async def _ask_together(stage: Stage, numbers: Sequence[int]) -> ConcurrencyResult:
    stage.endpoint.requests.clear()
    updates = [stage.write_question(number, chat) for chat, number in enumerate(numbers)]
    for number in numbers:
        await stage.wait_for_answer(number)
    times = [
        stage.read_times(update, number, chat)
        for (chat, number), update in zip(enumerate(numbers), updates, strict=True)
    ]
    spans = [
        (log.received_at, log.finished_at) for log in stage.endpoint.requests if log.finished_at is not None
    ]
    first_fetched_at = min(answer_times.fetched_at for answer_times in times)
    last_answered_at = max(answer_times.answered_at for answer_times in times)
    return ConcurrencyResult(last_answered_at - first_fetched_at, count_overlap(spans))


async def _ask_long_answers(stage: Stage, trials: int) -> list[AnswerTimes]:
    return [await stage.ask(number, number) for number in range(trials)]


def _answer_short_or_long(request: ChatRequest) -> str:
    number = question_number(request)
    if number >= FIRST_WARM_UP_NUMBER:
        return ProseBrain()(request)
    if number % CHATS < CHATS // 3:
        return _THREE_CANVAS_BRAIN(request)
    return _TWO_CANVAS_BRAIN(request)


def _build_endpoint(canvas_seconds: float, brain: Brain) -> ScriptedEndpoint:
    return ScriptedEndpoint(timing=Timing.canvas(canvas_seconds), seats=SEATS, brain=brain)
