"""Users who write to the bot while the gateway is killed at random moments, and the model that answers."""

import asyncio
import random
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bot.queue.dead_letters import DEAD_LETTER_NOTICE
from bot.queue.worker import MAX_ATTEMPTS
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.server import BotApiCall
from bot.sim.vllm.server import ChatRequest, Timing, format_tool_call
from tests.kill.environment import KillEnvironment
from tests.support.endpoint.server import ScriptedEndpoint, ScriptedReply
from tests.support.telegram.server import BotApiFault, ScriptedPerson

MAX_WAITING_CHATS = 4  # chats that wait for an answer
MAX_DEATHS = MAX_ATTEMPTS - 2  # of an item; then the gateway lives until the item is done
MAX_CALLS_PER_LIFE = 20  # calls to Telegram; of those a start makes three or four, which tests nothing
KINDS = ("plain", "plain", "plain", "ring", "look", "remember", "long", "command")
NO_OFTEN_KILLED_ITEM = (
    "select 1 where not exists"
    f" (select 1 from inbox where state in ('new', 'running') and attempt > {MAX_DEATHS})"
)
REQUEST_PATTERN = re.compile(r"\b(plain|ring|look|remember|long) (\d{3})\b")
MAX_QUIET_SECONDS = 540.0  # until a person hears something: lives are short, and starts may be slow
SLOW_SEND_SECONDS = 0.05
STOP = "⏹ Stop"
LONG_TEXT = "".join(f"and {n} more " for n in range(1000, 1100))  # repeated words would be cut


def build_endpoint() -> ScriptedEndpoint:
    """A fast endpoint whose model is a CrowdModel."""
    return ScriptedEndpoint(timing=Timing(canvas_seconds=0.01), brain=CrowdModel())


@dataclass
class CrowdModel:
    """Answers every message it is asked between `B123` and `E123`, after the tools the messages name."""

    bells_url: str = ""

    def __call__(self, request: ChatRequest) -> ScriptedReply:
        requests = [pair for text in request.user_texts for pair in REQUEST_PATTERN.findall(text)]
        calls = [
            self._call_tool(kind, number) for kind, number in requests if kind in {"ring", "look", "remember"}
        ]
        if calls and request.step == 0:
            return ScriptedReply("".join(calls))
        is_slow = any(kind == "long" for kind, _ in requests)
        answers = "\n\n".join(self._answer(*pair) for pair in requests)
        return ScriptedReply(answers, 0.02 if is_slow else 0.0)

    def _call_tool(self, kind: str, number: str) -> str:
        if kind == "remember":
            return format_tool_call("remember", {"note": f"note {number}"})
        return format_tool_call(kind, {"address": f"{self.bells_url}/{number}"})

    def _answer(self, kind: str, number: str) -> str:
        middle = LONG_TEXT if kind == "long" else ""
        return f"B{number} {middle}E{number}"


def expected_words(kind: str, name: str) -> list[str]:
    """The words the answer to a message must contain."""
    if kind == "command":
        return [f"/c{name}."]
    return [f"B{name}", f"E{name}"]


@dataclass
class Chatter:
    """A user who writes messages, waits until each is answered or in doubt, and asks for what is missing."""

    environment: KillEnvironment
    person: ScriptedPerson
    rng: random.Random
    numbers: Iterator[int]
    sent: list[tuple[str, str]] = field(default_factory=list)
    tapped: set[int] = field(default_factory=set)

    async def chat(self, free_slots: asyncio.Semaphore) -> None:
        """Write until the numbers are used up."""
        has_written = True
        while has_written:
            async with free_slots:
                has_written = await self._exchange()

    async def _exchange(self) -> bool:
        expected = self._write()
        while missing := self._missing(expected):
            await self._wait_for_news(expected, missing)
            if self._missing(expected) or self.rng.random() < 0.5:
                for message_id in self._doubted_messages():
                    self._send_again(message_id)
        return bool(expected)

    async def _wait_for_news(self, expected: list[str], missing: list[str]) -> None:
        await self.environment.api.wait_until(
            lambda: self._missing(expected) != missing or self._doubted_messages(), MAX_QUIET_SECONDS
        )

    def _write(self) -> list[str]:
        """Write one to three messages; returns the words the answers must contain."""
        return [
            word for _ in range(self.rng.choice((1, 1, 2, 3))) for word in self._say(self.rng.choice(KINDS))
        ]

    def _say(self, kind: str) -> list[str]:
        number = next(self.numbers, None)
        if number is None:
            return []
        name = f"{number:03}"
        self.person.send(f"/c{name}" if kind == "command" else f"{kind} {name}")
        self.sent.append((kind, name))
        return expected_words(kind, name)

    def _missing(self, expected: list[str]) -> list[str]:
        seen = "\n".join(self.environment.texts(self.person.id))
        assert DEAD_LETTER_NOTICE not in seen, self.environment.load_rows(
            "select id, kind, attempt, error from inbox where state = 'dead'"
        )
        return [word for word in expected if word not in seen]

    def _doubted_messages(self) -> list[int]:
        return [
            message.message_id
            for message in self.environment.doubtful_messages(self.person.id)
            if message.message_id not in self.tapped
        ]

    def _send_again(self, message_id: int) -> None:
        self.tapped.add(message_id)
        for _ in range(self.rng.randint(1, 2)):
            self.person.tap(message_id, "Send again")


class Waverer(Chatter):
    """A user who sometimes stops what they asked for (/stop, the button, /new), and then writes once more."""

    def _write(self) -> list[str]:
        if not super()._write():
            return []
        for _ in range(self.rng.randint(0, 2)):
            stoppable = [
                message
                for message in self._messages()
                if any(button["text"] == STOP for button in message.buttons)
            ]
            if stoppable and self.rng.random() < 0.5:
                self.person.tap(self.rng.choice(stoppable), STOP)
            else:
                self.person.send(self.rng.choice(("/stop", "/stop", "/new")))
        return self._say("plain")

    def _messages(self) -> list[ChatMessage]:
        return self.environment.messages(self.person.id)


@dataclass
class Reaper:
    """Ends the gateway after a random number of calls to Telegram, again and again; some ends are orderly."""

    environment: KillEnvironment
    rng: random.Random
    kills: int = 0
    calls: int = 0
    last_call: int = 0
    is_over: bool = False

    def count(self, _: BotApiCall) -> bool:
        self.calls += 1
        return False

    async def reap(self) -> None:
        while not self.is_over:
            self.last_call = self.calls + self.rng.randint(1, MAX_CALLS_PER_LIFE)
            if self.kills % 5 == 4:  # now and then a longer life, so that all that waits makes progress
                self.last_call += 2 * MAX_CALLS_PER_LIFE
            await self.environment.gateway.spawn()
            await self.environment.until(lambda: self.is_over or self.calls >= self.last_call)
            await self.environment.wait_for_row(NO_OFTEN_KILLED_ITEM)
            await asyncio.sleep(self.rng.random() * 0.05)
            if self.rng.random() < 0.1:
                # A late call of the last process may have counted; then this one cannot end in order yet.
                assert (await self.environment.gateway.terminate())[0] in {0, -signal.SIGTERM}
            else:
                await self.environment.gateway.kill()
                self.kills += 1


async def sweep(environment: KillEnvironment, reaper: Reaper, chatters: Sequence[Chatter]) -> None:
    """Let the users write until all have finished, and wait until the gateway is idle."""
    assert isinstance(environment.endpoint.brain, CrowdModel)
    environment.endpoint.brain.bells_url = environment.bells.url
    environment.api.inject_fault(BotApiFault(), when=reaper.count, times=None)
    for fault in (
        BotApiFault.slow(SLOW_SEND_SECONDS),
        BotApiFault.slow(SLOW_SEND_SECONDS, after_effect=True),
        BotApiFault.accept_then_drop(),
    ):
        environment.api.inject_fault(
            fault, "sendMessage", when=lambda _: reaper.rng.random() < 0.06, times=None
        )
    free_slots = asyncio.Semaphore(MAX_WAITING_CHATS)
    async with asyncio.TaskGroup() as tasks:
        reaper_task = tasks.create_task(reaper.reap())
        async with asyncio.TaskGroup() as chats:
            for chatter in chatters:
                chats.create_task(chatter.chat(free_slots))
        reaper.is_over = True
        environment.ann.send("hello")
        await reaper_task
    await environment.gateway.start()
    # An update that is not fetched yet would not be noticed by the check for idleness.
    await environment.until(lambda: not environment.api.updates.pending_ids)
    await environment.wait_until_idle()
