"""A bot between its two simulators: people write to it here, and its answers are timed at the simulators.

Owns both simulators and the bot's process while a measurement lasts.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bot.bench.harness.gateway_process import BenchFailed
from bot.http_server import serve
from bot.sim.telegram.server import BotApiCall, FloodLimits
from tests.bench.harness import bots, workload
from tests.bench.harness.bots import BotEnvironment, BotProcess
from tests.bench.harness.figures import BotName
from tests.support.endpoint.server import ScriptedEndpoint
from tests.support.telegram.server import ScriptedBotApi

T = TypeVar("T")

FIRST_CHAT_ID = 1000
PATIENCE_SECONDS = 60.0  # after which a bot that says nothing has failed

MESSAGE_METHODS = ("sendMessage", "editMessageText")
MAX_CALLS_SEARCHED = 400  # for an answer


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """One message and its answer, in seconds of the monotonic clock."""

    fetched_at: float
    first_words_at: float
    answered_at: float
    model_seconds: float

    @property
    def round_trip_seconds(self) -> float:
        """From the update leaving Telegram to the whole answer arriving there."""
        return self.answered_at - self.fetched_at

    @property
    def own_seconds(self) -> float:
        """The round trip without the model's time."""
        return self.round_trip_seconds - self.model_seconds

    @property
    def first_words_seconds(self) -> float:
        """From the update leaving Telegram to the first words of the answer arriving there."""
        return self.first_words_at - self.fetched_at


class Stage:
    """One bot and the simulators it is connected to."""

    def __init__(
        self,
        name: BotName,
        api: ScriptedBotApi,
        endpoint: ScriptedEndpoint,
        environment: BotEnvironment,
        watch_tasks: asyncio.TaskGroup,
    ) -> None:
        self.name = name
        self.api = api
        self.endpoint = endpoint
        self._environment = environment
        self._watch_tasks = watch_tasks
        self._process: BotProcess | None = None
        self._replicas: list[BotProcess] = []
        self._answers: dict[int, BotApiCall] = {}
        self._newest_call: BotApiCall | None = None

    @property
    def process(self) -> BotProcess:
        """The bot's process; raises BenchFailed before it was started."""
        if self._process is None:
            raise BenchFailed(f"{bots.BOT_LABELS[self.name]} was not started")
        return self._process

    async def start(self) -> float:
        """Start the bot; returns the seconds until its first poll arrived."""
        polls = len(self.api.calls_of("getUpdates"))
        self._process = await bots.start_bot(self.name, self._environment)
        self._watch_tasks.create_task(self._process.watch())
        await self._wait_until(lambda: len(self.api.calls_of("getUpdates")) > polls, "did not begin to poll")
        return self.api.calls_of("getUpdates")[polls].arrived_at - self._process.started_at

    async def start_replica(self) -> None:
        """Start one more gateway beside the first one, on the same database."""
        replica = await bots.start_bot(self.name, self._environment)
        self._replicas.append(replica)
        self._watch_tasks.create_task(replica.watch())

    async def stop(self) -> None:
        """End the bot in order, if it runs, and its replicas."""
        running = [process for process in (self._process, *self._replicas) if process is not None]
        async with asyncio.TaskGroup() as stops:
            for process in running:
                if not process.end_expected:
                    stops.create_task(process.stop())

    async def ask(self, number: int, chat_index: int) -> AnswerTimes:
        """Let a person write question `number`, and wait for the whole answer."""
        update = self.write_question(number, chat_index)
        try:
            await self.wait_for_answer(number)
        except BenchFailed as failed:
            shown = [message.text[:300] for message in self.api.chat(FIRST_CHAT_ID + chat_index).bot_messages]
            raise BenchFailed(f"{failed}; its last messages there: {shown[-3:]}") from None
        return self.read_times(update, number, chat_index)

    def write_question(self, number: int, chat_index: int) -> int:
        """Let a person write question `number`; returns the update's id."""
        return self.api.person(FIRST_CHAT_ID + chat_index).send(workload.write_question(number)).update_id

    async def wait_for_answer(self, number: int) -> None:
        """Wait until the whole answer has arrived at Telegram."""
        await self._wait_until(lambda: self._find_answer(number), f"did not answer question {number}")

    async def wait_for_text(self, chat_id: int, opening: str, count: int) -> None:
        """Wait until more messages than that of a chat begin so."""
        await self._wait_until(
            lambda: len(self._list_texts(chat_id, opening)) > count, f"did not answer with {opening!r}"
        )

    async def wait_for_more_answers(self, count: int) -> list[int]:
        """Wait until more questions than that are answered; returns the numbers of the others, in order."""

        def list_others() -> list[int]:
            self._read_new_answers()
            return list(self._answers)[count:]

        return await self._wait_until(list_others, "answers nothing more")

    def read_times(self, update_id: int, number: int, chat_index: int) -> AnswerTimes:
        """The times of a question that was answered."""
        fetched = self.api.fetched_at(update_id)
        answer = self._find_answer(number)
        if fetched is None or answer is None:
            raise BenchFailed(f"{bots.BOT_LABELS[self.name]} did not answer question {number}")
        first_words = (
            self._find_message_call(chat_index, lambda text: text.startswith(workload.reply_opening(number)))
            or answer
        )
        model_seconds = self._sum_model_seconds(number, fetched)
        return AnswerTimes(fetched, first_words.arrived_at, answer.arrived_at, model_seconds)

    def _sum_model_seconds(self, number: int, fetched_at: float) -> float:
        """The time of the model calls for this question, waits for a seat of the endpoint included."""
        seconds = 0.0
        for request in reversed(self.endpoint.requests):
            if request.received_at < fetched_at:
                break
            if request.finished_at and workload.find_question_number(request.prompt) == number:
                seconds += request.finished_at - request.received_at
        return seconds

    def _find_answer(self, number: int) -> BotApiCall | None:
        """The first call that showed the whole answer."""
        self._read_new_answers()
        return self._answers.get(number)

    def _read_new_answers(self) -> None:
        """Look at each call once, for many may wait for an answer."""
        new_calls = list(
            itertools.takewhile(lambda call: call is not self._newest_call, reversed(self.api.calls))
        )
        for call in reversed(new_calls):
            answered = workload.find_answer_number(call.text) if call.method in MESSAGE_METHODS else None
            if answered is not None:
                self._answers.setdefault(answered, call)
            self._newest_call = call

    def _list_texts(self, chat_id: int, opening: str) -> list[str]:
        messages = self.api.chat(chat_id).bot_messages
        return [message.text for message in messages if message.text.startswith(opening)]

    def _find_message_call(self, chat_index: int, matches: Callable[[str], bool]) -> BotApiCall | None:
        """The first call, among the newest, that showed a matching text in this chat."""
        newest = itertools.islice(reversed(self.api.calls), MAX_CALLS_SEARCHED)
        message_calls = [
            call
            for call in newest
            if call.method in MESSAGE_METHODS and call.chat_id == FIRST_CHAT_ID + chat_index
        ]
        return next((call for call in reversed(message_calls) if matches(call.text)), None)

    async def _wait_until(self, predicate: Callable[[], T], failure: str) -> T:
        try:
            return await self.api.wait_until(predicate, PATIENCE_SECONDS)
        except TimeoutError:
            last_output = self.process.last_output()
            raise BenchFailed(
                f"{bots.BOT_LABELS[self.name]} {failure} within {PATIENCE_SECONDS:g} s; "
                f"its last words: {last_output}"
            ) from None


@contextlib.asynccontextmanager
async def open_stage(
    name: BotName,
    folder: Path,
    endpoint: ScriptedEndpoint,
    *,
    settings: Mapping[str, str] | None = None,
    has_rate_limits: bool = True,
) -> AsyncIterator[Stage]:
    """A stage with its simulators served, the bot not yet started.

    Its files stay in `folder` for the next stage. `settings` and `has_rate_limits` are those of ours.
    """
    own_folder = folder / name
    own_folder.mkdir(parents=True, exist_ok=True)
    api = ScriptedBotApi(limits=FloodLimits.unlimited())
    async with (
        api.serve_on_loopback() as telegram,
        serve(endpoint.app) as model,
        asyncio.TaskGroup() as watch_tasks,
    ):
        environment = BotEnvironment(
            api.token, telegram, f"{model}/v1", own_folder, settings or {}, has_rate_limits
        )
        stage = Stage(name, api, endpoint, environment, watch_tasks)
        try:
            yield stage
        finally:
            await stage.stop()


@contextlib.asynccontextmanager
async def open_stages(
    names: Sequence[BotName], folder: Path, make_endpoint: Callable[[], ScriptedEndpoint]
) -> AsyncIterator[dict[BotName, Stage]]:
    """A stage for each bot, all of them started."""
    async with contextlib.AsyncExitStack() as stack:
        stages = {
            name: await stack.enter_async_context(open_stage(name, folder, make_endpoint())) for name in names
        }
        for stage in stages.values():
            await stage.start()
        yield stages
