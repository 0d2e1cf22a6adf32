"""A crowd that writes to the bot while a reaper kills the gateway at random moments, and the model that
answers.
"""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bot.bench.harness.workload import write_prose
from bot.queue.dead_letters import DEAD_LETTER_NOTICE
from bot.sim.telegram.chats import ChatMessage
from bot.sim.telegram.server import BotApiCall, BotApiFault, SimulatedPerson
from bot.sim.vllm.server import ChatRequest, ScriptedReply, SimulatedEndpoint, Timing, format_tool_call
from tests.kill.environment import KillEnvironment
from tests.kill.gateway import PATIENCE

MAX_WAITING_CHATS = 4  # chats that wait for an answer; an item that runs at more than ten deaths is set aside
MAX_CALLS_PER_LIFE = 12  # calls to Telegram, of which a start makes three or four
KINDS = ("plain", "plain", "plain", "ring", "look", "remember", "long", "command")
REQUEST_PATTERN = re.compile(r"\b(plain|ring|look|remember|long) (\d{3})\b")
SLOW_SEND_SECONDS = 0.05  # seconds
LONG_TEXT = write_prose(300, 1)[1:] + " "  # what repeats itself would be cut
STOP = "⏹ Stop"
LONG_TEXT = "".join(f"and {n} more " for n in range(1000, 1100))  # words that repeat would be cut for it


def build_endpoint() -> SimulatedEndpoint:
    """One whose model is a Model, and quick."""
    return SimulatedEndpoint(timing=Timing(canvas_seconds=0.01), brain=CrowdModel())


@dataclass
class CrowdModel:
    """Answers every message it is asked between `B123` and `E123`, after the tools the messages name."""

    bells_url: str = ""

    def __call__(self, request: ChatRequest) -> ScriptedReply:
        asked = [pair for text in request.user_texts for pair in REQUEST_PATTERN.findall(text)]
        calls = [
            self._call_tool(kind, number) for kind, number in asked if kind in {"ring", "look", "remember"}
        ]
        if calls and request.step == 0:
            return ScriptedReply("".join(calls))
        slow = any(kind == "long" for kind, _ in asked)
        return ScriptedReply("\n\n".join(self._answer(*pair) for pair in asked), 0.02 if slow else 0.0)

    def _call_tool(self, kind: str, number: str) -> str:
        if kind == "remember":
            return format_tool_call("remember", {"note": f"note {number}"})
        return format_tool_call(kind, {"address": f"{self.bells_url}/{number}"})

    def _answer(self, kind: str, number: str) -> str:
        return f"B{number} {LONG_TEXT if kind == 'long' else ''}E{number}"


def expected_words(kind: str, name: str) -> list[str]:
    """What is to be seen of the answer to a message."""
    return [f"/c{name}."] if kind == "command" else [f"B{name}", f"E{name}"]


@dataclass
class Chatter:
    """One person: writes a few messages, waits until each is answered or doubted, asks for what is missing."""

    environment: KillEnvironment
    person: SimulatedPerson
    rng: random.Random
    numbers: Iterator[int]
    sent: list[tuple[str, str]] = field(default_factory=list)
    tapped: set[int] = field(default_factory=set)

    async def chat(self, free_slots: asyncio.Semaphore) -> None:
        """Write until there is nothing more to be said."""
        wrote = True
        while wrote:
            async with free_slots:
                wrote = await self._exchange()

    async def _exchange(self) -> bool:
        wrote = self._write()
        while missing := self._missing(wrote):
            await self._wait_for_news(wrote, missing)
            for doubt in self._doubted_messages() if self._missing(wrote) or self.rng.random() < 0.5 else ():
                self._send_again(doubt)
        return bool(wrote)

    async def _wait_for_news(self, expected: list[str], missing: list[str]) -> None:
        await self.environment.api.wait_until(
            lambda: self._missing(expected) != missing or self._doubted_messages(), 2 * PATIENCE
        )

    def _write(self) -> list[str]:
        """Write something; returns the words to be seen in the answers."""
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
        assert DEAD_LETTER_NOTICE not in seen
        return [word for word in expected if word not in seen]

    def _doubted_messages(self) -> list[int]:
        return [
            one.message_id
            for one in self.environment.doubtful_messages(self.person.id)
            if one.message_id not in self.tapped
        ]

    def _send_again(self, message_id: int) -> None:
        self.tapped.add(message_id)
        for _ in range(self.rng.randint(1, 2)):
            self.person.tap(message_id, "Send again")


class Waverer(Chatter):
    """One who now and then changes their mind about what they wrote: /stop, the button, /new. Then writes
    once more.
    """

    def _write(self) -> list[str]:
        if not super()._write():
            return []
        for _ in range(self.rng.randint(0, 2)):
            shown = [one for one in self._messages() if any(button["text"] == STOP for button in one.buttons)]
            if shown and self.rng.random() < 0.5:
                self.person.tap(self.rng.choice(shown), STOP)
            else:
                self.person.send(self.rng.choice(("/stop", "/stop", "/new")))
        return self._say("plain")

    def _messages(self) -> list[ChatMessage]:
        return self.environment.messages(self.person.id)


@dataclass
class Reaper:
    """Lets the gateway live for a random number of calls to Telegram, again and again; some lives end in
    order.
    """

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
            long = self.kills % 5 == 4  # now and then, so that all that waits gets further
            self.last_call = (
                self.calls + self.rng.randint(1, MAX_CALLS_PER_LIFE) + (2 * MAX_CALLS_PER_LIFE if long else 0)
            )
            await self.environment.gateway.spawn()
            await self.environment.until(lambda: self.is_over or self.calls >= self.last_call)
            await asyncio.sleep(self.rng.random() * 0.05)
            if self.rng.random() < 0.1:
                assert (await self.environment.gateway.terminate())[0] == 0
            else:
                await self.environment.gateway.kill()
                self.kills += 1


async def sweep(environment: KillEnvironment, reaper: Reaper, chatters: Sequence[Chatter]) -> None:
    """Let them write until all have said what they have to say, and the gateway come to rest."""
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
    free = asyncio.Semaphore(MAX_WAITING_CHATS)
    async with asyncio.TaskGroup() as tasks:
        reaping = tasks.create_task(reaper.reap())
        async with asyncio.TaskGroup() as chats:
            for chatter in chatters:
                chats.create_task(chatter.chat(free))
        reaper.is_over = True
        environment.ann.send("hello")
        await reaping
    await environment.gateway.start()
    await environment.until(
        lambda: not environment.api.updates.pending_ids
    )  # what is not fetched yet would not be missed at rest
    await environment.wait_until_idle()
