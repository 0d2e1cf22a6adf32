"""A search in a chat of 20,000 messages that keeps 200 files, and replies elsewhere while somebody searches.

Processor time is that of this process, with the threads of the database: others that run do not count.
"""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from pathlib import Path

from sqlalchemy import insert

import bot.translations
from bot.bench.harness.gateway_process import ADMIN_ID
from bot.bench.harness.statistics import median
from bot.db.engine import Database, open_database
from bot.db.sqlite.migrate import migrate_file
from bot.db.tables import kept_files, messages, turns
from bot.domain import Lane
from bot.maintenance.kept_file_indexer import KeptFileIndexer
from bot.turns import find_texts
from bot.turns.history_search import HistorySearch
from tests.bench.harness.figures import BotName, FigureRow, limit_to
from tests.bench.harness.stage import Stage, open_stage
from tests.bench.harness.workload import ProseBrain
from tests.bench.load.latency import SLICE_MESSAGES, ask_in_a_row
from tests.support.endpoint.server import ScriptedEndpoint

SEARCHES = 8
MAX_SEARCH_SECONDS = 0.2
MAX_SLOWDOWN = 1.2
FIRST_NUMBER = 700_000  # of questions: none is asked twice
PIECE_WORDS = 2_000
MADE_UP_WORDS = 20_000  # as rare as most words of a language are
STAMP_TURNS = 4  # of so many turns, one says when it was written
FIRST_MOMENT = 1.7e9
_REFERENCE_ROUNDS = 2_000_000


@dataclass(frozen=True, slots=True)
class ChatSize:
    """How much a chat holds; `text_bytes` are those of all its files together."""

    messages: int = 20_000
    files: int = 200
    text_bytes: int = 50_000_000


@dataclass(frozen=True, slots=True)
class _Script:
    """How people of a language write: the length of their messages in characters, and the words in them."""

    language: str
    message_chars: int
    word: str
    blank: str = " "


_SCRIPTS = (
    _Script("en", 140, r"[a-z]+"),
    _Script("ru", 140, r"[а-яё]+"),
    _Script("zh", 50, r"[\u4e00-\u9fff]{1,3}", ""),
)


async def measure_searches(folder: Path, messages: int, size: ChatSize | None = None) -> list[FigureRow]:
    """Rows of both searches in each language, then of replies to others alone and beside searches."""
    rows = [FigureRow("search_pace", f"{_REFERENCE_ROUNDS:,} rounds of a loop", "ms", {"ours": _time_loop()})]
    for script in _SCRIPTS:
        writer = _Writer(script)
        file = folder / script.language / "ours" / "canvasgram.db"
        file.parent.mkdir(parents=True)
        migrate_file(file)
        async with open_database(f"sqlite+aiosqlite:///{file}") as database:
            await _fill(database, writer, size or ChatSize())
            rows += await _measure_language(database, writer)
    return rows + await _measure_others(folder / "ru", messages, _Writer(_SCRIPTS[1]))


class _Writer:
    """Writes texts of the words that the catalogue of a language has, as unevenly often as people do."""

    def __init__(self, script: _Script) -> None:
        self.script = script
        self._random = random.Random(7)  # the same words in every run
        catalogue = Path(bot.translations.__file__).parent / script.language / "LC_MESSAGES"
        text = next(catalogue.glob("*.po")).read_text(encoding="utf-8").lower()
        self._words = [word for word, _ in Counter(re.findall(script.word, text)).most_common()]
        pairs = zip(*(self._random.choices(self._words, k=MADE_UP_WORDS) for _ in range(2)), strict=True)
        self._words += (
            first[: len(first) * 2 // 3 + 1] + second[len(second) // 2 :] for first, second in pairs
        )
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(len(self._words))))

    def write(self, chars: int) -> str:
        """So many characters."""
        pieces = list[str]()
        while sum(map(len, pieces)) < chars:
            words = self._random.choices(self._words, cum_weights=self._weights, k=min(PIECE_WORDS, chars))
            words[::9] = [word.capitalize() for word in words[::9]]
            pieces.append(self.script.blank.join(words))
        return self.script.blank.join(pieces)[:chars]

    def ask(self) -> str:
        """What somebody looks for: a common word, two rarer ones and a made-up one."""
        ranks = (self._random.randrange(*span) for span in ((40,), (100, 400), (300, 900), (2_000, 20_000)))
        return self.script.blank.join(self._words[rank] for rank in ranks)


async def _fill(database: Database, writer: _Writer, size: ChatSize) -> None:
    async with database.transaction() as tx:
        numbers = range(1, size.messages // 2 + 1)
        await tx.execute(insert(turns), [_build_turn(number) for number in numbers])
        await tx.execute(insert(messages), [row for number in numbers for row in _write_turn(number, writer)])
    bytes_a_char = len(writer.write(10_000).encode()) / 10_000
    chars = int(size.text_bytes / size.files / bytes_a_char)
    for number in range(size.files):
        text = writer.write(chars)
        row = {"chat": ADMIN_ID, "person": ADMIN_ID, "name": f"{number}.txt", "hash": str(number)}
        row |= {"text": text, "size": len(text.encode()), "kept_at": FIRST_MOMENT, "used_at": FIRST_MOMENT}
        async with database.transaction() as tx:
            await tx.execute(insert(kept_files).values(row))
    indexer = KeptFileIndexer(database, None)
    while await indexer.index_file():
        pass


def _build_turn(number: int) -> dict[str, object]:
    moments = dict.fromkeys(("received_at", "began_at", "ended_at"), _tell_moment(number))
    row = {"id": number, "item": -number, "lane": Lane(ADMIN_ID).key, "person": ADMIN_ID, "state": "ended"}
    return row | moments | {"conversation": 1, "tools": "[]", "thinking": False, "thinking_why": "length"}


def _write_turn(number: int, writer: _Writer) -> Iterator[dict[str, object]]:
    for role in ("user", "assistant"):
        text = writer.write(writer.script.message_chars)
        if role == "user" and number % STAMP_TURNS == 0:
            text = f"[{datetime.fromtimestamp(_tell_moment(number), UTC):%a %Y-%m-%d %H:%M} UTC] {text}?"
        yield {"turn": number, "role": role, "text": text, "made_at": _tell_moment(number)}


def _tell_moment(number: int) -> float:
    return FIRST_MOMENT + 600 * number


async def _measure_language(database: Database, writer: _Writer) -> list[FigureRow]:
    searches = {"look_back": _look_back, "find": _find}
    await _look_back(database, writer.ask())  # what is imported once does not count
    rows = list[FigureRow]()
    for name, search in searches.items():
        seconds = list[float]()
        for words in [writer.ask() for _ in range(SEARCHES)]:
            before = time.process_time()
            await search(database, words)
            seconds.append(time.process_time() - before)
        figures: dict[BotName, float | None] = {"ours": median(seconds)}
        label = f"{name.replace('_', ' ')}, {writer.script.language}: processor time"
        key = f"search_{name}_{writer.script.language}"
        rows.append(FigureRow(key, label, "s", figures, limit_to(MAX_SEARCH_SECONDS), digits=3))
    return rows


async def _look_back(database: Database, words: str) -> None:
    await HistorySearch(database, Lane(ADMIN_ID), has_access=True).find(words)


async def _find(database: Database, words: str) -> None:
    async with database.long_read_transaction() as tx:
        today = datetime.now(UTC).date()
        await find_texts(tx, Lane(ADMIN_ID), words, today, for_people=True, has_access=True)


def _time_loop() -> float:
    """Milliseconds of a loop that shows how busy the machine is."""
    before = time.process_time()
    total = 0
    for number in range(_REFERENCE_ROUNDS):
        total += number * number % 7
    return 1000 * (time.process_time() - before)


async def _measure_others(folder: Path, count: int, writer: _Writer) -> list[FigureRow]:
    """Own time of replies in other chats, by turns with and without somebody who searches all the time."""
    endpoint = ScriptedEndpoint(brain=ProseBrain())
    async with open_stage("ours", folder, endpoint) as stage:
        await stage.start()
        ask = partial(_ask, stage)
        await ask(FIRST_NUMBER)
        await _search(stage, writer, 1)
        ratios = list[float]()
        for number in range(max(1, count // SLICE_MESSAGES)):
            first = FIRST_NUMBER + (2 * number + 1) * SLICE_MESSAGES
            quiet = await ask(first)
            async with asyncio.TaskGroup() as tasks:
                searching = tasks.create_task(_search(stage, writer, None))
                ratios.append(await ask(first + SLICE_MESSAGES) / quiet)
                searching.cancel()
    label = "own time in other chats while somebody searches, of alone: the median pair"
    return [
        FigureRow("search_others", label, "×", {"ours": median(ratios)}, limit_to(MAX_SLOWDOWN), digits=2)
    ]


async def _ask(stage: Stage, first: int) -> float:
    return sum(times.own_seconds for times in await ask_in_a_row(stage, range(first, first + SLICE_MESSAGES)))


async def _search(stage: Stage, writer: _Writer, count: int | None) -> None:
    """Have somebody search so often, one search after the other; None: until cancelled."""
    person = stage.api.person(ADMIN_ID)
    done = 0
    while done != count:
        known = len(person.chat.bot_messages)
        person.send(f"/find {writer.ask()}")
        await stage.api.wait_until(lambda known=known: len(person.chat.bot_messages) > known)  # type: ignore[misc]
        done += 1
