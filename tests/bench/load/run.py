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

from bot.bench.endpoint.direct import first_error_text, run_until_stopped
from bot.bench.harness import machine
from bot.bench.harness.gateway_process import BenchFailed
from bot.errors import QuestionRefused
from bot.sim.vllm.server import COUNTING_RULE
from tests.bench.harness import disk
from tests.bench.harness.figures import BOT_ORDER, FigureRow, LoadReport, merge_runs
from tests.bench.harness.page_viewer import VIEW_SECONDS
from tests.bench.load import (
    busy_minute,
    concurrency,
    faults,
    hook_posts,
    large_ledger,
    latency,
    long_chat,
    open_page,
    prompt_tokens,
    startup,
    throughput,
)
from tests.support.machine import describe_machine

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What to measure, and how often.

    `messages`: that each bot answers in a run, for own time and for the large ledger.
    `starts`: of each bot in a run.
    `trials`: of concurrency, in a run.
    `idle_seconds`: in which wake-ups are counted.
    `throughput_seconds`: in which the turns of each bot are counted in a run.
    `turns`: of the conversation whose prompt tokens are counted.
    `fault_wait_seconds`: until the outcome of a fault is read, after our answer was seen.
    `only_sections`: names of sections; none: all of them.
    `folder`: the databases are created below it; None: below the folder for temporary files.
    `ledger_calls`: model calls in the large ledger.
    `minute_seconds`: how long the busiest minute lasts.
    `screen_openings`: of each screen of the page, over each period.
    `quick`: one run, without the large ledger.
    """

    messages: int = 100
    starts: int = 3
    trials: int = 2
    idle_seconds: float = 12.0
    throughput_seconds: float = 8.0
    turns: int = 60
    fault_wait_seconds: float = 3.0
    only_sections: tuple[str, ...] = ()
    folder: Path | None = None
    ledger_calls: int = large_ledger.MODEL_CALLS
    minute_seconds: float = 60.0
    screen_openings: int = 5
    quick: bool = False

    @property
    def runs(self) -> int:
        """How often what depends on the machine is measured."""
        return 1 if self.quick else RUNS

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections to measure, in order."""
        if self.only_sections:
            return self.only_sections
        return tuple(name for name in SECTIONS if not (self.quick and name in LEDGER_SECTIONS))


RUNS = 5

SECTION_NOTES = (
    ("bare loop", "aiohttp: getUpdates, one model call, one send; no history, nothing streamed"),
    (
        "memory loop",
        "python-telegram-bot's Application and the openai client: typing shown, streamed, history in memory",
    ),
    (
        "ours",
        "as shipped, THINKING=auto, but anybody may write, the cache is not warmed up, and the daily limit, "
        "which is checked, is never reached; people write plain sentences that ask for no work",
    ),
    (
        "own time",
        "from the answer of getUpdates leaving Telegram to the whole answer arriving, less the model's time",
    ),
    (
        "12 chats",
        "a third of the answers takes three canvases of 0.16 s, the others two: 1.12 s on 4 seats at best",
    ),
    (
        "turns a second",
        f"{throughput.CHATS} chats and seats, {throughput.CANVAS_SECONDS:g} s a canvas; each chat writes as "
        "soon as it is answered; the simulators take processor time of the same machine",
    ),
    ("idle", "all bots at once; wake-ups are voluntary context switches of all threads"),
    ("tokens", COUNTING_RULE),
    (
        "posts",
        f"own time alone and while a program posts to a hook of {hook_posts.POSTS_A_MINUTE} a minute, "
        f"by turns; ratios are taken within a pair of {latency.SLICE_MESSAGES} replies each",
    ),
    (
        "search",
        "a chat of 20,000 messages (of 140 characters, 50 in Chinese) and 200 kept files of 50 MB together, "
        "of words of our catalogues and made-up ones; the median of "
        f"{long_chat.SEARCHES} searches for four words; processor time is that of the process, and the loop "
        "shows how busy the machine is; one person searches in Russian all the time; ratios are taken "
        f"within a pair of {latency.SLICE_MESSAGES} replies each",
    ),
    (
        "ledger",
        "two gateways at a time, one on an empty database, one on ended turns of ended conversations, "
        "in turns",
    ),
    (
        "page",
        f"own time with the admins' page closed and open by turns: a screen each {VIEW_SECONDS:g} s, over 90 "
        f"days, and Now refreshed as often; ratios are taken within a pair of {open_page.SLICE_MESSAGES} "
        "replies each: the median (lowest–highest) of the pairs",
    ),
    (
        "screens",
        "the middle one of several openings, while nobody writes; processor time is the gateway's, the mean "
        "of them",
    ),
    (
        "busiest minute",
        f"{busy_minute.CHATS} chats and seats, each writes {busy_minute.PAUSE_SECONDS:g} s after an answer "
        "in the mean; a third of the answers is short, with a tool, long; "
        f"{busy_minute.CANVAS_SECONDS:g} s a canvas; reports of the ledger all the time, the page open; "
        "quiet: one chat at a time before that",
    ),
)

Section = Callable[[LoadOptions, Path], Awaitable[list[FigureRow]]]

REPEATED_SECTIONS: dict[str, Section] = {
    "own": lambda options, folder: latency.measure_latency(BOT_ORDER, folder, options.messages),
    "start": lambda options, folder: startup.measure_startup(BOT_ORDER, folder, options.starts),
    "idle": lambda options, folder: startup.measure_idle(BOT_ORDER, folder, options.idle_seconds),
    "crowd": lambda options, folder: concurrency.measure_concurrency(BOT_ORDER, folder, options.trials),
    "throughput": lambda options, folder: throughput.measure_throughput(
        BOT_ORDER, folder, options.throughput_seconds
    ),
    "words": lambda options, folder: concurrency.measure_first_words(BOT_ORDER, folder, trials=1),
}
"""What depends on the machine: measured in each run."""

SECTIONS: dict[str, Section] = REPEATED_SECTIONS | {
    "tokens": lambda options, folder: prompt_tokens.measure_prompt_tokens(BOT_ORDER, folder, options.turns),
    "posts": lambda options, folder: hook_posts.measure_posts(folder, options.messages),
    "search": lambda options, folder: long_chat.measure_searches(folder, options.messages),
    "faults": lambda options, folder: faults.measure_faults(folder, options.fault_wait_seconds),
    "ledger": lambda options, folder: large_ledger.measure_large_ledger(
        folder, options.messages, options.ledger_calls
    ),
    "page": lambda options, folder: open_page.measure_open_page(
        folder, options.messages, options.ledger_calls
    ),
    "screens": lambda options, folder: open_page.measure_screens(
        folder, options.screen_openings, options.ledger_calls
    ),
    "minute": lambda options, folder: busy_minute.measure_busy_minute(
        folder, options.minute_seconds, options.ledger_calls
    ),
}

LEDGER_SECTIONS = ("ledger", "page", "screens", "minute")
"""What needs the large ledger: they share one."""


async def run_load(options: LoadOptions, print_line: PrintLine, stop: asyncio.Event) -> LoadReport:
    """Measure what the options ask for, or what is done of it when `stop` is set.

    `print_line` gets a line for each section that begins. Raises BenchFailed, QuestionRefused.
    """
    _check_options(options)
    rows: list[FigureRow] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory(
        prefix="canvasgram-bench-",
        dir=options.folder,
        ignore_cleanup_errors=True,  # a ledger that is being filled when the run stops is still written to
    ) as temporary_folder:
        folder = Path(temporary_folder)
        conditions = [*describe_machine(), *disk.describe_database(folder)]
        conditions.append(("load before", machine.describe_load()))
        is_complete = await run_until_stopped(
            stop, _measure_sections(options, folder, print_line, rows, failures)
        )
    conditions += [
        ("load after", machine.describe_load()),
        ("runs", _describe_runs(options)),
        ("pace", _describe_pace(options)),
        *SECTION_NOTES,
    ]
    return LoadReport(merge_runs(rows), tuple(conditions), is_complete, tuple(failures))


def _check_options(options: LoadOptions) -> None:
    unknown = [name for name in options.only_sections if name not in SECTIONS]
    if unknown:
        raise QuestionRefused(f"There is no section {unknown[0]}; there are {', '.join(SECTIONS)}.")
    if importlib.util.find_spec("aiohttp") is None:
        raise BenchFailed(
            "The bare loop needs aiohttp: install canvasgram with its extra, `canvasgram[bench]`."
        )
    if options.folder is not None and not os.access(options.folder, os.W_OK | os.X_OK):
        raise QuestionRefused(f"{options.folder} is no folder in which databases can be made.")


async def _measure_sections(
    options: LoadOptions,
    folder: Path,
    print_line: PrintLine,
    rows: list[FigureRow],
    failures: list[str],
) -> None:
    """Measure section by section, all that are repeated before any of them comes again.

    One that fails loses nothing that the others have measured.
    """
    for run in range(options.runs):
        for name in options.sections:
            is_repeated = name in REPEATED_SECTIONS
            if run and not is_repeated:
                continue
            suffix = f", run {run + 1} of {options.runs}" if is_repeated and options.runs > 1 else ""
            print_line(f"measuring: {name}{suffix}")
            section_folder = "ledger" if name in LEDGER_SECTIONS else f"{name}-{run}"
            try:
                rows += await SECTIONS[name](options, folder / section_folder)
            except* BenchFailed as failed:
                failures.append(f"{name}: {first_error_text(failed)}")


def _describe_pace(options: LoadOptions) -> str:
    return (
        f"{options.messages} messages a bot and run, one at a time, {1000 * latency.PAUSE_SECONDS:g} ms "
        f"apart, {latency.SLICE_MESSAGES} in a row a bot, there and back again, over {latency.CHATS} chats; "
        "before that one message a chat to warm up"
    )


def _describe_runs(options: LoadOptions) -> str:
    if options.runs == 1:
        return "one"
    return f"{options.runs}, one after the other: the median (lowest–highest), ratios taken within a run"
