"""Many chats at once before few seats, and how soon the first words of a long answer are seen."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.harness.stage import Stage, Timed, all_staged
from bot.bench.harness.statistics import Name, Row, Value, at_most, median, most_at_once, rounds
from bot.bench.harness.workload import Model, asked
from bot.sim.vllm.server import Brain, ChatRequest, Endpoint, Timing

CHATS = 12
SEATS = 4
QUICK_CANVAS = 0.16
SLOW_CANVAS = 1.6
WALL_SECONDS = 1.4
FIRST_WORDS_SECONDS = 1.75
REST = 1.0  # seconds before a round, after which every budget a bot keeps to is full again
WARM_UP = 10**6  # questions from here on are answered in one canvas

# A third of the answers takes three canvases, the others two: 28 canvases, which is 7 on each of 4 seats.
_LONG = Model(answer=400)
_LONGER = Model(answer=650)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Seconds from the first update leaving Telegram to the last whole answer, and the most model calls at
    once.
    """

    wall: float
    calls: int


async def measure(names: tuple[Name, ...], folder: Path, times: int) -> list[Row]:
    """Twelve chats write at the same moment, `times` over; the middle of the walls, the most of the calls."""
    found: dict[Name, list[Crowd]] = {name: [] for name in names}
    async with all_staged(names, folder, lambda: _endpoint(QUICK_CANVAS, _short_or_long)) as stages:
        for stage in stages.values():
            await _together(stage, range(WARM_UP, WARM_UP + CHATS))
        for place, order in enumerate(rounds(names, times)):
            await asyncio.sleep(REST)
            for name in order:
                found[name].append(await _together(stages[name], range(place * CHATS, (place + 1) * CHATS)))
    walls: dict[Name, Value] = {name: median([one.wall for one in crowds]) for name, crowds in found.items()}
    calls: dict[Name, Value] = {name: max(one.calls for one in crowds) for name, crowds in found.items()}
    return [
        Row("crowd_wall", "12 chats at once, 4 seats: wall", "s", walls, at_most(WALL_SECONDS), digits=2),
        Row("crowd_calls", "most model calls at once", "", calls, at_most(SEATS), digits=0),
    ]


async def first_words(names: tuple[Name, ...], folder: Path, times: int) -> list[Row]:
    """An answer of three canvases of 1.6 s, `times` over; all bots at the same time, since they mostly wait."""
    async with all_staged(names, folder, lambda: _endpoint(SLOW_CANVAS, _LONGER)) as stages:
        async with asyncio.TaskGroup() as tasks:
            running = {name: tasks.create_task(_long_answers(stage, times)) for name, stage in stages.items()}
        timed = {name: task.result() for name, task in running.items()}
    seconds: dict[Name, Value] = {
        name: median([one.first_words for one in them]) for name, them in timed.items()
    }
    return [
        Row(
            "first_words",
            "three canvases of 1.6 s: first words",
            "s",
            seconds,
            at_most(FIRST_WORDS_SECONDS),
            2,
        )
    ]


async def _together(stage: Stage, numbers: Sequence[int]) -> Crowd:
    stage.endpoint.requests.clear()
    updates = [stage.write(number, chat) for chat, number in enumerate(numbers)]
    for chat, number in enumerate(numbers):
        await stage.answered(number, chat)
    timed = [
        stage.timed(update, number, chat)
        for (chat, number), update in zip(enumerate(numbers), updates, strict=True)
    ]
    spans = [(log.received, log.finished) for log in stage.endpoint.requests if log.finished is not None]
    return Crowd(max(one.answered for one in timed) - min(one.fetched for one in timed), most_at_once(spans))


async def _long_answers(stage: Stage, times: int) -> list[Timed]:
    return [await stage.ask(number, number) for number in range(times)]


def _short_or_long(request: ChatRequest) -> str:
    number = asked(request)
    if number >= WARM_UP:
        return Model()(request)
    if number % CHATS < CHATS // 3:
        return _LONGER(request)
    return _LONG(request)


def _endpoint(seconds: float, brain: Brain) -> Endpoint:
    return Endpoint(timing=Timing.canvas(seconds), seats=SEATS, brain=brain)
