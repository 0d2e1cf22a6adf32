"""`bench load`: what is measured, in which order, under which conditions. Builds the report; prints nothing."""

import asyncio
import importlib.util
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bot.bench.endpoint.direct import until
from bot.bench.harness import machine
from bot.bench.harness.bots import BenchFailed
from bot.bench.harness.statistics import ORDER, Report, Row
from bot.bench.load import concurrency as crowd
from bot.bench.load import faults, soak
from bot.bench.load import large_ledger as ledger
from bot.bench.load import latency as own_time
from bot.bench.load import prompt_tokens as tokens
from bot.bench.load import startup as starts
from bot.errors import QuestionRefused
from bot.sim.vllm.server import COUNTING_RULE

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
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
    patience: float = 4.0
    only: tuple[str, ...] = ()
    folder: Path | None = None
    soak: float = 0.0
    calls: int = ledger.CALLS
    quick: bool = False

    @property
    def sections(self) -> tuple[str, ...]:
        """What is measured, in order."""
        left_out = {"soak"} if self.soak <= 0 else set()
        if self.quick:
            left_out = {"soak", "ledger"}
        return self.only or tuple(name for name in SECTIONS if name not in left_out)


NOTES = (
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
        f"{soak.CHATS} chats, {soak.SEATS} seats, {soak.CANVAS:g} s a canvas; each writes as soon as it is answered",
    ),
)

Section = Callable[[Wish, Path], Awaitable[list[Row]]]

SECTIONS: dict[str, Section] = {
    "own": lambda wish, folder: own_time.measure(ORDER, folder, wish.messages),
    "start": lambda wish, folder: starts.measure(ORDER, folder, wish.starts),
    "crowd": lambda wish, folder: crowd.measure(ORDER, folder, wish.trials),
    "words": lambda wish, folder: crowd.first_words(ORDER, folder, wish.trials),
    "tokens": lambda wish, folder: tokens.measure(ORDER, folder, wish.turns),
    "faults": lambda wish, folder: faults.measure(folder, wish.patience),
    "ledger": lambda wish, folder: ledger.measure(folder, wish.messages, wish.calls),
    "soak": lambda wish, folder: soak.measure(folder, wish.soak),
}


async def run(wish: Wish, say: Say = lambda line: None, stop: asyncio.Event | None = None) -> Report:
    """Measure what is wished for, or what is done of it when `stop` is set; `say` hears of every section as
    it begins.

    Raises BenchFailed, QuestionRefused.
    """
    unknown = [name for name in wish.only if name not in SECTIONS]
    if unknown:
        raise QuestionRefused(f"There is no section {unknown[0]}; there are {', '.join(SECTIONS)}.")
    if "soak" in wish.only and wish.soak <= 0:
        raise QuestionRefused("A soak needs its length: --soak MINUTES.")
    if importlib.util.find_spec("aiohttp") is None:
        raise BenchFailed(
            "The bare loop needs aiohttp: install canvasgram with its extra, `canvasgram[bench]`."
        )
    if wish.folder is not None and not os.access(wish.folder, os.W_OK | os.X_OK):
        raise QuestionRefused(f"{wish.folder} is no folder in which databases can be made.")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(
        prefix="canvasgram-bench-",
        dir=wish.folder,
        ignore_cleanup_errors=True,  # a ledger that is being filled when all is stopped is still written to
    ) as made:
        folder = Path(made)
        known = [*machine.conditions(folder), ("load before", machine.load_average())]
        whole = await until(stop or asyncio.Event(), _sections(wish, folder, say, rows))
    known += [("load after", machine.load_average()), ("pace", _pace(wish)), *NOTES]
    return Report(tuple(rows), tuple(known), whole)


async def _sections(wish: Wish, folder: Path, say: Say, rows: list[Row]) -> None:
    for name in wish.sections:
        say(f"measuring: {name}")
        rows += await SECTIONS[name](wish, folder / name)


def _pace(wish: Wish) -> str:
    return (
        f"{wish.messages} messages a bot, one at a time, {1000 * own_time.PAUSE:g} ms apart, {own_time.SLICE} in a row "
        f"a bot, there and back again, over {own_time.CHATS} chats; before that one message a chat to warm up"
    )
