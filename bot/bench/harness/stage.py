"""A bot between its two simulators: people write to it here, and what comes back is timed at the simulators'
doors.

Owns both simulators and the bot's process while a measurement lasts.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.bench.harness import bots
from bot.bench.harness import workload as talk
from bot.bench.harness.bots import BenchFailed, Running, Where
from bot.bench.harness.statistics import Name
from bot.http_server import serve
from bot.sim.telegram.server import BotApi, Call, Limits
from bot.sim.vllm.server import Endpoint

FIRST_CHAT = 1000
PATIENCE = 30.0  # seconds after which a bot that says nothing has failed

SHOWS = ("sendMessage", "editMessageText")
NEWEST = 400  # calls that are looked through for an answer


@dataclass(frozen=True, slots=True)
class Timed:
    """One message and its answer, in seconds of the steady clock."""

    fetched: float
    first: float
    answered: float
    model: float

    @property
    def round_trip(self) -> float:
        """From the update leaving Telegram to the whole answer arriving there."""
        return self.answered - self.fetched

    @property
    def own(self) -> float:
        """The round trip less the model's time."""
        return self.round_trip - self.model

    @property
    def first_words(self) -> float:
        """From the update leaving Telegram to the first words of the answer arriving there."""
        return self.first - self.fetched


class Stage:
    """One bot and its world."""

    def __init__(
        self, name: Name, api: BotApi, endpoint: Endpoint, where: Where, watch: asyncio.TaskGroup
    ) -> None:
        self.name = name
        self.api = api
        self.endpoint = endpoint
        self._where = where
        self._watch = watch
        self._running: Running | None = None

    @property
    def running(self) -> Running:
        """The bot's process."""
        if self._running is None:
            raise BenchFailed(f"{bots.LABELS[self.name]} was not started")
        return self._running

    async def start(self) -> float:
        """Start the bot; seconds until its first poll arrived."""
        polls = len(self.api.calls_of("getUpdates"))
        self._running = await bots.start(self.name, self._where)
        self._watch.create_task(self._running.watch())
        await self._until(lambda: len(self.api.calls_of("getUpdates")) > polls, "did not begin to poll")
        return self.api.calls_of("getUpdates")[polls].arrived - self._running.began

    async def stop(self) -> None:
        """End the bot in order, if it runs."""
        if self._running is not None and not self._running.expected:
            await self._running.stop()

    async def ask(self, number: int, chat: int) -> Timed:
        """Let a person write question `number`, and wait for the whole answer. One at a time."""
        self.endpoint.requests.clear()
        update = self.write(number, chat)
        await self.answered(number, chat)
        return self.timed(update, number, chat)

    def write(self, number: int, chat: int) -> int:
        """Let a person write question `number`; gives the update's id."""
        return self.api.person(FIRST_CHAT + chat).send(talk.question(number)).update_id

    async def answered(self, number: int, chat: int) -> None:
        """Wait until the whole answer has arrived at Telegram."""
        await self._until(lambda: self._whole(number, chat), f"did not answer question {number}")

    def timed(self, update: int, number: int, chat: int) -> Timed:
        """When things happened to a question that was answered."""
        fetched = self.api.fetched_at(update)
        whole = self._whole(number, chat)
        if fetched is None or whole is None:
            raise BenchFailed(f"{bots.LABELS[self.name]} did not answer question {number}")
        words = self._shown(chat, lambda text: text.startswith(talk.opening(number))) or whole
        model = sum((log.finished or log.received) - log.received for log in self.endpoint.requests)
        return Timed(fetched, words.arrived, whole.arrived, model)

    def _whole(self, number: int, chat: int) -> Call | None:
        return self._shown(chat, lambda text: text.endswith(talk.ending(number)))

    def _shown(self, chat: int, fits: Callable[[str], bool]) -> Call | None:
        """The first call that showed such a text in this chat, among the newest."""
        newest = itertools.islice(reversed(self.api.calls), NEWEST)
        shows = [call for call in newest if call.method in SHOWS and call.chat_id == FIRST_CHAT + chat]
        return next((call for call in reversed(shows) if fits(call.text)), None)

    async def _until(self, found: Callable[[], object], failing: str) -> None:
        try:
            await self.api.until(found, PATIENCE)
        except TimeoutError:
            said = self.running.last_words()
            raise BenchFailed(
                f"{bots.LABELS[self.name]} {failing} within {PATIENCE:g} s; its last words: {said}"
            ) from None


@contextlib.asynccontextmanager
async def staged(name: Name, folder: Path, endpoint: Endpoint) -> AsyncIterator[Stage]:
    """A stage with its simulators served, the bot not yet started; its files stay in `folder` for the next
    stage.
    """
    own = folder / name
    own.mkdir(parents=True, exist_ok=True)
    api = BotApi(limits=Limits.none())
    async with api.served() as telegram, serve(endpoint.app) as model, asyncio.TaskGroup() as watch:
        stage = Stage(name, api, endpoint, Where(api.token, telegram, f"{model}/v1", own), watch)
        try:
            yield stage
        finally:
            await stage.stop()


@contextlib.asynccontextmanager
async def all_staged(
    names: Sequence[Name], folder: Path, make: Callable[[], Endpoint]
) -> AsyncIterator[dict[Name, Stage]]:
    """A stage for each bot, all of them started."""
    async with contextlib.AsyncExitStack() as stack:
        stages = {name: await stack.enter_async_context(staged(name, folder, make())) for name in names}
        for stage in stages.values():
            await stage.start()
        yield stages
