"""How many turns a second one process answers while neither seats nor limits on calls to Telegram hold it."""

from pathlib import Path
from time import monotonic

from bot.sim.vllm.server import Timing
from tests.bench.harness.figures import BotName, FigureRow, FigureValue, require_at_least
from tests.bench.harness.stage import Stage, open_stage
from tests.bench.harness.workload import ProseBrain
from tests.support.endpoint.server import ScriptedEndpoint

CHATS = 48
CANVAS_SECONDS = 0.05
WARM_UP_SHARE = 0.25  # of the time in which turns are counted, before it
MIN_TURNS_PER_SECOND = 40.0


async def measure_throughput(bot_names: tuple[BotName, ...], folder: Path, seconds: float) -> list[FigureRow]:
    """Turns in so many seconds, one bot after the other; each chat writes as soon as it is answered."""
    turns_per_second: dict[BotName, FigureValue] = {}
    cpu_milliseconds: dict[BotName, FigureValue] = {}
    for name in bot_names:
        endpoint = ScriptedEndpoint(timing=Timing.canvas(CANVAS_SECONDS), seats=CHATS, brain=ProseBrain())
        settings = {"MODEL_SEATS": str(CHATS)}
        async with open_stage(name, folder, endpoint, settings=settings, has_rate_limits=False) as stage:
            await stage.start()
            turns, cpu_seconds = await count_turns(stage, seconds)
        turns_per_second[name] = turns / seconds
        cpu_milliseconds[name] = 1000 * cpu_seconds / turns if turns and cpu_seconds else None
    return [
        FigureRow(
            "throughput",
            f"turns a second, {CHATS} chats, Telegram without limits",
            "",
            turns_per_second,
            require_at_least(MIN_TURNS_PER_SECOND),
        ),
        FigureRow("throughput_cpu", "of it processor time a turn", "ms", cpu_milliseconds),
    ]


async def count_turns(stage: Stage, seconds: float) -> tuple[int, float | None]:
    """The turns answered after the warm-up, and the seconds of processor time they took."""
    for chat in range(CHATS):
        stage.write_question(chat, chat)
    turns = await _answer_until(stage, 0, monotonic() + WARM_UP_SHARE * seconds)
    cpu_before = stage.process.read_cpu_seconds()
    turns_after = await _answer_until(stage, turns, monotonic() + seconds)
    cpu_after = stage.process.read_cpu_seconds()
    if cpu_before is None or cpu_after is None:
        return turns_after - turns, None
    return turns_after - turns, cpu_after - cpu_before


async def _answer_until(stage: Stage, turns: int, ends_at: float) -> int:
    """Write again in each chat that was answered, until that moment; returns the answers so far."""
    while monotonic() < ends_at:
        for number in await stage.wait_for_more_answers(turns):
            turns += 1
            stage.write_question(number + CHATS, number % CHATS)
    return turns
