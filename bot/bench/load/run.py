"""`bench load`: what is measured, in which order, under which conditions. Builds the report; prints nothing."""

import asyncio
import importlib.util
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bot.bench.endpoint.direct import run_until_stopped
from bot.bench.harness import machine
from bot.bench.harness.bots import BenchFailed
from bot.bench.harness.statistics import BOT_ORDER, FigureRow, LoadReport
from bot.bench.load import concurrency as crowd
from bot.bench.load import faults, soak
from bot.bench.load import large_ledger as ledger
from bot.bench.load import latency as own_time
from bot.bench.load import prompt_tokens as tokens
from bot.bench.load import startup as starts
from bot.errors import QuestionRefused
from bot.sim.vllm.server import COUNTING_RULE

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What is to be measured, and how often: for a bot `messages` of own time, `starts`, `trials` of crowds
    and of long answers, `turns` of one conversation; for a fault, `patience` seconds in which its outcome
    shows.

    `only` names sections (none: all); the databases lie below `folder`. `soak` is in minutes, 0 leaves it
    out; `calls` are those of the large ledger; `quick` leaves both out.
    """

    messages: int = 120
    starts: int = 5
    trials: int = 3
    turns: int = 60
    fault_wait_seconds: float = 4.0
    only_sections: tuple[str, ...] = ()
    folder: Path | None = None
    soak_minutes: float = 0.0
    ledger_calls: int = ledger.MODEL_CALLS
    quick: bool = False

    @property
    def sections(self) -> tuple[str, ...]:
        """What is measured, in order."""
        left_out = {"soak"} if self.soak_minutes <= 0 else set()
        if self.quick:
            left_out = {"soak", "ledger"}
        return self.only_sections or tuple(name for name in SECTIONS if name not in left_out)


SECTION_NOTES = (
    ("bare loop", "aiohttp: getUpdates, one model call, one send; no history, nothing streamed"),
    (
        "memory loop",
        "python-telegram-bot's Application and the openai client: typing shown, streamed, history in memory",
    ),
    (
        "own time",
        "from the answer of getUpdates leaving Telegram to the whole answer arriving, less the model's time",
    ),
    (
        "12 chats",
        "a third of the answers takes three canvases of 0.16 s, the others two: 1.12 s on 4 seats at best",
    ),
    ("tokens", COUNTING_RULE),
    (
        "ledger",
        "two gateways at a time, one on an empty database, one on ended turns of ended conversations, in turns",
    ),
    (
        "soak",
        f"{soak.CHATS} chats, {soak.SEATS} seats, {soak.CANVAS_SECONDS:g} s a canvas; each writes as soon as it is answered",
    ),
)

Section = Callable[[LoadOptions, Path], Awaitable[list[FigureRow]]]

SECTIONS: dict[str, Section] = {
    "own": lambda wish, folder: own_time.measure_latency(BOT_ORDER, folder, wish.messages),
    "start": lambda wish, folder: starts.measure_startup(BOT_ORDER, folder, wish.starts),
    "crowd": lambda wish, folder: crowd.measure_concurrency(BOT_ORDER, folder, wish.trials),
    "words": lambda wish, folder: crowd.measure_first_words(BOT_ORDER, folder, wish.trials),
    "tokens": lambda wish, folder: tokens.measure_prompt_tokens(BOT_ORDER, folder, wish.turns),
    "faults": lambda wish, folder: faults.measure_faults(folder, wish.fault_wait_seconds),
    "ledger": lambda wish, folder: ledger.measure_large_ledger(folder, wish.messages, wish.ledger_calls),
    "soak": lambda wish, folder: soak.measure_soak(folder, wish.soak_minutes),
}


async def run_load(
    options: LoadOptions, print_line: PrintLine = lambda line: None, stop: asyncio.Event | None = None
) -> LoadReport:
    """Measure what is wished for, or what is done of it when `stop` is set; `say` hears of every section as
    it begins.

    Raises BenchFailed, QuestionRefused.
    """
    unknown = [name for name in options.only_sections if name not in SECTIONS]
    if unknown:
        raise QuestionRefused(f"There is no section {unknown[0]}; there are {', '.join(SECTIONS)}.")
    if "soak" in options.only_sections and options.soak_minutes <= 0:
        raise QuestionRefused("A soak needs its length: --soak MINUTES.")
    if importlib.util.find_spec("aiohttp") is None:
        raise BenchFailed(
            "The bare loop needs aiohttp: install canvasgram with its extra, `canvasgram[bench]`."
        )
    if options.folder is not None and not os.access(options.folder, os.W_OK | os.X_OK):
        raise QuestionRefused(f"{options.folder} is no folder in which databases can be made.")
    rows: list[FigureRow] = []
    with tempfile.TemporaryDirectory(
        prefix="canvasgram-bench-",
        dir=options.folder,
        ignore_cleanup_errors=True,  # a ledger that is being filled when all is stopped is still written to
    ) as made:
        folder = Path(made)
        known = [*machine.describe_machine(folder), ("load before", machine.describe_load())]
        whole = await run_until_stopped(
            stop or asyncio.Event(), _measure_sections(options, folder, print_line, rows)
        )
    known += [("load after", machine.describe_load()), ("pace", _describe_pace(options)), *SECTION_NOTES]
    return LoadReport(tuple(rows), tuple(known), whole)


async def _measure_sections(
    options: LoadOptions, folder: Path, print_line: PrintLine, rows: list[FigureRow]
) -> None:
    for name in options.sections:
        print_line(f"measuring: {name}")
        rows += await SECTIONS[name](options, folder / name)


def _describe_pace(options: LoadOptions) -> str:
    return (
        f"{options.messages} messages a bot, one at a time, {1000 * own_time.PAUSE_SECONDS:g} ms apart, {own_time.SLICE_MESSAGES} in a row "
        f"a bot, there and back again, over {own_time.CHATS} chats; before that one message a chat to warm up"
    )
