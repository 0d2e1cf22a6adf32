"""`bench load`: what is measured, in which order, under which conditions.

Builds the report; prints nothing.
"""

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
from bot.bench.load import concurrency, faults, large_ledger, latency, prompt_tokens, soak, startup
from bot.errors import QuestionRefused
from bot.sim.vllm.server import COUNTING_RULE

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What to measure, and how often.

    `messages`: that each bot answers, for own time and for the large ledger.
    `starts`: of each bot.
    `trials`: of concurrency, and of first words.
    `turns`: of the conversation whose prompt tokens are counted.
    `fault_wait_seconds`: until the outcome of a fault is read.
    `only_sections`: names of sections; none: all of them.
    `folder`: the databases are created below it; None: below the folder for temporary files.
    `soak_minutes`: 0 leaves the soak out.
    `ledger_calls`: model calls in the large ledger.
    `quick`: leaves out the soak and the large ledger.
    """

    messages: int = 120
    starts: int = 5
    trials: int = 3
    turns: int = 60
    fault_wait_seconds: float = 4.0
    only_sections: tuple[str, ...] = ()
    folder: Path | None = None
    soak_minutes: float = 0.0
    ledger_calls: int = large_ledger.MODEL_CALLS
    quick: bool = False

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections to measure, in order."""
        left_out = set()
        if self.quick:
            left_out = {"soak", "ledger"}
        elif self.soak_minutes <= 0:
            left_out = {"soak"}
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
        "two gateways at a time, one on an empty database, one on ended turns of ended conversations, "
        "in turns",
    ),
    (
        "soak",
        f"{soak.CHATS} chats, {soak.SEATS} seats, {soak.CANVAS_SECONDS:g} s a canvas; "
        "each writes as soon as it is answered",
    ),
)

Section = Callable[[LoadOptions, Path], Awaitable[list[FigureRow]]]

SECTIONS: dict[str, Section] = {
    "own": lambda options, folder: latency.measure_latency(BOT_ORDER, folder, options.messages),
    "start": lambda options, folder: startup.measure_startup(BOT_ORDER, folder, options.starts),
    "crowd": lambda options, folder: concurrency.measure_concurrency(BOT_ORDER, folder, options.trials),
    "words": lambda options, folder: concurrency.measure_first_words(BOT_ORDER, folder, options.trials),
    "tokens": lambda options, folder: prompt_tokens.measure_prompt_tokens(BOT_ORDER, folder, options.turns),
    "faults": lambda options, folder: faults.measure_faults(folder, options.fault_wait_seconds),
    "ledger": lambda options, folder: large_ledger.measure_large_ledger(
        folder, options.messages, options.ledger_calls
    ),
    "soak": lambda options, folder: soak.measure_soak(folder, options.soak_minutes),
}


async def run_load(
    options: LoadOptions, print_line: PrintLine = lambda line: None, stop: asyncio.Event | None = None
) -> LoadReport:
    """Measure what the options ask for, or what is done of it when `stop` is set.

    `print_line` gets a line for each section that begins. Raises BenchFailed, QuestionRefused.
    """
    _check_options(options)
    rows: list[FigureRow] = []
    with tempfile.TemporaryDirectory(
        prefix="canvasgram-bench-",
        dir=options.folder,
        ignore_cleanup_errors=True,  # a ledger that is being filled when the run stops is still written to
    ) as temporary_folder:
        folder = Path(temporary_folder)
        conditions = [*machine.describe_machine(folder), ("load before", machine.describe_load())]
        is_complete = await run_until_stopped(
            stop or asyncio.Event(), _measure_sections(options, folder, print_line, rows)
        )
    conditions += [("load after", machine.describe_load()), ("pace", _describe_pace(options)), *SECTION_NOTES]
    return LoadReport(tuple(rows), tuple(conditions), is_complete)


def _check_options(options: LoadOptions) -> None:
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


async def _measure_sections(
    options: LoadOptions, folder: Path, print_line: PrintLine, rows: list[FigureRow]
) -> None:
    for name in options.sections:
        print_line(f"measuring: {name}")
        rows += await SECTIONS[name](options, folder / name)


def _describe_pace(options: LoadOptions) -> str:
    return (
        f"{options.messages} messages a bot, one at a time, {1000 * latency.PAUSE_SECONDS:g} ms apart, "
        f"{latency.SLICE_MESSAGES} in a row a bot, there and back again, over {latency.CHATS} chats; "
        "before that one message a chat to warm up"
    )
